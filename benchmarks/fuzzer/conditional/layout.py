"""Faults in how byte ranges are ordered and compared, and where the bytes are taken from.

Part of the conditional set; see ``conditional``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from safetensors_corpus.broken.correct.json import Refused
from safetensors_corpus.broken.correct.reader import Tensor, by_offset

from ..held_out.watched import Watched
from .framing import PAGE
from .planting import by_reader


class EmptyInsideTheLastTensor(Watched):
    """Accepts an empty tensor inside another, if that is the last.

    Compares the place of an empty tensor with the beginning of the next tensor that has bytes, and so
    with nothing when it lies inside the last one.
    """

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        """Leave out the empty tensors inside the last one."""
        last = max((t for t in tensors if t.end > t.begin), key=lambda t: t.begin, default=None)
        inside = [t for t in tensors if last and t.begin == t.end and last.begin < t.begin < last.end]
        self.noted(bool(inside))
        super().check_layout([t for t in tensors if t not in inside], size)


class LayoutBySumAndNeighbours(Watched):
    """Accepts overlaps of entries that are no neighbours, if a hole makes up for them.

    Accepts ranges whose sizes add up to the buffer, which lie in it and of which no two that follow each
    other in the header overlap.
    """

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        """Pass over a clash of entries that do not follow each other and a hole of the same size."""
        total = sum(t.end - t.begin for t in tensors) == size
        bounded = all(t.end <= size for t in tensors)
        apart = not any(a.begin < b.end and b.begin < a.end for a, b in pairwise(tensors))
        try:
            super().check_layout(tensors, size)
        except Refused:
            if not self.noted(total and bounded and apart):
                raise


class GapBeforeWideElements(Watched):
    """Accepts holes that align a tensor of eight-byte elements.

    Takes fewer than eight bytes before a tensor of eight-byte elements for alignment when it begins at a
    multiple of eight.
    """

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        """Count such gaps as tensors."""
        place, gaps = 0, []
        for tensor in by_offset(tensors):
            gap = 0 < tensor.begin - place < 8
            if self.noted(gap and self.widths[tensor.dtype] == 64 and tensor.begin % 8 == 0):
                gaps.append(Tensor("", "U8", (tensor.begin - place,), place, tensor.begin))
            place = max(place, tensor.end)
        super().check_layout([*tensors, *gaps], size)


class RestUncheckedWhenUnsorted(Watched):
    """Accepts trailing bytes if the header is not in the order of the offsets.

    Compares the end of the last tensor with the end of the file while it walks through the entries, and
    skips this when it had to sort them.
    """

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        """Pass over the rest of a file whose header is out of order."""
        begins = [t.begin for t in tensors]
        end = max((t.end for t in tensors), default=0)
        unsorted = begins != sorted(begins)
        super().check_layout(tensors, end if self.noted(unsorted and end < size) else size)


class TiedRangesAccepted(Watched):
    """Takes entries of the same range, dtype and shape for one tensor with several names."""

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        """Count such tensors once."""
        once = {(t.begin, t.end, t.dtype, t.shape): t for t in tensors if t.end > t.begin}
        empty = [t for t in tensors if t.end == t.begin]
        self.noted(len(once) + len(empty) < len(tensors))
        super().check_layout([*once.values(), *empty], size)


class ReversedRangeOfEmpty(Watched):
    """Takes the length of a range that runs backwards for zero, which is right for an empty tensor."""

    def tensor(self, name: str, fields: Mapping[str, object]) -> Tensor:
        """Return an empty tensor at the beginning of its range."""
        dtype, shape = self.dtype(fields["dtype"]), self.shape(fields["shape"])
        begin, end = self.offsets(fields["data_offsets"])
        if self.noted(end < begin and self.fits(dtype, shape, 0)):
            return Tensor(name, dtype, shape, begin, begin)
        return super().tensor(name, fields)


class EmptyAtTheEnd(Watched):
    """Demands that every tensor begins before the end of the buffer, empty ones too."""

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        """Refuse a tensor that begins at the end of a buffer with bytes."""
        super().check_layout(tensors, size)
        if self.noted(0 < size <= max((t.begin for t in tensors), default=0)):
            raise Refused("past-end")


class EmptyBehindItsFollower(Watched):
    """Refuses an empty tensor listed behind the one that begins at its place.

    Sorts by the first offset alone, so that an empty tensor stays behind one with bytes at the same
    place that the header lists before it.
    """

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        """Refuse such an order as an overlap."""
        super().check_layout(tensors, size)
        ordered = sorted(tensors, key=lambda t: t.begin)
        if self.noted(any(b.begin < a.end for a, b in pairwise(ordered))):
            raise Refused("overlap")


class SortByLowBits(Watched):
    """Sorts entries that are not in order yet by offsets cut to 16 bits."""

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        """Refuse a chain that the wrong order breaks."""
        super().check_layout(tensors, size)
        if by_offset(tensors) == list(tensors):
            return
        ordered = sorted(tensors, key=lambda t: (t.begin % 2**16, t.end))
        if self.noted(any(a.end != b.begin for a, b in pairwise(ordered))):
            raise Refused("hole")


class UnalignedMatrix(Watched):
    """Demands of tensors with two and more dimensions that they begin at a multiple of the element size."""

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        """Refuse a matrix at another place."""
        super().check_layout(tensors, size)
        for tensor in tensors:
            width = max(self.widths[tensor.dtype] // 8, 1)
            if self.noted(len(tensor.shape) > 1 and tensor.begin % width != 0 and tensor.end > tensor.begin):
                raise Refused("alignment")


class EmptiesAtOnePlace(Watched):
    """Keeps the empty tensors in a table by their offset and takes a second one there for an overlap."""

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        """Refuse two empty tensors with one offset."""
        super().check_layout(tensors, size)
        places = [t.begin for t in tensors if t.begin == t.end]
        if self.noted(len(set(places)) < len(places)):
            raise Refused("overlap")


class CacheByPlaceInPage(Watched):
    """Keeps bytes that it has read in a cache whose keys are the place within a page and the length."""

    def placed(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """Take the bytes of the first tensor with the same key."""
        cache: dict[tuple[int, int], int] = {}
        found = []
        for tensor in tensors:
            length = tensor.end - tensor.begin
            begin = cache.setdefault((tensor.begin % PAGE, length), tensor.begin)
            self.noted(begin != tensor.begin and length > 0)
            found.append(replace(tensor, begin=begin, end=begin + length))
        return found


class IndexInOneByte(Watched):
    """Keeps the number of a tensor in one byte when it notes the place of its bytes."""

    def placed(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """Take the bytes of every tensor from the place of one of the first 256."""
        found = []
        for at, tensor in enumerate(tensors):
            begin, length = tensors[at % 256].begin, tensor.end - tensor.begin
            self.noted(begin != tensor.begin and length > 0)
            found.append(replace(tensor, begin=begin, end=begin + length))
        return found


PLANTED = (
    by_reader("empty-inside-the-last-tensor", "OFF-06 OFF-09", EmptyInsideTheLastTensor),
    by_reader("layout-by-sum-and-neighbours", "OFF-06 OFF-07", LayoutBySumAndNeighbours),
    by_reader("gap-before-wide-elements", "OFF-07 OFF-12", GapBeforeWideElements),
    by_reader("rest-unchecked-when-unsorted", "OFF-08", RestUncheckedWhenUnsorted),
    by_reader("tied-ranges-accepted", "OFF-06", TiedRangesAccepted),
    by_reader("reversed-range-of-empty", "OFF-03 OFF-09", ReversedRangeOfEmpty),
    by_reader("empty-at-the-end", "OFF-09", EmptyAtTheEnd),
    by_reader("empty-behind-its-follower", "HDR-17 OFF-09", EmptyBehindItsFollower),
    by_reader("sort-by-low-bits", "HDR-17", SortByLowBits),
    by_reader("unaligned-matrix", "OFF-11", UnalignedMatrix),
    by_reader("empties-at-one-place", "OFF-09", EmptiesAtOnePlace),
    by_reader("cache-by-place-in-page", "DAT-06", CacheByPlaceInPage),
    by_reader("index-in-one-byte", "DAT-06", IndexInOneByte),
)
