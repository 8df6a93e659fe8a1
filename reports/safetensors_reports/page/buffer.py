"""Layout of a drawn data buffer: bars, hatched patches, ticks, and a line of text for each range.

Positions are relative to the data buffer. If a file has too many ranges to draw, then ranges that break the
chain are kept and ordinary neighbours are merged into one bar.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal

from safetensors_reference import Explanation
from safetensors_reference.header.layout import Range

from ..text import plural
from .svg import columns, quoted_name, truncate

MAX_RANGES = 14
FIRST, LAST = 3, 2
"""Number of ranges at each end that are always drawn."""
MAX_LANES = 4
MAX_REMARK = 60

Kind = Literal["hole", "overlap", "trailing", "beyond", "unknown"]


@dataclass(frozen=True)
class Bar:
    """One range, whose ``number`` is its line in the list, or ``count`` neighbours, whose number is 0."""

    begin: int
    end: int
    number: int
    label: str
    count: int = 1
    lane: int = 0
    upside_down: bool = False


@dataclass(frozen=True)
class Patch:
    """Faulty bytes, drawn in the lane of their bar."""

    begin: int
    end: int
    kind: Kind
    lane: int = 0
    number: int = 0

    @property
    def words(self) -> str:
        who = f"{self.number} " if self.kind == "overlap" and self.number else ""
        return f"{who}{self.short} {self.end - self.begin:,} B"

    @property
    def short(self) -> str:
        return {"beyond": "past end", "unknown": "unclaimed"}.get(self.kind, self.kind)


@dataclass
class Buffer:
    """What to draw of a data buffer; ``left_out`` ranges have no line, and ``hidden`` bars have no lane."""

    size: int
    declared: int = 0
    bars: list[Bar] = field(default_factory=list)
    ticks: dict[int, list[str]] = field(default_factory=dict)
    patches: list[Patch] = field(default_factory=list)
    rows: list[tuple[str, ...]] = field(default_factory=list)
    left_out: int = 0
    hidden: int = 0

    @property
    def lanes(self) -> int:
        return 1 + max((b.lane for b in self.bars), default=0)

    @property
    def points(self) -> list[int]:
        positions = {0, self.size, *self.ticks}
        spans = [(b.begin, b.end) for b in self.bars] + [(p.begin, p.end) for p in self.patches]
        return sorted(positions.union(*spans))


def layout_buffer(explanation: Explanation, size: int) -> Buffer:
    codes = {fault.code for fault in explanation.faults}
    ranges = sorted(explanation.ranges, key=lambda r: (min(r.begin, r.end), r.end, r.name))
    remarks = _remarks(ranges, size)
    drawn = _kept(remarks)
    out = Buffer(size, max((r.end for r in ranges if r.begin <= r.end), default=size))
    out.left_out = len(ranges) - len(drawn)
    run: list[Range] = []
    for place, item in enumerate(ranges):
        if place not in drawn:
            run.append(item)
            continue
        _add_run(out, run)
        run = []
        _add(out, item, remarks[place])
    _add_run(out, run)
    _find_patches(out, ranges, codes)
    return out


def _remarks(ranges: Sequence[Range], size: int) -> list[str]:
    out = []
    cursor, before = 0, ""
    for item in ranges:
        words = []
        if item.begin > item.end:
            out.append("ends before it begins")
            continue
        if item.begin > cursor:
            words.append(f"{plural(item.begin - cursor, 'byte')} unclaimed before it")
        elif item.begin < cursor:
            many = min(item.end, cursor) - item.begin
            words.append(f"{plural(many, 'byte')} shared with {before}" if many else f"inside {before}")
        if item.end > size:
            words.append(f"{plural(item.end - max(item.begin, size), 'byte')} past the end of the file")
        out.append("; ".join(words))
        if item.end >= cursor:
            cursor, before = item.end, quoted_name(item.name, 12)
    return out


def _kept(remarks: Sequence[str]) -> set[int]:
    count = len(remarks)
    if count <= MAX_RANGES:
        return set(range(count))
    ends = {*range(FIRST), *range(count - LAST, count)}
    wrong = [place for place, remark in enumerate(remarks) if remark]
    wanted = [*wrong, *(near for place in wrong for near in (place - 1, place + 1)), *range(count)]
    for place in wanted:
        if len(ends) == MAX_RANGES:
            break
        if 0 <= place < count:
            ends.add(place)
    return ends


def _add(out: Buffer, item: Range, remark: str) -> None:
    number = len(out.rows) + 1
    size = item.end - item.begin
    where = f"{item.begin:,}..{item.end:,}"
    note = truncate(remark or ("empty" if size == 0 else ""), MAX_REMARK)
    name = quoted_name(item.name)
    out.rows.append((str(number), name, truncate(item.label, 22), where, f"{max(size, 0):,} B", note))
    if size == 0:
        out.ticks.setdefault(item.begin, []).append(str(number))
    elif size > 0:
        _place(out, Bar(item.begin, item.end, number, f"{name} {item.label}"))
    else:
        _place(out, Bar(item.end, item.begin, number, f"{name} reversed", upside_down=True))


def _add_run(out: Buffer, run: Sequence[Range]) -> None:
    full = [r for r in run if r.begin < r.end]
    for item in run:
        if item.begin == item.end and (item.begin in out.ticks or len(out.ticks) < MAX_RANGES):
            out.ticks.setdefault(item.begin, []).append("")
    if full:
        begin, end = min(r.begin for r in full), max(r.end for r in full)
        gaps = sum(later.begin > earlier.end for earlier, later in pairwise(full))
        words = f"{len(full):,} more" + (f", {gaps:,} gaps" if gaps else "")
        _place(out, Bar(begin, end, 0, words, len(full)))


def _place(out: Buffer, bar: Bar) -> None:
    for lane in range(MAX_LANES):
        if all(b.end <= bar.begin or b.begin >= bar.end for b in out.bars if b.lane == lane):
            out.bars.append(replace(bar, lane=lane))
            return
    out.hidden += bar.count


def _find_patches(out: Buffer, ranges: Iterable[Range], codes: set[str]) -> None:
    runs = [bar for bar in out.bars if not bar.number]
    cursor = 0
    for item in (r for r in ranges if r.begin <= r.end):
        free = Patch(cursor, min(item.begin, out.size), "hole" if "OFF_HOLE" in codes else "unknown")
        # Skip gaps between ranges that are not drawn individually.
        if free.begin < free.end and not any(b.begin < free.end and free.begin < b.end for b in runs):
            out.patches.append(free)
        cursor = max(cursor, item.end)
    if cursor < out.size:
        out.patches.append(Patch(cursor, out.size, "trailing" if "OFF_TRAILING" in codes else "unknown"))
    cursor = 0
    for bar in sorted((b for b in out.bars if not b.upside_down), key=lambda b: (b.begin, b.end)):
        inside = min(bar.end, cursor, out.size)
        if bar.begin < inside:
            out.patches.append(Patch(bar.begin, inside, "overlap", bar.lane, bar.number))
        if bar.end > out.size:
            out.patches.append(Patch(max(bar.begin, out.size), bar.end, "beyond", bar.lane, bar.number))
        cursor = max(cursor, bar.end)


def column_starts(rows: Sequence[Sequence[str]]) -> list[int]:
    widths = [max(map(columns, cells)) for cells in zip(*rows, strict=True)]
    return [sum(widths[:place]) + 2 * place for place in range(len(widths))]
