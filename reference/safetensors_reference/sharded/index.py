"""Reading the text of a sharded index: what it maps, and every fault that shows without opening a shard."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ..header.entries import describe
from ..header.json_text import Abandon
from ..rules.faults import Fault, quote
from .findings import Note
from .json_text import IndexJsonReader, not_utf8
from .names import name_faults

if TYPE_CHECKING:
    from ..header.json_text import Node
    from ..rules.faults import JsonPath
    from .findings import Findings

INDEX_CAP = 100_000_000
"""Largest index in bytes that is read (IDX-13), the same as for a header; real ones reach 13.5 MB."""
METADATA_CAP = 10_000_000
"""Largest metadata object of an index in bytes (LIM-06)."""

WEIGHT_MAP = "weight_map"
METADATA = "metadata"
TOTAL_SIZE = "total_size"
_BOM = b"\xef\xbb\xbf"


class Mapped(NamedTuple):
    """Where the weight_map puts a tensor.

    ``shard`` is None when the value is no string; ``start`` and ``end`` are the bytes of the value.
    """

    shard: str | None
    start: int
    end: int


class Mention(NamedTuple):
    """The first place that names a shard: the tensor mapped to it, and the bytes of the name.

    ``usable`` is False for a name that must not be opened.
    """

    tensor: str
    start: int
    end: int
    usable: bool

    @property
    def path(self) -> JsonPath:
        """Place in the index."""
        return (WEIGHT_MAP, self.tensor)


@dataclass(slots=True)
class IndexText:
    """What an index says.

    Attributes:
        weight_map: tensor name -> where it is mapped to, in file order; of a repeated name the first.
        shards: every shard name that occurs -> its first mention.
        map_end: position of the brace that closes the weight_map.
        total_size: value of that metadata member as it stands there, None when there is none.
        metadata: bytes of the metadata object, None when there is none.
    """

    weight_map: dict[str, Mapped] = field(default_factory=dict)
    shards: dict[str, Mention] = field(default_factory=dict)
    map_end: int = 0
    total_size: Node | None = None
    metadata: bytes | None = None


def read_index_text(data: bytes, findings: Findings) -> IndexText | None:
    """Read the text of an index (IDX-01, IDX-04, IDX-07, IDX-12); faults go to ``findings``.

    Returns None when there is no map to compare with the shards, because the text breaks off, cannot be
    followed, or has no weight_map.
    """
    reader = _Reader(data, findings)
    try:
        return reader.read()
    except Abandon:
        return None


class _Reader:
    """One run over one text."""

    def __init__(self, data: bytes, findings: Findings) -> None:
        self.data = data
        self.findings = findings
        self.json = IndexJsonReader(data, self._syntax, self._repeated)
        self.member: JsonPath = ()
        self.out = IndexText()
        self.mapped = False

    def read(self) -> IndexText | None:
        """Read everything. Raises Abandon where the structure cannot be followed."""
        self._utf8()
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
            self._note("the index has no metadata, which some loaders demand", start, end, ())
        self.json.skip_space()
        if self.json.pos < len(self.data):
            self._not_json("more text after the index object", self.json.pos, len(self.data))
        return self.out if self.mapped else None

    def _add(
        self, code: str, rule: str, message: str, start: int, end: int, path: JsonPath | None = None
    ) -> None:
        self.findings.add(Fault(code, rule, message, start, end, path))

    def _note(self, message: str, start: int, end: int, path: JsonPath) -> None:
        self.findings.notes.append(Note("IDX-02", message, start, end, path))

    def _syntax(self, code: str, rule: str, message: str, start: int, end: int, choice: str | None) -> None:
        """Take a fault from the JSON reader, which speaks of headers."""
        message = message.replace("the header", "the index")
        if code == "HDR_TOO_DEEP":
            self.findings.add(Fault(code, rule, message, start, end, None, choice))
        else:
            self._not_json(message, start, end)

    def _not_json(self, message: str, start: int, end: int) -> None:
        self._add("IDX_NOT_JSON", "IDX-01", message, start, end)

    def _repeated(self, key: Node) -> None:
        """Report a key outside the weight_map that stands twice in its object."""
        text = f"key {quote(key.text)} again"
        self._add("HDR_DUP_KEY", "IDX-12", text, key.start, key.end, self.member)

    def _utf8(self) -> None:
        bad = not_utf8(self.data)
        if bad is not None:
            start, end, reason = bad
            text = f"bytes {self.data[start:end].hex(' ')} are not UTF-8: {reason}"
            self._not_json(text, start, end)

    def _start(self) -> int:
        """Move to the opening brace and return where it stands. Raises Abandon when there is none."""
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
        """Read one member of the weight_map."""
        name = key.text
        path = (WEIGHT_MAP, name)
        first = self.out.weight_map.get(name)
        if first is not None:
            to = "" if first.shard is None else f", first mapped to {quote(first.shard)}"
            self._add(
                "HDR_DUP_KEY", "IDX-12", f"tensor name {quote(name)} again{to}", key.start, key.end, path
            )
        if value.kind == "string":
            shard: str | None = value.text
            if value.text not in self.out.shards:
                usable = self._shard_name(value, path)
                self.out.shards[value.text] = Mention(name, value.start, value.end, usable)
        else:
            shard = None
            if value.kind != "invalid":
                text = f"tensor {quote(name)} is mapped to {describe(value)}, not to a file name"
                self._add("IDX_NO_WEIGHT_MAP", "IDX-01", text, value.start, value.end, path)
        if first is None:
            self.out.weight_map[name] = Mapped(shard, value.start, value.end)

    def _shard_name(self, value: Node, path: JsonPath) -> bool:
        """Check the name of a shard; True when a file of that name may be opened."""
        usable = True
        for code, rule, reason in name_faults(value.text):
            usable = False
            text = f"shard name {quote(value.text)} {reason}"
            self._add(code, rule, text, value.start, value.end, path)
        return usable

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
            text = f"the metadata have {end - value.start:,} bytes, more than the limit of {METADATA_CAP:,}"
            self._add("LIM_METADATA", "LIM-06", text, value.start, end, path)
        else:
            self.out.metadata = self.data[value.start : end]
