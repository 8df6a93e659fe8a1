"""What leads a program through the checks: the conversation in hand, and the files to ask about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors_corpus import Case, Manifest

from ..implementations.selectors import Target
from ..worker.confinement import Confinement
from ..worker.copies import Copies
from ..worker.outcome import Implementation
from .conversation import Talk


class Skipped(Exception):  # noqa: N818 - no error
    """The check does not apply."""


class Noted(Exception):  # noqa: N818 - no error
    """The check holds, and something is worth saying."""


class Checker:
    """Leads one program through the checks; a process that failed one is replaced for the next."""

    def __init__(
        self, target: Target, manifest: Manifest, seconds: float, folder: Path, confinement: Confinement
    ) -> None:
        self.target = target
        self.seconds = seconds
        self.folder = folder
        self.confinement = confinement
        self.who: Implementation | None = None
        self._manifest = manifest
        self._copies = Copies()
        self._original: dict[bytes, bytes] = {}
        self._talk: Talk | None = None

    def case(self, case_id: str) -> Case:
        """Return a case of the corpus, its input a copy. Raises Skipped when this corpus does not have it."""
        case = self._manifest.by_id.get(case_id)
        if case is None:
            raise Skipped(f"this corpus has no {case_id}")
        if self._copies.change(case):
            self._copies.discard(case)
        shown = self._copies.shown(case)
        if shown is not case:
            self._original[str(shown.path).encode()] = str(case.path).encode()
        return shown

    def path(self, case_id: str) -> str:
        """Return the file of a case."""
        return str(self.case(case_id).path)

    @property
    def talk(self) -> Talk:
        """A conversation that has been started."""
        if self._talk is None:
            self._talk = Talk(self.target, self.seconds, self.confinement)
            self._talk.start()
        return self._talk

    @contextmanager
    def fresh(self) -> Iterator[Talk]:
        """Begin another conversation, not started, and end it afterwards."""
        self.close()
        self._talk = Talk(self.target, self.seconds, self.confinement)
        yield self._talk
        self.close()

    def close(self) -> None:
        """End the conversation."""
        if self._talk is not None:
            self._talk.close()
            self._talk = None

    def end(self) -> None:
        """End the conversation and remove the copies."""
        self.close()
        self._copies.close()

    @property
    def last_sent(self) -> bytes:
        """The last line sent, empty before the first; it names the files of the corpus and no copies.

        So it can be sent once more by hand.
        """
        line = (self._talk.sent if self._talk else None) or b""
        for copy, original in self._original.items():
            line = line.replace(copy, original)
        return line

    @property
    def step(self) -> str:
        """The step to ask plain questions by."""
        assert self.who is not None
        for step in ("read", "open"):
            if step in self.who.steps:
                return step
        raise Skipped("it has neither open nor read")
