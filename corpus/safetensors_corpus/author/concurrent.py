"""A file, and several readers of it at the same time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from ..document import contradiction
from .file import FileBuilder, tensor_row


@dataclass
class ConcurrentBuilder(FileBuilder):
    """Adds readers to the file builder. The content expected is every tensor that one of them takes.

    Attributes to set directly:
        by: what the readers are; processes are forked from one.
        opened: ``once`` before they begin or are forked, ``each`` for every reader opening the file itself.
        taken_before: tensors that whoever opened the file takes before they begin or are forked.
        times: rounds; in each of them every reader takes its tensors.
        closed: the round that begins with closing the file, 0 for none.
        taken_after: tensors that whoever opened the file takes when the readers have ended.
    """

    by: Literal["threads", "processes"] = "threads"
    opened: Literal["once", "each"] = "once"
    taken_before: tuple[str, ...] = ()
    times: int = 2
    closed: int = 0
    taken_after: tuple[str, ...] = ()
    _readers: list[dict[str, Any]] = field(default_factory=list)

    def reader(self, *tensors: str) -> None:
        self._readers.append({"tensors": list(tensors), "unknown": False})

    def reader_of_unknown(self, *names: str) -> None:
        self._readers.append({"tensors": list(names), "unknown": True})

    def content(self, option: str | None = None) -> dict[str, Any]:  # noqa: ARG002 - options differ in outcome
        known = [own["tensors"] for own in self._readers if not own["unknown"]]
        asked = dict.fromkeys(
            [*self.taken_before, *self.taken_after, *(name for names in known for name in names)]
        )
        if not known:
            raise ValueError("nobody reads")
        told = [self.tensor_named(name) for name in asked]
        return {"tensors": [tensor_row(t.name, t.dtype, t.shape, t.data) for t in told], "metadata": None}

    def features(self) -> list[str]:
        shared = {"processes": ["fork"], "threads": ["threads"] if self.opened == "once" else []}
        return sorted([*super().features(), *shared[self.by]])

    def action(self) -> dict[str, Any]:
        """Return the readers in the manifest's form. Raises ValueError where they contradict one another."""
        action = {
            "do": "concurrent",
            "by": self.by,
            "opened": self.opened,
            "before": list(self.taken_before),
            "readers": self._readers,
            "times": self.times,
            "closed": self.closed,
            "after": list(self.taken_after),
        }
        if why := contradiction(action):
            raise ValueError(f"it {why}")
        return action
