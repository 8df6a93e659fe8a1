"""Writers with one mistake each: framing, layout and order of the tensors."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ...writing import GivenTensor
from ..correct.reader import WIDTHS
from ..correct.writer import RESERVED, RefusedError, Row, SmallWriter, variants


class NoPadding(SmallWriter):
    """Leaves the header as long as it is."""

    def padded(self, header: bytes) -> bytes:
        return header


class NulPadding(SmallWriter):
    """Fills the header up with NUL bytes."""

    def padded(self, header: bytes) -> bytes:
        return header + bytes(-len(header) % 8)


class PaddingNotCounted(SmallWriter):
    """Writes the length of the header without its padding."""

    def length(self, header: bytes) -> bytes:
        return len(header.rstrip(b" ")).to_bytes(8, "little")


class BigEndianLength(SmallWriter):
    """Writes the length prefix big-endian."""

    def length(self, header: bytes) -> bytes:
        return len(header).to_bytes(8, "big")


class OffsetsFromTheHeader(SmallWriter):
    """Counts offsets from behind the length prefix, not from the start of the data."""

    def first_offset(self, rows: list[Row]) -> int:
        return 128 if rows else 0


class GapsForAlignment(SmallWriter):
    """Starts every tensor at a multiple of eight and leaves the bytes between to nobody."""

    def file(self, rows: list[Row], metadata: dict[str, str] | None) -> bytes:
        members: dict[str, Any] = {} if metadata is None else {RESERVED: metadata}
        data = bytearray()
        for row in self.order(rows):
            data += bytes(-len(data) % 8)
            offsets = [len(data), len(data) + len(row.data)]
            members[row.name] = {"dtype": row.dtype, "shape": list(row.shape), "data_offsets": offsets}
            data += row.data
        header = self.padded(self.json(members))
        self.within_cap(header)
        return self.length(header) + header + bytes(data)


class DataInAnotherOrder(SmallWriter):
    """Writes the data in the order of the names and the offsets in another."""

    def file(self, rows: list[Row], metadata: dict[str, str] | None) -> bytes:
        whole = super().file(rows, metadata)
        size = sum(len(row.data) for row in rows)
        by_name = sorted(rows, key=lambda row: row.name)
        return whole[: len(whole) - size] + b"".join(row.data for row in by_name)


class TrailingByte(SmallWriter):
    """Ends the file with a line feed."""

    def file(self, rows: list[Row], metadata: dict[str, str] | None) -> bytes:
        return super().file(rows, metadata) + b"\n"


class OrderOfGiving(SmallWriter):
    """Writes tensors in the order in which they are given."""

    def order(self, rows: list[Row]) -> list[Row]:
        return rows


class NarrowFirst(SmallWriter):
    """Writes narrow elements first."""

    def order(self, rows: list[Row]) -> list[Row]:
        return sorted(rows, key=lambda row: (WIDTHS[row.dtype], row.name))


class RandomTensorOrder(SmallWriter):
    """Writes tensors in another order each time."""

    def __init__(self) -> None:
        self.times: Counter[tuple[str, ...]] = Counter()

    def order(self, rows: list[Row]) -> list[Row]:
        names = tuple(row.name for row in rows)
        self.times[names] += 1
        # Another order each time, but the same ones in every run: which cases notice must not be chance.
        dice = random.Random(f"{names} {self.times[names]}")  # noqa: S311 - nothing secret
        return dice.sample(rows, len(rows))


class OrderTurnsOnResave(SmallWriter):
    """Writes the names descending whenever it loaded them."""

    def resave(self, path: Any) -> None:
        rows = self.loaded(path.read_bytes())[::-1]
        order, self.order = self.order, lambda rows: rows  # type: ignore[method-assign] # until it is saved
        self.store(path, self.file(rows, None))
        self.order = order  # type: ignore[method-assign]


class EmptyOnResave(SmallWriter):
    """Cannot save again what has no tensors."""

    def loaded(self, data: bytes) -> list[Row]:
        rows = super().loaded(data)
        if not rows:
            raise RefusedError("nothing to save")
        return rows


class EmptyDropped(SmallWriter):
    """Leaves out tensors without elements."""

    def order(self, rows: list[Row]) -> list[Row]:
        return [row for row in super().order(rows) if row.data]


class NothingToSave(SmallWriter):
    """Refuses to save no tensors."""

    def rows(self, tensors: Sequence[GivenTensor]) -> list[Row]:
        if not tensors:
            raise RefusedError("nothing to save")
        return super().rows(tensors)


class NoCap(SmallWriter):
    """Writes a header of any length."""

    only_heavy = True

    def within_cap(self, header: bytes) -> None:
        pass


class SmallCap(SmallWriter):
    """Refuses a header of more than sixteen million bytes."""

    only_heavy = True

    def within_cap(self, header: bytes) -> None:
        if len(header) > 16_000_000:
            raise ValueError("too long")


class PrettyJson(SmallWriter):
    """Writes JSON with blanks behind commas and colons."""

    def json(self, members: Mapping[str, Any]) -> bytes:
        return json.dumps(members, ensure_ascii=False).encode()


class EscapedJson(SmallWriter):
    """Escapes everything beyond ASCII, and the slash."""

    def json(self, members: Mapping[str, Any]) -> bytes:
        return json.dumps(members, separators=(",", ":")).replace("/", "\\/").encode()


class NamesNotEscaped(SmallWriter):
    """Puts names and metadata between quotes as they are."""

    def json(self, members: Mapping[str, Any]) -> bytes:
        def spelled(value: Any) -> str:
            if isinstance(value, dict):
                return "{" + ",".join(f'"{k}":{spelled(v)}' for k, v in value.items()) + "}"
            return f'"{value}"' if isinstance(value, str) else json.dumps(value)

        return spelled(dict(members)).encode()


VARIANTS = variants(globals(), __name__)
