"""Marks of the table, computed from measurements: ``+`` yes, ``-`` no, ``~`` in part, None not run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .run import Measured
from .table import FORMATS, PROPERTIES

Answers = Mapping[str, Mapping[str, Any]]
"""Maps each experiment to its answer for one way of loading."""
MOST = 0.5
"""A share of at least this much counts as most of the file."""
COPIED, ONCE = 0.05, 1.1
"""Limits on private memory, relative to the file size. Up to the first limit, nothing counts as copied. Up to
the second limit, there is one copy.
"""


def safe(way: Answers) -> str:
    return "-" if way["safe"]["ran"] else "+"


def zero_copy(way: Answers) -> str:
    """``+`` without copies, ``~`` with memory for one copy, ``-`` with more memory."""
    share = way["zero_copy"]["peak"] / way["zero_copy"]["file"]
    return "+" if share <= COPIED else "~" if share <= ONCE else "-"


def lazy(way: Answers) -> str:
    """``+`` if listing tensors and reading one each need less than half the file, ``-`` if neither does."""
    few = [way["lazy"][what] < MOST * way["lazy"]["file"] for what in ("list", "one")]
    return "+" if all(few) else "~" if any(few) else "-"


def size(way: Answers) -> str:
    """``+`` if a file larger than 4 GiB was read back."""
    return "+" if any(one["came"] and one["bytes"] > 1 << 32 for one in way["size"]["tried"]) else "-"


def layout_facts(way: Answers) -> dict[str, bool]:
    found = way["layout"]
    apart = found["files"] == len(next(iter(found["orders"])))
    return {
        "names and shapes without reading most of the file": way["lazy"]["list"] < MOST * way["lazy"]["file"],
        "contiguous tensors": found["whole"],
        "order of writing": apart or all(asked == got for asked, got in found["orders"].items()),
        "option to align tensors": found["can_align"],
    }


def layout(way: Answers) -> str:
    """``-`` unless the first two criteria are met, ``+`` if all four are."""
    listed, whole, ordered, aligned = layout_facts(way).values()
    if not (listed and whole):
        return "-"
    return "+" if ordered and aligned else "~"


def flexible(way: Answers) -> str:
    """``+`` if code was read back and ran, ``~`` if only other values that are not tensors were read back."""
    came = way["flexible"]["came"]
    return "+" if "code" in came else "~" if came else "-"


def bits(way: Answers) -> str:
    """``+`` if all three types were read back under their names and with equal bits, ``-`` if none was."""
    native = [found.get("equal") and found["as"] == name for name, found in way["bits"].items()]
    return "+" if all(native) else "~" if any(native) else "-"


JUDGES: dict[str, Callable[[Answers], str]] = {
    judge.__name__: judge for judge in (safe, zero_copy, lazy, size, layout, flexible, bits)
}


def together(marks: Iterable[str | None]) -> str | None:
    """Return the mark of a format: ``~`` if its ways disagree, None if one of them was not run."""
    found = set(marks)
    if not found or None in found:
        return None
    return found.pop() if len(found) == 1 else "~"


def verdict(claim: str, mark: str | None) -> str:
    if mark is None:
        return "not run"
    if claim == "?":
        return "left open"
    return "agrees" if claim == mark else "in part" if "~" in claim + mark else "differs"


@dataclass(frozen=True)
class Cell:
    """A cell of the table.

    Attributes:
        name: name of the format.
        key: key of the property.
        claim: mark in the README.
        ways: name, mark and answers of each way; the mark is None if the way was not run.
        why: reason why a way was not run.
    """

    name: str
    key: str
    claim: str
    ways: tuple[tuple[str, str | None, Answers], ...]
    why: str

    @property
    def mark(self) -> str | None:
        return together(mark for _, mark, _ in self.ways)

    @property
    def verdict(self) -> str:
        return verdict(self.claim, self.mark)


def cell(name: str, key: str, measured: Measured | None) -> Cell:
    """Return a cell. A format without measurements counts as not run."""
    claim = FORMATS[name].claims[PROPERTIES.index(key)]
    if measured is None:
        return Cell(name, key, claim, (), "needs `--large`" if FORMATS[name].large else "not selected")
    needed = (key, "lazy") if key == "layout" else (key,)
    ways, why = [], measured.why
    for at, (way, _) in enumerate(measured.ways):
        answers = {experiment: found[at] for experiment, found in measured.answers.items()}
        missing = [answers[one]["why"] for one in needed if "why" in answers[one]]
        ways.append((way, None if missing else JUDGES[key](answers), answers))
        why = why or "".join(missing[:1])
    return Cell(name, key, claim, tuple(ways), why)
