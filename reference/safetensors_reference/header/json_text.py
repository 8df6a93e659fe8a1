"""A strict JSON reader (RFC 8259) for bytes that reports every fault with its byte range.

Unlike general JSON libraries, it provides everything that a header needs: byte positions of every token,
exact numbers (kept as text) with any number of digits, a fixed depth limit (HDR-16), checks of strings for
control characters (HDR-14), escapes and surrogates (HDR-15), and recovery after faults that leave the
structure clear. Repeated keys are not reported here, because only the caller knows what an object means.

A node needs many times as much memory as its text (LIM-03). A container of more than ``SHORT`` bytes
therefore stores no nodes. The reader checks its text once, and reads it again on each access, one member at a
time.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal, NoReturn

from ..text import shorten

Report = Callable[[str, str, str, int, int, str | None], None]
Kind = Literal["object", "array", "string", "number", "true", "false", "null", "invalid"]

MAX_DEPTH = 127
"""Maximum nesting depth. The official parser rejects the 128th level (HDR-16)."""

_SPACE = re.compile(rb"[ \t\n\r]*")
_PLAIN = re.compile(rb'"([^"\\\x00-\x1f]*+)"')
_ANY_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_WORD = re.compile(rb"[-+.0-9A-Za-z_$]+")
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?")
_PARTS = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([-+]?[0-9]+))?")
SHORT = 512
"""Size in bytes up to which a container stores its nodes."""
PIECES = 4096
"""Number of string parts that are joined at a time. Each part is a Python object, however short it is."""
BLOCK = 4096
"""Number of bytes or characters that are converted at a time."""
_SHARED = 1000
UTF8_BLOCK = 1 << 20
_TOKEN = re.compile(rb'[ \t\n\r,]*+([]{}[:]|"(?:[^"\\]++|\\.)*+"|[-+.0-9A-Za-z_$]++)', re.DOTALL)
_LARGE = re.compile(rb"[0-9]{200}|[eE]\+?0*+[1-9][0-9]{2}")
"""Matches inside every number that is too large for a double. Numbers without a match are below 1e300."""
_INTEGER = re.compile(rb"0|[1-9][0-9]*+")
_SHORT_INTEGER = rb"[ \t\n\r]*+(?:0|[1-9][0-9]{0,18}+)[ \t\n\r]*+"
_INTEGERS = re.compile(rb"\[%b(?:,%b)*+\]" % (_SHORT_INTEGER, _SHORT_INTEGER))
_SPECIAL = re.compile(rb'[\x00-\x1f]++|\\(?:u[0-9a-fA-F]{4}|["\\/bfnrt]|.)', re.DOTALL)
_LOW = re.compile(rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_ESCAPES = {
    b'\\"': '"',
    b"\\\\": "\\",
    b"\\/": "/",
    b"\\b": "\b",
    b"\\f": "\f",
    b"\\n": "\n",
    b"\\r": "\r",
    b"\\t": "\t",
}


@dataclass(slots=True)
class Node:
    """One JSON value.

    ``value`` is the decoded text of a string, the literal text of a number, the list of nodes of an array, or
    the list of (key, value) pairs of nodes of an object. For a long array or object, ``value`` is a ``Long``.
    For other nodes, it is None.

    ``start`` and ``end`` are byte positions in the header; ``end`` is exclusive. ``exact`` is False for a
    string with a fault. The text of such a string is only a replacement, which may accidentally equal another
    string.
    """

    kind: Kind
    value: object
    start: int
    end: int
    exact: bool = True

    @property
    def items(self) -> Iterable[Node]:
        if isinstance(self.value, Long):
            return self.value.items()
        assert isinstance(self.value, list)
        return self.value

    @property
    def members(self) -> Iterable[tuple[Node, Node]]:
        """The key and value nodes of an object in file order, including repeated keys."""
        if isinstance(self.value, Long):
            return self.value.members()
        assert isinstance(self.value, list)
        return self.value

    @property
    def whole(self) -> bool:
        return not isinstance(self.value, Unfinished)

    @property
    def count(self) -> int:
        return len(self.value) if isinstance(self.value, list) else sum(1 for _ in self.items)

    @property
    def text(self) -> str:
        """Decoded text of a string, or the literal text of a number."""
        assert isinstance(self.value, str)
        return self.value


class Abandon(Exception):  # noqa: N818 - control flow, invisible to users
    """Raised when the structure can no longer be followed. The reason has already been reported."""


class TooDeep(Abandon):
    """Raised when a value is nested too deeply."""

    key: Node | None = None  # of the value, if it is a member of an object
    at: int = 0  # start of the value


class JsonReader:
    """Reads JSON values from ``data``, starting at position ``pos``.

    Calls ``report(code, rule, message, start, end, choice)`` for every fault. Positions refer to ``data``.
    ``choice`` names the choice under which other readers accept the fault.
    """

    def __init__(self, data: bytes, report: Report) -> None:
        self.data = data
        self.report = report
        self.pos = 0

    def skip_space(self) -> bytes:
        """Skip JSON whitespace (HDR-08) and return the next byte, or empty bytes at the end."""
        # Most tokens are adjacent, and testing one byte takes a third of the time of a regular expression
        # match.
        char = self.data[self.pos : self.pos + 1]
        if char > b" ":
            return char
        match = _SPACE.match(self.data, self.pos)
        assert match is not None
        self.pos = match.end()
        return self._peek()

    def syntax(self, message: str, start: int, end: int) -> None:
        self.report("HDR_NOT_JSON", "HDR-07", message, start, end, None)

    def members(self, depth: int) -> Iterator[tuple[Node, Node]]:
        """Yield the members of the object at ``pos`` one at a time, and advance ``pos`` to its end.

        ``depth`` is the number of open containers, including this object. Values are yielded as they are
        read, so a caller that drops them needs little memory.
        """
        more = self._enter(depth, b"}")
        while more:
            if self.skip_space() != b'"':
                self._unexpected("a key in double quotes")
            key = self._string()
            if self.skip_space() != b":":
                self._unexpected("a colon after the key")
            self.pos += 1
            yield key, self._inner(depth, key)
            more = self._more(b"}", "object")

    def elements(self, depth: int) -> Iterator[Node]:
        """Yield the elements of the array at ``pos`` in the same way as ``members``."""
        more = self._enter(depth, b"]")
        while more:
            yield self._inner(depth, None)
            more = self._more(b"]", "array")

    def value(self, depth: int) -> Node:
        """Read one value inside ``depth`` containers. Raises Abandon after a fatal fault."""
        first = self.skip_space()
        if first == b'"':
            return self._string()
        if first == b"{":
            return self._container("object", depth + 1)
        if first == b"[":
            return self._container("array", depth + 1)
        return self._word()

    def _container(self, kind: Kind, depth: int) -> Node:
        """Read a container. If it is long, skip simple members and store none."""
        start = self.pos
        kept: list[object] | None = []
        for item in self.members(depth) if kind == "object" else self.elements(depth):
            if kept is not None:
                kept.append(item)
                if self.pos - start <= SHORT:
                    continue
            kept = None
            match = _simple_members(kind, min(2, MAX_DEPTH - depth)).match(self.data, self.pos)
            assert match is not None
            self.pos = match.end()
        return Node(kind, Long(self.data, start, self.pos, depth) if kept is None else kept, start, self.pos)

    def _inner(self, depth: int, key: Node | None) -> Node:
        at = self.pos
        try:
            return self.value(depth)
        except TooDeep as stop:
            stop.key, stop.at = key, at
            raise

    def _more(self, closer: bytes, what: str) -> bool:
        char = self.skip_space()
        if char == closer:
            self.pos += 1
            return False
        if char != b",":
            self._unexpected(f"a comma or the end of the {what}")
        comma = self.pos
        self.pos += 1
        if self.skip_space() == closer:
            self.syntax(f"trailing comma in the {what}", comma, comma + 1)
            self.pos += 1
            return False
        return True

    def _enter(self, depth: int, closer: bytes) -> bool:
        """Enter the container at ``pos``, and return whether anything is in it."""
        if depth > MAX_DEPTH:
            self.report(
                "HDR_TOO_DEEP",
                "HDR-16",
                f"more than {MAX_DEPTH} levels of nesting; the rest of the header was not read",
                self.pos,
                self.pos + 1,
                "deep-nesting",
            )
            raise TooDeep
        self.pos += 1
        empty = self.skip_space() == closer
        self.pos += empty
        return not empty

    def _peek(self) -> bytes:
        return self.data[self.pos : self.pos + 1]

    def _unexpected(self, wanted: str) -> NoReturn:
        char = self._peek()
        if not char:
            self.syntax(f"expected {wanted}, found the end of the header", self.pos, self.pos)
        else:
            shown = repr(char)[2:-1] if char != b"'" else "'"
            self.syntax(f"expected {wanted}, found {shown}", self.pos, self.pos + 1)
        raise Abandon

    def _word(self) -> Node:
        match = _WORD.match(self.data, self.pos)
        if match is None:
            self._unexpected("a value")
        start, end, token = match.start(), match.end(), match.group()
        self.pos = end
        if token in (b"true", b"false", b"null"):
            kind: Kind = token.decode()  # type: ignore[assignment]
            return Node(kind, None, start, end)
        if _NUMBER.fullmatch(token):
            return Node("number", token.decode(), start, end)
        shown = shorten(token.decode(), 40)
        self.syntax(f"{shown} is not a JSON value", start, end)
        return Node("invalid", shown, start, end)

    def _string(self) -> Node:
        match = _PLAIN.match(self.data, self.pos)
        if match is not None:
            start, self.pos = match.start(), match.end()
            text, exact = _text(match.group(1))
            return Node("string", text, start, self.pos, exact)
        match = _ANY_STRING.match(self.data, self.pos)
        if match is None:
            self.syntax("unterminated string", self.pos, len(self.data))
            raise Abandon
        start, self.pos = match.span()
        del match
        text, exact = self._decode(start + 1, self.pos - 1)
        return Node("string", text, start, self.pos, exact)

    def _decode(self, start: int, end: int) -> tuple[str, bool]:
        """Decode the body of a string and report its faults. Return the text and whether it is valid."""
        joined: list[str] = []
        out: list[str] = []
        exact = True
        done = start
        while (match := _SPECIAL.search(self.data, done, end)) is not None:
            if match.start() > done:
                text, sound = _text(self.data[done : match.start()])
                out.append(text)
                exact = exact and sound
            if len(out) >= PIECES:
                joined.append("".join(out))
                out.clear()
            done = match.end()
            token = match.group()
            if token in _ESCAPES:
                out.append(_ESCAPES[token])
            elif token[:2] == b"\\u" and len(token) == 6:
                unit = int(token[2:], 16)
                low = _LOW.match(self.data, done, end) if 0xD800 <= unit < 0xDC00 else None
                if low is not None:
                    unit = 0x10000 + ((unit - 0xD800) << 10) + (int(low.group()[2:], 16) - 0xDC00)
                    done = low.end()
                elif 0xD800 <= unit < 0xE000:
                    exact = False
                    text = f"lone surrogate escape {token.decode()}"
                    self._bad_escape(text, match, "lone-surrogates")
                out.append(chr(unit))
            elif token[:1] == b"\\":
                exact = False
                self._bad_escape(f"\\{repr(token[1:])[2:-1]} is not a JSON escape", match)
                out.append(token.decode("utf-8", "surrogateescape"))
            else:
                more = f" and {len(token) - 1:,} more" if len(token) > 1 else ""
                text = f"raw control character U+{token[0]:04X}{more} in a string"
                self.report("HDR_NOT_JSON", "HDR-14", text, match.start(), match.end(), None)
                out.append(token.decode())
        text, sound = _text(self.data[done:end])
        return "".join((*joined, *out, text)), exact and sound

    def _bad_escape(self, message: str, match: re.Match[bytes], choice: str | None = None) -> None:
        self.report("HDR_NOT_JSON", "HDR-15", message, match.start(), match.end(), choice)


def _text(raw: bytes) -> tuple[str, bool]:
    try:
        return raw.decode("utf-8"), True
    except UnicodeDecodeError:
        return raw.decode("utf-8", "surrogateescape"), False


def find_not_utf8(data: bytes) -> tuple[int, int, str] | None:
    """Return (start, end, reason) of the first bytes that are not UTF-8, without creating a decoded copy."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    for start in range(0, len(data), UTF8_BLOCK):
        pending = len(decoder.getstate()[0])
        try:
            decoder.decode(data[start : start + UTF8_BLOCK], start + UTF8_BLOCK >= len(data))
        except UnicodeDecodeError as err:
            at = start - pending + err.start
            return at, at + err.end - err.start, err.reason
    return None


