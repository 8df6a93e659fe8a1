"""What a wrong answer is called, and what a finding of it demands."""

from __future__ import annotations

from typing import Any

import pytest

from safetensors_conformance.outcome import StepResult
from safetensors_corpus.author.file import FileBuilder
from safetensors_corpus.judging.answer import Outcome
from safetensors_fuzz.engines.campaign import Campaign
from safetensors_fuzz.finding import Finding, bare
from safetensors_fuzz.loop.recorder import Settings, Tally
from safetensors_fuzz.loop.subjects import CallSubject, Slots

from ..samples import two_tensors


class Says(CallSubject):
    """Gives one and the same answer to everything."""

    def __init__(self, name: str, outcome: Outcome, message: str = "") -> None:
        super().__init__(name, lambda _: {})
        self.always = StepResult(outcome, message)

    def answer(self, data: bytes, path: str, step: str) -> StepResult:
        return self.always


def found(subject: CallSubject, data: bytes, **settings: Any) -> tuple[Tally, list[Finding]]:
    kept: list[Finding] = []
    campaign = Campaign([subject], Settings(shrink_seconds=0, **settings), keep=kept.append)
    with Slots(1) as slots:
        campaign.run_one(data, slots)
    return campaign.tally, kept


def spaced() -> bytes:
    """A file that may be refused, since its header begins with a space."""
    builder = FileBuilder(before=b" ")
    builder.tensor("w", "F32", [2])
    return builder.render()


def odd_bool() -> bytes:
    """A file without fault that may be refused, since a BOOL is neither 0 nor 1."""
    builder = FileBuilder()
    builder.tensor("w", "BOOL", [1], b"\2")
    return builder.render()


def holed() -> bytes:
    builder = two_tensors()
    builder.gap(4)
    builder.tensor("c", "F32", [2])
    return builder.render()


@pytest.mark.parametrize(
    ("data", "outcome", "message", "signature"),
    [
        (two_tensors().render(), "reject", "", "valid: accept reference; reject lib"),
        (
            two_tensors().render(),
            "reject",
            "no 7 here",
            "valid: accept reference; reject lib [no # here]",
        ),
        (
            two_tensors().render(),
            "harness-error",
            "KeyError: 'x'",
            "valid: accept reference; adapter-error lib [KeyError: #]",
        ),
        (two_tensors().render(), "harness-error", "", "valid: accept reference; adapter-error lib"),
        (two_tensors().render(), "hang", "", "valid: accept reference; hang lib [hang]"),
        (holed(), "accept", "", "OFF_HOLE: accept lib; reject reference [OFF-07]"),
        (holed(), "crash", "SIGSEGV", "OFF_HOLE: crash lib; reject reference [crash SIGSEGV]"),
        (spaced(), "crash", "", "HDR_BAD_START: crash lib; reject reference [crash]"),
        (odd_bool(), "crash", "", "valid: accept reference; crash lib [crash]"),
    ],
)
def test_a_signature_says_who_answered_how(
    data: bytes, outcome: Outcome, message: str, signature: str
) -> None:
    _, kept = found(Says("lib", outcome, message), data)
    assert [finding.signature for finding in kept] == [signature]


@pytest.mark.parametrize(
    ("data", "codes", "choices"),
    [(spaced(), ["HDR_BAD_START"], ["leading-whitespace"]), (odd_bool(), [], ["bool-bytes"])],
)
def test_where_the_answer_is_open_any_orderly_one_is_expected(
    data: bytes, codes: list[str], choices: list[str]
) -> None:
    _, (finding,) = found(Says("lib", "crash"), data)
    assert finding.expected == "any orderly answer"
    assert finding.expectation == {"outcome": "open", "codes": codes, "choices": choices}
    _, (settled,) = found(Says("lib", "crash"), data, profile="official")
    assert settled.expectation["outcome"] == "accept"


def test_a_known_signature_stays_quiet_whatever_brackets_a_message_has() -> None:
    asked: list[str] = []

    def known(signature: str) -> bool:
        asked.append(signature)
        return signature == "valid: accept reference; reject lib"

    tally, kept = found(Says("lib", "reject", "bad tensor: [1, 2]"), two_tensors().render(), known=known)
    assert kept == []
    assert tally.known == {"valid: accept reference; reject lib [bad tensor: [#]]": 1}
    assert bare("a: b [c: [#]]") == bare("a: b") == "a: b"
