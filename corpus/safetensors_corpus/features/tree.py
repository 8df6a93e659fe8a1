"""A tree that represents a file and preserves its spelling, its tensor entries, and mutations of it.

The leaves of the tree are raw bytes and may be invalid.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from math import prod
from typing import Any, TypeAlias, TypeVar

from .vocabulary import BITS, META_KEYS, META_VALUES, RESERVED

T = TypeVar("T")
Value: TypeAlias = "bytes | Obj | Arr"
"""A JSON value or its replacement, as a tree or as raw text that includes any whitespace around it."""

_SPACE = rb"[ \t\n\r]*+"
_STRING = re.compile(_SPACE + rb'"(?:[^"\\]++|\\.)*+"' + _SPACE, re.DOTALL)
_SCALAR = re.compile(_SPACE + rb'(?:"(?:[^"\\]++|\\.)*+"|[^\[\]{},:"\x00-\x20]++)' + _SPACE, re.DOTALL)
_OPEN_OBJECT = re.compile(_SPACE + rb"\{" + _SPACE)
_OPEN_ARRAY = re.compile(_SPACE + rb"\[" + _SPACE)
_CLOSE_OBJECT = re.compile(rb"\}" + _SPACE)
_CLOSE_ARRAY = re.compile(rb"\]" + _SPACE)
_TEXT_OR_BRACKET = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[{\]}]' + _SPACE, re.DOTALL)
LEAD = 16
"""Maximum number of bytes that may precede the opening brace of a tree."""
EARLIER = ("earlier",)
"""Placeholder for the unknown faults of a file that did not come from the grammar. It counts as one fault."""
DEPTH = 64
"""Maximum nesting depth of a tree. Deeper values remain raw text."""


@dataclass(slots=True, eq=False)
class Obj:
    """A JSON object. Each of its ``members`` is a list ``[key, value]`` with a raw key."""

    members: list[list[Value]]
    head: bytes = b"{"
    foot: bytes = b"}"

    @property
    def parts(self) -> list[Any]:
        return self.members


@dataclass(slots=True, eq=False)
class Arr:
    """A JSON array."""

    items: list[Value]
    head: bytes = b"["
    foot: bytes = b"]"

    @property
    def parts(self) -> list[Any]:
        return self.items


def text(value: Value) -> bytes:
    if type(value) is bytes:
        return value
    if type(value) is Obj:
        # Most values are leaves. Checking their type here is faster than a recursive call.
        rows = [
            (key if type(key) is bytes else text(key)) + b":" + (item if type(item) is bytes else text(item))
            for key, item in value.members
        ]
        return value.head + b",".join(rows) + value.foot
    assert type(value) is Arr
    try:
        items = b",".join(value.items)  # type: ignore[arg-type]  # nearly always raw text
    except TypeError:
        items = b",".join(map(text, value.items))
    return value.head + items + value.foot


def decode_string(raw: Value) -> str:
    assert type(raw) is bytes
    text = json.loads(raw.decode())
    assert isinstance(text, str)
    return text


def written(text: str) -> bytes:
    return json.dumps(text, ensure_ascii=False).encode()


def copy(value: Value) -> Value:
    if type(value) is bytes:
        return value
    if type(value) is Obj:
        rows = [
            [key if type(key) is bytes else copy(key), item if type(item) is bytes else copy(item)]
            for key, item in value.members
        ]
        return Obj(rows, value.head, value.foot)
    assert type(value) is Arr
    items = [item if type(item) is bytes else copy(item) for item in value.items]
    return Arr(items, value.head, value.foot)


@dataclass(slots=True, eq=False)
class File:
    """A file in a form that mutations can change.

    ``root`` is the header object or arbitrary bytes, and ``padding`` follows it. ``length`` is the declared
    header length, or None for the actual length. ``raw`` is the whole file if it has no usable framing.
    ``faults`` names the deliberate faults. ``modest`` caches whether all offsets and sizes are small.
    """

    root: Value
    data: bytes = b""
    _: KW_ONLY
    padding: bytes = b""
    length: int | None = None
    raw: bytes | None = None
    faults: tuple[str, ...] = ()
    modest: bool | None = None

    def header(self) -> bytes:
        return text(self.root) + self.padding

    def render(self) -> bytes:
        if self.raw is not None:
            return self.raw
        header = text(self.root) + self.padding
        length = len(header) if self.length is None else self.length
        return b"%b%b%b" % (length.to_bytes(8, "little"), header, self.data)

    def copy(self) -> File:
        return File(
            copy(self.root),
            self.data,
            padding=self.padding,
            length=self.length,
            raw=self.raw,
            faults=self.faults,
        )


def parse(file: bytes) -> File:
    """Parse arbitrary bytes. ``parse(file).render() == file`` always holds."""
    if len(file) < 8:
        return File(b"", raw=file)
    length = int.from_bytes(file[:8], "little")
    declared: int | None = None
    if length <= len(file) - 8:
        header, data = file[8 : 8 + length], file[8 + length :]
    else:  # without a valid length, only the text can show where the header ends
        declared, header, data = length, file[8:], b""
    tree = _tree(header)
    if tree is None:
        return File(header, data, length=declared)
    root, end = tree
    if declared is not None:
        header, data = header[:end], header[end:]
    return File(root, data, padding=header[end:], length=declared)


def _tree(header: bytes) -> tuple[Value, int] | None:
    start = max(header.find(b"{", 0, LEAD), 0)
    for at in dict.fromkeys((start, 0)):
        try:
            root, end = _value(header, at, 0)
        except (_NoTreeError, RecursionError):
            continue
        if at and type(root) is Obj:
            root.head = header[:at] + root.head
        return root, end
    return None


class _NoTreeError(Exception):
    """The text cannot be parsed into a tree."""


def _value(data: bytes, at: int, depth: int) -> tuple[Value, int]:
    opening = _OPEN_OBJECT.match(data, at)
    if opening is not None:
        return _object(data, opening, depth) if depth < DEPTH else _raw_value(data, at)
    opening = _OPEN_ARRAY.match(data, at)
    if opening is not None:
        return _array(data, opening, depth) if depth < DEPTH else _raw_value(data, at)
    scalar = _SCALAR.match(data, at)
    if scalar is None:
        raise _NoTreeError
    return scalar.group(), scalar.end()


def _raw_value(data: bytes, at: int) -> tuple[bytes, int]:
    inside = 0
    for token in _TEXT_OR_BRACKET.finditer(data, at):
        first = token[0][:1]
        inside += (first in b"[{") - (first in b"]}")
        if inside == 0:
            return data[at : token.end()], token.end()
    raise _NoTreeError


def _object(data: bytes, opening: re.Match[bytes], depth: int) -> tuple[Obj, int]:
    def member(at: int) -> tuple[list[Value], int]:
        key = _STRING.match(data, at)
        if key is None or data[key.end() : key.end() + 1] != b":":
            raise _NoTreeError
        item, at = _value(data, key.end() + 1, depth + 1)
        return [key.group(), item], at

    members, closing = _list(data, opening.end(), _CLOSE_OBJECT, member)
    # Whitespace after the outermost object is padding, not part of the tree.
    foot = b"}" if depth == 0 else closing.group()
    return Obj(members, opening.group(), foot), closing.start() + len(foot)


def _array(data: bytes, opening: re.Match[bytes], depth: int) -> tuple[Arr, int]:
    items, closing = _list(data, opening.end(), _CLOSE_ARRAY, lambda at: _value(data, at, depth + 1))
    return Arr(items, opening.group(), closing.group()), closing.end()


def _list(
    data: bytes, at: int, close: re.Pattern[bytes], parse_part: Callable[[int], tuple[T, int]]
) -> tuple[list[T], re.Match[bytes]]:
    out: list[T] = []
    closing = close.match(data, at)
    while closing is None:
        part, at = parse_part(at)
        out.append(part)
        closing = close.match(data, at)
        if closing is None:
            if data[at : at + 1] != b",":
                raise _NoTreeError
            at += 1
            if close.match(data, at):
                raise _NoTreeError  # the tree cannot represent an extra comma
    return out, closing


class NoPlaceError(Exception):
    """The mutation does not apply to the file."""


Change = Callable[[random.Random, File], bool | None]
"""Changes a file in place. Raises NoPlaceError or returns False if it does not apply to the file."""


@dataclass(frozen=True)
class Mutation:
    """A change to a file."""

    name: str
    rules: tuple[str, ...]
    """Rules that the change targets, in addition to the rules of the features that it puts in."""
    change: Change
    valid: bool
    """Whether a valid file remains valid."""
    rare: bool = False
    """Whether the change is so expensive that it must be rare."""

    def apply(self, rng: random.Random, file: File) -> bool:
        try:
            done = self.change(rng, file)
        except NoPlaceError:
            return False
        return file.raw is None if done is None else done


def mutation(change: Change, *rules: str, valid: bool = False, rare: bool = False) -> Mutation:
    return Mutation(change.__name__.replace("_", "-"), rules, change, valid, rare)


def variation(*rules: str, rare: bool = False) -> Callable[[Change], Mutation]:
    return lambda change: mutation(change, *rules, valid=True, rare=rare)


def one(rng: random.Random, items: Sequence[T]) -> T:
    if not items:
        raise NoPlaceError
    return rng.choice(items)


def framed(file: File) -> bytes:
    if file.raw is not None:
        raise NoPlaceError
    return file.header()


def header(file: File) -> Obj:
    if type(file.root) is not Obj or file.raw is not None:
        raise NoPlaceError
    return file.root


@dataclass(slots=True)
class TensorEntry:
    """A tensor entry in its usual spelling. ``member`` is its ``[key, value]`` pair in the header object."""

    member: list[Value]
    obj: Obj
    dtype: bytes
    shape: list[int]
    begin: int
    end: int

    def put(self, field: bytes, value: Value) -> None:
        for member in self.obj.members:
            if member[0] == field:
                member[1] = value

    def move(self, begin: int, end: int) -> None:
        self.begin, self.end = begin, end
        self.put(b'"data_offsets"', numbers(begin, end))

    def reshape(self, shape: list[int]) -> None:
        self.shape = shape
        self.put(b'"shape"', numbers(*shape))

    def retype(self, dtype: bytes) -> None:
        self.dtype = dtype
        self.put(b'"dtype"', b'"%b"' % dtype)


def numbers(*values: int) -> Arr:
    return Arr([b"%d" % value for value in values])


def entry_tree(dtype: bytes, shape: list[int], begin: int, end: int) -> Obj:
    fields: list[list[Value]] = [[b'"dtype"', b'"%b"' % dtype], [b'"shape"', numbers(*shape)]]
    return Obj([*fields, [b'"data_offsets"', numbers(begin, end)]])


def metadata_tree(rng: random.Random) -> Obj:
    keys = rng.sample(META_KEYS, rng.choice((0, 1, 1, 2, 3)))
    decoded = {key.replace(b"\\u0041", b"A"): key for key in keys}  # decoded keys must be distinct (HDR-13)
    return Obj([[b'"%b"' % key, b'"%b"' % rng.choice(META_VALUES)] for key in decoded.values()])


def content(rng: random.Random, dtype: bytes, count: int) -> bytes:
    """Return random data for a tensor. BOOL tensors contain only zeros and ones (DAT-05)."""
    data = rng.randbytes(count)
    return bytes(b & 1 for b in data) if dtype == b"BOOL" else data


def pad(file: File) -> None:
    """Pad the header with spaces to a multiple of eight bytes, as most writers do (WRT-02)."""
    file.padding = b" " * (-len(file.header()) % 8)


def integers(value: Value) -> list[int] | None:
    if type(value) is not Arr:
        return None
    out = []
    for item in value.items:
        if type(item) is not bytes or not item.isdigit() or len(item) > 20:
            return None
        out.append(int(item))
    return out


def entry_of(member: list[Value]) -> TensorEntry | None:
    """Return the tensor entry of a member. Returns None for other members, or if the spelling is unusual."""
    obj = member[1]
    if type(obj) is not Obj or member[0] == RESERVED:
        return None
    dtype: bytes | None = None
    shape = offsets = None
    for key, value in obj.members:
        if key == b'"dtype"' and type(value) is bytes:
            dtype = value[1:-1]
        elif key == b'"shape"':
            shape = integers(value)
        elif key == b'"data_offsets"':
            offsets = integers(value)
    if dtype is None or shape is None or offsets is None or len(offsets) != 2:
        return None
    return TensorEntry(member, obj, dtype, shape, offsets[0], offsets[1])


def entries(file: File) -> list[TensorEntry]:
    if type(file.root) is not Obj or file.raw is not None:
        return []
    return [entry for member in file.root.members if (entry := entry_of(member)) is not None]


def whole(file: File) -> tuple[list[TensorEntry], list[list[Value]]]:
    """Return all entries and members. Raises NoPlaceError if a member has an unusual spelling."""
    found = entries(file)
    if type(file.root) is not Obj or len(found) + (metadata(file) is not None) != len(members(file)):
        raise NoPlaceError
    return found, file.root.members


def some(
    rng: random.Random, file: File, fits: Callable[[TensorEntry], object] = lambda _: True
) -> TensorEntry:
    return one(rng, [entry for entry in entries(file) if fits(entry)])


def members(file: File) -> list[list[Value]]:
    return file.root.members if type(file.root) is Obj and file.raw is None else []


def metadata(file: File) -> list[Value] | None:
    return next((member for member in members(file) if member[0] == RESERVED), None)


def size(dtype: bytes, shape: list[int]) -> int | None:
    """Return the size in bytes, or None if the dtype is unknown or the bits do not fill whole bytes."""
    bits = BITS.get(dtype)
    if bits is None:
        return None
    total = prod(shape) * bits
    return total // 8 if total % 8 == 0 else None


def shift(file: File, position: int, by: int, *, but: TensorEntry | None = None) -> None:
    """Move every range that begins at ``position`` or later. No range may end below zero."""
    for entry in entries(file):
        if entry.begin >= position and (but is None or entry.member is not but.member):
            far = by if entry.end < 0 else max(by, -entry.end)
            entry.move(entry.begin + far, entry.end + far)


def resize(file: File, entry: TensorEntry, count: int) -> None:
    """Resize an entry's range and move all later ranges, so that the layout stays contiguous."""
    old = entry.end
    if not entry.begin <= old <= len(file.data):  # an earlier fault has changed this entry
        entry.move(entry.begin, entry.begin + count)
        return
    by = entry.begin + count - old
    file.data = (
        file.data[: entry.begin] + file.data[entry.begin : old][:count] + bytes(max(by, 0)) + file.data[old:]
    )
    shift(file, old, by, but=entry)
    entry.move(entry.begin, entry.begin + count)


