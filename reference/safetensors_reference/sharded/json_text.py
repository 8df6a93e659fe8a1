"""The JSON reader for an index: it hands on the two maps of the index and keeps nothing else.

An index may be as large as a header may be. Objects that are kept as nodes cost many times their text, so
the maps are read member by member, and whatever has no meaning is checked and dropped.
"""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

from ..header.json_text import JsonReader, Node

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..header.json_text import Kind, Report

_BLOCK = 1 << 20


def not_utf8(data: bytes) -> tuple[int, int, str] | None:
    """Return (start, end, reason) of the first bytes that are not UTF-8, without holding a decoded copy."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    for start in range(0, len(data), _BLOCK):
        pending = len(decoder.getstate()[0])
        try:
            decoder.decode(data[start : start + _BLOCK], start + _BLOCK >= len(data))
        except UnicodeDecodeError as err:
            at = start - pending + err.start
            return at, at + err.end - err.start, err.reason
    return None


class IndexJsonReader(JsonReader):
    """Reads the root object with ``members(1)``, and an object that is a member of it with ``members(2)``.

    ``members(1)`` hands out objects and arrays unread, as empty nodes: the caller must read or ``skip`` one
    before asking for the next member. Containers further down are checked against the grammar and for keys
    that come twice, which go to ``duplicate(key)``; their nodes come out empty.
    """

    def __init__(
        self,
        data: bytes,
        report: Report,
        duplicate: Callable[[Node], None],
    ) -> None:
        super().__init__(data, report)
        self._duplicate = duplicate

    def value(self, depth: int) -> Node:
        """Read one value; ``depth`` counts the containers around it."""
        self.skip_space()
        kind: Kind
        if self._peek() == b"{":
            kind = "object"
        elif self._peek() == b"[":
            kind = "array"
        else:
            return super().value(depth)
        node = Node(kind, [], self.pos, self.pos)
        if depth > 1:
            self._drop(node, depth + 1)
        return node

    def skip(self, node: Node) -> None:
        """Read a member of the root object to its end, if it is an object or array."""
        if node.kind in ("object", "array"):
            self._drop(node, 2)

    def _drop(self, node: Node, depth: int) -> None:
        """Read the container that starts at ``pos`` and keep nothing of it but its end."""
        if node.kind == "array":
            self._drop_items(depth)
        else:
            seen: set[str] = set()
            for key, _ in self.members(depth):
                if key.text in seen:
                    self._duplicate(key)
                seen.add(key.text)
        node.end = self.pos

    def _drop_items(self, depth: int) -> None:
        self._enter(depth)
        self.pos += 1
        self.skip_space()
        if self._peek() == b"]":
            self.pos += 1
            return
        self.value(depth)
        while self._more(b"]", "array"):
            self.value(depth)
