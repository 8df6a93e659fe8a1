"""Broken slicers: what is asked for and where it lies in the file, one mistake each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..correct.reader import READER, Tensor
from ..correct.slicer import SLICER, Axis, Slice, SmallSlicer
from ..variant import Variant


class FirstPartOnly(SmallSlicer):
    """Heeds the first index and forgets the others."""

    def axis(self, size: int, part: Any, dim: int) -> Axis:
        return super().axis(size, part if dim == 0 else slice(None), dim)


class LastDimensions(SmallSlicer):
    """Lets fewer indices count for the last dimensions."""

    def parts(self, shape: Sequence[int], index: tuple[Any, ...]) -> list[Any]:
        return super().parts(shape, index if Ellipsis in index or not index else (..., *index))


class DotsAtEnd(SmallSlicer):
    """Takes the indices behind an ellipsis for those of the dimensions that follow the ones before it."""

    def around(self, index: list[Any], place: int) -> tuple[list[Any], list[Any]]:
        """Return the parts before and behind."""
        before, behind = super().around(index, place)
        return before + behind, []


class DotsForOne(SmallSlicer):
    """Takes an ellipsis for exactly one dimension."""

    def parts(self, shape: Sequence[int], index: tuple[Any, ...]) -> list[Any]:
        return super().parts(shape, tuple(slice(None) if part is Ellipsis else part for part in index))


class NoDots(SmallSlicer):
    """Knows no ellipsis."""

    def parts(self, shape: Sequence[int], index: tuple[Any, ...]) -> list[Any]:
        self.demand("ellipsis", Ellipsis not in index)
        return super().parts(shape, index)


class NeedsIndex(SmallSlicer):
    """Refuses the empty tuple."""

    def parts(self, shape: Sequence[int], index: tuple[Any, ...]) -> list[Any]:
        self.demand("no-index", index != ())
        return super().parts(shape, index)


class Extra(SmallSlicer):
    """Forgets what there is too much of, and applies indices to a scalar in vain."""

    def parts(self, shape: Sequence[int], index: tuple[Any, ...]) -> list[Any]:
        return super().parts(shape, index)[: len(shape)]


class Converts(SmallSlicer):
    """Makes an integer of whatever it gets: of numbers, texts and lists."""

    def number(self, value: Any) -> int:
        if isinstance(value, list):
            value = value[0] if value else 0
        try:
            return int(value)
        except (TypeError, ValueError):
            return 0


class SkipsUnknown(SmallSlicer):
    """Takes everything that is neither integer nor range for the whole dimension."""

    def axis(self, size: int, part: Any, dim: int) -> Axis:
        known = isinstance(part, (int, slice)) and type(part) is not bool
        return super().axis(size, part if known else slice(None), dim)


class Lists(SmallSlicer):
    """Picks the positions of a list without looking whether they are there."""

    def axis(self, size: int, part: Any, dim: int) -> Axis:
        if not isinstance(part, list):
            return super().axis(size, part, dim)
        return [place + size if place < 0 else place for place in part], True


class Masks(SmallSlicer):
    """Takes a truth value for a mask of the dimension that it stands at."""

    def axis(self, size: int, part: Any, dim: int) -> Axis:
        return (range(size if part else 0), True) if type(part) is bool else super().axis(size, part, dim)


class ColumnMajor(SmallSlicer):
    """Takes the first dimension for the one that runs fastest."""

    def strides(self, shape: Sequence[int]) -> list[int]:
        return super().strides(shape[::-1])[::-1]


class OnePiece(SmallSlicer):
    """Reads what it wants in one piece from the first element on."""

    def runs(self, axes: Sequence[Axis], strides: Sequence[int]) -> list[tuple[int, int]]:
        runs = super().runs(axes, strides)
        return [(runs[0][0], sum(count for _, count in runs))] if runs else []


@dataclass(frozen=True)
class Widths(SmallSlicer):
    """Takes the elements of some dtypes for wider or narrower than they are."""

    wrong: tuple[tuple[str, int], ...] = ()

    def width(self, dtype: str) -> int:
        """Return the bits of one element."""
        return dict(self.wrong).get(dtype) or super().width(dtype)


class BigEndian(SmallSlicer):
    """Gives elements with their bytes turned round."""

    def gather(self, tensor: Tensor, axes: Sequence[Axis], data: bytes, begin: int) -> bytes:
        raw, width = super().gather(tensor, axes, data, begin), max(self.width(tensor.dtype) // 8, 1)
        return b"".join(raw[at : at + width][::-1] for at in range(0, len(raw), width))


@dataclass(frozen=True)
class Moved(SmallSlicer):
    """Rounds the place of a tensor to whole elements or the start of the data to a multiple of eight."""

    what: str = ""

    def slice(self, path: Path, name: str, index: tuple[Any, ...]) -> Slice:
        file = path.read_bytes()
        tensors, data = self.tensors(file)
        tensor, place = self.named(tensors, name), 0
        axes = self.axes(tensor.shape, self.parts(tensor.shape, index))
        start = len(file) - len(data)
        if self.what == "start":
            place = tensor.begin - start % 8
        elif self.what == "tensor":
            place = tensor.begin - tensor.begin % max(self.width(tensor.dtype) // 8, 1)
        elif self.what == "listed":
            before = tensors[: tensors.index(tensor)]
            place = sum(other.end - other.begin for other in before)
        return tensor.dtype, self.shape(axes), self.gather(tensor, axes, file, start + place)


class FirstForUnknown(SmallSlicer):
    """Gives the first tensor for one that is not there."""

    def named(self, tensors: Sequence[Tensor], name: str) -> Tensor:
        return next((tensor for tensor in tensors if tensor.name == name), tensors[0])


class LooseNames(SmallSlicer):
    """Compares names without case, space, accents and what follows the length asked for."""

    def named(self, tensors: Sequence[Tensor], name: str) -> Tensor:
        for tensor in tensors:
            if tensor.name == name or tensor.name.casefold() == name.casefold().strip():
                return tensor
        return super().named(tensors, name)


class PathNames(SmallSlicer):
    """Refuses names that look like paths or attributes, or are empty."""

    def named(self, tensors: Sequence[Tensor], name: str) -> Tensor:
        self.demand("name", name.isascii() and name.isidentifier())
        return super().named(tensors, name)


class NeedsAllDtypes(SmallSlicer):
    """Loads all tensors before it cuts one, in a framework without packed and rare types."""

    def named(self, tensors: Sequence[Tensor], name: str) -> Tensor:
        self.demand("dtypes", not any(t.dtype.startswith(("F4", "F6", "F8_E8", "F8_E4M3F")) for t in tensors))
        return super().named(tensors, name)


class PackedToBytes(SmallSlicer):
    """Rounds the ends of a packed part to whole bytes."""

    def runs(self, axes: Sequence[Axis], strides: Sequence[int]) -> list[tuple[int, int]]:
        runs = super().runs(axes, strides)
        if "end-in-byte" not in self.left_out:
            return runs
        return [(first, -(-count // 4) * 4 if count % 2 else count) for first, count in runs]


class NoPacked(SmallSlicer):
    """Refuses to cut along the last dimension of a packed tensor."""

    def gather(self, tensor: Tensor, axes: Sequence[Axis], data: bytes, begin: int) -> bytes:
        whole = not axes or len(axes[-1][0]) == tensor.shape[-1]
        self.demand("packed", self.width(tensor.dtype) % 8 == 0 or whole)
        return super().gather(tensor, axes, data, begin)


WIDE = Widths(wrong=(("F4", 8), ("F6_E2M3", 8), ("F6_E3M2", 8)))
ALL_32 = Widths(wrong=tuple((dtype, 32) for dtype, bits in READER.widths.items() if bits >= 8))
LENIENT = replace(READER, left_out=frozenset({"hole", "overlap", "past-end", "trailing"}))


def _variant(name: str, slicer: SmallSlicer, about: str = "") -> Variant:
    about = about or (type(slicer).__doc__ or "").partition("\n")[0]
    return Variant(f"slicer/{name}", about, "slice", lambda: slicer)


VARIANTS: tuple[Variant, ...] = (
    _variant("first-index-only", FirstPartOnly()),
    _variant("counts-from-last-dimension", LastDimensions()),
    _variant("ellipsis-at-end", DotsAtEnd()),
    _variant("ellipsis-is-one-dimension", DotsForOne()),
    _variant("no-ellipsis", NoDots()),
    _variant("no-empty-index", NeedsIndex()),
    _variant("two-ellipses", SLICER.without("two-ellipses"), "Takes several ellipses for one."),
    _variant("too-many-indices", Extra().without("too-many")),
    _variant("no-upper-bound", SLICER.without("above"), "Does not look whether an integer is too large."),
    _variant("no-lower-bound", SLICER.without("below"), "Does not look whether an integer is too small."),
    _variant("converts", Converts().without("bool")),
    _variant("skips-unknown-indices", SkipsUnknown()),
    _variant("lists-unchecked", Lists()),
    _variant("masks", Masks()),
    _variant("column-major", ColumnMajor()),
    _variant("one-piece", OnePiece()),
    _variant("all-elements-32-bits", ALL_32),
    _variant("bf16-is-f32", Widths(wrong=(("BF16", 32),)), "Takes BF16 for as wide as F32."),
    _variant("complex-is-f32", Widths(wrong=(("C64", 32),)), "Takes C64 for one F32."),
    _variant("packed-is-bytes", WIDE, "Takes each packed element for a byte."),
    _variant("big-endian", BigEndian()),
    _variant("place-forgotten", Moved(what="nothing"), "Takes every tensor for the first one."),
    _variant("place-rounded", Moved(what="tensor"), "Rounds the place of a tensor to whole elements."),
    _variant("data-start-rounded", Moved(what="start"), "Rounds the start of the data to a multiple of 8."),
    _variant("place-from-list", Moved(what="listed"), "Counts places in the order of the header."),
    _variant("first-tensor-for-unknown", FirstForUnknown()),
    _variant("loose-names", LooseNames()),
    _variant("path-names", PathNames()),
    _variant("loads-all-dtypes", NeedsAllDtypes()),
    _variant("packed-start", SLICER.without("start-in-byte"), "Rounds the start of a packed part down."),
    _variant("packed-end", SLICER.without("end-in-byte"), "Rounds the end of a packed part down."),
    _variant("no-packed-parts", NoPacked()),
    _variant("file-unchecked", replace(SLICER, reader=LENIENT), "Does not check the layout of the file."),
    _variant(
        "size-unchecked",
        replace(SLICER, reader=READER.without("range-size", "overlap")),
        "Does not compare range and shape.",
    ),
)
