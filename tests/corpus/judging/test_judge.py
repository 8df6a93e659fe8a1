"""The judge by itself: what answers to an input with known demands count."""

from __future__ import annotations

from typing import Any

import pytest

from safetensors_corpus import load_manifest
from safetensors_corpus.judging.answer import Answer, Excess, Flaw
from safetensors_corpus.judging.judge import Demand, judge_step
from safetensors_corpus.manifest import AREA_OF_RULES, Expectation
from safetensors_reference import rule_book

ROW = {"name": "w", "dtype": "U8", "shape": [2], "nbytes": 2, "sha256": "a"}
RIGHT = Expectation("accept", {"tensors": [ROW], "metadata": None}, ())
REFUSED = Expectation("reject", None, ("IO_ERROR",))
OTHER = Answer("accept", tensors=[{**ROW, "sha256": "b"}])
NOTHING = Answer("accept", flaws=(Flaw("missing", "", "no file was written"),))


def verdict(demand: Demand, answer: Answer) -> tuple[str, str]:
    judged = judge_step(demand, "s", {"s": answer})
    return judged.verdict, judged.failures[0].rule if judged.failures else ""


NAMED = Expectation("accept", {"tensors": [{**ROW, "name": "\té"}], "metadata": {"a\n": "\\"}}, ())


def test_names_and_metadata_with_their_escapes_break_the_rule_on_escapes() -> None:
    for rules in (("FRM-11", "HDR-17", "HDR-15"), ("MET-05",), ("HDR-15",)):
        for name, metadata, rule in (
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
        ):
            answer = Answer("accept", tensors=[{**ROW, "name": name}], metadata=metadata, has_metadata=True)
            judged = judge_step(Demand(rules, NAMED), "s", {"s": answer})
            escaped = [failure for failure in judged.failures if failure.property == "escapes"]
            assert {failure.rule for failure in escaped} == ({rule} & {"HDR-15"}), (rules, name, metadata)
            assert bool(judged.failures) == bool(rule), (rules, name, metadata)


ACCEPTED, REJECTED, CRASHED = Answer("accept"), Answer("reject"), Answer("crash")


def changed(**fields: object) -> Answer:
    return Answer("accept", tensors=[{**ROW, **fields}])


def valid(*rules: str, metadata: Any = None, shape: list[int] | None = None, **more: Any) -> Demand:
    row = ROW if shape is None else {**ROW, "shape": shape}
    return Demand(rules, Expectation("accept", {"tensors": [row], "metadata": metadata}, ()), **more)


def broken(rules: str, *codes: str) -> Demand:
    return Demand(tuple(rules.split()), Expectation("reject", None, codes))


def undecided(kind: str, rule: str, choice: str) -> Demand:
    return Demand((rule,), None, "may", (), kind, choice, {"one": RIGHT, "error": REFUSED})


def invalid(rule: str) -> Answer:
    """A file was written that breaks a rule."""
    return Answer("accept", flaws=(Flaw("valid", rule, f"the file breaks {rule}"),))


READERS = Demand(("API-16", "DAT-06"), RIGHT, kind="concurrent")


