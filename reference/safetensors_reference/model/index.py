"""Reads a sharded index and finds every fault that can be detected without opening a shard.

An untrusted index decides which files a loader opens. Shard names (IDX-04, IDX-05, IDX-07) are therefore
checked as text, in the same way on every system and before any file is accessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from urllib.parse import unquote

from ..files.names import SUFFIX
from ..header.entries import describe
from ..header.json_text import Abandon, JsonReader, Kind, Node, Report, find_not_utf8
from ..header.likeness import SAMPLE, likeness
from ..rules.faults import Fault, JsonPath, Likeness, render_path
from ..source import Source
from ..text import quote

MAX_NAME = 255
INDEX_CAP = 100_000_000
"""Maximum size of an index in bytes (IDX-13), the same limit as for a header. Real indexes are as large as
23.5 MB.
"""
METADATA_CAP = 10_000_000
"""Maximum size of the metadata object of an index in bytes (LIM-06)."""
FAULT_LIMIT = 100_000
"""Maximum number of faults collected. A fault needs more memory than the text that causes it."""

WEIGHT_MAP = "weight_map"
METADATA = "metadata"
TOTAL_SIZE = "total_size"
DCP_KEY = "DCP_SHARDING_INFO"
"""Metadata key of a file from a distributed checkpoint of PyTorch, which may contain parts of tensors."""
DCP_STEM = "shard-"
_BOM = b"\xef\xbb\xbf"


def name_faults(name: str) -> Iterator[tuple[str, str, str]]:
    """Yield (code, rule, problem) for every reason why ``name`` is not a valid shard name."""
    reason = _not_bare(name)
    if reason is not None:
        yield "IDX_BAD_FILENAME", "IDX-04", reason
        if name in ("", ".", "..") or len(name) > MAX_NAME:
            return
    elif "%" in name:
        decoded = name
        while (plain := unquote(decoded)) != decoded:  # several programs in a row may decode the name
            decoded = plain
        reason = _not_bare(decoded)
        if reason is not None:
            yield "IDX_BAD_FILENAME", "IDX-05", f"{reason} after its percent escapes are decoded"
    if not name.endswith(SUFFIX):
        yield "IDX_BAD_EXTENSION", "IDX-07", f"does not end in {SUFFIX}"


def _not_bare(name: str) -> str | None:
    if not name:
        return "is empty"
    if name in (".", ".."):
        return "is a directory"
    if len(name) > MAX_NAME:
        return f"has {len(name):,} characters, which is too long for a file name"
    for char in name:
        if char in "/\\":
            return f"contains the separator {char}"
        # C:x is a file on a drive on Windows, x:y is a stream of the file x, and x: may be a URL scheme.
        if char == ":":
            return "contains a colon"
        if char < " " or char == "\x7f":
            return f"contains the control character U+{ord(char):04X}"
        if "\ud800" <= char <= "\udfff":
            return "is not Unicode text"
    return None


@dataclass(frozen=True, slots=True)
class IndexNote:
    """A note about something unusual but permitted in a file, such as a symbolic link (IDX-06)."""

    rule: str
    message: str
    start: int
    end: int
    path: JsonPath | None = None

    def to_dict(self) -> dict[str, object]:
        path = None if self.path is None else render_path(self.path)
        return {
            "rule": self.rule,
            "message": self.message,
            "start": self.start,
            "end": self.end,
            "path": path,
        }


@dataclass(slots=True)
class FaultCollector:
    """Collects faults, tolerated faults and notes."""

    faults: list[Fault] = field(default_factory=list)
    tolerated: list[Fault] = field(default_factory=list)
    notes: list[IndexNote] = field(default_factory=list)
    full: bool = False
    looks_like: Likeness | None = None  # what a file without a weight_map looks like

    def add(self, fault: Fault, tolerated: bool = False) -> None:
        """Add a fault. At ``FAULT_LIMIT`` faults, say so in the last message and raise Abandon."""
        into = self.tolerated if tolerated else self.faults
        into.append(fault)
        if len(self.faults) + len(self.tolerated) >= FAULT_LIMIT:
            into[-1] = replace(fault, message=f"{fault.message} (no more faults are collected)")
            self.full = True
            raise Abandon

    def sort(self) -> None:
        for found in (self.faults, self.tolerated, self.notes):
            found.sort(key=lambda issue: (issue.start, issue.end))


class MappedTensor(NamedTuple):
    """Entry of the weight_map: its value, or None if that is not a string, and the position of the value."""

    shard: str | None
    start: int
    end: int


class ShardMention(NamedTuple):
    """First mention of a shard: the tensor, the position of the name, and whether the shard may be opened."""

    tensor: str
    start: int
    end: int
    usable: bool

    @property
    def path(self) -> JsonPath:
        return (WEIGHT_MAP, self.tensor)


@dataclass(slots=True)
class IndexText:
    """Content of an index. If a tensor name is repeated, the first entry is used."""

    weight_map: dict[str, MappedTensor] = field(default_factory=dict)
    shards: dict[str, ShardMention] = field(default_factory=dict)
    map_end: int = 0  # position of the closing brace of the weight_map
    total_size: Node | None = None
    metadata: bytes | None = None  # text of the metadata object


def read_index(source: Source, findings: FaultCollector) -> IndexText | None:
    """Read an open index. Return None if the index has no usable weight_map. Raises UnreadableError."""
    # Check the size first, so that a hostile index cannot cause an allocation.
    if source.size > INDEX_CAP:
        text = f"the index has {source.size:,} bytes, which exceeds the limit of {INDEX_CAP:,} bytes (IDX-13)"
        findings.faults.append(Fault("LIM_MEMORY", "LIM-06", text, 0, source.size))
        return None
    data = source.read(0, source.size)
    out = read_index_text(data, findings)
    if out is None and findings.faults:
        found = likeness(data[:SAMPLE], source.size)
        findings.looks_like = None if found is None or found.kind in ("json", "index") else found
    return out


def read_index_text(data: bytes, findings: FaultCollector) -> IndexText | None:
    """Read an index (IDX-01, IDX-04, IDX-07, IDX-12). Return None if it has no usable weight_map."""
    try:
        return _Reader(data, findings).read()
    except Abandon:
        return None


class _Reader:
    def __init__(self, data: bytes, findings: FaultCollector) -> None:
        self.data, self.findings = data, findings
        self.json = _IndexJson(data, self._syntax, self._repeated)
        self.member: JsonPath = ()
        self.out = IndexText()
        self.mapped = False

    def read(self) -> IndexText | None:
        bad = find_not_utf8(self.data)
        if bad is not None:
            first, last, reason = bad
            text = f"bytes {self.data[first:last].hex(' ')} are not UTF-8: {reason}"
            self._not_json(text, first, last)
        start = self._start()
        seen: set[str] = set()
        for key, value in self.json.members(1):
            self.member = (key.text,)
            again = key.text in seen
            seen.add(key.text)
            if again:
                self._repeated(key)
            if key.text == WEIGHT_MAP and not again:
                self._weight_map(value)
            elif key.text == METADATA and not again:
                self._metadata(value)
            else:
                self.json.skip(value)
        end = self.json.pos
        if WEIGHT_MAP not in seen:
            self._add("IDX_NO_WEIGHT_MAP", "IDX-01", "the index has no weight_map", start, end, ())
        if METADATA not in seen:
            self._note("the index has no metadata, which some loaders require", start, end, ())
        self.json.skip_space()
        if self.json.pos < len(self.data):
            self._not_json("there is more text after the index object", self.json.pos, len(self.data))
        return self.out if self.mapped else None

    def _add(
        self, code: str, rule: str, message: str, start: int, end: int, path: JsonPath | None = None
    ) -> None:
        self.findings.add(Fault(code, rule, message, start, end, path))

    def _note(self, message: str, start: int, end: int, path: JsonPath) -> None:
        self.findings.notes.append(IndexNote("IDX-02", message, start, end, path))

    def _syntax(self, code: str, rule: str, message: str, start: int, end: int, choice: str | None) -> None:
        message = message.replace("the header", "the index")
        if code == "HDR_TOO_DEEP":
            self.findings.add(Fault(code, rule, message, start, end, None, choice))
        else:
            self._not_json(message, start, end)

    def _not_json(self, message: str, start: int, end: int) -> None:
        self._add("IDX_NOT_JSON", "IDX-01", message, start, end)

    def _repeated(self, key: Node) -> None:
        text = f"key {quote(key.text)} again"
        self._add("HDR_DUP_KEY", "IDX-12", text, key.start, key.end, self.member)

    def _start(self) -> int:
        if self.data.startswith(_BOM):
            self._not_json("the index starts with a byte-order mark", 0, 3)
            self.json.pos = 3
        self.json.skip_space()
        at = self.json.pos
        if self.data[at : at + 1] != b"{":
            self._not_json("the index is not a JSON object", at, min(at + 1, len(self.data)))
            raise Abandon
        return at

    def _weight_map(self, value: Node) -> None:
        if value.kind != "object":
            self.json.skip(value)
            text = f"weight_map is {describe(value)}, not an object"
            self._add("IDX_NO_WEIGHT_MAP", "IDX-01", text, value.start, value.end, (WEIGHT_MAP,))
            return
        for key, shard in self.json.members(2):
            self._mapping(key, shard)
        self.out.map_end = self.json.pos - 1
        self.mapped = True

    def _mapping(self, key: Node, value: Node) -> None:
        name = key.text
        path = (WEIGHT_MAP, name)
        first = self.out.weight_map.get(name)
        if first is not None:
            to = "" if first.shard is None else f", first mapped to {quote(first.shard)}"
            text = f"tensor name {quote(name)} appears again{to}"
            self._add("HDR_DUP_KEY", "IDX-12", text, key.start, key.end, path)
        if value.kind == "string":
            shard: str | None = value.text
            if value.text not in self.out.shards:
                usable = True
                for code, rule, reason in name_faults(value.text):
                    usable = False
                    text = f"shard name {quote(value.text)} {reason}"
                    self._add(code, rule, text, value.start, value.end, path)
                self.out.shards[value.text] = ShardMention(name, value.start, value.end, usable)
        else:
            shard = None
            if value.kind != "invalid":
                text = f"tensor {quote(name)} is mapped to {describe(value)}, not to a file name"
                self._add("IDX_NO_WEIGHT_MAP", "IDX-01", text, value.start, value.end, path)
        if first is None:
            self.out.weight_map[name] = MappedTensor(shard, value.start, value.end)

    def _metadata(self, value: Node) -> None:
        path = (METADATA,)
        if value.kind != "object":
            self.json.skip(value)
            self._note(f"metadata is {describe(value)}, not an object", value.start, value.end, path)
            return
        seen: set[str] = set()
        for key, item in self.json.members(2):
            if key.text in seen:
                self._repeated(key)
            elif key.text == TOTAL_SIZE:
                self.out.total_size = item
            seen.add(key.text)
        end = self.json.pos
        if end - value.start > METADATA_CAP:
            has = f"the metadata has {end - value.start:,} bytes"
            text = f"{has}, which exceeds the limit of {METADATA_CAP:,} bytes"
            self._add("LIM_METADATA", "LIM-06", text, value.start, end, path)
        else:
            self.out.metadata = self.data[value.start : end]


class _IndexJson(JsonReader):
    """Reads the root object with ``members(1)``, and an object inside it with ``members(2)``.

    Nodes need many times as much memory as their text, and an index may be as large as a header. The two maps
    are therefore read one member at a time, and values that the format does not use are checked but not
    stored.

    ``members(1)`` yields objects and arrays as empty nodes without reading them. The caller must read or
    ``skip`` each of these nodes before it requests the next member. Deeper containers are checked for syntax
    errors and repeated keys, and each repeated key is passed to ``duplicate(key)``.
    """

    def __init__(self, data: bytes, report: Report, duplicate: Callable[[Node], None]) -> None:
        super().__init__(data, report)
        self._duplicate = duplicate

    def value(self, depth: int) -> Node:
        self.skip_space()
        if self._peek() not in (b"{", b"["):
            return super().value(depth)
        kind: Kind = "object" if self._peek() == b"{" else "array"
        node = Node(kind, [], self.pos, self.pos)
        if depth > 1:
            self._drop(node, depth + 1)
        return node

    def skip(self, node: Node) -> None:
        if node.kind in ("object", "array"):
            self._drop(node, 2)

    def _drop(self, node: Node, depth: int) -> None:
        if node.kind == "array":
            for _ in self.elements(depth):
                pass
        else:
            seen: set[str] = set()
            for key, _ in self.members(depth):
                if key.text in seen:
                    self._duplicate(key)
                seen.add(key.text)
        node.end = self.pos
