"""A valid file in which one property can be changed without changing how anything else is spelled."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache

from safetensors_reference import Header, explain
from safetensors_reference.rules.dtypes import DTYPE_BITS

from .tree import Arr, File, Obj, Value, decode_string, numbers, parse, written
from .vocabulary import RESERVED, SPECIAL_NAMES

_BLANKS = b" \t\n\r"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.]*")


def fold_name(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()


def exchange(member: list[Value], place: int, raw: bytes) -> None:
    old = member[place]
    assert type(old) is bytes
    bare = old.strip(_BLANKS)
    at = old.index(bare)
    member[place] = old[:at] + raw + old[at + len(bare) :]


class Row:
    """One tensor of a draft. ``member`` is its ``[key, value]`` pair in the header object."""

    def __init__(self, member: list[Value], dtype: str, shape: list[int], data: bytes) -> None:
        self.member, self.dtype, self.shape, self.data = member, dtype, shape, data

    @property
    def name(self) -> str:
        return decode_string(self.member[0])

    @property
    def fields(self) -> Obj:
        assert type(self.member[1]) is Obj
        return self.member[1]

    @property
    def width(self) -> int:
        return max(DTYPE_BITS[self.dtype] // 8, 1)

    @property
    def packed(self) -> bool:
        return DTYPE_BITS[self.dtype] % 8 != 0

    @property
    def count(self) -> int:
        return len(self.data) * 8 // DTYPE_BITS[self.dtype]

    @property
    def empty(self) -> bool:
        return 0 in self.shape

    def field(self, name: str) -> list[Value]:
        return next(member for member in self.fields.members if decode_string(member[0]) == name)

    def retype(self, dtype: str, shape: list[int]) -> None:
        """Change the dtype and shape, and truncate the bytes or pad them with zeros to fit."""
        if dtype != self.dtype:
            exchange(self.field("dtype"), 1, written(dtype))
        if shape != self.shape:
            self._list("shape", shape)
        bits = DTYPE_BITS[dtype]
        for dim in shape:
            bits *= dim
        assert bits % 8 == 0
        self.dtype, self.shape = dtype, shape
        self.data = self.data[: bits // 8].ljust(bits // 8, b"\0")
        if dtype == "BOOL":
            self.data = bytes(byte & 1 for byte in self.data)

    def move(self, begin: int) -> None:
        self._list("data_offsets", [begin, begin + len(self.data)])

    def _list(self, name: str, values: list[int]) -> None:
        member = self.field(name)
        old, new = member[1], numbers(*values)
        assert type(old) is Arr
        if [item.strip(_BLANKS) for item in old.items if type(item) is bytes] == new.items:
            return
        for at, item in enumerate(old.items[: len(values)]):
            spaced: list[Value] = [b"", item]
            number = new.items[at]
            assert type(number) is bytes
            exchange(spaced, 1, number)
            new.items[at] = spaced[1]
        new.head, new.foot = old.head, old.foot
        member[1] = new


@lru_cache(8)
def _header(data: bytes) -> Header | None:
    return explain(data, "hardened").header


class Draft:
    """A valid file that is being changed. ``rows`` are its tensors in data order.

    Rendering preserves ``rest``, the header length modulo 8, so that no change affects the alignment of the
    data by accident. ``spaces`` counts the spaces after the header object. If ``bare`` is set, rendering adds
    no spaces to a header that has none.
    """

    def __init__(self, file: File, rows: list[Row]) -> None:
        assert type(file.root) is Obj
        self._file = file
        self.root = file.root
        self.members = file.root.members
        self.rows = rows
        self.spaces = len(file.padding)
        self.bare = False
        self.rest = len(file.header()) % 8

    @classmethod
    def of(cls, data: bytes) -> Draft | None:
        """Decompose a file, or return None if it is invalid under the profile ``hardened``."""
        header = _header(data)
        if header is None:
            return None
        file = parse(data)
        if type(file.root) is not Obj:
            return None
        rows = []
        for member in file.root.members:
            name = decode_string(member[0])
            if name != decode_string(RESERVED):
                tensor = header.tensors[name]
                content = file.data[tensor.begin : tensor.end]
                row = Row(member, tensor.dtype, list(tensor.shape), content)
                rows.append((tensor.begin, tensor.end, row))
        rows.sort(key=lambda row: row[:2])
        return cls(file, [row for _, _, row in rows])

    def header(self) -> bytes:
        return self._file.header()

    @property
    def metadata(self) -> list[Value] | None:
        return next((m for m in self.members if decode_string(m[0]) == decode_string(RESERVED)), None)

    @property
    def pairs(self) -> list[list[Value]]:
        member = self.metadata
        if member is None:
            return []
        assert type(member[1]) is Obj
        return member[1].members

    def positions(self) -> Iterator[tuple[Row, int]]:
        """Yield every tensor with the original position of its first byte in the file."""
        at = 8 + len(self._file.header())
        for row in self.rows:
            yield row, at
            at += len(row.data)

    @property
    def in_order(self) -> bool:
        """Whether the header lists the tensors in data order."""
        metadata = self.metadata
        tensors = (member for member in self.members if member is not metadata)
        return all(member is row.member for member, row in zip(tensors, self.rows, strict=True))

    def sort(self) -> None:
        """List the tensors in data order. The metadata keeps its position."""
        metadata = self.metadata
        place = 0 if metadata is None else self.members.index(metadata)
        self.members[:] = [row.member for row in self.rows]
        if metadata is not None:
            self.members.insert(place, metadata)

    def remove(self, row: Row) -> None:
        self.rows.remove(row)
        self.members.remove(row.member)

    def add(self, at: int, dtype: str, shape: list[int]) -> None:
        fields = Obj([[b'"dtype"', written(dtype)], [b'"shape"', numbers()], [b'"data_offsets"', numbers()]])
        member: list[Value] = [self.free("a"), fields]
        row = Row(member, dtype, [], b"")
        row.retype(dtype, shape)
        self.members.insert(at + (self.metadata is not None), member)
        self.rows.insert(at, row)

    def free(self, text: str, but: list[Value] | None = None) -> bytes:
        """Return an unused name, or an unused metadata key if ``but`` is a member of the metadata."""
        pairs = self.pairs
        members = pairs if but is not None and but in pairs else self.members
        taken = {decode_string(member[0]) for member in members if member is not but}
        number = 0
        while text in taken:
            text, number = f"{text.rstrip('0123456789') or 'a'}{number}", number + 1
        return written(text)

    def render(self) -> bytes:
        begin = 0
        for row in self.rows:
            row.move(begin)
            begin += len(row.data)
        self._file.data = b"".join(row.data for row in self.rows)
        self._file.padding = b""
        missing = (self.rest - len(self._file.header())) % 8
        # A header without padding must stay unpadded, so change the length of a name instead.
        if (
            not self.spaces
            and missing
            and (
                self._rename(lambda name: name.removesuffix(b"a" * (8 - missing)))
                or self._rename(lambda name: name + b"a" * missing)
                or self.bare
            )
        ):
            missing = 0
        spaces = self.spaces // 8 * 8 + missing
        self._file.padding = b" " * (spaces if spaces or not self.spaces else 8)
        return self._file.render()

    def grow(self) -> None:
        """Make the header eight bytes longer without changing anything else that a reader may depend on."""
        if not self._rename(lambda name: name + b"a" * 8):
            self.spaces += 8

    def _rename(self, how: Callable[[bytes], bytes]) -> bool:
        taken = Counter(fold_name(decode_string(member[0])) for member in self.members)
        for row in self.rows:
            raw = row.member[0]
            assert type(raw) is bytes
            end = raw.rindex(b'"')
            other = how(raw[:end]) + raw[end:]
            if other == raw or b"\\" in other:
                continue
            old, new = row.name, decode_string(other)
            plain = all(_NAME.fullmatch(name) and name not in SPECIAL_NAMES for name in (old, new))
            if plain and taken[fold_name(old)] == 1 and not taken[fold_name(new)]:
                row.member[0] = other
                return True
        return False
