"""Questions and wrong answers to them; a file as a question, with the expected answer.

The strict reader decides which answer is right, except where the format leaves a choice open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar, Literal, Protocol

from safetensors_conformance.outcome import StepResult
from safetensors_corpus.judging.answer import UNSAFE
from safetensors_corpus.judging.content import Difference, dtype_features
from safetensors_corpus.judging.judge import LARGE_DIMENSION, Demand, failure_of, judge_step
from safetensors_corpus.manifest import Expectation
from safetensors_reference.header.model import Header
from safetensors_reference.header.read import explain_source
from safetensors_reference.rules.book import ProfileName, rule_book
from safetensors_reference.rules.faults import Fault
from safetensors_reference.source import MemorySource
from safetensors_reports.differences.signatures import message_class, signature_of

from ..finding import ADAPTER_ERROR, ANY_ANSWER, ENTRY, Cause, unknown
from .attribution import cause_of_refusal
from .shrink import shrink
from .subjects import Slots, Subject, content, quick_header

REFERENCE = "reference"
DIFFERENT_CONTENT = {"a": "accept:0", "b": "accept:1"}
Expected = Literal["accept", "reject", "open"]
HIGH_RANK = 8
"""Highest number of dimensions that every reader must support (SHP-10, choice ``high-rank``)."""


@dataclass(frozen=True)
class Mistake:
    """A wrong answer."""

    verdict: str
    text: str
    kind: str
    effect: str = ""
    """For a file: ``accept``, ``reject`` or ``content``, or else ``unsafe`` or ``harness-error``."""
    rules: tuple[str, ...] = ()
    """Rules that the answer violates according to the judge."""
    outcome: str = ""
    """Outcome of the answer, unless ``kind`` already determines it."""
    reports: bool = False
    """Whether the implementation accepted the input and reported content."""
    differences: tuple[Difference, ...] = ()
    """How two implementations differ, as seen by each of them."""


@dataclass(frozen=True)
class Keys:
    """Keys by which a run recognizes repeated and redundant mistakes."""

    signature: str
    answer: str
    """Key of the answer before shrinking. A run shrinks only the first answer with the same key."""
    covers: tuple[str, ...] = ()
    covered_by: tuple[str, ...] = ()
    """Signatures, or keys in ``covers``, of findings that make this mistake redundant."""
    termination: str = ""
    """Key of an abnormal termination. A run examines only a few terminations with the same key."""


@dataclass(frozen=True)
class Account:
    """Details of a mistake that a finding reports."""

    cause: Cause
    verdict: str
    got: Mapping[str, str]


class Question(Protocol):
    """An input and its expected answer. The properties have the same meaning as in a ``Finding``."""

    @property
    def rules(self) -> tuple[str, ...]: ...
    @property
    def codes(self) -> tuple[str, ...]: ...
    @property
    def subject(self) -> str: ...
    @property
    def files(self) -> Mapping[str, bytes]: ...
    @property
    def expected(self) -> str: ...
    @property
    def expectation(self) -> Mapping[str, Any]: ...
    @property
    def entry(self) -> str: ...
    @property
    def action(self) -> Mapping[str, Any] | None: ...
    @property
    def where(self) -> tuple[int, int] | None: ...
    @property
    def engine(self) -> str:
        """Engine that generates the questions, or an empty string for the engine of the run."""

    @property
    def size(self) -> int:
        """Total size of all files in bytes, or the length of the action for a write."""

    def examine(self, examiner: Examiner) -> Mistake | None:
        """Run the examiner's subject. Returns the mistake in its answer, or None if the answer is right."""

    def shrink(self, same: Callable[[Question], bool], seconds: float) -> Question:
        """Return the simplest question found for which ``same`` returns True."""

    def same_bug(self, mistake: Mistake, other: Question, again: Mistake) -> bool:
        """Return whether another question with the same verdict shows the same bug."""

    def keys(self, examiner: Examiner, mistake: Mistake) -> Keys: ...

    def explain(self, examiner: Examiner, mistake: Mistake) -> Account:
        """Return the cause of a mistake. This may run the examiner's subject again."""