@pytest.mark.parametrize(
    ("demand", "answer", "said"),
    [
        # Nobody must have what a rule only permits.
        (valid("ENT-10", level="may"), Answer("reject", "too long"), ("unsupported", "")),
        (valid("ENT-10", level="may"), OTHER, ("wrong-content", "DAT-06")),
        (valid("ENT-01"), REJECTED, ("wrong-reject", "ENT-01")),
        # An input without a rule is judged.
        (valid(kind="slice"), REJECTED, ("deviation:reject", "API-05")),
        (valid(kind="slice"), OTHER, ("deviation:content", "API-05")),
        (valid(), REJECTED, ("wrong-reject", "")),
        # A crash is charged to the fault for which the file is rejected: nobody knows that the reader fell
        # into the trap that leads to it.
        (broken("FRM-02", "FRM_HEADER_OVER_LIMIT", "FRM_HEADER_PAST_EOF"), CRASHED, ("unsafe", "FRM-06")),
        (broken("OFF-13 OFF-04", "OFF_OUT_OF_BOUNDS", "OFF_HOLE"), CRASHED, ("unsafe", "OFF-04")),
        (broken("OFF-03", "OFF_REVERSED", "OFF_OUT_OF_BOUNDS"), CRASHED, ("unsafe", "OFF-03")),
        (valid("SHP-10"), CRASHED, ("unsafe", "SHP-10")),
        # A reader that decodes every bit rightly, and then compares nothing, accepts a trap as well.
        (broken("FRM-02", "FRM_HEADER_PAST_EOF"), ACCEPTED, ("wrong-accept", "FRM-04")),
        (broken("FRM-05", "FRM_HEADER_PAST_EOF"), ACCEPTED, ("wrong-accept", "FRM-04")),
        (broken("FRM-06", "FRM_HEADER_PAST_EOF"), ACCEPTED, ("wrong-accept", "FRM-04")),
        # A header of that length that is there breaks no other rule.
        (broken("FRM-06", "FRM_HEADER_OVER_LIMIT"), ACCEPTED, ("wrong-accept", "FRM-06")),
        (broken("OFF-13", "OFF_OUT_OF_BOUNDS"), ACCEPTED, ("wrong-accept", "OFF-04")),
        (broken("SHP-05", "OFF_SIZE_MISMATCH"), ACCEPTED, ("wrong-accept", "OFF-05")),
        # Its size follows from the official list of dtypes alone.
        (broken("DTY-05", "OFF_SIZE_MISMATCH"), ACCEPTED, ("deviation:accept", "OFF-05")),
        (broken("DTY-10", "OFF_SIZE_MISMATCH"), ACCEPTED, ("deviation:accept", "OFF-05")),
        (broken("SHP-03", "OFF_SIZE_MISMATCH"), ACCEPTED, ("wrong-accept", "OFF-05")),
        (broken("LIM-05", "OFF_OVERLAP"), ACCEPTED, ("wrong-accept", "OFF-06")),
        (broken("ENT-05", "ENT_MISSING_FIELD"), ACCEPTED, ("wrong-accept", "ENT-03")),
        (broken("OFF-07", "OFF_HOLE"), ACCEPTED, ("wrong-accept", "OFF-07")),
        # Loaders that want a format in every metadata map reject any other for that.
        (valid("HDR-15"), REJECTED, ("wrong-reject", "HDR-15")),
        (valid("HDR-15", metadata={"format": "pt"}), REJECTED, ("wrong-reject", "HDR-15")),
        (valid("HDR-15", metadata={"a": "b"}), REJECTED, ("wrong-reject", "FRM-11")),
        # The text says nothing about slices.
        (valid("SHP-03", "API-05", kind="slice", shape=[]), REJECTED, ("deviation:reject", "API-05")),
        (valid("API-06", kind="slice"), REJECTED, ("deviation:reject", "API-06")),
        # A reader that does not know a dtype counts none of its elements wrongly.
        (valid("DTY-09"), REJECTED, ("deviation:reject", "DTY-01")),
        (valid("DTY-04"), REJECTED, ("wrong-reject", "DTY-04")),
        # A rule that only forbids is not broken by rejecting.
        (valid("HDR-09"), REJECTED, ("wrong-reject", "FRM-11")),
        (valid("OFF-06", "HDR-17"), REJECTED, ("wrong-reject", "FRM-11")),
        # A dimension beyond 31 bits may be rejected, whatever the file is about (SHP-08).
        (valid("SHP-04", shape=[0, 2**31 - 1]), REJECTED, ("wrong-reject", "SHP-04")),
        (valid("SHP-04", shape=[0, 2**31]), REJECTED, ("unsupported", "")),
        (valid("FRM-11", "SHP-04", kind="resource", shape=[0, 2**40]), REJECTED, ("unsupported", "")),
        # A writer may reject tensors that share memory.
        (valid("WRT-16", "IDX-17", kind="sharded"), REJECTED, ("unsupported", "")),
        # The shape of packed elements is a matter of counting them.
        (valid("SHP-04", features=("dtype-f4",)), changed(shape=[1]), ("deviation:content", "DTY-10")),
        # A program may be unable to return some tensors of a valid file.
        (valid("DTY-09"), changed(sha256=None, unsupported=True), ("unsupported", "")),
        # A save that leaves no file does not write what was given.
        (valid("WRT-13", level="should", kind="write"), NOTHING, ("deviation:content", "WRT-01")),
        (valid("WRT-01", kind="write"), NOTHING, ("deviation:content", "WRT-01")),
        # A model without one of its tensors is not complete.
        (valid("IDX-18", kind="sharded"), changed(name="x"), ("deviation:content", "IDX-17")),
        # A reader that is rejected beside others breaks the rule on threads.
        (READERS, REJECTED, ("deviation:reject", "API-16")),
        (READERS, Answer("hang"), ("unsafe", "API-16")),
        (READERS, changed(), ("pass", "")),
        # One reader was told other bytes than the others, whichever row comes first.
        (READERS, Answer("accept", tensors=[ROW, {**ROW, "sha256": "b"}]), ("deviation:content", "API-16")),
        (READERS, Answer("accept", tensors=[{**ROW, "sha256": "b"}, ROW]), ("deviation:content", "API-16")),
        (READERS, Answer("accept", tensors=[{**ROW, "nbytes": 1}, ROW]), ("deviation:content", "API-16")),
        # Nobody was told, or somebody of a tensor that is not there: the file is in order all the same.
        (READERS, Answer("accept", tensors=[]), ("deviation:content", "API-16")),
        (READERS, Answer("accept", tensors=[ROW, {**ROW, "name": "x"}]), ("deviation:content", "API-16")),
        # Neither copy of a tensor, or what fits no option: a fault, though no option is demanded.
        (undecided("index", "IDX-11", "index-tensor-twice"), OTHER, ("deviation:content", "IDX-11")),
        (undecided("slice", "API-06", "slice-reversed"), OTHER, ("deviation:content", "API-06")),
        # What neither the old file nor the new one holds was not read of either.
        (undecided("remote", "API-12", "remote-file-changed"), OTHER, ("deviation:content", "NET-01")),
        # What is read of a file that is cut meanwhile: a recommendation.
        (undecided("lifecycle", "API-11", "truncated-after-open"), OTHER, ("not-strict", "API-11")),
        # An invalid file breaks a rule on writing with the basis of its fault.
        (Demand(("WRT-05",), RIGHT, kind="write"), invalid("HDR-06"), ("wrong-content", "WRT-05")),
        (Demand(("WRT-02",), RIGHT, kind="write"), invalid("HDR-06"), ("wrong-content", "WRT-01")),
        (Demand(("HDR-09",), RIGHT, kind="write"), invalid("HDR-09"), ("wrong-content", "WRT-01")),
        # A file that breaks what the official library alone demands is no breach of the text.
        (Demand(("WRT-01",), RIGHT, kind="write"), invalid("DTY-01"), ("deviation:content", "WRT-01")),
    ],
)
def test_verdicts(demand: Demand, answer: Answer, said: tuple[str, str]) -> None:
    assert verdict(demand, answer) == said


