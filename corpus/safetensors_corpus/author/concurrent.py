"""Builder for files that several readers read at the same time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from ..document import contradiction
from .file import FileBuilder, tensor_row


@dataclass
class ConcurrentBuilder(FileBuilder):
    """A file and its readers. The expected content consists of all tensors that the readers read.

    Attributes to set directly:
        by: kind of the readers; ``processes`` are forked from one process.
        opened: ``once`` if the file is opened before the readers start or fork, or ``each`` if every
            reader opens it.
        taken_before: tensors that the opener reads before the readers start.
        times: number of rounds. In each round, every reader reads its tensors.
        closed: number of the round during which the file is closed; with 0, the file stays open.
        taken_after: tensors that the opener reads after the readers have finished.
    """

    by: Literal["threads", "processes"] = "threads"
    opened: Literal["once", "each"] = "once"
    taken_before: tuple[str, ...] = ()
    times: int = 2
    closed: int = 0
    taken_after: tuple[str, ...] = ()
    _readers: list[dict[str, Any]] = field(default_factory=list)

    def reader(self, *tensors: str, unknown: bool = False) -> None:
        self._readers.append({"tensors": list(tensors), "unknown": unknown})

    def content(self, option: str | None = None) -> dict[str, Any]:  # noqa: ARG002 - options differ in outcome
        read = [name for own in self._readers if not own["unknown"] for name in own["tensors"]]
        if not read:
            raise ValueError("there are no readers")
        names = dict.fromkeys([*self.taken_before, *self.taken_after, *read])
        tensors = [self.tensor_named(name) for name in names]
        return {"tensors": [tensor_row(t.name, t.dtype, t.shape, t.data) for t in tensors], "metadata": None}

    def features(self) -> list[str]:
        shared = {"processes": ["fork"], "threads": ["threads"] if self.opened == "once" else []}
        return sorted([*super().features(), *shared[self.by]])

    def action(self) -> dict[str, Any]:
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
