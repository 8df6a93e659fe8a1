"""Reads tensor entries and the metadata map from the members of the header object.

Each method returns the value that the JSON nodes represent, or None if a fault makes that impossible. Faults
are reported to a callback ``sink(fault, tolerated)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from math import isinf
from typing import TYPE_CHECKING

from ..rules.dtypes import DTYPE_BITS
from ..rules.faults import Fault, JsonPath, quote, shorten
from .json_text import Long, Node, plain_integer, whole_number
from .layout import show_shape
from .texts import Texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

FIELDS = ("dtype", "shape", "data_offsets")
U64_MAX = 2**64 - 1
MANY_KEYS = 10_000
"""Number of metadata keys up to which a dict is used. A dict needs about a hundred bytes per key."""


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
    """Reads tensor entries and metadata. ``options`` maps each choice to the selected option."""

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
        """Report a fault.

        A fault that belongs to a choice is tolerated unless the selected option is ``reject``.
        """
        if tolerated is None:
            tolerated = choice is not None and self._options[choice] != "reject"
        start, end = self._base + node.start, self._base + node.end
        self._sink(Fault(code, rule, message, start, end, path, choice), tolerated)

    def entry(self, name: str, node: Node) -> Entry | None:
        """Read the value that belongs to a tensor name (ENT-01 to ENT-06).

        Return None if it is not a valid entry.
        """
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
            found = f"an array with {count:,} elements" if node.kind == "array" else describe(node)
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
            text = (
                f"{elements:,} elements of {entry.dtype} have {bits:,} bits, which is not a whole number of "
                "bytes"
            )
            self._report("DTY_SUBBYTE", "DTY-09", text, shape_node, path)
            return
        if entry.offsets is None or entry.offsets_node is None or entry.offsets[0] > entry.offsets[1]:
            return
        have = entry.offsets[1] - entry.offsets[0]
        if have != bits // 8:
            need = f"{entry.dtype} {show_shape(entry.shape)} needs {bits // 8:,} bytes"
            text = f"{need}, but the range has {have:,} bytes"
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
        """Read the metadata map (MET-01 to MET-04). Return None if it is null or not an object."""
        path: JsonPath = ("__metadata__",)
        if node.kind != "object":
            choice = "metadata-null" if node.kind == "null" else None
            rule = "MET-02" if choice else "MET-01"
            text = f"__metadata__ is {describe(node)}, not an object"
            self._report("MET_NOT_MAP", rule, text, node, path, choice)
            return None
        out = Texts()
        self._fill(out, node, path)
        return out if len(out) > MANY_KEYS else dict(out)

    def _fill(self, out: Texts, node: Node, path: JsonPath) -> None:
        for key, value in node.members:
            at = (*path, key.text)
            if key.text in out:
                text = f"metadata key {quote(key.text)} appears again"
                self._report("HDR_DUP_KEY", "HDR-13", text, key, at, "duplicate-metadata-keys")
            if value.kind != "string":
                text = f"metadata value of {quote(key.text)} is {describe(value)}, not a string"
                self._report("MET_VALUE_NOT_STRING", "MET-01", text, value, at)
            out.set(
                key.text, value.text if value.kind == "string" else ""
            )  # keep the key, because it may appear again


def _product(dims: Iterable[int]) -> int | None:
    """Multiply until the first 64-bit overflow, because a hostile shape may have many dimensions."""
    product = 1
    for dim in dims:
        product *= dim
        if product > U64_MAX:
            return None
    return product
