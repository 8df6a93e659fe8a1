"""Questions, i.e. files and plans, and the examiner that puts them to an implementation."""

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
    """A wrong answer.

    Attributes:
        verdict: verdict of the judge.
        text: what is wrong, in one line.
        kind: a word that classifies it.
        rules: the rules that the judge charges, if known.
        outcome: the outcome, where the kind does not imply it.
        reports: whether an accepting answer reported any content.
    """

    verdict: str
    text: str
    kind: str
    rules: tuple[str, ...] = ()
    outcome: str = ""
    reports: bool = False


@dataclass(frozen=True)
class Cause:
    """Attribution of a wrong answer.

    Attributes:
        rules: ids of rules, the main one first; empty where unknown.
        words: why these rules, or why none, in one line.
    """

    rules: tuple[str, ...] = ()
    words: str = ""


def unknown(why: str) -> Cause:
    return Cause((), f"{NOT_KNOWN}: {why}")


class _Fields:
    """Fields of every question, named as in a ``Finding``."""

    if TYPE_CHECKING:
        # Subclasses have them as fields or as properties; a property at run time would keep the
        # fields out.
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


class Question(_Fields, ABC):
    """An input and its expectation."""

    engine: ClassVar[str] = ""
    """Engine of such questions; empty for the engine of the run."""

    @property
    @abstractmethod
    def expected(self) -> str:
        """The expectation in one line."""

    @property
    def size(self) -> int:
        """Bytes of all files; for a write, whose input is its action, the characters of that."""
        return sum(map(len, self.files.values())) or len(repr(self.action))

    @abstractmethod
    def examine(self, examiner: Examiner) -> Mistake | None:
        """Run the examiner's subject and return the mistake in its answer, None if it is right."""

    @abstractmethod
    def shrink(self, same: Callable[[Question], bool], seconds: float) -> Question:
        """Return the simplest question found for which ``same`` holds."""

    @abstractmethod
    def same_bug(self, mistake: Mistake, other: Question, again: Mistake) -> bool:
        """Return whether another question with the same verdict shows the same bug."""

    @abstractmethod
    def signature(self, name: str, mistake: Mistake) -> str:
        """Return the text that identifies duplicate findings; ``name`` is that of the implementation."""

    def dedup_key(self, step: str, name: str, mistake: Mistake) -> str:
        return f"{step} {self.signature(name, mistake)}"

    def got(self, name: str, mistake: Mistake) -> dict[str, str]:
        return {name: mistake.text}

    @abstractmethod
    def subsumed_by(self, name: str, mistake: Mistake) -> tuple[str, ...]:
        """Return keys of findings that make this mistake redundant: signatures, or those of ``subsumes``."""

    def subsumes(self, name: str, mistake: Mistake) -> tuple[str, ...]:  # noqa: ARG002 - most leave none
        return ()

    def flaky_key(self, mistake: Mistake) -> str:
        """Return a key of abnormal ends that are examined only a few times; empty where each may differ."""
        del mistake
        return ""

    @abstractmethod
    def cause(self, mistake: Mistake, examiner: Examiner) -> Cause:
        """Return the attribution of the mistake."""

    def verdict(self, mistake: Mistake, cause: Cause) -> str:  # noqa: ARG002 - most verdicts stand
        return mistake.verdict


class Examiner:
    """One implementation, or two to compare, and one step.

    Attributes:
        profile: profile that decides disputed behaviour; None for undisputed musts only.
    """

    def __init__(self, subjects: Sequence[Subject], step: str, profile: ProfileName | None) -> None:
        self.subjects, self.step, self.profile = subjects, step, profile
        self._slots: Slots | None = None

    @property
    def subject(self) -> Subject:
        return self.subjects[0]

    def path(self, data: bytes) -> str:
        """Write a file for the subject; it exists until the next call, or ``close``."""
        self._slots = self._slots or Slots(1)
        return self._slots.put(data)

    def accepts(self, data: bytes) -> bool:
        return self.subject.answer(data, self.path(data), self.step).outcome == "accept"

    def close(self) -> None:
        if self._slots is not None:
            self._slots.close()
            self._slots = None