@pytest.mark.parametrize("first", ["LIM-01", "MET-01"])
def test_what_a_header_costs_breaks_a_rule_on_costs(first: str) -> None:
    demand = valid(first, level="should", kind="resource")
    assert verdict(demand, REJECTED) == ("not-strict", "FRM-11")
    for excess, rule, text in (
        (Excess("peak_bytes", 3e6, 2e6), "LIM-03", "3,000,000 bytes of memory of 2,000,000"),
        (Excess("seconds", 3.2, 1.5), "LIM-04", "processor time 3.2 s of 1.5 s"),
    ):
        assert verdict(demand, Answer("accept", tensors=[ROW], over_budget=(excess,))) == ("not-strict", rule)
        assert str(excess) == text


def test_the_difference_decides_the_rule_whatever_the_case_is_about() -> None:
    for rule in ("DAT-01", "DAT-02", "DAT-04", "SHP-04", "DTY-05", "FRM-11", "HDR-03"):
        for answer, said in (
            (OTHER, ("wrong-content", "DAT-06")),
            (changed(nbytes=4), ("wrong-content", "DAT-06")),
            # A dimension cut to fewer bits, whatever follows from it.
            (changed(shape=[3]), ("wrong-content", "SHP-11")),
            (changed(shape=[0], nbytes=0, sha256="b"), ("wrong-content", "SHP-11")),
            # F64 handed out as F32 has half the bytes, and its byte order is nobody's fault.
            (changed(dtype="I8"), ("deviation:content", "DTY-14")),
            (changed(dtype="F16", nbytes=4, sha256="b"), ("deviation:content", "DTY-14")),
        ):
            assert verdict(valid(rule), answer) == said


