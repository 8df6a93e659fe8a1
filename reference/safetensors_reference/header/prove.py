"""The proving path: quickly shows that a header has no fault, or returns "not proved".

It never rejects a file. The explaining path decides about everything that it cannot prove. A proof is valid
under every profile, because no profile rejects a proved header.

The header is parsed by the standard library, which is lenient: it keeps the last of several equal keys and
accepts lone surrogates and ``-0``. Two counts detect most of these faults at the speed of a memory scan:

- A header without faults has a known number of string tokens: five for each tensor (the name, three fields
  and the dtype), one for the metadata key and two for each metadata item. A repeated or unknown key at any
  level adds quotes, however it is escaped.
- Minus signs occur only in names and metadata (SHP-02, OFF-02).

``prove_fast`` uses msgspec to decode and type-check the entries. With a hundred tensors or more, it is about
twice as fast. It decodes a long header in pieces to limit temporary objects. It proves fewer headers, but
whenever it proves one, the result is the same.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import wraps
from itertools import chain
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ..rules.dtypes import DTYPE_BITS
from .entries import U64_MAX
from .model import Header, ParsedEntries, TensorInfo

LEAN_FROM = 1 << 20
SMALL = 64 << 10
PIECE = 128 << 10
"""Number of header bytes that msgspec decodes at a time. The objects of one piece need little memory."""
_MANY_SHAPES = 10_000

_WIDTHS = dict(DTYPE_BITS)  # lookups in a plain dict are faster than in the read-only view
_FIELDS = itemgetter("dtype", "shape", "data_offsets")
_parse = json.JSONDecoder().raw_decode
_METADATA_FIRST = b'{"__metadata__":'

if TYPE_CHECKING:
    _Dtype = str
else:
    _Dtype = Literal[tuple(DTYPE_BITS)]  # all entries then share one string per code

Prover = Callable[[bytes, int], Header | None]


def _prover(prove_form: Prover) -> Prover:
    @wraps(prove_form)
    def run(raw: bytes, data_size: int) -> Header | None:
        if raw[:1] != b"{":  # HDR-02
            return None
        # Headers contain no reference cycles, so garbage collection would only waste time.
        collecting = gc.isenabled()
        gc.disable()
        try:
            return prove_form(raw, data_size)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, MemoryError):
            # The header is malformed, and the explaining path reports its faults.
            return None
        finally:
            if collecting:
                gc.enable()

    return run


@_prover
def prove(raw: bytes, data_size: int) -> Header | None:
    """Return the header if it provably has no fault, otherwise None."""
    if not affordable(raw):
        return None
    if len(raw) >= LEAN_FROM:
        return _prove_lean(raw, data_size)
    text = raw.decode("utf-8")
    top, end = _parse(text)
    if text[end:].strip(" "):  # only spaces may follow the object (HDR-03)
        return None
    metadata = top.pop("__metadata__", None)
    strings = _metadata_strings(metadata)
    if not _counts_agree(raw, top, metadata, strings) or not _layout_proved(top, data_size):
        return None
    return Header(len(raw), ParsedEntries(top), metadata, data_size)


def affordable(raw: bytes) -> bool:
    """Return whether a parser probably needs only a few times the memory of the header (LIM-03).

    The estimate counts characters.
    """
    if len(raw) < SMALL:
        return True
    entries = raw.count(b'"dtype"')
    parts = raw.count(b"{") + raw.count(b"[") + raw.count(b'"') // 2
    # Each entry has one object, two arrays and five strings. Each number has a comma before it.
    if parts - 8 * entries > len(raw) // 64 or raw.count(b",") > len(raw) // 8:
        return False
    # A single character beyond ASCII makes all characters of the decoded text wider.
    return len(raw) < LEAN_FROM or raw.isascii()


def _metadata_strings(metadata: object) -> list[str]:
    if metadata is None:
        return []
    if type(metadata) is not dict:
        raise TypeError
    strings = [*metadata, *metadata.values()]
    "".join(strings)  # raises TypeError unless all are strings
    return strings


def _counts_agree(raw: bytes, names: Collection[str], metadata: object, strings: list[str]) -> bool:
    tokens = 5 * len(names) + (0 if metadata is None else 1 + len(strings))
    if b"\\" not in raw:
        quotes = raw.count(b'"')
    else:
        plain = raw.replace(b"\\\\", b"")
        quotes = plain.count(b'"') - plain.count(b'\\"')
        # Strings with lone surrogate escapes (HDR-15) are the only ones that cannot be encoded.
        if b"\\u" in raw:
            "".join(chain(names, strings)).encode("utf-8")
    if quotes != 2 * tokens:
        return False
    if b"-" not in raw:
        return True
    # An escaped minus sign would balance the minus sign of -0.
    return b"\\u002" not in raw and raw.count(b"-") == sum(s.count("-") for s in chain(names, strings))


def _layout_proved(top: dict[str, Any], data_size: int) -> bool:
    at = 0
    in_order = True
    integer = int
    widths = _WIDTHS
    for dtype, shape, (begin, end) in map(_FIELDS, top.values()):
        if type(shape) is not list or type(begin) is not integer or type(end) is not integer:
            return False
        bits = widths[dtype]
        for dim in shape:
            if type(dim) is not integer:
                return False
            # No dimension is negative, because ``_counts_agree`` accounted for every minus sign.
            bits *= dim
            if bits > U64_MAX:
                return False
        if bits != (end - begin) << 3:
            return False
        if not bits:
            tensor_size(dtype, shape)  # the zero may hide a later overflow (SHP-06)
        if begin == at:
            at = end
        else:
            in_order = False
    if in_order:
        return at == data_size
    return _covered((entry["data_offsets"] for entry in top.values()), data_size)


def _covered(ranges: Iterable[Collection[int]], data_size: int) -> bool:
    at = 0
    for begin, end in sorted(ranges):  # type: ignore[type-var] # all tuples, or all lists
        if begin != at:
            return False
        at = end
    return at == data_size


def tensor_size(dtype: str, shape: Iterable[int]) -> int:
    elements = 1
    empty = False
    for dim in shape:
        if dim == 0:
            empty = True
        elif 0 < dim <= U64_MAX:
            elements *= dim
            if elements > U64_MAX:
                raise ValueError
        else:
            raise ValueError
    bits = DTYPE_BITS[dtype] * (0 if empty else elements)
    if bits & 7 or bits > U64_MAX:
        raise ValueError
    return bits >> 3


def _prove_lean(raw: bytes, data_size: int) -> Header | None:
    """Prove a very long header with little memory by compacting each entry as soon as it is parsed."""
    text = raw.decode("utf-8")
    top, length = json.JSONDecoder(object_hook=_Compactor()).raw_decode(text)
    if text[length:].strip(" "):
        return None
    del text
    metadata = top.pop("__metadata__", None)
    strings = _metadata_strings(metadata)
    if not _counts_agree(raw, top, metadata, strings):
        return None
    at = 0
    in_order = True
    for name, entry in top.items():
        if type(entry) is not tuple:  # only the compactor creates tuples
            return None
        top[name] = TensorInfo(name, *entry)
        in_order = in_order and entry[2] == at
        at = entry[3]
    proved = at == data_size if in_order else _covered(((t.begin, t.end) for t in top.values()), data_size)
    return Header(len(raw), top, metadata, data_size) if proved else None


class _Compactor:
    """Converts a valid tensor entry to (dtype, shape, begin, end). Equal dtypes and shapes are shared."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], tuple[str, tuple[int, ...], int]] = {}

    def __call__(self, members: dict[str, Any]) -> Any:
        if len(members) != 3 or "dtype" not in members:
            return members
        dtype, shape, (begin, end) = _FIELDS(members)
        if type(shape) is not list or type(begin) is not int or type(end) is not int:
            raise TypeError
        # Check the types before the lookup, because 2.0 and True equal 2 and 1 as dict keys.
        if any(type(dim) is not int for dim in shape):
            raise TypeError
        key = (dtype, *shape)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = (dtype, tuple(shape), tensor_size(dtype, shape))
        if end - begin != known[2]:
            raise ValueError
        return known[0], known[1], begin, end


