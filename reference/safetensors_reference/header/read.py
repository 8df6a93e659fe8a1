"""Reads a header: enforces its limit, then proves that it has no faults, or has it explained.

The proving path never rejects a file. Whatever the proving path cannot prove is left to the explaining path.
A proof is valid under every profile, because no profile rejects a proved header.

msgspec decodes the header and checks types, but it keeps the last of several equal keys and accepts ``-0``.
Two counts, each as fast as scanning memory, detect these faults:

- A header without faults has a known number of string tokens: five for each tensor (the name, three fields
  and the dtype), one for the metadata key and two for each metadata item. A repeated key at any level adds
  quotes, however it is escaped.
- Minus signs occur only in names and metadata (SHP-02, OFF-02).

Metadata is proved only if it is at the beginning of the header, where writers put it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Literal

import msgspec

from ..rules.book import HEADER_CAP, ProfileName
from ..rules.dtypes import DTYPE_BITS
from ..rules.faults import Fault
from ..source import Source, SourceLike, open_source
from ..text import plural
from .entries import U64_MAX
from .explain import Explanation, InvalidFileError, check_profile, explain_header, with_likeness
from .model import Header, Rows, TensorInfo, TensorRow

PIECE = 128 << 10
"""Number of header bytes that msgspec decodes at a time. The objects for one piece need little memory."""
_MANY_SHAPES = 10_000
_LONG_METADATA = 64 << 10
_METADATA_FIRST = re.compile(rb'\{[ \t\n\r]*"__metadata__"[ \t\n\r]*:[ \t\n\r]*(?=\{)')
_METADATA_END = re.compile(rb'[ \t\n\r]*(?:,[ \t\n\r]*(?=")|(?=\}))')
_CUT = re.compile(rb'\},\s*"')

if TYPE_CHECKING:
    _Dtype = str
else:
    _Dtype = Literal[tuple(DTYPE_BITS)]  # all entries then share one string per dtype code


class _Span(msgspec.Struct, array_like=True, forbid_unknown_fields=True, gc=False):
    begin: int
    end: int


class _Entry(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    dtype: _Dtype
    shape: tuple[int, ...]
    data_offsets: _Span


_decode = msgspec.json.Decoder(dict[str, _Entry]).decode
_decode_metadata = msgspec.json.Decoder(dict[str, str]).decode


class ProvedEntries(Rows):
    """Tensor entries as msgspec decoded them. Objects are created only on access."""

    __slots__ = ("_entries",)

    def __init__(self, entries: dict[str, _Entry]) -> None:
        self._entries = entries

    def __getitem__(self, name: str) -> TensorInfo:
        entry = self._entries[name]
        span = entry.data_offsets
        return TensorInfo(name, entry.dtype, entry.shape, span.begin, span.end)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def rows(self) -> Iterator[TensorRow]:
        for name, entry in self._entries.items():
            span = entry.data_offsets
            yield name, entry.dtype, entry.shape, span.begin, span.end


def framing_fault(prefix: bytes, size: int) -> Fault | None:
    """Return the fault in the first 8 bytes of a file of ``size`` bytes, or None if a header can follow.

    Every reader calls this function before it reads a header, so a hostile length cannot cause a large
    allocation. The limit of a header is enforced nowhere else.
    """
    if size < 8:
        text = f"the file has {size} bytes, but the length prefix needs 8 bytes"
        return Fault("FRM_TOO_SHORT", "FRM-03", text, 0, size)
    length = int.from_bytes(prefix, "little")
    if length == 0:
        return Fault("FRM_HEADER_EMPTY", "FRM-07", "the header length is 0", 0, 8)
    if length > HEADER_CAP:
        text = f"header length {length:,} exceeds the limit of {HEADER_CAP:,}"
        return Fault("FRM_HEADER_OVER_LIMIT", "FRM-06", text, 0, 8)
    if length > size - 8:
        rest = f"{plural(size - 8, 'byte')} follow{'s' * (size == 9)} the length prefix"
        text = f"the header length is {length:,}, but only {rest}"
        return Fault("FRM_HEADER_PAST_EOF", "FRM-04", text, 0, 8)
    return None


def read_raw(source: Source) -> bytes | Fault:
    """Return the bytes of the header, or the fault that makes them impossible to find."""
    prefix = source.read(0, min(8, source.size))
    return framing_fault(prefix, source.size) or source.read(8, int.from_bytes(prefix, "little"))


def read_header(what: SourceLike, profile: ProfileName = "hardened") -> Header:
    """Return the header of a path, bytes-like object or binary file object.

    Args:
        what: the file; only its length prefix and header are read.
        profile: profile to use where readers may differ.

    Raises:
        InvalidFileError: the file breaks one or more rules; the error contains all faults.
        UnreadableError: the file cannot be read.
        AccessError: the profile is unknown.
    """
    with open_source(what) as source:
        return header_of(source, profile)


def header_of(source: Source, profile: ProfileName = "hardened") -> Header:
    explanation = examine_source(source, profile)
    if explanation.header is None:
        raise InvalidFileError(explanation)
    return explanation.header


def explain(what: SourceLike, profile: ProfileName = "hardened") -> Explanation:
    """Read the header of ``what`` (a path, bytes-like object or binary file object) and collect all faults.

    An invalid file does not raise an error: the result contains its faults. If memory runs out, the result
    contains a fault with the code LIM_MEMORY. Raises UnreadableError if the input cannot be read.
    """
    with open_source(what) as source:
        return with_likeness(explain_source(source, profile), source)


def explain_source(
    source: Source, profile: ProfileName = "hardened", raw: bytes | Fault | None = None
) -> Explanation:
    """Explain an open source, except for its likeness; ``raw`` is the result of ``read_raw``, if known."""
    check_profile(profile)
    try:
        raw = read_raw(source) if raw is None else raw
        return explain_header(source, profile, raw)
    except MemoryError:
        # The faults found so far were lost when memory ran out. This is a limit of this reader, not a fault
        # of the file.
        text = "not enough memory to read the header"
        fault = Fault("LIM_MEMORY", "LIM-06", text, 8, source.size)
        return Explanation(source.name, source.size, profile, [fault], cut=True)


def examine(what: SourceLike, profile: ProfileName = "hardened") -> Explanation:
    """Explain a file. If the file has no faults, use the faster proving path and omit ``ranges``."""
    with open_source(what) as source:
        return examine_source(source, profile)


def examine_source(source: Source, profile: ProfileName = "hardened") -> Explanation:
    check_profile(profile)
    try:
        raw = read_raw(source)
    except MemoryError:
        raw = None  # the explaining path reports it
    header = prove(raw, source.size - 8 - len(raw)) if isinstance(raw, bytes) else None
    if header is None:
        return with_likeness(explain_source(source, profile, raw), source)
    # A proof is valid under every profile, so there are no tolerated faults.
    return Explanation(source.name, source.size, profile, header=header, data_start=header.data_start)


def prove(raw: bytes, data_size: int) -> Header | None:
    """Return the header if it can be proved to have no faults, otherwise None."""
    try:
        return _prove(raw, data_size)
    except (ValueError, MemoryError):
        return None  # the header is malformed, so the explaining path reports its faults


def _prove(raw: bytes, data_size: int) -> Header | None:
    end = raw.rfind(b"}") + 1
    if raw[:1] != b"{" or raw[end:].strip(b" "):  # HDR-02; only spaces may follow the object (HDR-03)
        return None
    metadata, start = _split_metadata(raw)
    entries: dict[str, _Entry] = {}
    sizes: _Sizes = defaultdict(dict)
    shapes: dict[tuple[int, ...], tuple[int, ...]] = {}
    at: int | None = 0
    for piece in _pieces(raw, start, end):
        part = _decode(piece)
        at = _follow(part.values(), at, sizes)
        if entries:
            _share(part.values(), shapes)  # equal shapes share one object to save memory in long headers
            entries.update(part)
        else:
            entries = part
    if "__metadata__" in entries or not _counts_agree(raw, entries, metadata):
        return None
    proved = at == data_size if at is not None else _covered(entries.values(), data_size)
    return Header(len(raw), ProvedEntries(entries), metadata, data_size) if proved else None


def _split_metadata(raw: bytes) -> tuple[dict[str, str] | None, int]:
    """Return the metadata at the beginning of a header, and the position of the first entry."""
    first = _METADATA_FIRST.match(raw)
    if first is None:
        return None, 1
    # If a string contains a brace, the text found here ends too early. It is then not valid JSON and nothing
    # is proved.
    end = raw.index(b"}", first.end()) + 1
    text = raw[first.end() : end]
    if len(text) >= _LONG_METADATA and (text.count(b'"') > len(text) // 32 or not text.isascii()):
        # many strings, or strings with wide characters, need many times as much memory as their text (LIM-03)
        raise ValueError
    # The next member or the end of the header must follow. Otherwise a missing or extra comma could go
    # unnoticed.
    following = _METADATA_END.match(raw, end)
    if following is None:
        raise ValueError
    return _decode_metadata(text), following.end()


def _pieces(raw: bytes, at: int, end: int) -> Iterator[bytes]:
    # Cut at a comma between a brace and a quote. If the comma is inside a string, the pieces are not valid
    # objects. If it is between members, no piece is empty, so a missing or extra comma cannot go unnoticed.
    view = memoryview(raw)
    while at < end:
        cut = _CUT.search(raw, at + PIECE, end)
        comma = end if cut is None else cut.start() + 1
        if comma - at > 2 * PIECE and raw.count(b",", at, comma) > (comma - at) // 8:
            raise ValueError  # each number would need twelve times as much memory as its text (LIM-03)
        yield b"".join((b"{", view[at:comma], b"}" if comma < end else b""))
        at = comma + 1


_Sizes = defaultdict[str, dict[tuple[int, ...], int]]
"""Maps each dtype and shape to a size in bytes."""


def _follow(entries: Iterable[_Entry], at: int | None, sizes: _Sizes) -> int | None:
    """Check the sizes of entries, and return where their byte ranges end if they continue at ``at``."""
    for entry in entries:
        span = entry.data_offsets
        begin, end = span.begin, span.end
        try:
            size = sizes[entry.dtype][entry.shape]
        except KeyError:
            size = tensor_size(entry.dtype, entry.shape)
            known = sizes[entry.dtype]
            if len(known) < _MANY_SHAPES:
                known[entry.shape] = size
        if end - begin != size:
            raise ValueError
        at = end if begin == at else None
    return at


def _share(entries: Iterable[_Entry], shapes: dict[tuple[int, ...], tuple[int, ...]]) -> None:
    for entry in entries:
        try:
            entry.shape = shapes[entry.shape]
        except KeyError:
            if len(shapes) < _MANY_SHAPES:
                shapes[entry.shape] = entry.shape


def tensor_size(dtype: str, shape: tuple[int, ...]) -> int:
    elements = 1
    for dim in shape:
        elements *= dim or 1  # a zero dimension must not hide an overflow (SHP-06)
        if not 0 <= dim <= U64_MAX or elements > U64_MAX:
            raise ValueError
    bits = 0 if 0 in shape else elements * DTYPE_BITS[dtype]
    if bits % 8 or bits > U64_MAX:
        raise ValueError
    return bits // 8


def _counts_agree(raw: bytes, names: Collection[str], metadata: dict[str, str] | None) -> bool:
    strings = [] if metadata is None else ["__metadata__", *metadata, *metadata.values()]
    if b"\\" not in raw:
        quotes = raw.count(b'"')
    else:
        plain = raw.replace(b"\\\\", b"")
        quotes = plain.count(b'"') - plain.count(b'\\"')
    if quotes != 2 * (5 * len(names) + len(strings)):
        return False
    if b"-" not in raw:
        return True
    # A minus sign that is escaped in a string could otherwise compensate for the one in -0.
    return b"\\u002" not in raw and raw.count(b"-") == sum(s.count("-") for s in chain(names, strings))


def _covered(entries: Iterable[_Entry], data_size: int) -> bool:
    at = 0
    for begin, end in sorted((entry.data_offsets.begin, entry.data_offsets.end) for entry in entries):
        if begin != at:
            return False
        at = end
    return at == data_size
