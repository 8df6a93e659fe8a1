"""Stores tensor entries in columns, which need about as much memory as the text of the entries (LIM-03).

Entry objects are created only on access, one at a time.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

from ..rules.dtypes import DTYPE_BITS
from .entries import Entry
from .json_text import Node
from .layout import Range
from .model import Rows, TensorInfo
from .texts import Names, Strings

_DTYPES: tuple[str | None, ...] = (None, *DTYPE_BITS)
_DTYPE_NUMBER = {dtype: number for number, dtype in enumerate(_DTYPES)}
_SHAPE, _OFFSETS, _SHAPE_PLACE, _OFFSETS_PLACE = 1, 2, 4, 8


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
        """Add an entry. If it replaces an entry with the same name, return the old one.

        A hidden entry is never replaced.
        """
        number = None if hidden else self.names.find(entry.name)
        old = None if number is None else self[number]
        if number is None:
            number = self.names.add(entry.name, hidden=hidden)
            self._record_of.append(0)
        self._record_of[number] = len(self._dtypes)
        shape, offsets = entry.shape_node, entry.offsets_node
        self._dtypes.append(_DTYPE_NUMBER[entry.dtype])
        self._known.append(
            _SHAPE * (entry.shape is not None)
            | _OFFSETS * (entry.offsets is not None)
            | _SHAPE_PLACE * (shape is not None)
            | _OFFSETS_PLACE * (offsets is not None)
        )
        self._shapes.append_numbers(entry.shape or ())
        self._offsets.extend(entry.offsets or (0, 0))
        for node in (shape, offsets):
            self._places.extend((0, 0) if node is None else (node.start, node.end))
        return old

    def offsets(self, number: int) -> tuple[int, int] | None:
        """Return the first byte and the end of an entry in the data buffer, or None if they are unknown."""
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
        places = self._places[4 * record : 4 * record + 4]
        return Entry(
            self.names.texts[number],
            _DTYPES[self._dtypes[record]],
            tuple(self._shapes.numbers(record)) if known & _SHAPE else None,
            self.offsets(number),
            Node("array", None, places[0], places[1]) if known & _SHAPE_PLACE else None,
            Node("array", None, places[2], places[3]) if known & _OFFSETS_PLACE else None,
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
    """Byte ranges of all entries that have one, beginning with those in ``first``.

    The positions of their declarations are file positions.
    """

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