class _Span(msgspec.Struct, array_like=True, forbid_unknown_fields=True, gc=False):
    begin: int
    end: int


class _Entry(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    dtype: _Dtype
    shape: tuple[int, ...]
    data_offsets: _Span


_decode = msgspec.json.Decoder(dict[str, _Entry]).decode
_decode_metadata = msgspec.json.Decoder(dict[str, str]).decode
_dtype, _span = attrgetter("dtype"), attrgetter("data_offsets")
_begin, _end = attrgetter("begin"), attrgetter("end")


_SizeCache = dict[str, dict[tuple[int, ...], int]]


class _StructEntries(ParsedEntries):
    __slots__ = ()

    def __getitem__(self, name: str) -> TensorInfo:
        entry = self.raw[name]
        span = entry.data_offsets
        return TensorInfo(name, entry.dtype, entry.shape, span.begin, span.end)

    def rows(self) -> Iterator[tuple[str, str, Any, int, int]]:
        for name, entry in self.raw.items():
            span = entry.data_offsets
            yield name, entry.dtype, entry.shape, span.begin, span.end

    def columns(self) -> tuple[list[str], list[tuple[int, int]]]:
        entries = self.raw.values()
        return list(map(_dtype, entries)), list(_ranges(entries))


def _ranges(entries: Iterable[_Entry]) -> Iterable[tuple[int, int]]:
    spans = list(map(_span, entries))
    return zip(map(_begin, spans), map(_end, spans), strict=True)


@_prover
def prove_fast(raw: bytes, data_size: int) -> Header | None:
    """Prove a header in the same way as ``prove``. Also return None if metadata are present but not first."""
    end = raw.rfind(b"}") + 1
    if raw[end:].strip(b" "):  # only spaces may follow the object (HDR-03)
        return None
    metadata, start = _split_metadata(raw)
    top: dict[str, _Entry] = {}
    known: _SizeCache = {}
    shapes: dict[tuple[int, ...], tuple[int, ...]] = {}
    at: int | None = 0
    for piece in _pieces(raw, start, end):
        part = _decode(piece)
        at = _follow(part.values(), at, known)
        if len(raw) >= LEAN_FROM:
            _share(part.values(), shapes)
        if top:
            top.update(part)
        else:
            top = part
    if "__metadata__" in top:
        return None  # the metadata are not first, or appear twice
    if not _counts_agree(raw, top, metadata, _metadata_strings(metadata)):
        return None
    proved = at == data_size if at is not None else _covered(_ranges(top.values()), data_size)
    return Header(len(raw), _StructEntries(top), metadata, data_size) if proved else None


def _split_metadata(raw: bytes) -> tuple[dict[str, str] | None, int]:
    if not raw.startswith(_METADATA_FIRST):
        return None, 1
    at = len(_METADATA_FIRST)
    end = raw.index(b"}", at) + 1
    text = raw[at:end]
    if not affordable(text):
        raise ValueError
    # A brace inside a string ends the piece too early. The piece is then not valid JSON and nothing is
    # proved.
    metadata = _decode_metadata(text)
    # The next member or the end must follow. Otherwise the cut could hide a missing or extra comma.
    if raw[end : end + 2] == b',"':
        return metadata, end + 1
    if raw[end : end + 1] == b"}":
        return metadata, end
    raise ValueError


def _pieces(raw: bytes, start: int, end: int) -> Iterable[bytes]:
    if end - start <= PIECE:
        return (b"{" + raw[start:end],)
    return _cut(raw, start, end)


def _cut(raw: bytes, at: int, end: int) -> Iterator[bytes]:
    # Cut at a comma between a brace and a quote. If the comma is inside a string, the pieces are not valid
    # objects. If it is between members, no piece is empty, so a cut hides no missing or extra comma.
    view = memoryview(raw)
    while at < end:
        comma = raw.find(b'},"', at + PIECE, end) + 1 or end
        if comma - at > 2 * PIECE and raw.count(b",", at, comma) > (comma - at) // 8:
            raise ValueError  # each number would need twelve times as much memory as its text (LIM-03)
        yield b"".join((b"{", view[at:comma], b"}" if comma < end else b""))
        at = comma + 1


def _follow(entries: Iterable[_Entry], at: int | None, known: _SizeCache) -> int | None:
    for entry in entries:
        span = entry.data_offsets
        begin, end = span.begin, span.end
        try:
            size = known[entry.dtype][entry.shape]
        except KeyError:
            size = tensor_size(entry.dtype, entry.shape)
            sizes = known.setdefault(entry.dtype, {})
            if len(sizes) < _MANY_SHAPES:
                sizes[entry.shape] = size
        if end - begin != size:
            raise ValueError
        at = end if begin == at else None
    return at


def _share(entries: Iterable[_Entry], shapes: dict[tuple[int, ...], tuple[int, ...]]) -> None:
    at = 0
    for entry in entries:
        if len(shapes) < _MANY_SHAPES:
            entry.shape = shapes.setdefault(entry.shape, entry.shape)
        span = entry.data_offsets
        if span.begin == at:
            span.begin = at
        at = span.end
