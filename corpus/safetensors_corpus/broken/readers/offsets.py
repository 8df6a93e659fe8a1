"""Broken readers: the two offsets of a tensor (OFF-01 to OFF-05)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..correct.json import Grammar, Number, Pairs, Refused
from ..correct.reader import READER, SmallReader, Tensor, plain_integer
from ..variant import Panic, reading


class BeginOnly(SmallReader):
    """Checks where a range begins, and takes its length from the shape."""

    def tensor(self, name: str, fields: Mapping[str, object]) -> Tensor:
        """Return the tensor with the end that follows from its size."""
        found = super().tensor(name, fields)
        return replace(found, end=found.begin + self.size(self.widths[found.dtype], found.shape))


@dataclass(frozen=True)
class WrappedRange(SmallReader):
    """Subtracts the offsets in unsigned integers."""

    bits: int = 64

    def tensor(self, name: str, fields: Mapping[str, object]) -> Tensor:
        """Return the tensor if the difference fits."""
        found = super().tensor(name, fields)
        size = self.size(self.widths[found.dtype], found.shape)
        self.demand("wrapped-size", (found.end - found.begin) % 2**self.bits == size)
        return found


class FromFile(SmallReader):
    """Takes offsets that fit no other way to count from the start of the file."""

    def content(self, file: bytes) -> dict[str, Any]:
        try:
            return super().content(file)
        except Refused:
            start = len(self.split(file)[0]) + 8

        def from_file(value: object) -> int:
            found = plain_integer(value) - start
            self.demand("offset-in-header", found >= 0)
            return found

        return SmallReader.content(replace(READER, offset=from_file), file)


class LengthSecond(SmallReader):
    """Takes the second offset for a length."""

    def offsets(self, value: object) -> tuple[int, int]:
        begin, length = super().offsets(value)
        return begin, begin + length


class EitherOrder(SmallReader):
    """Turns reversed offsets round."""

    def offsets(self, value: object) -> tuple[int, int]:
        begin, end = sorted(super().offsets(value))
        return begin, end


@dataclass(frozen=True)
class AnyPair(SmallReader):
    """Takes other forms of a pair of offsets."""

    convert: Callable[[object], object] = lambda value: value

    def offsets(self, value: object) -> tuple[int, int]:
        return super().offsets(self.convert(value))


def _members(value: object) -> object:
    return [item for _, item in value] if isinstance(value, Pairs) else value


def _flat(value: object) -> object:
    return value[0] if isinstance(value, list) and len(value) == 1 and isinstance(value[0], list) else value


def _spread(value: object) -> object:
    """Read all numbers that are inside."""
    if isinstance(value, Number):
        return [Number(0), value]
    if isinstance(value, list):
        return [inner for item in value for inner in (item if isinstance(item, list) else [item])][:2]
    return [Number(part) for part in value.strip("[]").split(",")] if type(value) is str else value


def _missing_is_zero(value: object) -> object:
    if value is None or (isinstance(value, Pairs) and not value):
        return [Number(0), Number(0)]
    return [*value, *[Number(0)] * (2 - len(value))] if isinstance(value, list) and len(value) < 2 else value


def _one_is_end(value: object) -> object:
    return [Number(0), *value] if isinstance(value, list) and len(value) == 1 else value


class EndOptional(SmallReader):
    """Completes a range without end."""

    def tensor(self, name: str, fields: Mapping[str, object]) -> Tensor:
        offsets = fields["data_offsets"]
        if not isinstance(offsets, list) or len(offsets) < 2:
            offsets = offsets if isinstance(offsets, list) and offsets else [Number(0)]
            width = self.widths[self.dtype(fields["dtype"])]
            end = self.offset(offsets[0]) + self.size(width, self.shape(fields["shape"]))
            fields = {**fields, "data_offsets": [*offsets, Number(end)]}
        return super().tensor(name, fields)


class PairCrash(SmallReader):
    """Takes the elements of a pair without looking how many there are."""

    def offsets(self, value: object) -> tuple[int, int]:
        if isinstance(value, list) and len(value) < 2:
            raise Panic("index out of range")
        return super().offsets(value)


class ReversedCrash(SmallReader):
    """Cuts the data from begin to end, whichever is larger."""

    def tensor(self, name: str, fields: Mapping[str, object]) -> Tensor:
        try:
            return super().tensor(name, fields)
        except Refused as err:
            if str(err) == "reversed":
                raise Panic("slice out of range") from err
            raise


class BySize(SmallReader):
    """Reads as many bytes as the shape asks for, past the range."""

    def described(self, tensor: Tensor, data: bytes) -> dict[str, Any]:
        end = tensor.begin + self.size(self.widths[tensor.dtype], tensor.shape)
        return super().described(replace(tensor, end=min(end, len(data))), data)


class AtLeast(SmallReader):
    """Asks that the range holds the tensor."""

    def tensor(self, name: str, fields: Mapping[str, object]) -> Tensor:
        found = super().tensor(name, fields)
        size = self.size(self.widths[found.dtype], found.shape)
        self.demand("range-holds-tensor", found.end - found.begin >= size)
        return found


class AtMost(SmallReader):
    """Asks that the tensor takes up the range."""

    def tensor(self, name: str, fields: Mapping[str, object]) -> Tensor:
        found = super().tensor(name, fields)
        size = self.size(self.widths[found.dtype], found.shape)
        self.demand("tensor-fills-range", found.end - found.begin <= size)
        return found


class FirstSize(SmallReader):
    """Compares range and shape of the first tensor in the header only."""

    def entries(self, members: Pairs) -> tuple[list[Tensor], dict[str, Any] | None]:
        first = [m for m in members if not self.reserved(m[0])][:1]
        super().entries(Pairs(first))
        return SmallReader.entries(READER.without("range-size"), members)


PAIRS = (
    ("members", "Takes the values of an object for offsets.", _members),
    ("nested", "Unpacks an array around the offsets.", _flat),
    ("spread", "Takes the numbers wherever they are.", _spread),
    ("missing-zero", "Takes missing offsets for zero.", _missing_is_zero),
    ("one-is-end", "Takes one offset for the end.", _one_is_end),
)
ANYWHERE = ("hole", "overlap", "past-end", "trailing")
VARIANTS = (
    *(reading(f"offsets-{name}", about, AnyPair(convert=change)) for name, about, change in PAIRS),
    reading("offsets-end-optional", "Completes a range that lacks its end or both offsets from the shape.",
            EndOptional(grammar=Grammar(left_out=frozenset(["trailing-comma]"])))),
    reading("offsets-two-of-more", "Takes the first two of more offsets.", READER.without("offsets-pair")),
    reading("offsets-index-crash", "Crashes when an offset is missing.", PairCrash()),
    reading("offsets-from-file", "Counts offsets from the start of the file where they fit so.", FromFile()),
    reading("offsets-length-second", "Takes the second offset for a length.", LengthSecond()),
    reading("offsets-either-order", "Turns reversed offsets round.", EitherOrder()),
    reading("offsets-reversed-crash", "Cuts from the larger to the smaller offset.", ReversedCrash()),
    reading("offsets-unchecked-reversed", "Takes reversed offsets.",
            READER.without("reversed", "range-size", *ANYWHERE)),
    reading("range-wraps-at-2p64", "Subtracts offsets in 64 bits.",
            WrappedRange().without("reversed", "range-size", *ANYWHERE)),
    reading("range-wraps-at-2p32", "Subtracts offsets in 32 bits.",
            WrappedRange(bits=32).without("reversed", "range-size", *ANYWHERE)),
    reading("no-size-check", "Does not compare range and shape.", READER.without("range-size")),
    reading("size-check-too-large-only", "Refuses only ranges that are too small.",
            AtLeast().without("range-size")),
    reading("size-check-too-small-only", "Refuses only ranges that are too large.",
            AtMost().without("range-size")),
    reading("size-check-first-only", "Compares range and shape of the first tensor only.", FirstSize()),
    reading("end-not-read", "Takes the end of a range from the shape.",
            BeginOnly().without("range-size", *ANYWHERE)),
    reading("reads-by-shape", "Reads as many bytes as the shape asks for.", BySize().without("range-size")),
)  # fmt: skip
