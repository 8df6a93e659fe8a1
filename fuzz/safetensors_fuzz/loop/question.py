"""Questions, i.e. files and plans, and the examiner that presents them to an implementation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from safetensors_corpus.judging.content import Difference
from safetensors_reference.rules.book import ProfileName

from ..finding import NOT_KNOWN
from .subjects import Slots, Subject


@dataclass(frozen=True)
class Mistake:
    """A wrong answer."""

    verdict: str
    text: str
    kind: str
    rules: tuple[str, ...] = ()
    """Rules that the answer violates according to the judge."""
    outcome: str = ""
    """Outcome of the answer, unless ``kind`` already determines it."""
    reports: bool = False
    """Whether the implementation accepted the input and reported content."""
    differences: tuple[Difference, ...] = ()
    """How two implementations differ, as seen by each of them."""


@dataclass(frozen=True)
class Cause:
    """The rules that explain a wrong answer, beginning with the main rule, and a one-line reason."""

    rules: tuple[str, ...] = ()
    words: str = ""


def unknown(why: str) -> Cause:
    return Cause((), f"{NOT_KNOWN}: {why}")


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