@cache
def _simple_members(kind: Kind, levels: int) -> re.Pattern[bytes]:
    space, string, end = rb"[ \t\n\r]*+", rb'"[^"\\\x00-\x1f]*+"', rb"(?![-+.0-9A-Za-z_$])"
    value = rb"(?:%b|(?:%b|true|false|null)%b)" % (string, _NUMBER.pattern, end)
    for level in range(levels + 1):
        pair = string + space + b":" + space + value
        if level == levels:
            break
        array, members = (rb"(?:%b(?:%b,%b%b)*+%b)?+" % (x, space, space, x, space) for x in (value, pair))
        value = rb"(?:%b|\[%b%b\]|\{%b%b\})" % (value, space, array, space, members)
    return re.compile(rb"(?:%b,%b%b)*+" % (space, space, pair if kind == "object" else value))


class _IntegerCache(dict[bytes, int]):
    def __missing__(self, text: bytes) -> int:
        value = int(text)
        if len(self) < _SHARED:
            self[text] = value
        return value


class Integers:
    """Comma-separated decimal integers, stored as a part of a longer text."""

    def __init__(self, text: bytes | bytearray, start: int, end: int) -> None:
        self._text, self._start, self._end = text, start, end

    def __len__(self) -> int:
        return self._text.count(b",", self._start, self._end) + (self._start < self._end)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Integers) and self._digits() == other._digits()

    __hash__ = None  # type: ignore[assignment]

    def _digits(self) -> bytes:
        return bytes(self._text[self._start : self._end])

    def __iter__(self) -> Iterator[int]:
        known = _IntegerCache()
        start, end = self._start, self._end
        while start < end:
            comma = -1 if end - start <= BLOCK else self._text.rfind(b",", start, start + BLOCK)
            stop = end if comma < 0 else comma
            yield from map(known.__getitem__, bytes(self._text[start:stop]).split(b","))
            start = stop + 1


