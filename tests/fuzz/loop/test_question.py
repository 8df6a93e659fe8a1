"""What must be answered, what is wrong about an answer, and what a finding of it is called."""

from __future__ import annotations

import random

import pytest

from safetensors_conformance.cli.common import corpus
from safetensors_conformance.outcome import StepResult
from safetensors_corpus.judging.answer import Outcome
from safetensors_fuzz.finding import bare
from safetensors_fuzz.grammar.grammar import Grammar
from safetensors_fuzz.loop.question import opinion
from safetensors_fuzz.loop.subjects import CallSubject

from ..samples import built, fuzzed_with, two_tensors

NONE: frozenset[str] = frozenset()
VALID = built(("w", "F32", [2]), metadata={"k": "v"}).render()
SPACED = built(("w", "F32", [2]), before=b" ").render()
"""A file that may be refused, since its header begins with a space."""
ODD_BOOL = built(("w", "BOOL", [1], b"\2")).render()
"""A file without fault that may be refused, since a BOOL is neither 0 nor 1."""


def test_a_valid_file_must_be_accepted_with_its_content() -> None:
    what = opinion(VALID)
    assert (what.required, what.subject) == ("accept", "valid")
    content = what.content()
    assert content["metadata"] == {"k": "v"}
    assert [row["shape"] for row in content["tensors"]] == [[2]]
    for result, lacks, wrong in (
        (StepResult("accept", "", content["tensors"], {"k": "v"}, has_metadata=True), NONE, None),
        (StepResult("accept", "", [], {"k": "v"}, has_metadata=True), NONE, ("wrong-content", "missing")),
        (StepResult("reject", "Error: 12 things"), NONE, ("wrong-reject", "Error: # things")),
        (StepResult("reject", "no F32"), frozenset({"dtype-f32"}), None),
        (StepResult("unsupported", "no F32"), NONE, None),
    ):
        mistake = what.mistake_in(result, lacks)
        assert (mistake and (mistake.verdict, mistake.kind)) == wrong


def test_open_choices_leave_the_answer_open_and_profiles_close_them() -> None:
    what = opinion(SPACED)
    assert (what.required, what.choices) == ("open", ("leading-whitespace",))
    assert opinion(SPACED, "hardened").required == "reject"
    assert opinion(SPACED, "official").required == "accept"
    assert what.mistake_in(StepResult("accept", tensors=[]), NONE) is None
    assert what.mistake_in(StepResult("reject", "no"), NONE) is None


@pytest.mark.parametrize(
    ("dtype", "shape", "content", "choice"),
    [
        ("F32", [0, 2**40], b"", "large-dimension"),
        ("U8", [1] * 9, b"x", "high-rank"),
        ("BOOL", [1], b"\x02", "bool-bytes"),
    ],
)
def test_a_valid_file_may_fall_under_a_choice(
    dtype: str, shape: list[int], content: bytes, choice: str
) -> None:
    what = opinion(built(("w", dtype, shape, content)).render())
    assert (what.required, what.choices) == ("open", (choice,))


def test_the_quick_way_gives_the_same_opinion() -> None:
    grammar = Grammar(random.Random(2))
    for _ in range(500):
        data = grammar.input().render()
        slow, fast = opinion(data), opinion(data, likely_valid=True)
        assert (slow.expected, slow.codes, slow.choices) == (fast.expected, fast.codes, fast.choices)
        if slow.header is not None:
            assert slow.content() == fast.content()


def test_it_agrees_with_what_the_cases_of_the_corpus_demand() -> None:
    checked = 0
    for case in corpus(None).reading[::5]:
        if case.heavy or case.size > 60_000 or case.expect is None or case.level != "must":
            continue
        what = opinion(case.read_input())
        if what.required != "open":
            assert what.required == case.expect.outcome, case.id
            checked += 1
    assert checked > 300


class Says(CallSubject):
    """Gives one and the same answer to everything."""

    def __init__(self, outcome: Outcome, message: str = "") -> None:
        super().__init__("lib", lambda _: {})
        self.always, self.asked = StepResult(outcome, message), 0

    def answer(self, data: bytes, path: str, step: str) -> StepResult:
        self.asked += 1
        return self.always


def holed() -> bytes:
    builder = two_tensors()
    builder.gap(4)
    builder.tensor("c", "F32", [2])
    return builder.render()


ADAPTER = "valid: accept reference; adapter-error lib"


@pytest.mark.parametrize(
    ("data", "outcome", "message", "signature"),
    [
        (VALID, "reject", "", "valid: accept reference; reject lib"),
        (VALID, "reject", "no 7 here", "valid: accept reference; reject lib [no # here]"),
        (VALID, "harness-error", "KeyError: 'x'", f"{ADAPTER} [KeyError: #]"),
        (VALID, "harness-error", "", ADAPTER),
        (VALID, "hang", "", "valid: accept reference; hang lib [hang]"),
        (holed(), "accept", "", "OFF_HOLE: accept lib; reject reference [OFF-07]"),
        (holed(), "crash", "SIGSEGV", "OFF_HOLE: crash lib; reject reference [crash SIGSEGV]"),
        (SPACED, "crash", "", "HDR_BAD_START: crash lib; reject reference [crash]"),
        (ODD_BOOL, "crash", "", "valid: accept reference; crash lib [crash]"),
    ],
)
def test_a_signature_says_who_answered_how(
    data: bytes, outcome: Outcome, message: str, signature: str
) -> None:
    _, kept = fuzzed_with(Says(outcome, message), data)
    assert [finding.signature for finding in kept] == [signature]


@pytest.mark.parametrize(
    ("data", "codes", "choices"),
    [(SPACED, ["HDR_BAD_START"], ["leading-whitespace"]), (ODD_BOOL, [], ["bool-bytes"])],
)
def test_where_the_answer_is_open_any_orderly_one_is_expected(
    data: bytes, codes: list[str], choices: list[str]
) -> None:
    _, (finding,) = fuzzed_with(Says("crash"), data)
    assert finding.expected == "any orderly answer"
    assert finding.expectation == {"outcome": "open", "codes": codes, "choices": choices}
    _, (settled,) = fuzzed_with(Says("crash"), data, profile="official")
    assert settled.expectation["outcome"] == "accept"


@pytest.mark.parametrize(
    ("subject", "data", "known", "kind"),
    [
        (
            Says("reject", "bad tensor: [1, 2]"),
            VALID,
            "valid: accept reference; reject lib",
            "bad tensor: [#]",
        ),
        (Says("accept"), holed(), "OFF_HOLE: accept lib; reject reference", "OFF-07"),
    ],
)
def test_a_known_signature_stays_quiet_whatever_brackets_a_message_has(
    subject: Says, data: bytes, known: str, kind: str
) -> None:
    tally, kept = fuzzed_with(subject, data, known=lambda s: s == known)
    assert kept == []
    assert subject.asked == 1  # the input was not made small
    assert tally.known == {f"{known} [{kind}]": 1}
    assert bare("a: b [c: [#]]") == bare("a: b") == "a: b"
