"""Draw the bytes of a file: the whole file at the top, and its data buffer below, one bar per tensor.

Positions in a buffer are relative to its start. If a file has too many ranges to draw, irregular ranges keep
their own bars first, and ordinary neighbours share a bar.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal

from safetensors_reference import Explanation, Fault
from safetensors_reference.header.explain import draw_layout
from safetensors_reference.header.model import Range
from safetensors_reference.header.read import explain_source
from safetensors_reference.source import MemorySource

from ..text import plural
from .design import (
    CHAR,
    INNER,
    MARGIN,
    Canvas,
    LabelRows,
    columns,
    harmless_text,
    quoted_name,
    text_width,
    truncate,
)

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
    """Parts of a data buffer to draw.

    ``left_out`` counts the ranges that have no line in the list, and ``hidden`` counts the bars for which
    there is no lane.
    """

    size: int
    declared: int = 0
    bars: list[Bar] = field(default_factory=list)
    ticks: dict[int, list[str]] = field(default_factory=dict)
    patches: list[Patch] = field(default_factory=list)
    rows: list[tuple[str, ...]] = field(default_factory=list)
    left_out: int = 0
    hidden: int = 0


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


MIN_WIDTH = 10.0
STRIP = 30
ROW = 15
MAX_MARKS = 4
ROWS = 3
COLUMNS = int(INNER / CHAR)
_HATCHES = {
    "hole": ("edge", "amber"),
    "trailing": ("edge", "amber"),
    "overlap": ("edge-red", "red"),
    "unknown": ("edge-grey", "grey"),
}
Segment = tuple[str, str, int, int]
"""Style, label, start and end of a part, as positions in the file."""


def distribute(sizes: Sequence[int], least: Sequence[float], width: float) -> tuple[list[float], bool]:
    """Divide ``width`` into parts of at least ``least``, and return them and whether they are to scale."""
    if not sizes:
        return [], True
    needed = sum(least)
    if needed >= width:
        return [width * part / needed for part in least], False
    fixed: set[int] = set()
    while True:
        free = width - sum(least[i] for i in fixed)
        total = sum(size for i, size in enumerate(sizes) if i not in fixed)
        # Divide the integers first, because their sizes can exceed the range of a float.
        widths = [least[i] if i in fixed else free * (s / total if total else 0) for i, s in enumerate(sizes)]
        short = {i for i, w in enumerate(widths) if i not in fixed and w < least[i]}
        if not short:
            return widths, not fixed
        fixed |= short


Scale = Callable[[int], float]
"""Piecewise linear map from positions in a file to positions on the canvas."""


def scale_of(spans: Iterable[tuple[int, int, float]], points: Iterable[int] = ()) -> tuple[Scale, bool]:
    spans = list(spans)
    known = sorted({0, *points, *(s[0] for s in spans), *(s[1] for s in spans)})
    gaps = list(pairwise(known))
    least = [MIN_WIDTH] * len(gaps)
    for begin, end, width in spans:
        inside = [i for i, (a, b) in enumerate(gaps) if begin <= a and b <= end]
        missing = width - sum(least[i] for i in inside)
        for i in inside:
            least[i] += max(missing, 0.0) / len(inside)
    widths, to_scale = distribute([b - a for a, b in gaps], least, INNER)
    places = {known[0]: float(MARGIN)}
    for (begin, end), width in zip(gaps, widths, strict=True):
        places[end] = places[begin] + width

    def at(position: int) -> float:
        before, x_before = known[0], float(MARGIN)
        for place, x in places.items():
            if position <= place:
                share = (position - before) / (place - before) if place > before else 0.0
                return x_before + (x - x_before) * share
            before, x_before = place, x
        return x_before

    return at, to_scale


def layout_svg(
    data: bytes,
    explanation: Explanation | None = None,
    *,
    name: str = "input.safetensors",
    style: bool = True,
) -> str:
    """Draw the layout of any file as an SVG document, 880 pixels wide, standalone or for embedding."""
    explanation = explain_source(MemorySource(data)) if explanation is None else explanation
    canvas = Canvas(hashlib.sha256(name.encode("utf-8", "replace") + data).hexdigest()[:8])
    faults = explanation.faults
    count = plural(len(faults), "fault") if faults else "no fault"
    title = f"{truncate(harmless_text(name), 60)}: {plural(len(data), 'byte')}, {count}"
    canvas.text(MARGIN, 20, title, "title")
    segments = _segments(data)
    scale, to_scale = scale_of([(s[2], s[3], text_width(s[1]) + 12) for s in segments], [len(data)])
    y = _marks(canvas, faults, scale, 30.0, len(data))
    y = _file(canvas, segments, scale, y, len(data))
    if explanation.data_start is not None:
        buffer = layout_buffer(explanation, len(data) - explanation.data_start)
        ends = (scale(explanation.data_start), scale(len(data)))
        y, fits = _buffer(canvas, buffer, ends, y, explanation.data_start)
        to_scale = to_scale and fits
    elif len(data) >= 8:
        canvas.text(MARGIN, y + 10, "The end of the header cannot be read, so no ranges are known.", "quiet")
        y += ROW + 4
    for fault in faults[:MAX_MARKS]:
        y += ROW
        text = f"{fault.code} ({fault.rule}), bytes {_bytes(fault)}: {fault.message}"
        canvas.text(MARGIN, y, truncate(harmless_text(text), COLUMNS))
    if len(faults) > MAX_MARKS:
        y += ROW
        canvas.text(MARGIN, y, f"and {plural(len(faults) - MAX_MARKS, 'more fault')}", "quiet")
    y += 6
    if not to_scale:
        canvas.text(MARGIN, y + 14, "Widths are not to scale; positions are exact.", "quiet")
        y += ROW + 8
    parts = [f"{words}, file bytes {begin:,} to {end:,}." for _, words, begin, end in segments]
    if explanation.data_start is not None:
        parts.append("Data: " + draw_layout(explanation.ranges, len(data) - explanation.data_start) + ".")
    parts += [f"{f.code} ({f.rule}): {f.message}." for f in faults[:MAX_MARKS]]
    return canvas.svg(y + 10, f"Byte layout of {title}", " ".join(parts), style=style)


def _segments(data: bytes) -> list[Segment]:
    size = len(data)
    if size < 8:
        present: list[Segment] = [("length", f"length {size} B", 0, size)] if size else []
        return [*present, ("beyond", f"missing {8 - size} B", size, 8)]
    length = int.from_bytes(data[:8], "little")
    end = min(8 + length, size)
    text = data[8:end].rstrip(b" ")
    out: list[Segment] = [("length", "length 8 B", 0, 8)]
    if text:
        out.append(("header", f"header {len(text):,} B", 8, 8 + len(text)))
    if 8 + len(text) < end:
        out.append(("padding", f"padding {end - 8 - len(text):,} B", 8 + len(text), end))
    if end < size:
        out.append(("data", f"data {size - end:,} B", end, size))
    if 8 + length > size:
        out.append(("beyond", f"missing {8 + length - size:,} B", size, 8 + length))
    return out


def _marks(canvas: Canvas, faults: Sequence[Fault], scale: Scale, y: float, size: int) -> float:
    rows = LabelRows()
    bottom = y + ROW + 4 if faults else y
    done: set[tuple[float, float]] = set()
    for fault in faults[:MAX_MARKS]:
        left, right = scale(min(fault.start, size)), scale(min(fault.end, size))
        if (left, right) in done:
            continue
        done.add((left, right))
        middle = (left + right) / 2
        text = f"{fault.code} {_bytes(fault)}"
        start, row = rows.place(middle, text_width(text), 1)
        if not row:
            canvas.text(start, y + 10, text)
        canvas.line(middle, bottom - 5, middle, bottom + 3, "mark")
        if right - left > 3:
            canvas.line(left, bottom, right, bottom, "mark")
    return bottom + 6


def _bytes(fault: Fault) -> str:
    return f"{fault.start:,}" if fault.end <= fault.start + 1 else f"{fault.start:,}..{fault.end - 1:,}"


def _file(canvas: Canvas, segments: Sequence[Segment], scale: Scale, y: float, size: int) -> float:
    for style, words, begin, end in segments:
        left, right = scale(begin), scale(end)
        canvas.rect(left, y, right - left, STRIP, style)
        canvas.text((left + right) / 2, y + 19, words, "halo" if style == "beyond" else "", "middle")
    canvas.line(scale(size), y - 3, scale(size), y + STRIP + 3, "end")
    points = {p for s in segments for p in s[2:]} | {0, size}
    return _positions(canvas, scale, points, y + STRIP + 3, {size: "end of file"})


def _positions(
    canvas: Canvas, scale: Scale, points: Iterable[int], y: float, words: Mapping[int, str]
) -> float:
    rows = LabelRows()
    placed: list[tuple[float, float, str]] = []
    for point in sorted(points, key=lambda p: (p not in words, p)):
        text = f"{point:,}" + (f" = {words[point]}" if point in words else "")
        start, row = rows.place(scale(point), text_width(text), ROWS)
        if row < ROWS:
            canvas.line(scale(point), y - 2, scale(point), y + 3 + ROW * row)
            placed.append((start, y + 13 + ROW * row, text))
    for start, base, text in placed:
        canvas.text(start, base, text, "halo")
    return y + ROW * len(rows.taken) + 6


def _buffer(
    canvas: Canvas, buffer: Buffer, ends: tuple[float, float], y: float, data_start: int
) -> tuple[float, bool]:
    declared = "" if buffer.declared == buffer.size else f"; the header declares {buffer.declared:,}"
    spans = [(p.begin, p.end, text_width(p.words) + 12) for p in buffer.patches]
    if sum(wide for _, _, wide in spans) > INNER / 2:
        spans = [(p.begin, p.end, text_width(p.short) + 10) for p in buffer.patches]
    spans += [(b.begin, max(min(b.end, buffer.size), b.begin + 1), 24.0) for b in buffer.bars]
    drawn = [(b.begin, b.end) for b in buffer.bars] + [(p.begin, p.end) for p in buffer.patches]
    points = sorted({0, buffer.size, *buffer.ticks}.union(*drawn))
    if len(points) == 1:
        canvas.text(MARGIN, y + 10, "The data buffer is empty, and the header declares no bytes.", "quiet")
        return _list(canvas, buffer, y + 16), True
    scale, to_scale = scale_of(spans, points)
    right = scale(buffer.size)
    heading = f"data buffer: {buffer.size:,} bytes from file byte {data_start:,}{declared}"
    if buffer.size:
        canvas.line(ends[0], y + 18, MARGIN, y + 36)
        canvas.line(ends[1], y + 18, right, y + 36)
    canvas.text(MARGIN, y + 10, heading, "halo")
    y += 40
    tall = (1 + max((bar.lane for bar in buffer.bars), default=0)) * (STRIP + 4)
    _bars(canvas, buffer, scale, y)
    for patch in buffer.patches:
        _patch(canvas, patch, scale, y + patch.lane * (STRIP + 4))
    canvas.line(right, y - 5, right, y + tall + 2, "end")
    for position, numbers in buffer.ticks.items():
        x = scale(position)
        canvas.line(x, y - 6, x, y + tall, "empty")
        canvas.dot(x, y - 6, "empty")
        shown = [n for n in numbers if n]
        text = f"{len(numbers)} empty" if len(shown) != len(numbers) or len(shown) > 3 else ",".join(shown)
        side = x - 6 if x > MARGIN + INNER - text_width(text) - 8 else x + 6
        canvas.text(side, y - 4, text, "halo", "end" if side < x else "start")
    y = _positions(canvas, scale, points, y + tall, {buffer.size: "end of file"})
    if buffer.hidden:
        canvas.text(MARGIN, y + 8, f"{buffer.hidden:,} more ranges overlap these and are not drawn.", "quiet")
        y += ROW
    return _list(canvas, buffer, y + 2), to_scale


def _bars(canvas: Canvas, buffer: Buffer, scale: Scale, y: float) -> None:
    for bar in buffer.bars:
        left, top = scale(bar.begin), y + bar.lane * (STRIP + 4)
        wide = scale(bar.end) - left
        style = "beyond" if bar.upside_down else "more" if not bar.number else "tensor"
        canvas.rect(left, top, wide, STRIP, style)
        # Put the label outside hatched areas.
        free = [scale(p.end) for p in buffer.patches if p.lane == bar.lane and p.begin == bar.begin]
        clear = max([left, *(x for x in free if x < left + wide)])
        room = left + wide - clear
        if bar.begin < buffer.size < bar.end:  # label only one side of the end of the file
            middle = scale(buffer.size)
            clear, room = (middle, left + wide - middle) if bar.upside_down else (clear, middle - clear)
        label = f"{bar.number} {bar.label}" if bar.number else bar.label
        shorter = truncate(label, int(room / CHAR) - 1) if room > 12 * CHAR else ""
        for text in (label, shorter, str(bar.number or "…")):
            if text and text_width(text) + 4 <= room:
                canvas.text(clear + room / 2, top + 19, text, "halo", "middle")
                break


def _patch(canvas: Canvas, patch: Patch, scale: Scale, y: float) -> None:
    left = scale(patch.begin)
    wide = scale(patch.end) - left
    if patch.kind == "beyond":
        canvas.rect(left, y, wide, STRIP, "ground")
        canvas.rect(left, y, wide, STRIP, "beyond")
    else:
        canvas.rect(left, y, wide, STRIP, *_HATCHES[patch.kind])
    for text in (patch.words, patch.short, patch.short[:1]):
        if text_width(text) + 2 <= wide:
            canvas.text(left + wide / 2, y + 19, text, "halo", "middle")
            break


def _list(canvas: Canvas, buffer: Buffer, y: float) -> float:
    if not buffer.rows:
        return y
    table = [("", "name", "dtype, shape", "in the data buffer", "size", ""), *buffer.rows]
    widths = [max(map(columns, cells)) for cells in zip(*table, strict=True)]
    starts = [sum(widths[:place]) + 2 * place for place in range(len(widths))]
    for place, row in enumerate(table):
        y += ROW
        for column, cell in zip(starts, row, strict=True):
            words = truncate(cell, COLUMNS - column)
            if words:
                canvas.text(MARGIN + column * CHAR, y, words, "quiet" if not place else "")
    if buffer.left_out:
        y += ROW
        canvas.text(MARGIN + starts[1] * CHAR, y, f"and {buffer.left_out:,} more", "quiet")
    return y + 8
