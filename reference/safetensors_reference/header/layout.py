"""Checks that the byte ranges of all tensors together form the data buffer (OFF-03 to OFF-13)."""

from __future__ import annotations

from array import array
from heapq import nsmallest
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ..rules.faults import Fault, quote
from ..text import plural

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from .json_text import Integers


class Range(NamedTuple):
    """Declared byte range of one tensor, and the position of its declaration in the file.

    ``begin`` and ``end`` are positions in the data buffer. ``start`` and ``stop`` are the file positions of
    the declaration. ``dtype`` and ``shape`` are None if they are unknown.
    """

    name: str
    begin: int
    end: int
    start: int
    stop: int
    dtype: str | None = None
    shape: tuple[int, ...] | Integers | None = None

    @property
    def label(self) -> str:
        """Dtype and shape as shown in the diagram, with ``?`` for unknown values."""
        some = None if self.shape is None else tuple(islice(self.shape, 8))
        return f"{self.dtype or '?'}{show_shape(some, 0 if self.shape is None else len(self.shape))}"


def check_layout(ranges: Sequence[Range], data_start: int, data_size: int, complete: bool) -> Iterator[Fault]:
    """Yield the faults of the layout.

    Together, the ranges must cover 0 to ``data_size`` without holes or overlaps, in any header order. Empty
    ranges must fit into the same sequence (OFF-09). If ``complete`` is False, some entries have unknown
    ranges, so holes and trailing bytes are not reported. Overlaps between entries with the same name are not
    reported here, because the repeated name is already a fault.
    """
    complete, in_order = yield from _reversed(ranges, complete)
    cursor = 0
    before: Range | None = None
    for item in ranges if in_order else _in_offset_order(ranges):
        if item.begin > item.end:
            continue
        if item.end > data_size:
            text = f"{quote(item.name)} ends at {item.end:,}, but the data buffer ends at {data_size:,}"
            yield _fault("OFF_OUT_OF_BOUNDS", "OFF-04", text, item)
            if item.begin == item.end and before is not None:
                continue
        # Bytes beyond the data buffer need not be covered, but the first range must begin at the start of the
        # buffer.
        if (item.begin if before is None else min(item.begin, data_size)) > cursor and complete:
            where = "the data buffer starts" if before is None else f"{quote(before.name)} ends"
            text = f"{quote(item.name)} begins at {item.begin:,}, but {where} at {cursor:,}"
            yield _fault("OFF_HOLE", "OFF-07", text, item)
        elif item.begin < cursor and before is not None and item.name != before.name:
            inside = f"{quote(before.name)}, which ends at {cursor:,}"
            text = f"{quote(item.name)} begins at {item.begin:,}, inside {inside}"
            yield _fault("OFF_OVERLAP", "OFF-06", text, item)
        if item.end >= cursor:
            cursor, before = item.end, item
    if cursor < data_size and complete:
        rest = data_size - cursor
        text = f"{plural(rest, 'byte')} follow{'s' * (rest == 1)} the last tensor"
        yield Fault("OFF_TRAILING", "OFF-08", text, data_start + cursor, data_start + data_size)


def _reversed(ranges: Sequence[Range], complete: bool) -> Generator[Fault, None, tuple[bool, bool]]:
    last = (0, 0)
    in_order = True
    for item in ranges:
        if item.begin > item.end:
            text = f"{quote(item.name)} begins at {item.begin:,} but ends at {item.end:,}"
            yield _fault("OFF_REVERSED", "OFF-03", text, item)
            complete = False
        else:
            in_order = in_order and last <= (item.begin, item.end)
            last = item.begin, item.end
    return complete, in_order


def _in_offset_order(ranges: Sequence[Range]) -> Iterator[Range]:
    # Sort numbers instead of ranges, because each access to a range creates an object.
    keys = [(item.begin << 64) + item.end for item in ranges]
    return (ranges[number] for number in sorted(range(len(ranges)), key=keys.__getitem__))


def _fault(code: str, rule: str, text: str, item: Range) -> Fault:
    return Fault(code, rule, text, item.start, item.stop, (item.name, "data_offsets"))


def show_shape(shape: Sequence[int] | None, rank: int | None = None) -> str:
    """Format at most eight dimensions; ``shape`` may contain only the first eight of ``rank`` dimensions."""
    if shape is None:
        return "?"
    rank = len(shape) if rank is None else rank
    tail = f", … {rank} dimensions]" if rank > 8 else "]"
    return "[" + ", ".join(str(d) for d in shape[:8]) + tail


def draw_layout(ranges: Sequence[Range], data_size: int, limit: int = 8) -> str:
    """Draw the data buffer in one line: tensors in offset order, holes, overlaps and the end of the file."""
    usable = (r for r in ranges if r.begin <= r.end)
    parts = ["0"]
    cursor = 0
    for index, item in enumerate(nsmallest(limit + 1, usable, key=lambda r: (r.begin, r.end))):
        if index == limit:
            ends = array("Q", (r.end for r in ranges if r.begin <= r.end))
            parts.append(f"… {len(ends) - limit:,} more")
            cursor = max(ends)
            break
        if item.begin > cursor:
            parts.append(f"|hole: {plural(item.begin - cursor, 'byte')}| {item.begin}")
        elif item.begin < cursor:
            parts.append(f"back to {item.begin}")
        parts.append(f"|{quote(item.name, 24)}: {item.label}| {item.end}")
        cursor = max(cursor, item.end)
    if cursor < data_size:
        parts.append(f"|trailing: {plural(data_size - cursor, 'byte')}| {data_size} = end of file")
    elif cursor > data_size:
        parts.append(f"but the file ends at {data_size}")
    else:
        parts.append("= end of file")
    return " ".join(parts)
