"""A strict JSON reader (RFC 8259) over bytes that reports every fault with its byte range.

It differs from general JSON libraries in what a header needs: byte positions of every token, exact numbers
(kept as text), no limit on digits, a fixed depth limit (HDR-16), strings checked for control characters
(HDR-14), escapes and surrogates (HDR-15), and going on after faults that leave the structure clear.
Whether keys repeat is decided by the caller, who knows what the object means.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NoReturn

Report = Callable[[str, str, str, int, int, str | None], None]
Kind = Literal["object", "array", "string", "number", "true", "false", "null", "invalid"]

MAX_DEPTH = 127
"""Deepest nesting that is read; the official parser stops at the 128th level (HDR-16)."""

_SPACE = re.compile(rb"[ \t\n\r]*")
_PLAIN = re.compile(rb'"([^"\\\x00-\x1f]*+)"')
_ANY_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_WORD = re.compile(rb"[-+.0-9A-Za-z_$]+")
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?")
_NUMBERS = re.compile(
    rb"\[[ \t\n\r]*+(?:%(n)s[ \t\n\r]*+)(?:,[ \t\n\r]*+%(n)s[ \t\n\r]*+)*+\]" % {b"n": _NUMBER.pattern}
)
_PARTS = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([-+]?[0-9]+))?")
LONG = 4096
"""Length in bytes from which an array of numbers is kept as text."""
_INTEGER = re.compile(rb"0|[1-9][0-9]*+")
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

    ``value`` is the decoded text of a string, the literal text of a number, a list of nodes for an array,
    a list of (key, value) node pairs for an object, None otherwise. ``start`` and ``end`` are byte
    positions in the header, end exclusive. ``exact`` is False for a string with a fault in it: what stands
    for the faulty part is no reason to call two strings equal.
    """

    kind: Kind
    value: object
    start: int
    end: int
    exact: bool = True

    @property
    def items(self) -> list[Node]:
        """Elements of an array."""
        if isinstance(self.value, NumberArray):
            self.value = self.value.nodes()
        assert isinstance(self.value, list)
        return self.value

    @property
    def members(self) -> list[tuple[Node, Node]]:
        """Key and value nodes of an object, in file order, repeated keys included."""
        assert isinstance(self.value, list)
        return self.value

    @property
    def text(self) -> str:
        """Decoded string, or the literal spelling of a number."""
        assert isinstance(self.value, str)
        return self.value


class Abandon(Exception):  # noqa: N818 - control flow, users never see it
    """The structure cannot be followed any further; the reason is already reported."""