class Examiner:
    """Runs one step of one implementation, or of two implementations whose answers are compared."""

    def __init__(self, subjects: Sequence[Subject], step: str, profile: ProfileName | None) -> None:
        self.subjects, self.step, self.profile = subjects, step, profile
        self._slots: Slots | None = None

    @property
    def subject(self) -> Subject:
        return self.subjects[0]

    def path(self, data: bytes) -> str:
        """Write a file for the subject. The file exists until the next call or ``close``."""
        self._slots = self._slots or Slots(1)
        return self._slots.put(data)

    def accepts(self, data: bytes) -> bool:
        return self.subject.answer(data, self.path(data), self.step).outcome == "accept"

    def close(self) -> None:
        if self._slots is not None:
            self._slots.close()
            self._slots = None


@dataclass
class FileQuestion:
    """A file and the judgement of the strict reader."""

    data: bytes
    required: Expected
    """Required answer, or ``open`` if the format leaves it to the reader."""
    faults: tuple[Fault, ...]
    choices: tuple[str, ...]
    header: Header | None
    """Header of the file if it is valid under the profile."""
    profile: ProfileName | None = None

    entry: ClassVar[str] = ENTRY
    action: ClassVar[None] = None
    engine: ClassVar[str] = ""

    @cached_property
    def codes(self) -> tuple[str, ...]:
        return tuple(sorted({fault.code for fault in self.faults}))

    @cached_property
    def rules(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(fault.rule for fault in self.faults))

    @property
    def subject(self) -> str:
        return "+".join(self.codes) or "valid"

    def content(self) -> dict[str, Any]:
        assert self.header is not None  # a file with faults has no content
        return content(self.data, self.header)

    def demand(self, outcome: str) -> Demand:
        if self.required == "reject":
            # Violations of the format itself come first.
            rules = sorted(self.rules, key=lambda rule: rule_book().rules[rule].basis != "text")
            return Demand(tuple(rules), Expectation("reject", None, self.codes))
        content = self.content() if outcome == "accept" and self.header is not None else {"tensors": []}
        tensors = () if self.header is None else self.header.tensors.values()
        features = tuple(dtype_features(tensor.dtype for tensor in tensors))
        return Demand((), Expectation("accept", content, ()), features=features)

    @property
    def files(self) -> Mapping[str, bytes]:
        return {ENTRY: self.data}

    @property
    def size(self) -> int:
        return len(self.data)

    @property
    def where(self) -> tuple[int, int] | None:
        return (self.faults[0].start, self.faults[0].end) if self.faults else None

    @property
    def expected(self) -> str:
        if self.required == "open":
            return ANY_ANSWER
        return f"reject: {self.faults[0].message}" if self.faults else "accept, with the content of the file"

    @property
    def expectation(self) -> Mapping[str, Any]:
        if self.required == "open":
            return {"outcome": "open", "codes": list(self.codes), "choices": list(self.choices)}
        if self.required == "reject":
            return {"outcome": "reject", "codes": list(self.codes)}
        return {"outcome": "accept", "content": self.content()}

    def examine(self, examiner: Examiner) -> Mistake | None:
        subject = examiner.subject
        return self.mistake_in(
            subject.answer(self.data, examiner.path(self.data), examiner.step), subject.lacks
        )

    def mistake_in(self, result: StepResult, lacks: frozenset[str]) -> Mistake | None:
        if self.required == "open" and result.outcome not in UNSAFE and result.outcome != "harness-error":
            return None
        if result.outcome == self.required == "reject":
            return None
        judged = judge_step(self.demand(result.outcome), "read", {"read": result}, lacks)
        if judged.verdict == "harness-error":
            said = message_class(result.message)
            return Mistake("harness-error", result.message, said, "harness-error")
        # An undocumented exception type is the same bug for every input.
        worst = next((failure for failure in judged.failures if failure.property != "exception"), None)
        if worst is None:
            return None
        rules = (worst.rule,) if worst.rule else ()
        if worst.property != "outcome":
            return Mistake(worst.verdict, worst.detail, kind_of_part(worst.property), "content", rules)
        if result.outcome == "accept":
            return Mistake(worst.verdict, worst.detail, worst.rule, "accept", rules)
        effect = "unsafe" if result.outcome in UNSAFE else "reject"
        kind = message_class(result.message, self.header.tensors if self.header is not None else ())
        if effect == "unsafe":
            kind = f"{result.outcome} {kind}".strip()
        text = f"{result.outcome}: {result.message}" if result.message else result.outcome
        return Mistake(worst.verdict, text, kind, effect, rules)

    def shrink(self, same: Callable[[Question], bool], seconds: float) -> FileQuestion:
        data = shrink(self.data, lambda data: same(self.about(data)), seconds=seconds)
        return self if data == self.data else self.about(data)

    def about(self, data: bytes) -> FileQuestion:
        return opinion(data, self.profile)

    def same_bug(self, mistake: Mistake, other: Question, again: Mistake) -> bool:
        if again.effect == "accept":
            return set(other.rules) <= set(self.rules)
        return again.kind == mistake.kind and (again.verdict == "unsafe" or other.subject == self.subject)

    def keys(self, examiner: Examiner, mistake: Mistake) -> Keys:
        name, effect = examiner.subject.plain, mistake.effect
        vector = DIFFERENT_CONTENT
        if effect != "content":
            tokens = {"accept": "accept", "reject": "reject", "harness-error": ADAPTER_ERROR}
            token = tokens.get(effect) or mistake.kind.split()[0]
            vector = {"a": token, "b": "reject" if self.header is None else "accept"}
        strict = REFERENCE if name != REFERENCE else "rules"
        signature = signature_of(self.subject, vector, {"a": name, "b": strict})
        signature += f" [{mistake.kind}]" if mistake.kind else ""
        accepted = tuple(f"{name} accepts {rule}" for rule in self.rules) if effect == "accept" else ()
        return Keys(
            signature,
            f"{examiner.step} {signature}",
            accepted if len(accepted) == 1 else (),
            # In a combination, a fault that the reader also accepts by itself may hide the others.
            accepted if len(accepted) > 1 else (),
            mistake.kind if mistake.verdict == "unsafe" else "",
        )

    def explain(self, examiner: Examiner, mistake: Mistake) -> Account:
        cause, verdict = self.cause_of(mistake, examiner.accepts), mistake.verdict
        if mistake.effect == "reject" and cause.rules:
            verdict = failure_of("reject", cause.rules[0], "must", "outcome", mistake.text).verdict
        return Account(cause, verdict, {examiner.subject.name: mistake.text})

    def cause_of(self, mistake: Mistake, accepts: Callable[[bytes], bool]) -> Cause:
        if mistake.effect in ("accept", "content"):
            # Either the fault is the cause, or the difference itself is the mistake.
            return Cause(tuple(dict.fromkeys((*mistake.rules, *self.rules))))
        if self.faults:
            if len(self.rules) == 1:
                return Cause(self.rules)
            return unknown("the file breaks several rules, and it is unknown which one caused the answer")
        if mistake.verdict == "harness-error":
            return unknown("the adapter failed; the implementation itself may be right")
        if mistake.kind.split()[:1] in (["hang"], ["exhausted"]):
            return unknown(
                "the file has no fault, and each further attempt would run until it reaches a limit"
            )
        return cause_of_refusal(self.data, accepts, self.profile)