CASES = load_manifest().cases
WRITTEN = [
    OTHER,
    *(changed(**fields) for fields in ({"nbytes": 4}, {"shape": [3]}, {"dtype": "I8"}, {"name": "x"})),
    Answer("accept", tensors=[ROW, {**ROW, "name": "x"}]),
    Answer("accept", tensors=[ROW], metadata={"a": "b"}, has_metadata=True),
    NOTHING,
]
INVALID = sorted(rule for rule in rule_book().rules if rule[:3] in AREA_OF_RULES)


@pytest.mark.parametrize("kind", ["write", "sharded"])
def test_no_writer_is_charged_with_a_rule_about_readers(kind: str) -> None:
    cases = [case for case in CASES if case.kind == kind]
    firsts = {case.rules: case for case in cases}
    assert len(firsts) > 5
    for rules, case in firsts.items():
        for outcome in (RIGHT, REFUSED):
            demand = Demand(rules, outcome, case.level, kind=kind)
            answers = [*WRITTEN, *map(invalid, INVALID)] if outcome is RIGHT else [Answer("accept")]
            for answer in answers:
                for failure in judge_step(demand, "s", {"s": answer}).failures:
                    assert failure.rule.startswith(("WRT", "IDX")), (rules, answer)
                    assert not rule_book().rules[failure.rule].statement.startswith("A reader")
        refused = judge_step(Demand(rules, RIGHT, case.level, kind=kind), "s", {"s": Answer("reject")})
        for failure in refused.failures:
            # It names the part of the format that the writer cannot write, and is no breach of the text.
            assert not rule_book().rules[failure.rule].statement.startswith("A reader")
            assert failure.basis != "text"


def test_savers_of_one_path_are_charged_only_with_what_a_mixture_breaks() -> None:
    demand = Demand(("WRT-21", "WRT-14"), RIGHT, "should", kind="contended")
    rules = ("OFF-08", "HDR-03", "FRM-04", "MET-02", "DTY-01")
    assert [verdict(demand, invalid(rule))[0] for rule in rules] == [*["not-strict"] * 3, "pass", "pass"]


def test_nothing_that_shows_over_time_rests_on_the_text() -> None:
    for kind in ("concurrent", "lifecycle"):
        for answer in (OTHER, Answer("reject", "no"), Answer("accept", tensors=[])):
            for rules in {case.rules for case in CASES if case.kind == kind}:
                for failure in judge_step(Demand(rules, RIGHT, kind=kind), "s", {"s": answer}).failures:
                    assert failure.basis != "text", (rules, answer)


def test_a_program_is_judged_in_the_areas_that_it_claims() -> None:
    demand = Demand(("HDR-15",), RIGHT)
    for changed, areas, said in (
        ({"nbytes": 4}, {"header", "dtype", "shape"}, ("pass", "")),
        ({"nbytes": 4}, {"data"}, ("wrong-content", "DAT-06")),
        ({"nbytes": 4}, set(), ("wrong-content", "DAT-06")),
        ({"shape": [3]}, {"shape"}, ("wrong-content", "SHP-11")),
        ({"shape": [3]}, {"header"}, ("pass", "")),
    ):
        answer = Answer("accept", tensors=[{**ROW, **changed}])
        judged = judge_step(demand, "s", {"s": answer}, areas=frozenset(areas))
        assert (judged.verdict, judged.failures[0].rule if judged.failures else "") == said, (changed, areas)
    crash = judge_step(demand, "s", {"s": Answer("crash")}, areas=frozenset({"shape"}))
    assert crash.verdict == "unsafe"


def test_reading_too_often_rests_on_no_text() -> None:
    refused = Expectation("reject", None, ("OFF_OVERLAP",))
    read = Answer("reject", over_budget=(Excess("read_bytes", 9e9, 1e6),))
    assert list(map(str, read.over_budget)) == ["9,000,000,000 bytes read of 1,000,000"]
    judged = judge_step(Demand(("LIM-05",), refused), "s", {"s": read})
    assert (judged.verdict, judged.failures[0].basis) == ("deviation:cost", "ours")
    held = Answer("reject", over_budget=(Excess("peak_bytes", 9e9, 1e6),))
    assert verdict(Demand(("LIM-05",), refused), held) == ("unsafe", "LIM-05")
