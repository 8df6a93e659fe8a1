"""Broken readers: how byte ranges cover the data buffer (OFF-04 to OFF-12), and where they are aligned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..correct.reader import READER, SmallReader, Tensor, by_offset
from ..variant import Panic, reading

CHAIN = ("hole", "overlap", "past-end", "trailing")


class OnlyOne(SmallReader):
    """Makes the checks of a range for one tensor only."""

    which: slice = slice(0, 1)

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        """Check the order of some and the end of all."""
        ordered = self.order(tensors)
        super().check_layout(ordered[self.which], max((t.end for t in ordered[self.which]), default=0))
        READER.demand("trailing", max((t.end for t in tensors), default=0) == size)


class LastOnly(OnlyOne):
    """Checks the last range only."""

    which: slice = slice(-1, None)

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        """Check that the last range begins where the one before ends."""
        ordered = self.order(tensors)
        pair = ordered[-2:]
        READER.demand("chain", len(pair) < 2 or pair[0].end == pair[1].begin)
        READER.demand("trailing", max((t.end for t in tensors), default=0) == size)


class FirstFree(SmallReader):
    """Takes the buffer to begin where the first range does."""

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        """Check what lies behind the beginning of the first range."""
        first = min((t.begin for t in tensors), default=0)
        super().check_layout(
            [replace(t, begin=t.begin - first, end=t.end - first) for t in tensors], size - first
        )


@dataclass(frozen=True)
class Gaps(SmallReader):
    """Tolerates small gaps."""

    largest: int = 7

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        """Close gaps up to the largest before the check."""
        place, moved = 0, []
        for tensor in self.order(tensors):
            gap = tensor.begin - place
            moved.append(replace(tensor, begin=place if 0 < gap <= self.largest else tensor.begin))
            place = max(place, tensor.end)
        super().check_layout(moved, place if place < size <= place + self.largest else size)


class AlignedGaps(SmallReader):
    """Expects each tensor to begin at a multiple of eight."""

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        rounded = [replace(t, end=-(-t.end // 8) * 8 if t.end < size else t.end) for t in tensors]
        super().check_layout(rounded, size)


class SumOnly(SmallReader):
    """Compares the sum of the sizes with the data."""

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        """Check the sum and the bounds."""
        self.demand("sum", sum(t.end - t.begin for t in tensors) == size)
        self.demand("past-end", all(t.end <= size for t in tensors))


class WrappedSum(SmallReader):
    """Compares the sum of the sizes in 64 bits."""

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        self.demand("sum", sum(t.end - t.begin for t in tensors) % 2**64 == size)


class LastEnd(SmallReader):
    """Checks the tensor that the header lists last, and no other."""

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        """Check the end of the last one."""
        self.demand("past-end", not tensors or tensors[-1].end <= size)


@dataclass(frozen=True)
class Position(SmallReader):
    """Checks positions in the file with sums that wrap."""

    bits: int = 64

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        for tensor in tensors:
            self.demand("past-end", (tensor.end + 128) % 2**self.bits <= size + 128)
            self.demand("past-end", (tensor.begin + 128) % 2**self.bits <= size + 128)


class SignedPosition(SmallReader):
    """Compares positions as signed numbers, so that large ones are negative and below every size."""

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        for tensor in tensors:
            signed = tensor.end - 2**64 if tensor.end >= 2**63 else tensor.end
            self.demand("past-end", signed <= size)


class EmptyRefused(SmallReader):
    """Refuses tensors without bytes."""

    def tensor(self, name: str, fields: Mapping[str, object]) -> Tensor:
        found = super().tensor(name, fields)
        self.demand("empty", found.begin < found.end)
        return found


class EmptyAnywhere(SmallReader):
    """Does not ask where tensors without bytes lie."""

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        super().check_layout([t for t in tensors if t.begin < t.end], size)


class EmptyInBounds(SmallReader):
    """Asks only that tensors without bytes lie inside the buffer."""

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        """Check those that have bytes, and the bounds of the others."""
        super().check_layout([t for t in tensors if t.begin < t.end], size)
        self.demand("past-end", all(t.end <= size for t in tensors))


class EmptyDropped(SmallReader):
    """Loses tensors without bytes."""

    def content(self, file: bytes) -> dict[str, Any]:
        found = super().content(file)
        return found | {"tensors": [row for row in found["tensors"] if row["nbytes"] > 0]}


class EmptyAtZero(SmallReader):
    """Expects tensors without bytes at the start of the buffer."""

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        super().check_layout(tensors, size)
        self.demand("empty-at-zero", all(t.begin == 0 for t in tensors if t.begin == t.end))


class TrailingTolerated(SmallReader):
    """Tolerates a little behind the last tensor."""

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        """Check up to the end of the last tensor when little is left."""
        end = max((t.end for t in tensors), default=0)
        super().check_layout(tensors, end if size - end == 1 else size)


class PastEndCrash(SmallReader):
    """Cuts the data without looking where it ends."""

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        """Check, and crash beyond the end."""
        if any(t.end > size for t in tensors):
            raise Panic("out of bounds")
        super().check_layout(tensors, size)


class Allocating(SmallReader):
    """Allocates what the ranges ask for before it compares them with the file."""

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        """Check, out of memory when a range is large."""
        if any(t.end - t.begin > 1 << 20 for t in tensors):
            raise MemoryError("range")
        super().check_layout(tensors, size)


def _as_listed(tensors: Sequence[Tensor]) -> list[Tensor]:
    return list(tensors)


def _begin_alone(tensors: Sequence[Tensor]) -> list[Tensor]:
    return sorted(tensors, key=lambda t: t.begin)


def _end_alone(tensors: Sequence[Tensor]) -> list[Tensor]:
    return sorted(tensors, key=lambda t: t.end)


def _empty_behind(tensors: Sequence[Tensor]) -> list[Tensor]:
    return sorted(tensors, key=lambda t: (t.begin, -t.end))


def _by_name(tensors: Sequence[Tensor]) -> list[Tensor]:
    return sorted(tensors, key=lambda t: t.name)


def _by_text(tensors: Sequence[Tensor]) -> list[Tensor]:
    return sorted(tensors, key=lambda t: (str(t.begin), str(t.end)))


def _same_range_once(tensors: Sequence[Tensor]) -> list[Tensor]:
    return by_offset(list({(t.begin, t.end): t for t in tensors}.values()))


def _unsized(_width: int, _shape: Sequence[int]) -> int:
    return 0


ORDERS = (
    ("as-listed", "Expects the header to list tensors in the order of their bytes.", _as_listed),
    ("by-begin-alone", "Sorts by begin alone, so that empty tensors may come late.", _begin_alone),
    ("by-end-alone", "Sorts by end alone.", _end_alone),
    ("empty-behind", "Sorts empty tensors behind the one that begins there.", _empty_behind),
    ("by-name", "Sorts by name.", _by_name),
    ("by-text", "Sorts offsets as text.", _by_text),
    ("same-range-once", "Looks at each range once.", _same_range_once),
)


class Aligned(SmallReader):
    """Refuses tensors that do not lie at a multiple of their element size."""

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        super().check_layout(tensors, size)
        self.demand("aligned", all(t.begin % (self.widths[t.dtype] // 8 or 1) == 0 for t in tensors))


class AlignedInFile(SmallReader):
    """Casts a pointer into the file, which has to be aligned."""

    def content(self, file: bytes) -> dict[str, Any]:
        header, data = self.split(file)
        tensors, _ = self.entries(self.members(header))
        self.check_layout(tensors, len(data))
        for t in tensors:
            if (8 + len(header) + t.begin) % (self.widths[t.dtype] // 8 or 1) != 0 and t.end > t.begin:
                raise Panic("misaligned pointer")
        return super().content(file)


VARIANTS = (
    *(reading(f"order-{name}", about, replace(READER, order=order)) for name, about, order in ORDERS),
    reading("no-hole-check", "Does not notice bytes before or between tensors.", READER.without("hole")),
    reading("no-overlap-check", "Does not notice that ranges overlap.", READER.without("overlap")),
    reading("no-trailing-check", "Does not notice bytes behind the last tensor.", READER.without("trailing")),
    reading("no-past-end-check", "Does not notice that a range ends behind the file.",
            READER.without("past-end")),
    reading("no-layout-check", "Looks at each range by itself.", READER.without(*CHAIN)),
    reading("no-checks", "Computes no sizes and compares nothing.", replace(READER, size=_unsized).without(
        *CHAIN, "range-size", "reversed", "offsets-pair")),
    reading("first-range-only", "Checks the first range and the end.", OnlyOne()),
    reading("last-range-only", "Checks the last range and the end.", LastOnly()),
    reading("first-range-free", "Lets the first range begin anywhere.", FirstFree()),
    reading("gaps-below-8", "Tolerates gaps of up to 7 bytes.", Gaps()),
    reading("gaps-below-64", "Tolerates gaps of up to 63 bytes.", Gaps(largest=63)),
    reading("gaps-aligned", "Expects gaps that align tensors to 8 bytes.", AlignedGaps()),
    reading("gap-of-one-behind", "Tolerates one byte behind the last tensor.", TrailingTolerated()),
    reading("sum-of-sizes", "Compares the sum of the ranges with the data.", SumOnly()),
    reading("sum-of-sizes-wraps", "Compares the sum of the ranges in 64 bits.", WrappedSum()),
    reading("last-end-only", "Compares the end of the last entry with the file.", LastEnd()),
    reading("position-wraps-at-2p64", "Adds offsets to the start of the data in 64 bits.", Position()),
    reading("position-wraps-at-2p32", "Adds offsets to the start of the data in 32 bits.", Position(bits=32)),
    reading("position-signed", "Compares offsets as signed numbers.", SignedPosition()),
    reading("past-end-crash", "Cuts the data behind its end.", PastEndCrash()),
    reading("past-end-allocated", "Allocates what a range asks for before it looks at the file.",
            Allocating()),
    reading("empty-refused", "Refuses tensors without bytes.", EmptyRefused()),
    reading("empty-anywhere", "Does not ask where tensors without bytes lie.", EmptyAnywhere()),
    reading("empty-in-bounds", "Asks only that tensors without bytes lie in the buffer.", EmptyInBounds()),
    reading("empty-dropped", "Loses tensors without bytes.", EmptyDropped()),
    reading("empty-at-zero", "Expects tensors without bytes at the start.", EmptyAtZero()),
    reading("aligned-offsets", "Refuses tensors at odd offsets.", Aligned()),
    reading("aligned-pointers", "Crashes on data that is not aligned in the file.", AlignedInFile()),
)  # fmt: skip
