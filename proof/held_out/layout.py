"""Held-out readers with a bug in offsets or layout (OFF). See ``held_out``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from proof.broken.correct.json import Number, Pairs
from proof.broken.correct.reader import Tensor
from safetensors_corpus.judging.answer import Refused

from .watched import Watched, plant


class HoleBehindEmpty(Watched):
    """Does not check the offset that follows an empty tensor."""

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        place, empty, moved = 0, False, []
        for tensor in self.order(tensors):
            unseen = self.noted(empty and place < tensor.begin)
            moved.append(replace(tensor, begin=place) if unseen else tensor)
            place, empty = tensor.end, tensor.begin == tensor.end
        super().check_layout(moved, size)


class End32(Watched):
    """Stores the begin of a range in 64 bits and its end in 32 bits."""

    def offsets(self, value: object) -> tuple[int, int]:
        begin, end = super().offsets(value)
        return (begin, end % 2**32) if self.noted(end >= 2**32) else (begin, end)


class SumOfThree(Watched):
    """Compares two ranges with each other, but checks only the bounds and the sum of three or more."""

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        self.noted(False)
        try:
            super().check_layout(tensors, size)
        except Refused:
            inside = all(tensor.end <= size for tensor in tensors)
            total = sum(tensor.end - tensor.begin for tensor in tensors)
            if not self.noted(len(tensors) >= 3 and inside and total == size):
                raise


class Tied(Watched):
    """Treats two tensors that differ only in their names as tied weights."""

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        once = {(t.dtype, t.shape, t.begin, t.end, t.name if t.begin == t.end else ""): t for t in tensors}
        tied = self.noted(len(once) < len(tensors))
        super().check_layout(list(once.values()) if tied else tensors, size)


class Clamped(Watched):
    """Returns the remaining bytes of the last tensor if its last element is truncated."""

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        ordered = self.order(tensors)
        if ordered:
            last = ordered[-1]
            if self.noted(0 < last.end - size < self.widths[last.dtype] // 8):
                ordered[-1] = replace(last, end=size)
        super().check_layout(ordered, size)


class EmptyBehindEnd(Watched):
    """Requests no bytes for an empty tensor, and therefore does not check its position."""

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        inside = [t for t in tensors if not t.begin == t.end > size]
        super().check_layout(inside if self.noted(len(inside) < len(tensors)) else tensors, size)


class EmptyInside(Watched):
    """Accepts an empty tensor inside a tensor that the header lists earlier."""

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        self.noted(False)
        try:
            super().check_layout(tensors, size)
        except Refused:
            kept = [
                tensor
                for index, tensor in enumerate(tensors)
                if tensor.begin != tensor.end
                or not any(t.begin < tensor.begin < t.end for t in tensors[:index])
            ]
            if not self.noted(len(kept) < len(tensors)):
                raise
            super().check_layout(kept, size)


class EmptyAtEnd(Watched):
    """Requires every tensor to begin inside the data buffer."""

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        if self.noted(any(tensor.begin == tensor.end == size > 0 for tensor in tensors)):
            raise Refused("past-end")
        super().check_layout(tensors, size)


class PackedLast(Watched):
    """Requires the order of one writer, which puts packed tensors last."""

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        packed = [self.widths[t.dtype] < 8 for t in self.order(tensors) if t.begin < t.end]
        if self.noted(packed != sorted(packed)):
            raise Refused("order")
        super().check_layout(tensors, size)


class AlignedGap(Watched):
    """Skips zeros before 64-bit elements up to a multiple of eight."""

    def cover(self, tensors: Sequence[Tensor], metadata: Mapping[str, Any] | None, data: bytes) -> None:
        place, moved = 0, []
        for tensor in self.order(tensors):
            gap = data[place : tensor.begin]
            aligned = tensor.begin == -(-place // 8) * 8 > place and self.widths[tensor.dtype] == 64
            padding = self.noted(aligned and not any(gap))
            moved.append(replace(tensor, begin=place) if padding else tensor)
            place = max(place, tensor.end)
        super().cover(moved, metadata, data)


class LastLine(Watched):
    """Ignores one line feed at the end of the file, as a text editor may add it."""

    def cover(self, tensors: Sequence[Tensor], metadata: Mapping[str, Any] | None, data: bytes) -> None:
        end = max((tensor.end for tensor in tensors), default=0)
        super().cover(tensors, metadata, data[:end] if self.noted(data[end:] == b"\n") else data)


class TrailingBesideMetadata(Watched):
    """Compares the last end with the file size in a branch that is not run for files with metadata."""

    def cover(self, tensors: Sequence[Tensor], metadata: Mapping[str, Any] | None, data: bytes) -> None:
        end = max((tensor.end for tensor in tensors), default=0)
        rest = bool(metadata) and 0 < end < len(data)
        super().cover(tensors, metadata, data[:end] if self.noted(rest) else data)


class EitherWay(Watched):
    """Uses the distance between two offsets as the size, regardless of their order."""

    def offsets(self, value: object) -> tuple[int, int]:
        begin, end = super().offsets(value)
        return (end, begin) if self.noted(begin > end) else (begin, end)


class MinusZero(Watched):
    """Rejects offsets below zero, but minus zero is not below zero."""

    def offsets(self, value: object) -> tuple[int, int]:
        if isinstance(value, list):
            plain = [Number("0") if isinstance(item, Number) and item == "-0" else item for item in value]
            value = plain if self.noted(plain != value) else value
        return super().offsets(value)


class TextEnd(Watched):
    """Subtracts offsets in a language that converts strings to numbers for the subtraction."""

    def offsets(self, value: object) -> tuple[int, int]:
        if isinstance(value, list) and len(value) == 2:
            digits = type(value[1]) is str and value[1].isascii() and value[1].isdigit()
            if self.noted(digits):
                value = [value[0], Number(value[1])]
        return super().offsets(value)


class SecondOffset(Watched):
    """Reads the second offset before it counts the offsets."""

    def offsets(self, value: object) -> tuple[int, int]:
        if self.noted(isinstance(value, list) and not isinstance(value, Pairs) and len(value) == 1):
            raise IndexError("data_offsets[1]")
        return super().offsets(value)


PLANTED = (
    plant(
        "hole-behind-empty",
        "Does not detect a hole if the tensor before it is empty.",
        "OFF-07",
        HoleBehindEmpty,
    ),
    plant(
        "end-32-bits",
        "Keeps only the low 32 bits of the end of a range.",
        "OFF-04 OFF-05 OFF-14",
        End32,
    ),
    plant(
        "hole-pays-for-overlap",
        "Does not detect holes and overlaps of the same size among three or more tensors.",
        "OFF-06 OFF-07",
        SumOfThree,
    ),
    plant(
        "tied-range",
        "Accepts tensors that share a range if their dtypes and shapes are equal.",
        "OFF-06",
        Tied,
    ),
    plant(
        "last-element-cut",
        "Accepts a last tensor if less than one of its elements is missing.",
        "OFF-04",
        Clamped,
    ),
    plant(
        "empty-behind-end",
        "Accepts an empty tensor beyond the end of the data buffer.",
        "OFF-09 OFF-04",
        EmptyBehindEnd,
    ),
    plant(
        "empty-inside-earlier",
        "Accepts an empty tensor inside a tensor that the header lists earlier.",
        "OFF-09",
        EmptyInside,
    ),
    plant(
        "empty-at-end-refused",
        "Rejects an empty tensor at the end of a data buffer that is not empty.",
        "OFF-09",
        EmptyAtEnd,
    ),
    plant(
        "packed-first-refused",
        "Rejects a packed tensor if the bytes of an unpacked tensor follow it.",
        "OFF-11 HDR-17",
        PackedLast,
    ),
    plant(
        "aligned-gap",
        "Accepts a hole of zeros that moves 64-bit elements to a multiple of eight.",
        "OFF-12",
        AlignedGap,
    ),
    plant(
        "line-feed-at-end",
        "Accepts trailing bytes if they consist of one line feed.",
        "OFF-08",
        LastLine,
    ),
    plant(
        "trailing-beside-metadata",
        "Accepts trailing bytes if the file has metadata with a key and a tensor with bytes.",
        "OFF-08",
        TrailingBesideMetadata,
    ),
    plant(
        "range-backwards",
        "Accepts the two offsets in the wrong order if their distance is correct.",
        "OFF-03",
        EitherWay,
    ),
    plant(
        "minus-zero-offset",
        "Accepts an offset written as -0.",
        "OFF-02",
        MinusZero,
    ),
    plant(
        "end-as-text",
        "Accepts the end of a range as a string of digits.",
        "OFF-02",
        TextEnd,
    ),
    plant(
        "single-offset-crash",
        "Crashes on a data_offsets array with one element.",
        "OFF-01",
        SecondOffset,
    ),
)