def strings(file: File) -> list[tuple[list[Value], int]]:
    """Return the strings among the keys and values of all members, as pairs (member, 0 or 1)."""
    out: list[tuple[list[Value], int]] = []
    todo: list[Value] = [file.root]
    while todo:
        value = todo.pop()
        if type(value) is Obj:
            for member in value.members:
                out.append((member, 0))
                if type(member[1]) is bytes and member[1].strip()[:1] == b'"':
                    out.append((member, 1))
                todo.append(member[1])
    return out if file.raw is None else []


def spoilable(rng: random.Random, file: File) -> list[tuple[list[Value], int]]:
    """Return strings to corrupt.

    Most of them may contain any text, so corrupting such a string breaks only one rule.
    """
    return strings(file) if rng.random() < 0.4 else free_strings(file) or strings(file)


def free_strings(file: File) -> list[tuple[list[Value], int]]:
    """Return the strings that may contain any text: tensor names, and the keys and values of the metadata."""
    if type(file.root) is not Obj or file.raw is not None:
        return []
    out: list[tuple[list[Value], int]] = []
    for member in file.root.members:
        if text(member[0]).strip() != RESERVED:
            out.append((member, 0))
        elif type(member[1]) is Obj:
            out += [(row, place) for row in member[1].members for place in (0, 1)]
    return out


