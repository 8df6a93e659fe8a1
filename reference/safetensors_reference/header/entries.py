"""Reads tensor entries and the metadata map from the members of the header object, and stores the entries.

The stored entries need about as much memory as their text (LIM-03), because the author of a file decides how
many entries and strings its header contains. As a Python object, a short string needs ten to forty times as
much memory as its text. Here, the fields are stored in columns, all strings of a column share one buffer, and
objects such as ``Entry`` are created only on access, one at a time.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import isinf

from ..rules.dtypes import DTYPE_BITS
from ..rules.faults import Fault, JsonPath
from ..text import plural, quote, shorten
from .json_text import BLOCK, Integers, Long, Node, plain_integer, whole_number
from .model import Range, Rows, TensorInfo, show_shape

FIELDS = ("dtype", "shape", "data_offsets")
U64_MAX = 2**64 - 1
MANY_KEYS = 10_000
"""Number of metadata keys up to which a dict is used, which needs about a hundred bytes per key."""
_DTYPES: tuple[str | None, ...] = (None, *DTYPE_BITS)
_DTYPE_NUMBER = {dtype: number for number, dtype in enumerate(_DTYPES)}
_SHAPE, _OFFSETS = 1, 2


@dataclass(slots=True)
class Entry:
    """One tensor entry. A field is None if it is missing or cannot be interpreted."""

    name: str
    dtype: str | None = None
    shape: tuple[int, ...] | None = None
    offsets: tuple[int, int] | None = None
    shape_node: Node | None = None
    offsets_node: Node | None = None


def describe(node: Node) -> str:
    """Describe a node for a message: return its JSON type, followed by its text if that is short."""
    if node.kind in ("number", "invalid"):
        return f"the number {shorten(node.text, 24)}" if node.kind == "number" else node.text
    if node.kind == "string":
        return f"the string {quote(node.text, 40)}"
    if node.kind in ("object", "array"):
        return f"an {node.kind}"
    return node.kind


class EntryReader:
    """Reads tensor entries and metadata, and reports faults to ``sink(fault, tolerated)``.

    Each method returns the value that the JSON nodes represent, or None if a fault makes that impossible.
    """

    def __init__(self, sink: Callable[[Fault, bool], None], base: int, options: dict[str, str]) -> None:
        self._sink = sink
        self._base = base
        self._options = options

    def _report(
        self,
        code: str,
        rule: str,
        message: str,
        node: Node,
        path: JsonPath,
        choice: str | None = None,
        tolerated: bool | None = None,
    ) -> None:
        """Report a fault, by default as tolerated if the profile does not reject its choice."""
        if tolerated is None:
            tolerated = choice is not None and self._options[choice] != "reject"
        start, end = self._base + node.start, self._base + node.end
        self._sink(Fault(code, rule, message, start, end, path, choice), tolerated)

    def entry(self, name: str, node: Node) -> Entry | None:
        """Read the entry of a tensor (ENT-01 to ENT-06). Return None if the entry is not valid."""
        path: JsonPath = (name,)
        if node.kind == "array":
            count = node.count
            choice = "entry-as-array" if count == 3 or (count < 3 and not node.whole) else None
            more = "" if node.whole else " or more"
            text = f"tensor {quote(name)} is an array of {count}{more} elements, not an object"
            self._report("ENT_NOT_OBJECT", "ENT-02", text, node, path, choice)
            if choice is None:
                return None
            fields = dict(zip(FIELDS, node.items, strict=node.whole))
        elif node.kind == "object":
            fields = self._fields(name, node)
        else:
            text = f"tensor {quote(name)} is {describe(node)}, not an object"
            self._report("ENT_NOT_OBJECT", "ENT-01", text, node, path)
            return None
        entry = Entry(name)
        if "dtype" in fields:
            entry.dtype = self._dtype(fields["dtype"], (name, "dtype"))
        if "shape" in fields:
            entry.shape_node = fields["shape"]
            entry.shape = self._shape(fields["shape"], (name, "shape"))
        if "data_offsets" in fields:
            entry.offsets_node = fields["data_offsets"]
            entry.offsets = self._offsets(fields["data_offsets"], (name, "data_offsets"))
        return entry

    def _fields(self, name: str, node: Node) -> dict[str, Node]:
        fields: dict[str, Node] = {}
        for key, value in node.members:
            field = key.text
            if field not in FIELDS:
                text = f"unknown field {quote(field)} in tensor {quote(name)}"
                self._report("ENT_UNKNOWN_FIELD", "ENT-04", text, key, (name, field), "unknown-entry-fields")
                self._ignored(value, (name, field))
            elif field in fields:
                text = f"field {field} appears again in tensor {quote(name)}"
                self._report("HDR_DUP_KEY", "HDR-12", text, key, (name, field))
            else:
                fields[field] = value
        for field in FIELDS if node.whole else ():
            if field not in fields:
                text = f"tensor {quote(name)} has no {field}"
                self._report("ENT_MISSING_FIELD", "ENT-03", text, node, (name,))
        return fields

    def _ignored(self, node: Node, path: JsonPath) -> None:
        if node.kind == "number" and isinf(float(node.text)):
            text = f"{shorten(node.text, 24)} does not fit into a double"
            self._report("HDR_NOT_JSON", "HDR-18", text, node, path, "number-range")
        elif isinstance(node.value, Long):
            for steps, number in node.value.large_numbers():
                self._ignored(number, (*path, *steps))
        elif node.kind == "array":
            for index, item in enumerate(node.items):
                self._ignored(item, (*path, index))
        elif node.kind == "object":
            for key, item in node.members:
                self._ignored(item, (*path, key.text))

    def _dtype(self, node: Node, path: JsonPath) -> str | None:
        members = list(islice(node.members, 2)) if node.kind == "object" else []
        if len(members) == 1:
            key, value = members[0]
            if value.kind == "null" and key.text in DTYPE_BITS:
                text = f"dtype is an object with the key {quote(key.text)}, not a string"
                self._report("DTY_BAD_TYPE", "DTY-02", text, node, path, "dtype-as-object")
                return key.text
        if node.kind != "string":
            rule = "DTY-02" if node.kind == "object" else "DTY-03"
            self._report("DTY_BAD_TYPE", rule, f"dtype is {describe(node)}, not a string", node, path)
            return None
        if node.text not in DTYPE_BITS:
            self._report("DTY_UNKNOWN", "DTY-01", f"unknown dtype {quote(node.text, 40)}", node, path)
            return None
        return node.text

    def _integer(self, node: Node, path: JsonPath, rule: str, what: str) -> int | None:
        """Read a plain integer below 2^64. Very long numbers are rejected without being converted."""
        number = node.text
        if not plain_integer(node):
            if whole_number(number):
                text = f"{what} is written as {shorten(number, 40)}, not as a plain integer"
            else:
                text = f"{what} is {shorten(number, 40)}, but it must be an integer of at least 0"
                rule = {"SHP-02": "SHP-01", "OFF-02": "OFF-01"}[rule]
            self._report("ENT_BAD_INTEGER", rule, text, node, path)
            return None
        # 2^64 has 20 digits. Longer numbers are not converted, because a million digits would be slow and
        # int() has a limit.
        if len(number) > 20 or int(number) > U64_MAX:
            text = f"{what} has {len(number):,} digits and does not fit into 64 bits"
            self._report("ENT_BAD_INTEGER", "SHP-07" if rule == "SHP-02" else rule, text, node, path)
            return None
        return int(number)

    def _shape(self, node: Node, path: JsonPath) -> tuple[int, ...] | None:
        if node.kind != "array":
            self._report("SHP_BAD_TYPE", "SHP-01", f"shape is {describe(node)}, not an array", node, path)
            return None
        if isinstance(node.value, Long):
            integers = node.value.integers()
            if integers is not None:
                return tuple(integers)
        dims: list[int | None] = []
        for index, item in enumerate(node.items):
            if item.kind == "number":
                dims.append(self._integer(item, (*path, index), "SHP-02", f"dimension {index}"))
                continue
            if item.kind != "invalid":
                text = f"dimension {index} is {describe(item)}, not a number"
                self._report("SHP_BAD_TYPE", "SHP-01", text, item, (*path, index))
            dims.append(None)
        if not node.whole or any(d is None for d in dims):
            return None
        return tuple(d for d in dims if d is not None)

    def _offsets(self, node: Node, path: JsonPath) -> tuple[int, int] | None:
        count = node.count if node.kind == "array" else 0
        if count != 2 and (node.whole or count > 2 or node.kind != "array"):
            found = f"an array with {plural(count, 'element')}" if node.kind == "array" else describe(node)
            text = f"data_offsets is {found}, not a pair of integers"
            self._report("OFF_BAD_PAIR", "OFF-01", text, node, path)
            return None
        pair: list[int] = []
        for index, item in enumerate(node.items):
            if item.kind == "number":
                value = self._integer(item, (*path, index), "OFF-02", f"data_offsets[{index}]")
                if value is not None:
                    pair.append(value)
            elif item.kind != "invalid":
                text = f"data_offsets[{index}] is {describe(item)}, not an integer"
                self._report("ENT_BAD_INTEGER", "OFF-01", text, item, (*path, index))
        return (pair[0], pair[1]) if len(pair) == 2 and node.whole else None

    def check_size(self, entry: Entry) -> None:
        """Compare the size from dtype and shape with the byte range (SHP-05, SHP-06, DTY-09, OFF-05)."""
        shape_node = entry.shape_node
        if entry.dtype is None or entry.shape is None or shape_node is None:
            return
        path = (entry.name, "shape")
        elements = self._elements(entry.shape, shape_node, path)
        if elements is None:
            return
        bits = elements * DTYPE_BITS[entry.dtype]
        if bits > U64_MAX:
            text = f"{elements:,} elements of {entry.dtype} need more than 2^64 bits"
            self._report("SHP_OVERFLOW", "SHP-05", text, shape_node, path)
            return
        if bits % 8:
            has = "has" if elements == 1 else "have"
            size = f"{plural(elements, 'element')} of {entry.dtype} {has} {bits:,} bits"
            text = f"{size}, which is not a whole number of bytes"
            self._report("DTY_SUBBYTE", "DTY-09", text, shape_node, path)
            return
        if entry.offsets is None or entry.offsets_node is None or entry.offsets[0] > entry.offsets[1]:
            return
        have = entry.offsets[1] - entry.offsets[0]
        if have != bits // 8:
            need = f"{entry.dtype} {show_shape(entry.shape)} needs {plural(bits // 8, 'byte')}"
            text = f"{need}, but the range has {plural(have, 'byte')}"
            at = (entry.name, "data_offsets")
            self._report("OFF_SIZE_MISMATCH", "OFF-05", text, entry.offsets_node, at)

    def _elements(self, shape: tuple[int, ...], node: Node, path: JsonPath) -> int | None:
        product = _product(d for d in shape if d)
        if product is not None:
            return 0 if 0 in shape else product
        if 0 not in shape:
            self._report("SHP_OVERFLOW", "SHP-05", "the number of elements exceeds 2^64", node, path)
            return None
        text = "the dimensions other than 0 multiply to more than 2^64"
        option = self._options["zero-dim-overflow"]
        overflow_first = _product(shape[: shape.index(0)]) is None
        tolerated = option == "accept" or (option == "by-position" and not overflow_first)
        self._report("SHP_OVERFLOW", "SHP-06", text, node, path, "zero-dim-overflow", tolerated)
        return 0 if tolerated else None

    def metadata(self, node: Node) -> Mapping[str, str] | None:
        """Read the metadata map (MET-01 to MET-04). Return None if the value is null or not an object."""
        path: JsonPath = ("__metadata__",)
        if node.kind != "object":
            choice = "metadata-null" if node.kind == "null" else None
            rule = "MET-02" if choice else "MET-01"
            text = f"__metadata__ is {describe(node)}, not an object"
            self._report("MET_NOT_MAP", rule, text, node, path, choice)
            return None
        out = Texts()
        for key, value in node.members:
            at = (*path, key.text)
            if key.text in out:
                text = f"metadata key {quote(key.text)} appears again"
                self._report("HDR_DUP_KEY", "HDR-13", text, key, at, "duplicate-metadata-keys")
            if value.kind != "string":
                text = f"metadata value of {quote(key.text)} is {describe(value)}, not a string"
                self._report("MET_VALUE_NOT_STRING", "MET-01", text, value, at)
            # Keep every key, because it may appear again.
            out.set(key.text, value.text if value.kind == "string" else "")
        return out if len(out) > MANY_KEYS else dict(out)


def _product(dims: Iterable[int]) -> int | None:
    """Multiply ``dims``, stopping at the first 64-bit overflow: a hostile shape may be long."""
    product = 1
    for dim in dims:
        product *= dim
        if product > U64_MAX:
            return None
    return product


class Strings:
    """Append-only list of strings, which may contain surrogates."""

    def __init__(self) -> None:
        self._text = bytearray()
        self._ends = array("I", [0])
        self._long = (-1, "")  # the last long string, kept so that repeated accesses share one object

    def append(self, text: str) -> None:
        # Encoding the whole string at once would need four bytes per character.
        for start in range(0, len(text), BLOCK):
            self._text += text[start : start + BLOCK].encode("utf-8", "surrogatepass")
        if len(text) > BLOCK:
            self._long = len(self), text
        self._ends.append(len(self._text))

    def append_numbers(self, numbers: Sequence[int]) -> None:
        for start in range(0, len(numbers), BLOCK):
            if start:
                self._text += b","
            self._text += ",".join(map(str, numbers[start : start + BLOCK])).encode()
        self._ends.append(len(self._text))

    def numbers(self, index: int) -> Integers:
        return Integers(self._text, self._ends[index], self._ends[index + 1])

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, index: int) -> str:
        if not 0 <= index < len(self):
            raise IndexError(index)
        start, end = self._ends[index], self._ends[index + 1]
        if end - start <= BLOCK:
            return self._text[start:end].decode("utf-8", "surrogatepass")
        if self._long[0] != index:
            self._long = index, self._text[start:end].decode("utf-8", "surrogatepass")
        return self._long[1]

    def __iter__(self) -> Iterator[str]:
        return map(self.__getitem__, range(len(self)))


class Names:
    """Distinct strings, numbered from 0 in the order in which they were added."""

    def __init__(self) -> None:
        self.texts = Strings()
        self._tags = array("I")  # 32 bits of each name's hash, or 0 for a hidden name
        # hash table whose slots contain the number of a name plus 1, or 0 if they are free
        self._slots = array("I", bytes(4 * 16))

    def find(self, text: str) -> int | None:
        tag = _tag(text)
        for number in self._numbers(tag):
            if self._tags[number] == tag and self.texts[number] == text:
                return number
        return None

    def add(self, text: str, *, hidden: bool = False) -> int:
        number = len(self.texts)
        if 3 * number >= 2 * len(self._slots):
            self._slots = array("I", bytes(8 * len(self._slots)))
            for old, tag in enumerate(self._tags):
                self._enter(old, tag)
        self.texts.append(text)
        self._tags.append(0 if hidden else _tag(text))
        self._enter(number, self._tags[number])
        return number

    def _numbers(self, tag: int) -> Iterator[int]:
        at = tag % len(self._slots)
        while number := self._slots[at]:
            yield number - 1
            at = (at + 1) % len(self._slots)

    def _enter(self, number: int, tag: int) -> None:
        if tag:
            size = len(self._slots)
            at = tag % size
            while self._slots[at]:
                at = (at + 1) % size
            self._slots[at] = number + 1

    # String hashes differ between processes, so the tags are computed again after unpickling.
    def __getstate__(self) -> tuple[Strings, list[bool]]:
        return self.texts, [not tag for tag in self._tags]

    def __setstate__(self, state: tuple[Strings, list[bool]]) -> None:
        Names.__init__(self)
        for text, hidden in zip(*state, strict=True):
            self.add(text, hidden=hidden)


def _tag(text: str) -> int:
    return hash(text) & 0xFFFFFFFF or 1


class Texts(Mapping[str, str]):
    """A mapping of strings to strings, in the order in which each key was first set."""

    def __init__(self) -> None:
        self._keys = Names()
        self._values = Strings()
        self._value_of = array("I")

    def set(self, key: str, value: str) -> None:
        number = self._keys.find(key)
        if number is None:
            number = self._keys.add(key)
            self._value_of.append(0)
        self._value_of[number] = len(self._values)
        self._values.append(value)

    def __getitem__(self, key: str) -> str:
        number = self._keys.find(key) if isinstance(key, str) else None
        if number is None:
            raise KeyError(key)
        return self._values[self._value_of[number]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys.texts)

    def __len__(self) -> int:
        return len(self._value_of)


class Entries(Sequence[Entry]):
    """Tensor entries with distinct names, in the order in which each name was first added."""

    def __init__(self) -> None:
        self.names = Names()
        self._record_of = array("I")  # indexed by name number; the other columns are indexed by record number
        self._dtypes = array("B")
        self._known = array("B")
        self._shapes = Strings()
        self._offsets = array("Q")
        self._places = array("I")

    def put(self, entry: Entry, *, hidden: bool = False) -> Entry | None:
        """Add an entry, and return the one that it replaces. No hidden entry replaces or is replaced."""
        number = None if hidden else self.names.find(entry.name)
        old = None if number is None else self[number]
        if number is None:
            number = self.names.add(entry.name, hidden=hidden)
            self._record_of.append(0)
        self._record_of[number] = len(self._dtypes)
        shape, offsets = entry.shape_node, entry.offsets_node
        self._dtypes.append(_DTYPE_NUMBER[entry.dtype])
        self._known.append(_SHAPE * (entry.shape is not None) | _OFFSETS * (entry.offsets is not None))
        self._shapes.append_numbers(entry.shape or ())
        self._offsets.extend(entry.offsets or (0, 0))
        for node in (shape, offsets):
            self._places.extend((0, 0) if node is None else (node.start, node.end))
        return old

    def offsets(self, number: int) -> tuple[int, int] | None:
        """Return the start and end of an entry in the data buffer, or None if they are unknown."""
        record = self._record_of[number]
        if not self._known[record] & _OFFSETS:
            return None
        return self._offsets[2 * record], self._offsets[2 * record + 1]

    def range(self, number: int, base: int) -> Range:
        record = self._record_of[number]
        shape = self._shapes.numbers(record) if self._known[record] & _SHAPE else None
        begin, end = self._offsets[2 * record : 2 * record + 2]
        start, stop = self._places[4 * record + 2 : 4 * record + 4]
        dtype = _DTYPES[self._dtypes[record]]
        return Range(self.names.texts[number], begin, end, base + start, base + stop, dtype, shape)

    def info(self, number: int) -> TensorInfo:
        record = self._record_of[number]
        dtype = _DTYPES[self._dtypes[record]]
        assert dtype is not None
        begin, end = self._offsets[2 * record : 2 * record + 2]
        return TensorInfo(self.names.texts[number], dtype, tuple(self._shapes.numbers(record)), begin, end)

    def __len__(self) -> int:
        return len(self._record_of)

    def __getitem__(self, number: int) -> Entry:  # type: ignore[override] # slices are not needed
        record = self._record_of[number]
        known = self._known[record]
        places = self._places[4 * record : 4 * record + 4]  # both positions of a missing node are 0
        return Entry(
            self.names.texts[number],
            _DTYPES[self._dtypes[record]],
            tuple(self._shapes.numbers(record)) if known & _SHAPE else None,
            self.offsets(number),
            Node("array", None, places[0], places[1]) if places[0] else None,
            Node("array", None, places[2], places[3]) if places[2] else None,
        )


class Tensors(Rows):
    """Maps names to entries without faults."""

    def __init__(self, entries: Entries) -> None:
        self._entries = entries

    def __getitem__(self, name: str) -> TensorInfo:
        number = self._entries.names.find(name) if isinstance(name, str) else None
        if number is None:
            raise KeyError(name)
        return self._entries.info(number)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries.names.texts)

    def __len__(self) -> int:
        return len(self._entries)

    def rows(self) -> Iterator[TensorInfo]:
        return map(self._entries.info, range(len(self)))


class Ranges(Sequence[Range]):
    """Byte ranges of all entries that have one; ``base`` is added to the position of each declaration."""

    def __init__(self, first: list[Entry], entries: Entries, base: int) -> None:
        self._first = [e for e in first if e.offsets is not None]
        self._entries, self._base = entries, base
        self._numbers = array("I", (n for n in range(len(entries)) if entries.offsets(n) is not None))

    def __len__(self) -> int:
        return len(self._first) + len(self._numbers)

    def __getitem__(self, index: int) -> Range:  # type: ignore[override] # slices are not needed
        first = len(self._first)
        if index >= first:
            return self._entries.range(self._numbers[index - first], self._base)
        entry = self._first[index]
        assert entry.offsets is not None
        assert entry.offsets_node is not None
        start, stop = self._base + entry.offsets_node.start, self._base + entry.offsets_node.end
        return Range(entry.name, *entry.offsets, start, stop, entry.dtype, entry.shape)

    def __iter__(self) -> Iterator[Range]:
        return map(self.__getitem__, range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]
