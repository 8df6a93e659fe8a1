"""What is found in an index: faults, notes, and an end to both."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ..header.json_text import Abandon
from ..rules.faults import Fault

if TYPE_CHECKING:
    from ..rules.faults import JsonPath

FAULT_LIMIT = 100_000
"""Most faults that are collected. An index can be nothing but faults, each larger than its text."""


@dataclass(frozen=True, slots=True)
class Note:
    """Something legitimate that is worth knowing, such as a shard behind a symbolic link (IDX-06).

    Attributes:
        rule: id of the rule that leaves it open.
        message: what was found, in one line of bounded length.
        start: first byte of the index concerned; equal to ``end`` where there is none.
        end: one past the last byte of the index concerned.
        path: place in the index.
    """

    rule: str
    message: str
    start: int
    end: int
    path: JsonPath | None = None


@dataclass(slots=True)
class Findings:
    """Collects faults, faults that the profile tolerates, and notes."""

    faults: list[Fault] = field(default_factory=list)
    tolerated: list[Fault] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    full: bool = False

    def add(self, fault: Fault, tolerated: bool = False) -> None:
        """Take in a fault. Raises Abandon with the last one that is collected, which says so."""
        into = self.tolerated if tolerated else self.faults
        into.append(fault)
        if len(self.faults) + len(self.tolerated) >= FAULT_LIMIT:
            into[-1] = replace(fault, message=f"{fault.message} (no more faults are collected)")
            self.full = True
            raise Abandon

    def sort(self) -> None:
        """Put everything in the order of the bytes concerned."""
        self.faults.sort(key=lambda f: (f.start, f.end))
        self.tolerated.sort(key=lambda f: (f.start, f.end))
        self.notes.sort(key=lambda n: (n.start, n.end))
