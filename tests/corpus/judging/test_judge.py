"""The judge by itself: what answers to an input with known demands count."""

from __future__ import annotations

import pytest

from safetensors_corpus.judging.answer import Answer, Excess, Flaw
from safetensors_corpus.judging.judge import Demand, judge_step
from safetensors_corpus.manifest import Expectation

ROW = {"name": "w", "dtype": "U8", "shape": [2], "nbytes": 2, "sha256": "a"}
RIGHT = Expectation("accept", {"tensors": [ROW]}, ())
REFUSED = Expectation("reject", None, ("IO_ERROR",))
OTHER = Answer("accept", tensors=[{**ROW, "sha256": "b"}])


def verdict(demand: Demand, answer: Answer) -> tuple[str, str]:
    judged = judge_step(demand, "s", {"s": answer})
    return judged.verdict, judged.failures[0].rule if judged.failures else ""


@pytest.mark.parametrize(
    ("kind", "rule", "choice", "word"),
    [
        # Neither copy of a tensor, or what fits no option: a fault, though no option is demanded.
        ("index", "IDX-11", "index-tensor-twice", "deviation:content"),
        ("slice", "API-06", "slice-reversed", "deviation:content"),
        # What is read of a file that is cut meanwhile: a recommendation.
        ("lifecycle", "API-11", "truncated-after-open", "not-strict"),
    ],
)
def test_content_that_fits_no_option_is_as_bad_as_its_rule(
    kind: str, rule: str, choice: str, word: str
) -> None:
    demand = Demand((rule,), None, "may", (), kind, choice, {"one": RIGHT, "error": REFUSED})
    assert verdict(demand, OTHER) == (word, rule)


NAMED = Expectation("accept", {"tensors": [{**ROW, "name": "\té"}], "metadata": {"a\n": "\\"}}, ())


@pytest.mark.parametrize("rules", [("FRM-11", "HDR-17", "HDR-15"), ("MET-05",), ("HDR-15",)])
@pytest.mark.parametrize(
    ("name", "metadata", "rule"),
    [
        ("\\t\\u00e9", {"a\n": "\\"}, "HDR-15"),
        ("\\té", {"a\n": "\\"}, "HDR-15"),
        ("\té", {"a\\n": "\\"}, "HDR-15"),
        ("\té", {"a\\u000a": "\\\\"}, "HDR-15"),
        ("\té", {"a\n": "\\\\"}, "HDR-15"),
        ("\té", {"a\n": "\\"}, ""),
        # Another text, and one that spells another: whatever rule it breaks, escapes are not why.
        ("\\n\\u00e9", {"a\n": "\\"}, "another"),
        ("té", {"a\n": "\\"}, "another"),
        ("\té", {"a": "\\"}, "another"),
    ],
)
def test_names_and_metadata_with_their_escapes_break_the_rule_on_escapes(
    rules: tuple[str, ...], name: str, metadata: dict[str, str], rule: str
) -> None:
    answer = Answer("accept", tensors=[{**ROW, "name": name}], metadata=metadata, has_metadata=True)
    judged = judge_step(Demand(rules, NAMED), "s", {"s": answer})
    escaped = [failure for failure in judged.failures if failure.property == "escapes"]
    assert {failure.rule for failure in escaped} == ({rule} & {"HDR-15"})
    assert bool(judged.failures) == bool(rule)


def test_what_a_rule_permits_nobody_must_have() -> None:
    demand = Demand(("ENT-10",), RIGHT, "may")
    assert verdict(demand, Answer("reject", "too long")) == ("unsupported", "")
    assert verdict(demand, OTHER) == ("wrong-content", "DAT-06")
    assert verdict(Demand(("ENT-01",), RIGHT), Answer("reject")) == ("wrong-reject", "ENT-01")


def test_an_input_without_a_rule_is_judged() -> None:
    demand = Demand((), RIGHT, kind="slice")
    assert verdict(demand, Answer("reject")) == ("wrong-reject", "")
    assert verdict(demand, OTHER) == ("wrong-content", "")