def opinion(data: bytes, profile: ProfileName | None = None, *, likely_valid: bool = False) -> FileQuestion:
    """Return the question about a file. ``likely_valid`` tries the faster proving path first."""
    header = quick_header(data) if likely_valid else None
    faults: Sequence[Fault] = ()
    if header is None:
        explanation = explain_source(MemorySource(data), profile or "hardened")
        header, faults = explanation.header, explanation.faults
    if not faults:
        assert header is not None
        points = tuple(c for c in _points(data, header) if _open(c, profile))
        return FileQuestion(data, "open" if points else "accept", (), points, header, profile)
    open_choices = {f.choice for f in faults if f.choice is not None and _open(f.choice, profile)}
    binding = [f for f in faults if f.choice not in open_choices]
    required: Expected = "reject" if binding else "open"
    # The reader reports faults independently of each other, so each binding fault counts separately.
    choices = tuple(sorted(c for c in open_choices if c))
    return FileQuestion(data, required, tuple(binding or faults), choices, None, profile)


@cache
def _open(choice: str, profile: str | None) -> bool:
    return rule_book().choices[choice].expected(profile) is None


def _points(data: bytes, header: Header) -> Iterable[str]:
    """Yield the choices that allow a reader to reject a valid file or to read it differently."""
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


def kind_of_part(part: str) -> str:
    return "other bytes" if part == "bytes" else part