def into_string(rng: random.Random, member: list[Value], place: int, junk: bytes) -> None:
    """Insert bytes into a raw string. Raises NoPlaceError if it has no quotes."""
    value = member[place]
    if type(value) is not bytes:
        raise NoPlaceError
    first, last = value.find(b'"'), value.rfind(b'"')
    if first < 0 or last <= first:
        raise NoPlaceError
    at = rng.choice((first + 1, last))
    member[place] = value[:at] + junk + value[at:]


def trees(file: File) -> list[Obj | Arr]:
    out: list[Obj | Arr] = []
    todo: list[Value] = [file.root] if file.raw is None else []
    while todo:
        value = todo.pop()
        if type(value) is Obj:
            out.append(value)
            todo += [member[1] for member in value.members]
        elif type(value) is Arr:
            out.append(value)
            todo += value.items
    return out


def values(file: File) -> list[tuple[list[Value], int]]:
    """Return every value inside an object or array, as pairs (list, index)."""
    out: list[tuple[list[Value], int]] = []
    for tree in trees(file):
        if type(tree) is Obj:
            out += [(member, 1) for member in tree.members]
        elif type(tree) is Arr:
            out += [(tree.items, at) for at in range(len(tree.items))]
    return out


def leaves(file: File) -> list[tuple[list[Value], int]]:
    return [(holder, place) for holder, place in values(file) if type(holder[place]) is bytes]


def some_leaf(rng: random.Random, file: File) -> tuple[list[Value], int, bytes]:
    holder, place = one(rng, leaves(file))
    value = holder[place]
    assert type(value) is bytes
    return holder, place, value


def some_member(rng: random.Random, file: File) -> list[Value]:
    return one(rng, [member for member, place in strings(file) if place == 0])


def escape(rng: random.Random, member: list[Value], place: int) -> bool:
    """Escape one letter, digit or underscore of a plain string."""
    value = member[place]
    if type(value) is not bytes or b"\\" in value:
        return False
    spots = [at for at, byte in enumerate(value) if byte == 95 or 48 <= byte <= 57 or 65 <= byte <= 122]
    spots = [at for at in spots if value[at] not in b"[\\]^`"]
    if not spots:
        return False
    at = rng.choice(spots)
    form = rng.choice((b"\\u%04x", b"\\u%04X"))
    member[place] = value[:at] + form % value[at] + value[at + 1 :]
    return True
