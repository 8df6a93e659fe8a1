"""What every question has in common, whether it is a file or a plan, and who puts it to an implementation."""

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
        verdict: as the judge calls it.
        text: what is wrong, in one line.
        kind: a word that tells kinds of it apart.
        rules: the rules that the judge charges it to, if any are known.
        outcome: what came, where the kind does not say so.
        reports: whether what was accepted was reported in part at least.
    """

    verdict: str
    text: str
    kind: str
    rules: tuple[str, ...] = ()
    outcome: str = ""
    reports: bool = False


@dataclass(frozen=True)
class Cause:
    """What a wrong answer is charged with.

    Attributes:
        rules: ids of rules, the first speaks; empty where none can be told.
        words: why these and no others, or why none, in one line.
    """

    rules: tuple[str, ...] = ()
    words: str = ""


def unknown(why: str) -> Cause:
    return Cause((), f"{NOT_KNOWN}: {why}")


class _Fields:
    """What every question has, named as in a ``Finding``."""

    if TYPE_CHECKING:
        # Each kind has them as fields or as properties; a property at run time would keep the fields out.
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
    """What is handed over and what is demanded."""

    engine: ClassVar[str] = ""
    """Which engine makes such questions; empty for the engine of the run."""

    @property
    @abstractmethod
    def expected(self) -> str:
        """What is demanded, in one line."""

    @property
    def size(self) -> int:
        """Bytes of all files together; of a write, whose input is its action, characters of that."""
        return sum(map(len, self.files.values())) or len(repr(self.action))

    @abstractmethod
    def examined(self, examiner: Examiner) -> Mistake | None:
        """Put it to the examiner's subject and return what is wrong with the answer, None for nothing."""

    @abstractmethod
    def shrunk(self, same: Callable[[Question], bool], seconds: float) -> Question:
        """Return the simplest question found for which ``same`` holds."""

    @abstractmethod
    def alike(self, mistake: Mistake, other: Question, again: Mistake) -> bool:
        """Return whether another question shows the same as this one, where the verdict is the same."""

    @abstractmethod
    def signature(self, name: str, mistake: Mistake) -> str:
        """Return the text that findings are told apart by; ``name`` is that of the implementation."""

    def rough(self, step: str, name: str, mistake: Mistake) -> str:
        return f"{step} {self.signature(name, mistake)}"

    def got(self, name: str, mistake: Mistake) -> dict[str, str]:
        return {name: mistake.text}

    @abstractmethod
    def covered(self, name: str, mistake: Mistake) -> tuple[str, ...]:
        """Return the marks of what says no less than this mistake: signatures, or those of ``marks``."""

    def marks(self, name: str, mistake: Mistake) -> tuple[str, ...]:  # noqa: ARG002 - most leave none
        return ()

    def repeated(self, mistake: Mistake) -> str:
        """Return the kind of bad end of which few are looked into; empty where each may be another one."""
        del mistake
        return ""

    @abstractmethod
    def cause(self, mistake: Mistake, examiner: Examiner) -> Cause:
        """Return what the mistake is charged with."""

    def verdict(self, mistake: Mistake, cause: Cause) -> str:  # noqa: ARG002 - most verdicts stand
        return mistake.verdict


class Examiner:
    """One implementation, or two that are held together, and one step: what a question is put to.

    Attributes:
        subjects: who is asked.
        step: what.
        profile: whose options are demanded; None for undisputed musts only.
    """

    def __init__(self, subjects: Sequence[Subject], step: str, profile: ProfileName | None) -> None:
        self.subjects, self.step, self.profile = subjects, step, profile
        self._slots: Slots | None = None

    @property
    def subject(self) -> Subject:
        return self.subjects[0]

    def path(self, data: bytes) -> str:
        """Write a file where the subject finds it; it stays until the next one, or ``close``."""
        self._slots = self._slots or Slots(1)
        return self._slots.put(data)

    def accepts(self, data: bytes) -> bool:
        return self.subject.answer(data, self.path(data), self.step).outcome == "accept"

    def close(self) -> None:
        if self._slots is not None:
            self._slots.close()
            self._slots = None