class JsonReader:
    """Reads JSON values out of ``data`` from position ``pos`` on.

    ``report(code, rule, message, start, end, choice)`` is called for every fault, with positions in ``data``
    and the choice under which other readers take it for none.
    """

    def __init__(self, data: bytes, report: Report) -> None:
        self.data = data
        self.report = report
        self.pos = 0

    def skip_space(self) -> None:
        """Move over JSON whitespace (HDR-08)."""
        # Most tokens stand side by side, and a look at one byte costs a third of a match.
        if self.data[self.pos : self.pos + 1] > b" ":
            return
        match = _SPACE.match(self.data, self.pos)
        assert match is not None
        self.pos = match.end()

    def syntax(self, message: str, start: int, end: int) -> None:
        """Report a breach of the JSON grammar (HDR-07)."""
        self.report("HDR_NOT_JSON", "HDR-07", message, start, end, None)

    def members(self, depth: int) -> Iterator[tuple[Node, Node]]:
        """Yield the members of the object that starts at ``pos``, one at a time; ``pos`` ends behind it.

        ``depth`` counts the open containers, this object included. Values are handed out as they are read,
        so a caller that drops them keeps memory small.
        """
        self._enter(depth)
        self.pos += 1
        self.skip_space()
        if self._peek() == b"}":
            self.pos += 1
            return
        while True:
            self.skip_space()
            if self._peek() != b'"':
                self._unexpected("a key in double quotes")
            key = self._string()
            self.skip_space()
            if self._peek() != b":":
                self._unexpected("a colon after the key")
            self.pos += 1
            yield key, self.value(depth)
            if not self._more(b"}", "object"):
                return

    def value(self, depth: int) -> Node:
        """Read one value; ``depth`` counts the containers around it. Raises Abandon after a fatal fault."""
        self.skip_space()
        start = self.pos
        first = self._peek()
        if first == b'"':
            return self._string()
        if first == b"{":
            members = list(self.members(depth + 1))
            return Node("object", members, start, self.pos)
        if first == b"[":
            return self._array(depth + 1)
        return self._word()

    def _array(self, depth: int) -> Node:
        self._enter(depth)
        start = self.pos
        numbers = _NUMBERS.match(self.data, start)
        if numbers is not None:
            self.pos = numbers.end()
            array = NumberArray(self.data, start, self.pos)
            return Node("array", array if self.pos - start > LONG else array.nodes(), start, self.pos)
        self.pos += 1
        items: list[Node] = []
        self.skip_space()
        if self._peek() == b"]":
            self.pos += 1
            return Node("array", items, start, self.pos)
        while True:
            items.append(self.value(depth))
            if not self._more(b"]", "array"):
                return Node("array", items, start, self.pos)

    def _more(self, closer: bytes, what: str) -> bool:
        """Read the comma or closer behind an element; True when another element follows."""
        self.skip_space()
        char = self._peek()
        if char == closer:
            self.pos += 1
            return False
        if char != b",":
            self._unexpected(f"a comma or the end of the {what}")
        comma = self.pos
        self.pos += 1
        self.skip_space()
        if self._peek() == closer:
            self.syntax(f"comma before the end of the {what}", comma, comma + 1)
            self.pos += 1
            return False
        return True

    def _enter(self, depth: int) -> None:
        if depth > MAX_DEPTH:
            self.report(
                "HDR_TOO_DEEP",
                "HDR-16",
                f"more than {MAX_DEPTH} levels of nesting; the rest of the header was not read",
                self.pos,
                self.pos + 1,
                "deep-nesting",
            )
            raise Abandon

    def _peek(self) -> bytes:
        return self.data[self.pos : self.pos + 1]

    def _unexpected(self, wanted: str) -> NoReturn:
        char = self._peek()
        if not char:
            self.syntax(f"the header ends where {wanted} should stand", self.pos, self.pos)
        else:
            shown = repr(char)[2:-1] if char != b"'" else "'"
            self.syntax(f"{shown} stands where {wanted} should stand", self.pos, self.pos + 1)
        raise Abandon

    def _word(self) -> Node:
        """Read a number, true, false or null; an unknown word is reported and skipped."""
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
        shown = token[:40].decode() + ("…" if len(token) > 40 else "")
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
            self.syntax("a string without closing quote", self.pos, len(self.data))
            raise Abandon
        start, self.pos = match.start(), match.end()
        text, exact = self._decode(start + 1, self.pos - 1)
        return Node("string", text, start, self.pos, exact)

    def _decode(self, start: int, end: int) -> tuple[str, bool]:
        """Decode a string body, reporting control characters and bad escapes: (text, nothing was wrong)."""
        out: list[str] = []
        exact = True
        done = start
        while (match := _SPECIAL.search(self.data, done, end)) is not None:
            text, sound = _text(self.data[done : match.start()])
            out.append(text)
            exact = exact and sound
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
                self._bad_escape(f"\\{repr(token[1:])[2:-1]} is no JSON escape", match)
                out.append(token.decode("utf-8", "surrogateescape"))
            else:
                self._control(token, match.start())
                out.append(token.decode())
        text, sound = _text(self.data[done:end])
        out.append(text)
        return "".join(out), exact and sound

    def _control(self, run: bytes, at: int) -> None:
        """Report a run of raw control characters (HDR-14)."""
        more = f" and {len(run) - 1:,} more" if len(run) > 1 else ""
        text = f"raw control character U+{run[0]:04X}{more} in a string"
        self.report("HDR_NOT_JSON", "HDR-14", text, at, at + len(run), None)

    def _bad_escape(self, message: str, match: re.Match[bytes], choice: str | None = None) -> None:
        self.report("HDR_NOT_JSON", "HDR-15", message, match.start(), match.end(), choice)


def _text(raw: bytes) -> tuple[str, bool]:
    """Decode UTF-8; False when it is none, the bad bytes then stand as lone surrogates."""
    try:
        return raw.decode("utf-8"), True
    except UnicodeDecodeError:
        return raw.decode("utf-8", "surrogateescape"), False


class NumberArray:
    """A long array of nothing but numbers, turned into nodes only when somebody asks for them.

    An ignored field may hold millions of numbers, and a node is many times as large as a digit (LIM-03).
    """

    __slots__ = ("_data", "_end", "_start")

    def __init__(self, data: bytes, start: int, end: int) -> None:
        self._data, self._start, self._end = data, start, end

    def texts(self) -> Iterator[str]:
        """Yield the spelling of each number."""
        for match in _NUMBER.finditer(self._data, self._start, self._end):
            yield match.group().decode()

    def nodes(self) -> list[Node]:
        """Return a node for each number."""
        matches = _NUMBER.finditer(self._data, self._start, self._end)
        return [Node("number", m.group().decode(), m.start(), m.end()) for m in matches]


def whole_number(text: str) -> bool:
    """True for the spelling of a JSON number whose value is a whole number of at least 0 (1.0, 1e3, -0).

    No digits are converted, however many there are, except a few of the exponent.
    """
    match = _PARTS.fullmatch(text)
    assert match is not None
    sign, whole, fraction, exponent = (
        match.group(1),
        match.group(2),
        match.group(3) or "",
        match.group(4) or "",
    )
    digits = (whole + fraction).rstrip("0")
    if not digits.lstrip("0"):
        return True
    # Beyond ten digits of the exponent its sign decides: no header holds a number of that many digits.
    power = int(exponent.lstrip("+-").lstrip("0")[:10] or "0") * (-1 if exponent.startswith("-") else 1)
    return not sign and len(digits) - len(whole) <= power


def plain_integer(node: Node) -> bool:
    """True when the node is spelled as a plain non-negative integer (SHP-02): no sign, point or exponent."""
    return node.kind == "number" and _INTEGER.fullmatch(node.text.encode()) is not None
