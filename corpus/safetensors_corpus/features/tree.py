"""A tree that represents a file and preserves its spelling. The leaves are raw bytes and may be invalid."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, TypeAlias, TypeVar

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
