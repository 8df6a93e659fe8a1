"""The explaining path: reads a header strictly and collects every fault with its position.

In this package, the explaining path decides whether a file is valid. It reads the header token by token, and
continues after a fault as long as the structure of the header is clear. For each fault, it reports the broken
rule and the bytes that break it. It needs to know the size of the data buffer, but not its content.
"""

from __future__ import annotations

from array import array
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from heapq import nsmallest
from itertools import chain

from ..rules.book import PROFILES, rule_book
from ..rules.errors import AccessError, InvalidError
from ..rules.faults import Fault, Likeness
from ..source import Source
from ..text import plural, quote, shown
from .entries import Entries, Entry, EntryReader, Names, Ranges, Tensors
from .json_text import Abandon, JsonReader, Node, TooDeep, find_not_utf8, unfinished
from .likeness import find_likeness
from .model import Header, Range

RESERVED = "__metadata__"
FAULT_LIMIT = 10_000
"""Maximum number of faults collected per file, so that a hostile file cannot exhaust memory."""
_BOM = b"\xef\xbb\xbf"
_JSON_SPACE = b" \t\n\r"


class InvalidFileError(InvalidError["Explanation"]):
    """Raised if a file breaks rules of the format; ``explanation`` contains all faults."""


@dataclass(slots=True)
class Explanation:
    """Result of the strict reader for one file.

    Attributes:
        name: name of the input, used in messages.
        size: size of the file in bytes.
        profile: profile to use where readers may differ.
        faults: all faults in file order.
        tolerated: faults that the profile tolerates, in file order.
        header: the header, or None if there are any faults.
        ranges: declared byte ranges of the entries, available even if there are faults.
        data_start: file position of the data buffer, or None if the framing is broken.
        cut: True if the reader stopped at ``FAULT_LIMIT`` faults or because it ran out of memory.
        looks_like: kind of file that an invalid file looks like, or None if it is not recognized.
    """

    name: str
    size: int
    profile: str
    faults: list[Fault] = field(default_factory=list)
    tolerated: list[Fault] = field(default_factory=list)
    header: Header | None = None
    ranges: Sequence[Range] = field(default=(), repr=False)
    data_start: int | None = None
    cut: bool = False
    looks_like: Likeness | None = None

    @property
    def valid(self) -> bool:
        """Whether the file obeys every rule under the profile."""
        return not self.faults


def profile_options(profile: str) -> dict[str, str]:
    """Return a mapping of choices to the options of ``profile``.

    If the profile leaves a choice open, the option of the hardened profile is used. Choices that the hardened
    profile also leaves open do not concern headers and are omitted. Raises AccessError for an unknown
    profile.
    """
    check_profile(profile)
    return _options(profile)


@cache
def _options(profile: str) -> dict[str, str]:
    options = {c.id: c.positions[profile] or c.positions["hardened"] for c in rule_book().choices.values()}
    return {choice: option for choice, option in options.items() if option is not None}


def check_profile(profile: object) -> None:
    """Raise AccessError for an unknown profile. Readers call this function before they read a file."""
    if not isinstance(profile, str) or profile not in PROFILES:
        raise AccessError(f"profile must be one of {', '.join(PROFILES)}, not {shown(profile)}")


def explain_header(source: Source, profile: str, raw: bytes | Fault) -> Explanation:
    """Collect all faults. ``raw`` is the header, or the fault that makes it impossible to find."""
    return _Explainer(source, profile).run(raw)


def with_likeness(out: Explanation, source: Source) -> Explanation:
    """Add what an invalid file looks like, for people."""
    # If the data buffer has the right size, the file is neither cut short nor of another kind.
    codes = {fault.code for fault in out.faults}
    if codes and (out.data_start is None or codes & {"OFF_OUT_OF_BOUNDS", "OFF_TRAILING"}):
        with suppress(MemoryError):
            out.looks_like = find_likeness(source, out.faults, out.ranges, out.data_start)
    return out


class _TooManyError(Exception):
    """Raised if a file has more faults than the reader collects."""