class Long:
    """A long container, whose nodes are not stored. Each access reads the nodes again, one at a time."""

    __slots__ = ("_data", "_depth", "_end", "_start")

    def __init__(self, data: bytes, start: int, end: int, depth: int) -> None:
        self._data, self._start, self._end, self._depth = data, start, end, depth

    def items(self) -> Iterator[Node]:
        return _silent(self._data, self._start).elements(self._depth)

    def members(self) -> Iterator[tuple[Node, Node]]:
        return _silent(self._data, self._start).members(self._depth)

    def integers(self) -> Integers | None:
        """Return the elements if this is an array of plain integers below 10^19, otherwise None."""
        if _INTEGERS.fullmatch(self._data, self._start, self._end) is None:
            return None
        return Integers(self._data, self._start + 1, self._end - 1)

    def large_numbers(self) -> Iterator[tuple[tuple[str | int, ...], Node]]:
        """Yield each number at any depth that may not fit into a double, with its path in the container."""
        if _LARGE.search(self._data, self._start, self._end) is None:
            return
        path: list[int] = []  # index in an array, or position of the key in an object
        objects: list[bool] = []
        wants_key = False
        for match in _TOKEN.finditer(self._data, self._start, self._end):
            at, end = match.span(1)
            first = self._data[at : at + 1]
            if first == b":":
                continue
            if wants_key and first != b"}":
                path[-1], wants_key = at, False
                continue
            if first in b"]}":
                path.pop()
                objects.pop()
            else:
                if objects and not objects[-1]:
                    path[-1] += 1
                if first in b"[{":
                    path.append(-1)
                    objects.append(first == b"{")
                elif first != b'"' and _LARGE.search(self._data, at, end):
                    steps = zip(path, objects, strict=True)
                    yield tuple(self._at(p).text if keyed else p for p, keyed in steps), self._at(at)
            wants_key = bool(objects) and objects[-1]

    def _at(self, place: int) -> Node:
        return _silent(self._data, place).value(0)


