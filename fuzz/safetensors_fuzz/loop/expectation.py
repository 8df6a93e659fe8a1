"""What must be answered for an input: the strict reader's opinion, weighed by what the format leaves open."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from safetensors_conformance.worker.outcome import UNSAFE, StepResult
from safetensors_corpus.author.file import dtype_features, tensor_row
from safetensors_corpus.judging.judge import Demand, judge_step
from safetensors_corpus.judging.verdicts import effect_of, fails
from safetensors_corpus.manifest import Expectation
from safetensors_reference import explain
from safetensors_reference.header.model import Header
from safetensors_reference.header.prove import prove
from safetensors_reference.rules.book import HEADER_CAP, ProfileName, rule_book
from safetensors_reference.rules.faults import Fault
from safetensors_reports.text import message_class

Expected = Literal["accept", "reject", "open"]
LARGE_DIMENSION = 2**31
"""Dimensions from which readers may refuse (SHP-08, choice ``large-dimension``)."""
HIGH_RANK = 8
"""Ranks above which readers may refuse (SHP-10, choice ``high-rank``)."""


@dataclass(slots=True)
class Opinion:
    """What is known of one input.

    Attributes:
        data: the input.
        expected: what a reader must do; ``open`` when the format leaves it to the reader.
        faults: what is wrong with it, as far as the profile does not tolerate it.
        choices: open choices that the answer depends on.
        header: what it says, when it is valid under the profile.
    """

    data: bytes
    expected: Expected
    faults: tuple[Fault, ...]
    choices: tuple[str, ...]
    header: Header | None

    @property
    def codes(self) -> tuple[str, ...]:
        """Distinct fault codes, sorted."""
        return tuple(sorted({fault.code for fault in self.faults}))

    @property
    def rules(self) -> tuple[str, ...]:
        """Distinct rules broken, in the order of their places."""
        return tuple(dict.fromkeys(fault.rule for fault in self.faults))

    @property
    def subject(self) -> str:
        """Fault codes as signatures name them, or ``valid``."""
        return "+".join(self.codes) or "valid"

    def content(self) -> dict[str, Any]:
        """Return what a reader must report of a valid file, in the form of the manifest."""
        if self.header is None:
            raise ValueError("a file with faults has no content to demand")
        return content(self.data, self.header)

    def demand(self, outcome: str) -> Demand:
        """Return what the judge is to demand; the content is made for an answer that accepts only."""
        if self.expected == "reject":
            # What the written format forbids comes first.
            rules = sorted(self.rules, key=lambda rule: rule_book().rules[rule].basis != "text")
            return Demand(tuple(rules), Expectation("reject", None, self.codes))
        content = self.content() if outcome == "accept" and self.header is not None else {"tensors": []}
        return Demand((), Expectation("accept", content, ()), features=tuple(self.features()))

    def features(self) -> list[str]:
        """Return the dtypes of a valid file as names of features."""
        return [] if self.header is None else dtype_features(t.dtype for t in self.header.tensors.values())


def content(data: bytes, header: Header) -> dict[str, Any]:
    """Return what a file with this header holds, in the form of the manifest: ``tensors``, ``metadata``."""
    start = header.data_start
    rows = [
        tensor_row(t.name, t.dtype, t.shape, data[start + t.begin : start + t.end])
        for t in header.tensors.values()
    ]
    return {"tensors": rows, "metadata": header.metadata}


def quick_header(data: bytes) -> Header | None:
    """Return the header of a file that the proving path can prove, else None."""
    if len(data) < 8:
        return None
    length = int.from_bytes(data[:8], "little")
    if not 0 < length <= min(HEADER_CAP, len(data) - 8):
        return None
    return prove(data[8 : 8 + length], len(data) - 8 - length)


def opinion(data: bytes, profile: ProfileName | None = None, *, likely_valid: bool = False) -> Opinion:
    """Return what must be answered for ``data``.

    Args:
        data: the file.
        profile: whose options are demanded; without one only undisputed musts are.
        likely_valid: try the proving path first; the opinion is the same.
    """
    if likely_valid:
        header = quick_header(data)
        if header is not None:
            return _of_valid(data, header, profile)
    explanation = explain(data, profile or "hardened")
    faults = explanation.faults
    if not faults:
        assert explanation.header is not None
        return _of_valid(data, explanation.header, profile)
    open_choices = {f.choice for f in faults if f.choice is not None and _open(f.choice, profile)}
    binding = [f for f in faults if f.choice not in open_choices]
    expected: Expected = "reject" if binding else "open"
    # What follows from an open choice only (a size computed after an overflow, say) cannot bind either, but
    # faults are reported independently of one another, so each binding one stands alone.
    return Opinion(
        data, expected, tuple(binding or faults), tuple(sorted(c for c in open_choices if c)), None
    )


@cache
def _open(choice: str, profile: str | None) -> bool:
    """True when several answers to a choice are legitimate under the profile."""
    return rule_book().choices[choice].expected(profile) is None


def _of_valid(data: bytes, header: Header, profile: ProfileName | None) -> Opinion:
    choices = tuple(c for c in _points(data, header) if _open(c, profile))
    return Opinion(data, "open" if choices else "accept", (), choices, header)


def _points(data: bytes, header: Header) -> Iterable[str]:
    """Yield the choices under which a reader may refuse, or read otherwise, a file without fault."""
    start = header.data_start
    for tensor in header.tensors.values():
        if len(tensor.shape) > HIGH_RANK:
            yield "high-rank"
        if tensor.shape and max(tensor.shape) >= LARGE_DIMENSION:
            yield "large-dimension"
        if tensor.dtype == "BOOL" and data[start + tensor.begin : start + tensor.end].strip(b"\x00\x01"):
            yield "bool-bytes"
    if header.metadata and {"dtype", "shape", "data_offsets"} & header.metadata.keys():
        yield "tensor-like-metadata"


@dataclass(frozen=True)
class Wrong:
    """A wrong answer.

    Attributes:
        verdict: as the judge calls it.
        text: what is wrong, in one line.
        kind: a word that tells kinds of it apart.
        rules: the rule that it is charged to, if one is known.
    """

    verdict: str
    text: str
    kind: str
    rules: tuple[str, ...] = ()


def wrong(what: Opinion, result: StepResult, lacks: frozenset[str]) -> Wrong | None:
    """Say what is wrong about an answer, None when nothing is."""
    if what.expected == "open" and result.outcome not in UNSAFE and result.outcome != "harness-error":
        return None
    judged = judge_step(what.demand(result.outcome), "read", {"read": result}, lacks)
    if judged.verdict == "harness-error":
        return Wrong("harness-error", result.message, message_class(result.message))
    # An exception without documentation says nothing about this input.
    failures = [failure for failure in judged.failures if failure.property != "exception"]
    if not failures or not fails(failures[0].verdict):
        return None
    worst = failures[0]
    names = what.header.tensors if what.header is not None else ()
    effect = effect_of(worst.verdict)
    if effect == "accept":
        kind = worst.rule
    elif effect == "content":
        kind = kind_of_part(worst.property)
    else:
        message = message_class(result.message, names)
        kind = f"{result.outcome} {message}".strip() if effect == "unsafe" else message
    text = told(result) if effect in ("unsafe", "reject") else worst.detail
    return Wrong(worst.verdict, text, kind, (worst.rule,) if worst.rule else ())


def kind_of_part(part: str) -> str:
    """Return the word of signatures for a part of a content that differs."""
    return "other bytes" if part == "bytes" else part


def told(result: StepResult) -> str:
    """Return outcome and message in one line."""
    return f"{result.outcome}: {result.message}" if result.message else result.outcome
