"""Reading and changing tensor entries of a file's tree, as far as they are written plainly."""

from __future__ import annotations

import random
from dataclasses import dataclass
from math import prod

from .model import Arr, File, Obj, Value
from .vocabulary import BITS, RESERVED


@dataclass(slots=True)
class Entry:
    """One tensor entry with a field of each kind, written as plain values.

    Attributes:
        member: ``[key, value]`` in the header object.
        obj: the value.
        dtype: its code.
        shape: its dimensions.
        begin: first byte in the data buffer.
        end: one past the last byte.
    """

    member: list[Value]
    obj: Obj
    dtype: bytes
    shape: list[int]
    begin: int
    end: int

    def put(self, field: bytes, value: Value) -> None:
        """Write a field's value."""
        for member in self.obj.members:
            if member[0] == field:
                member[1] = value

    def move(self, begin: int, end: int) -> None:
        """Write the range."""
        self.begin, self.end = begin, end
        self.put(b'"data_offsets"', numbers(begin, end))

    def reshape(self, shape: list[int]) -> None:
        """Write the shape."""
        self.shape = shape
        self.put(b'"shape"', numbers(*shape))

    def retype(self, dtype: bytes) -> None:
        """Write the dtype."""
        self.dtype = dtype
        self.put(b'"dtype"', b'"%b"' % dtype)


def numbers(*values: int) -> Arr:
    """Return an array of plain integers."""
    return Arr([b"%d" % value for value in values])


def integers(value: Value) -> list[int] | None:
    """Return the integers of an array of plain ones, else None."""
    if type(value) is not Arr:
        return None
    out = []
    for item in value.items:
        if type(item) is not bytes or not item.isdigit() or len(item) > 20:
            return None
        out.append(int(item))
    return out


def entry_of(member: list[Value]) -> Entry | None:
    """Return the tensor entry of a member, None when it is none or is written in another way."""
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
    return Entry(member, obj, dtype, shape, offsets[0], offsets[1])


def entries(file: File) -> list[Entry]:
    """Return all entries that ``entry_of`` reads."""
    if type(file.root) is not Obj or file.raw is not None:
        return []
    return [entry for member in file.root.members if (entry := entry_of(member)) is not None]


def whole(file: File) -> list[Entry] | None:
    """Return all entries of a file in which every member is understood, else None.

    Only then can the layout be changed without breaking it.
    """
    found = entries(file)
    rows = members(file)
    known = len(found) + (metadata(file) is not None)
    return found if type(file.root) is Obj and known == len(rows) else None


def some(rng: random.Random, file: File) -> Entry | None:
    """Return one entry, None when there is none."""
    found = entries(file)
    return rng.choice(found) if found else None


def members(file: File) -> list[list[Value]]:
    """Return the members of the header object; an empty list when there is none."""
    return file.root.members if type(file.root) is Obj and file.raw is None else []


def metadata(file: File) -> list[Value] | None:
    """Return the member that holds the metadata."""
    for member in members(file):
        if member[0] == RESERVED:
            return member
    return None


def size(dtype: bytes, shape: list[int]) -> int | None:
    """Return the bytes that a tensor takes, None for an unknown dtype or a part of a byte."""
    bits = BITS.get(dtype)
    if bits is None:
        return None
    total = prod(shape) * bits
    return total // 8 if total % 8 == 0 else None


def shift(file: File, position: int, by: int, *, but: Entry | None = None) -> None:
    """Move every range that begins at or behind ``position`` by so many bytes."""
    for entry in entries(file):
        if entry.begin >= position and (but is None or entry.member is not but.member):
            entry.move(entry.begin + by, entry.end + by)