class Unfinished(Long):
    """A container that was read only up to and including a value that is nested too deeply."""

    __slots__ = ()

    def items(self) -> Iterator[Node]:
        try:
            yield from super().items()
        except TooDeep as stop:
            if stop.at:
                yield unfinished(self._data, stop.at, self._end, self._depth)

    def members(self) -> Iterator[tuple[Node, Node]]:
        try:
            yield from super().members()
        except TooDeep as stop:
            if stop.key is not None:
                yield stop.key, unfinished(self._data, stop.at, self._end, self._depth)


def unfinished(data: bytes, at: int, end: int, depth: int) -> Node:
    """Return the container that begins at ``at`` inside ``depth`` others and was read up to ``end``."""
    reader = _silent(data, at)
    first = reader.skip_space()
    start = reader.pos
    return Node(
        "object" if first == b"{" else "array", Unfinished(data, start, end, depth + 1), start, end + 1
    )


def _silent(data: bytes, pos: int) -> JsonReader:
    reader = JsonReader(data, lambda *_: None)
    reader.pos = pos
    return reader


def whole_number(text: str) -> bool:
    """Return whether a JSON number is a whole number of at least 0, such as 1.0, 1e3 or -0."""
    match = _PARTS.fullmatch(text)
    assert match is not None
    sign, whole, fraction, exponent = match.groups("")
    digits = (whole + fraction).rstrip("0")
    if not digits.lstrip("0"):
        return True
    # If the exponent has more than ten digits, only its sign matters, because no header contains that many
    # digits.
    power = int(exponent.lstrip("+-").lstrip("0")[:10] or "0") * (-1 if exponent.startswith("-") else 1)
    return not sign and len(digits) - len(whole) <= power


def plain_integer(node: Node) -> bool:
    """Return whether a node is an integer without a sign, decimal point or exponent (SHP-02)."""
    return node.kind == "number" and _INTEGER.fullmatch(node.text.encode()) is not None
