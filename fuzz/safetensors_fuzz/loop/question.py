"""Questions, i.e. files and plans, and the examiner that runs an implementation on them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from safetensors_reference.rules.book import ProfileName

from ..findings.finding import NOT_KNOWN
from .subjects import Slots, Subject


@dataclass(frozen=True)
class Mistake:
    """A wrong answer."""

    verdict: str
    text: str
    kind: str
    """Classification in one word."""
    rules: tuple[str, ...] = ()
    """Violated rules that the judge names."""
    outcome: str = ""
    """Outcome, unless the kind implies it."""
    reports: bool = False
    """Whether an accepting answer reports any content."""


@dataclass(frozen=True)
class Cause:
    """Attribution of a wrong answer to rules, the main one first, with a reason in one line."""

    rules: tuple[str, ...] = ()
    words: str = ""


def unknown(why: str) -> Cause:
    return Cause((), f"{NOT_KNOWN}: {why}")


class Question(ABC):
    """An input and its expectation, with fields as in a ``Finding``."""

    if TYPE_CHECKING:
        # A property at run time would prevent subclasses from defining a field.
        @property
        def rules(self) -> tuple[str, ...]: ...
        @property
        def codes(self) -> tuple[str, ...]: ...
        @property
        def subject(self) -> str: ...
        @property
        def files(self) -> Mapping[str, bytes]: ...
        @property
        def expectation(self) -> Mapping[str, Any]: ...
        @property
        def entry(self) -> str: ...
        @property
        def action(self) -> Mapping[str, Any] | None: ...
        @property
        def where(self) -> tuple[int, int] | None: ...

    engine: ClassVar[str] = ""
    """Engine of the questions; empty for the engine of the run."""

    @property
    @abstractmethod
    def expected(self) -> str:
        """Expectation in one line."""

    @property
    def size(self) -> int:
        """Size of all files in bytes; for a write, the length of its action."""
        return sum(map(len, self.files.values())) or len(repr(self.action))

    @abstractmethod
    def examine(self, examiner: Examiner) -> Mistake | None:
        """Run the examiner's subject, and return the mistake in its answer or None."""

    @abstractmethod
    def shrink(self, same: Callable[[Question], bool], seconds: float) -> Question:
        """Return the simplest question found that satisfies ``same``."""

    @abstractmethod
    def same_bug(self, mistake: Mistake, other: Question, again: Mistake) -> bool:
        """Return whether another question with the same verdict shows the same bug."""

    @abstractmethod
    def signature(self, name: str, mistake: Mistake) -> str:
        """Return the deduplication key of findings; ``name`` is the name of the implementation."""

    def dedup_key(self, step: str, name: str, mistake: Mistake) -> str:
        return f"{step} {self.signature(name, mistake)}"

    def got(self, name: str, mistake: Mistake) -> dict[str, str]:
        return {name: mistake.text}

    @abstractmethod
    def subsumed_by(self, name: str, mistake: Mistake) -> tuple[str, ...]:
        """Return the keys (signatures or results of ``subsumes``) that make this mistake redundant."""

    def subsumes(self, name: str, mistake: Mistake) -> tuple[str, ...]:  # noqa: ARG002
        return ()

    def flaky_key(self, mistake: Mistake) -> str:  # noqa: ARG002
        """Return a key of similar abnormal terminations, of which a run examines only a few, or ``""``."""
        return ""

    @abstractmethod
    def cause(self, mistake: Mistake, examiner: Examiner) -> Cause: ...

    def verdict(self, mistake: Mistake, cause: Cause) -> str:  # noqa: ARG002
        return mistake.verdict


class Examiner:
    """One implementation, or two to compare, and one step."""

    def __init__(self, subjects: Sequence[Subject], step: str, profile: ProfileName | None) -> None:
        self.subjects, self.step, self.profile = subjects, step, profile
        self._slots: Slots | None = None

    @property
    def subject(self) -> Subject:
        return self.subjects[0]

    def path(self, data: bytes) -> str:
        """Write a file for the subject, which exists until the next call or ``close``."""
        self._slots = self._slots or Slots(1)
        return self._slots.put(data)

    def accepts(self, data: bytes) -> bool:
        return self.subject.answer(data, self.path(data), self.step).outcome == "accept"

    def close(self) -> None:
        if self._slots is not None:
            self._slots.close()
            self._slots = None