class _Explainer:
    """Runs the explaining path for one source."""

    def __init__(self, source: Source, profile: str) -> None:
        self.source = source
        self.out = Explanation(source.name, source.size, profile)
        self.options = profile_options(profile)
        self.entries = Entries()
        # entries replaced by a later entry with the same name, if the profile treats that as a fault
        self.overridden: list[Entry] = []
        self.metadata: Mapping[str, str] | None = None
        self.complete = True  # whether the ranges of all entries are known; otherwise a gap may not be a hole

    def run(self, header: bytes | Fault) -> Explanation:
        if isinstance(header, Fault):
            self._sink(header)
            return self.out
        bad = find_not_utf8(header)
        if bad is not None:
            start, end, reason = bad
            text = f"bytes {header[start:end].hex(' ')} are not UTF-8: {reason}"
            self._add("HDR_NOT_UTF8", "HDR-01", text, 8 + start, 8 + end)
        try:
            if self._object(header):
                self._layout(len(header))
        except _TooManyError:
            self.out.cut = True
        self.out.faults.sort(key=lambda f: (f.start, f.end))
        self.out.tolerated.sort(key=lambda f: (f.start, f.end))
        if self.out.valid:
            size = self.source.size - 8 - len(header)
            self.out.header = Header(len(header), Tensors(self.entries), self.metadata, size)
        return self.out

    def _sink(self, fault: Fault, tolerated: bool = False) -> None:
        kept = self.out.tolerated if tolerated else self.out.faults
        if len(kept) >= FAULT_LIMIT and not tolerated:
            raise _TooManyError
        if len(kept) < FAULT_LIMIT:
            kept.append(fault)

    def _add(self, code: str, rule: str, message: str, start: int, end: int) -> None:
        self._sink(Fault(code, rule, message, start, end))

    def _object(self, header: bytes) -> bool:
        def report(code: str, rule: str, message: str, start: int, end: int, choice: str | None) -> None:
            # Every profile rejects the faults that the JSON reader reports, even those that belong to a
            # choice.
            self._sink(Fault(code, rule, message, 8 + start, 8 + end, None, choice))

        reader = JsonReader(header, report)
        if not self._start(header, reader):
            return False
        entry_reader = EntryReader(self._sink, 8, self.options)
        whole = True
        try:
            self._members(reader, entry_reader)
            self._padding(header, reader.pos)
        except Abandon:
            whole = False
        # Check sizes last, because a reader that keeps the last of two equal names checks only the size of
        # that entry.
        for entry in chain(self.overridden, self.entries):
            entry_reader.check_size(entry)
        return whole

    def _members(self, reader: JsonReader, entry_reader: EntryReader) -> None:
        # This is a separate function so that the last member is released before sizes are checked.
        seen = _Seen()
        try:
            for key, value in reader.members(1):
                self._member(entry_reader, seen, key, value)
        except TooDeep as stop:
            # The part read so far may have other faults.
            if stop.key is not None:
                self._member(entry_reader, seen, stop.key, unfinished(reader.data, stop.at, reader.pos, 1))
            raise

    def _start(self, header: bytes, reader: JsonReader) -> bool:
        if header[:1] == b"{":
            return True
        if header[:3] == _BOM:
            self._add("HDR_BAD_START", "HDR-05", "the header starts with a byte-order mark", 8, 11)
            reader.pos = 3
            return header[3:4] == b"{"
        reader.skip_space()
        first = header[reader.pos : reader.pos + 1]
        if first == b"{":
            choice = "leading-whitespace"
            text = f"there are {reader.pos} bytes of whitespace before the opening brace"
            fault = Fault("HDR_BAD_START", "HDR-02", text, 8, 8 + reader.pos, None, choice)
            self._sink(fault, self.options[choice] != "reject")
            return True
        at = 8 + reader.pos
        if not first:
            self._add("HDR_NOT_OBJECT", "HDR-06", "the header contains only whitespace", 8, at)
        elif first in b'["-0123456789tfn':
            self._add("HDR_NOT_OBJECT", "HDR-06", "the header is not a JSON object", at, at + 1)
        else:
            text = f"the first header byte is 0x{first.hex()}, not an opening brace"
            self._add("HDR_BAD_START", "HDR-02", text, at, at + 1)
        return False

    def _padding(self, header: bytes, pos: int) -> None:
        rest = header[pos:]
        bad = len(rest) - len(rest.lstrip(b" "))
        if bad == len(rest):
            return
        other = rest.lstrip(_JSON_SPACE)
        choice = None if other else "trailing-whitespace"
        at = 8 + pos + (len(rest) - len(other) if other else bad)
        byte = header[at - 8 : at - 7].hex()
        text = f"byte 0x{byte} follows the closing brace, where only spaces are allowed"
        tolerated = choice is not None and self.options[choice] != "reject"
        self._sink(Fault("HDR_BAD_PADDING", "HDR-03", text, at, at + 1, None, choice), tolerated)

    def _member(self, reader: EntryReader, seen: _Seen, key: Node, value: Node) -> None:
        name = key.text
        # A name with a fault never counts as a repetition of another name.
        first = seen.first(name, 8 + key.start) if key.exact else None
        if first is not None:
            choice = None if name == RESERVED else "duplicate-tensor-names"
            what, rule = ("tensor name", "HDR-09") if choice else ("key", "HDR-11")
            text = f"{what} {quote(name)} appears again (first at byte {first:,})"
            fault = Fault("HDR_DUP_KEY", rule, text, 8 + key.start, 8 + key.end, (name,), choice)
            self._sink(fault, choice is not None and self.options[choice] != "reject")
        if key.exact and name == RESERVED:
            self.metadata = reader.metadata(value)
            return
        entry = reader.entry(name, value)
        if entry is None:
            self.complete = False
            return
        replaced = self.entries.put(entry, hidden=not key.exact)
        if replaced is not None and self.options["duplicate-tensor-names"] == "reject":
            self.overridden.append(replaced)

    def _layout(self, length: int) -> None:
        ranges = Ranges(self.overridden, self.entries, 8)
        if len(ranges) < len(self.overridden) + len(self.entries):
            self.complete = False
        data_size = self.source.size - 8 - length
        self.out.ranges, self.out.data_start = ranges, 8 + length
        for fault in check_layout(ranges, 8 + length, data_size, self.complete):
            self._sink(fault)


class _Seen:
    """All member names so far, and the position of the first occurrence of each name."""

    def __init__(self) -> None:
        self._names = Names()
        self._places = array("I")

    def first(self, name: str, place: int) -> int | None:
        number = self._names.find(name)
        if number is not None:
            return self._places[number]
        self._names.add(name)
        self._places.append(place)
        return None


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