@pytest.mark.parametrize(
    ("rules", "codes", "charged"),
    [
        # A trap that leads to a fault: nobody knows that the reader fell into it.
        (("FRM-02",), ("FRM_HEADER_OVER_LIMIT", "FRM_HEADER_PAST_EOF"), "FRM-06"),
        (("OFF-13", "OFF-04"), ("OFF_OUT_OF_BOUNDS", "OFF_HOLE"), "OFF-04"),
        # The fault itself, and a valid file.
        (("OFF-03",), ("OFF_REVERSED", "OFF_OUT_OF_BOUNDS"), "OFF-03"),
        (("SHP-10",), (), "SHP-10"),
    ],
)
def test_a_crash_is_charged_to_the_fault_for_which_the_file_is_refused(
    rules: tuple[str, ...], codes: tuple[str, ...], charged: str
) -> None:
    demand = Demand(rules, Expectation("reject", None, codes) if codes else RIGHT)
    assert verdict(demand, Answer("crash")) == ("unsafe", charged)


def test_other_bytes_are_charged_to_the_byte_order_only_where_the_case_is_about_it() -> None:
    assert verdict(Demand(("DAT-01",), RIGHT), OTHER) == ("wrong-content", "DAT-01")
    assert verdict(Demand(("DTY-14", "DAT-01"), RIGHT), OTHER) == ("wrong-content", "DAT-06")


def test_the_shape_of_packed_elements_is_a_matter_of_counting_them() -> None:
    halved = Answer("accept", tensors=[{**ROW, "shape": [1]}])
    assert verdict(Demand(("SHP-04",), RIGHT), halved) == ("wrong-content", "SHP-04")
    packed = Demand(("SHP-04",), RIGHT, features=("dtype-f4",))
    assert verdict(packed, halved) == ("deviation:content", "DTY-10")


def test_reading_too_often_rests_on_no_text() -> None:
    refused = Expectation("reject", None, ("OFF_OVERLAP",))
    read = Answer("reject", over_budget=(Excess("read_bytes", 9e9, 1e6),))
    judged = judge_step(Demand(("LIM-05",), refused), "s", {"s": read})
    assert (judged.verdict, judged.failures[0].basis) == ("deviation:cost", "ours")
    held = Answer("reject", over_budget=(Excess("peak_bytes", 9e9, 1e6),))
    assert verdict(Demand(("LIM-05",), refused), held) == ("unsafe", "LIM-05")


def test_a_save_that_leaves_no_file_breaks_what_the_case_asks_for_and_writes_nothing_invalid() -> None:
    nothing = Answer("accept", flaws=(Flaw("missing", "", "no file was written"),))
    assert verdict(Demand(("WRT-13",), RIGHT, "should", (), "write"), nothing) == ("not-strict", "WRT-13")
    assert verdict(Demand(("WRT-01",), RIGHT, "must", (), "write"), nothing) == ("wrong-content", "WRT-01")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([ROW], ("pass", "")),
        # One reader was told other bytes than the others, whichever row comes first.
        ([ROW, {**ROW, "sha256": "b"}], ("wrong-content", "DAT-06")),
        ([{**ROW, "sha256": "b"}, ROW], ("wrong-content", "DAT-06")),
        ([{**ROW, "nbytes": 1}, ROW], ("wrong-content", "DAT-06")),
        # Nobody was told, or somebody of a tensor that is not there: the file is in order all the same.
        ([], ("deviation:content", "API-16")),
        ([ROW, {**ROW, "name": "x"}], ("deviation:content", "API-16")),
    ],
)
def test_what_several_readers_are_told(rows: list[dict[str, object]], said: tuple[str, str]) -> None:
    demand = Demand(("API-16", "DAT-06"), RIGHT, kind="concurrent")
    assert verdict(demand, Answer("accept", tensors=rows)) == said


def test_a_reader_that_is_refused_beside_others_breaks_the_rule_on_threads() -> None:
    demand = Demand(("API-16", "DAT-06"), RIGHT, kind="concurrent")
    assert verdict(demand, Answer("reject", "no")) == ("deviation:reject", "API-16")
    assert verdict(demand, Answer("hang")) == ("unsafe", "API-16")
