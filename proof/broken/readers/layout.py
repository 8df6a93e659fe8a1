"""Broken readers with a fault in the offsets of a tensor, the coverage of the data buffer, or alignment.

Rules: OFF-01 to OFF-12.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from proof.planted import Planted
from safetensors_corpus.judging.answer import Refused

from ..correct.json import Grammar, Number, Pairs, refusing, refusing_result
from ..correct.reader import READER, WIDTHS, SmallReader, Tensor, by_offset, plain_integer
from ..variant import Panic, named, reading

ANYWHERE = ("hole", "overlap", "past-end", "trailing")
"""The checks of the positions of ranges."""


def last_end(tensors: Sequence[Tensor]) -> int:
    return max((t.end for t in tensors), default=0)


class EndNotRead(SmallReader, without=("range-size", *ANYWHERE)):
    """Computes the end of a range from the shape."""

    def tensor(self, name: str, fields: Mapping[str, object]) -> Tensor:
        found = super().tensor(name, fields)
        return replace(found, end=found.begin + self.size(self.widths[found.dtype], found.shape))


class OffsetsFromFile(SmallReader):
    """Counts offsets from the start of the file if they are invalid relative to the start of the data."""

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


def _flat(value: object) -> object:
    return value[0] if isinstance(value, list) and len(value) == 1 and isinstance(value[0], list) else value


def _spread(value: object) -> object:
    if isinstance(value, Number):
        return [Number(0), value]
    if isinstance(value, list):
        return [inner for item in value for inner in (item if isinstance(item, list) else [item])][:2]
    return [Number(part) for part in value.strip("[]").split(",")] if type(value) is str else value


def _missing_is_zero(value: object) -> object:
    if value is None or (isinstance(value, Pairs) and not value):
        return [Number(0), Number(0)]
    return [*value, *[Number(0)] * (2 - len(value))] if isinstance(value, list) and len(value) < 2 else value


class _EndOptional(SmallReader):
    """Computes the end of a range if it is missing."""

    def tensor(self, name: str, fields: Mapping[str, object]) -> Tensor:
        offsets = fields["data_offsets"]
        if not isinstance(offsets, list) or len(offsets) < 2:
            offsets = offsets if isinstance(offsets, list) and offsets else [Number(0)]
            width = self.widths[self.dtype(fields["dtype"])]
            end = self.offset(offsets[0]) + self.size(width, self.shape(fields["shape"]))
            fields = {**fields, "data_offsets": [*offsets, Number(end)]}
        return super().tensor(name, fields)


class OffsetsReversedCrash(SmallReader):
    """Crashes when it cuts the data from the larger offset to the smaller one."""

    def tensor(self, name: str, fields: Mapping[str, object]) -> Tensor:
        try:
            return super().tensor(name, fields)
        except Refused as err:
            if str(err) == "reversed":
                raise Panic("slice out of range") from err
            raise


class ReadsByShape(SmallReader, without=("range-size",)):
    """Reads as many bytes as the shape requires."""

    def described(self, tensor: Tensor, data: bytes) -> dict[str, Any]:
        end = tensor.begin + self.size(self.widths[tensor.dtype], tensor.shape)
        return super().described(replace(tensor, end=min(end, len(data))), data)


class SizeCheckFirstOnly(SmallReader):
    """Compares the range with the shape only for the first tensor."""

    def entries(self, members: Pairs) -> tuple[list[Tensor], dict[str, Any] | None]:
        first = [m for m in members if not self.reserved(m[0])][:1]
        super().entries(Pairs(first))
        return SmallReader.entries(READER.without("range-size"), members)


PAIRS = (
    ("members", "Uses the values of an object as the offsets.",
     lambda value: [item for _, item in value] if isinstance(value, Pairs) else value),
    ("nested", "Unpacks an array that contains the offsets.", _flat),
    ("spread", "Searches a nested value for the two offsets.", _spread),
    ("missing-zero", "Treats missing offsets as zero.", _missing_is_zero),
    ("one-is-end", "Treats a single offset as the end.",
     lambda value: [Number(0), *value] if isinstance(value, list) and len(value) == 1 else value),
)  # fmt: skip


class FirstRangeOnly(SmallReader):
    """Checks only the first range and the end."""

    which: slice = slice(0, 1)

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        ordered = self.order(tensors)
        super().check_layout(ordered[self.which], last_end(ordered[self.which]))
        READER.demand("trailing", last_end(tensors) == size)


class LastRangeOnly(FirstRangeOnly):
    """Checks only the last range and the end."""

    which: slice = slice(-1, None)

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        ordered = self.order(tensors)
        pair = ordered[-2:]
        READER.demand("chain", len(pair) < 2 or pair[0].end == pair[1].begin)
        READER.demand("trailing", last_end(tensors) == size)


class FirstRangeFree(SmallReader):
    """Allows the first range to begin anywhere."""

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        first = min((t.begin for t in tensors), default=0)
        super().check_layout(
            [replace(t, begin=t.begin - first, end=t.end - first) for t in tensors], size - first
        )


@dataclass(frozen=True)
class _Gaps(SmallReader):
    """Accepts small gaps."""

    largest: int = 7

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        place, moved = 0, []
        for tensor in self.order(tensors):
            gap = tensor.begin - place
            moved.append(replace(tensor, begin=place if 0 < gap <= self.largest else tensor.begin))
            place = max(place, tensor.end)
        super().check_layout(moved, place if place < size <= place + self.largest else size)


def _unsized(_width: int, _shape: Sequence[int]) -> int:
    return 0


ORDERS = (
    ("as-listed", "Expects the header to list the tensors in the order of their bytes.",
     list),
    ("by-begin-alone",
     "Sorts only by begin, so an empty tensor may come after the tensor that begins at the same offset.",
     lambda tensors: sorted(tensors, key=lambda t: t.begin)),
    ("by-end-alone", "Sorts only by end.", lambda tensors: sorted(tensors, key=lambda t: t.end)),
    ("empty-behind", "Sorts an empty tensor after a tensor that begins at the same offset.",
     lambda tensors: sorted(tensors, key=lambda t: (t.begin, -t.end))),
    ("by-name", "Sorts by name.", lambda tensors: sorted(tensors, key=lambda t: t.name)),
    ("by-text", "Sorts offsets as strings.",
     lambda tensors: sorted(tensors, key=lambda t: (str(t.begin), str(t.end)))),
    ("same-range-once", "Checks tensors with equal ranges only once.",
     lambda tensors: by_offset(list({(t.begin, t.end): t for t in tensors}.values()))),
)  # fmt: skip


class AlignedPointers(SmallReader):
    """Crashes on data that is not aligned in the file."""

    def content(self, file: bytes) -> dict[str, Any]:
        header, data = self.split(file)
        tensors, _ = self.entries(self.members(header))
        self.check_layout(tensors, len(data))
        for t in tensors:
            if (8 + len(header) + t.begin) % (self.widths[t.dtype] // 8 or 1) != 0 and t.end > t.begin:
                raise Panic("misaligned pointer")
        return super().content(file)


UNSIZED = READER.without("range-size")
UNCHECKED = READER.changed(check_layout=lambda _, _tensors, _size: None)
EMPTY_ANYWHERE = READER.changed(
    check_layout=lambda right, tensors, size: right([t for t in tensors if t.begin < t.end], size)
)


def _needed(tensor: Tensor) -> int:
    return READER.size(WIDTHS[tensor.dtype], tensor.shape)


def _of_pair(change: Callable[[object], object]) -> SmallReader:
    return READER.changed(offsets=lambda right, value: right(change(value)))


def _wrapped_range(bits: int) -> SmallReader:
    return UNSIZED.without("reversed", *ANYWHERE).changed(
        tensor=refusing_result(lambda t: (t.end - t.begin) % 2**bits != _needed(t))
    )


def _wrapped_position(bits: int) -> SmallReader:
    return UNCHECKED.changed(
        check_layout=refusing(
            lambda tensors, size: any(
                (place + 128) % 2**bits > size + 128 for t in tensors for place in (t.begin, t.end)
            )
        )
    )


VARIANTS: tuple[Planted, ...] = (
    *named(globals(), "read", SmallReader),
    reading("offsets-length-second", "Interprets the second offset as a length.",
            READER.changed(offsets=lambda right, value: (right(value)[0], sum(right(value))))),
    reading("offsets-either-order", "Swaps reversed offsets.",
            READER.changed(offsets=lambda right, value: sorted(right(value)))),
    reading("offsets-index-crash", "Crashes when an offset is missing.",
            READER.changed(offsets=refusing(
                lambda value: isinstance(value, list) and len(value) < 2, Panic))),
    reading("size-check-too-large-only", "Rejects only ranges that are too small.",
            UNSIZED.changed(tensor=refusing_result(lambda t: t.end - t.begin < _needed(t)))),
    reading("size-check-too-small-only", "Rejects only ranges that are too large.",
            UNSIZED.changed(tensor=refusing_result(lambda t: t.end - t.begin > _needed(t)))),
    reading("gaps-aligned", "Expects gaps that align tensors to 8 bytes.",
            READER.changed(check_layout=lambda right, tensors, size: right(
                [replace(t, end=-(-t.end // 8) * 8 if t.end < size else t.end) for t in tensors], size))),
    reading("sum-of-sizes", "Compares the sum of the ranges with the size of the data.",
            UNCHECKED.changed(check_layout=refusing(lambda tensors, size: (
                sum(t.end - t.begin for t in tensors) != size or any(t.end > size for t in tensors))))),
    reading("sum-of-sizes-wraps",
            "Computes the sum of the ranges in 64 bits before comparing it with the size of the data.",
            UNCHECKED.changed(check_layout=refusing(
                lambda tensors, size: sum(t.end - t.begin for t in tensors) % 2**64 != size))),
    reading("last-end-only", "Compares only the end of the last entry with the file size.",
            UNCHECKED.changed(check_layout=refusing(
                lambda tensors, size: tensors and tensors[-1].end > size))),
    # As signed numbers, large offsets are negative and therefore below every size.
    reading("position-signed", "Compares offsets as signed numbers.",
            UNCHECKED.changed(check_layout=refusing(lambda tensors, size: any(
                (t.end - 2**64 if t.end >= 2**63 else t.end) > size for t in tensors)))),
    reading("empty-refused", "Rejects tensors without bytes.",
            READER.changed(tensor=refusing_result(lambda t: t.begin >= t.end))),
    reading("empty-anywhere", "Does not check the position of tensors without bytes.", EMPTY_ANYWHERE),
    reading("empty-in-bounds", "Checks only that tensors without bytes lie in the buffer.",
            EMPTY_ANYWHERE.changed(check_layout=refusing(
                lambda tensors, size: any(t.end > size for t in tensors)))),
    reading("empty-dropped", "Loses tensors without bytes.",
            READER.changed(content=lambda right, file: right(file) | {
                "tensors": [row for row in right(file)["tensors"] if row["nbytes"] > 0]})),
    reading("empty-at-zero", "Requires tensors without bytes to lie at the start of the data.",
            READER.changed(check_layout=refusing(
                lambda tensors, _size: any(t.begin != 0 for t in tensors if t.begin == t.end)))),
    reading("gap-of-one-behind", "Accepts one byte after the last tensor.",
            READER.changed(check_layout=lambda right, tensors, size: right(
                tensors, size - 1 if size - last_end(tensors) == 1 else size))),
    reading("past-end-crash", "Crashes on ranges beyond the end of the data.",
            READER.changed(check_layout=refusing(
                lambda tensors, size: any(t.end > size for t in tensors), Panic))),
    reading("past-end-allocated", "Allocates as many bytes as a range claims before it checks the file size.",
            READER.changed(check_layout=refusing(
                lambda tensors, _size: any(t.end - t.begin > 1 << 20 for t in tensors), MemoryError))),
    reading("aligned-offsets", "Rejects tensors at offsets that are not aligned to their element size.",
            READER.changed(check_layout=refusing(lambda tensors, _size: any(
                t.begin % (WIDTHS[t.dtype] // 8 or 1) != 0 for t in tensors)))),
    *(reading(f"offsets-{name}", about, _of_pair(change)) for name, about, change in PAIRS),
    reading("offsets-end-optional", "Computes a missing end, or two missing offsets, from the shape.",
            _EndOptional(grammar=Grammar(left_out=frozenset(["trailing-comma]"])))),
    reading("offsets-two-of-more", "Uses the first two of more than two offsets.",
            READER.without("offsets-pair")),
    reading("offsets-unchecked-reversed", "Accepts reversed offsets.",
            READER.without("reversed", "range-size", *ANYWHERE)),
    reading("range-wraps-at-2p64", "Subtracts offsets in 64-bit arithmetic that wraps around.",
            _wrapped_range(64)),
    reading("range-wraps-at-2p32", "Subtracts offsets in 32-bit arithmetic that wraps around.",
            _wrapped_range(32)),
    reading("no-size-check", "Does not compare the range with the shape.", READER.without("range-size")),
    *(reading(f"order-{name}", about, replace(READER, order=order)) for name, about, order in ORDERS),
    reading("no-hole-check", "Does not detect bytes before or between tensors.", READER.without("hole")),
    reading("no-overlap-check", "Does not detect overlapping ranges.", READER.without("overlap")),
    reading("no-trailing-check", "Does not detect bytes after the last tensor.", READER.without("trailing")),
    reading("no-past-end-check", "Does not detect a range that ends beyond the file.",
            READER.without("past-end")),
    reading("no-layout-check", "Checks each range on its own.", READER.without(*ANYWHERE)),
    reading("no-checks", "Neither computes nor compares sizes.", replace(READER, size=_unsized).without(
        *ANYWHERE, "range-size", "reversed", "offsets-pair")),
    reading("gaps-below-8", "Accepts gaps of up to 7 bytes.", _Gaps()),
    reading("gaps-below-64", "Accepts gaps of up to 63 bytes.", _Gaps(largest=63)),
    reading("position-wraps-at-2p64",
            "Adds offsets to the start of the data in 64-bit arithmetic that wraps around.",
            _wrapped_position(64)),
    reading("position-wraps-at-2p32",
            "Adds offsets to the start of the data in 32-bit arithmetic that wraps around.",
            _wrapped_position(32)),
)  # fmt: skip
