"""Broken slicers, each with one mistake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from proof.planted import Planted
from safetensors_corpus.judging.answer import Refused

from .correct.json import refusing, refusing_result
from .correct.reader import READER, Tensor
from .correct.slicer import SLICER, Axis, Slice, SmallSlicer
from .variant import named


class EllipsisAtEnd(SmallSlicer):
    """Applies the indices after an ellipsis to the dimensions that follow the indices before it."""

    def around(self, index: list[Any], place: int) -> tuple[list[Any], list[Any]]:
        before, behind = super().around(index, place)
        return before + behind, []


class Converts(SmallSlicer, without=("bool",)):
    """Converts every value to an integer, including strings and lists."""

    def number(self, value: Any) -> int:
        if isinstance(value, list):
            value = value[0] if value else 0
        try:
            return int(value)
        except (TypeError, ValueError):
            return 0


class OnePiece(SmallSlicer):
    """Reads all selected elements as one piece that begins at the first of them."""

    def runs(self, axes: Sequence[Axis], strides: Sequence[int]) -> list[tuple[int, int]]:
        runs = super().runs(axes, strides)
        return [(runs[0][0], sum(count for _, count in runs))] if runs else []


class BigEndian(SmallSlicer):
    """Returns elements with their bytes in reverse order."""

    def gather(self, tensor: Tensor, axes: Sequence[Axis], data: bytes, begin: int) -> bytes:
        raw, width = super().gather(tensor, axes, data, begin), max(self.width(tensor.dtype) // 8, 1)
        return b"".join(raw[at : at + width][::-1] for at in range(0, len(raw), width))


@dataclass(frozen=True)
class _Moved(SmallSlicer):
    """Rounds the position of a tensor to whole elements, or the start of the data to a multiple of eight."""

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


class LooseNames(SmallSlicer):
    """Ignores case and spaces around the requested name when it compares names."""

    def named(self, tensors: Sequence[Tensor], name: str) -> Tensor:
        for tensor in tensors:
            if tensor.name == name or tensor.name.casefold() == name.casefold().strip():
                return tensor
        return super().named(tensors, name)


LENIENT = replace(READER, left_out=frozenset({"hole", "overlap", "past-end", "trailing"}))


class RowOffsetWraps(SmallSlicer):
    """Computes the position of a row in 64 bits, and checks that position instead of the index."""

    def integer(self, size: int, value: int) -> int:
        return value + size if value < 0 else value

    def gather(self, tensor: Any, axes: Sequence[Axis], data: bytes, begin: int) -> bytes:
        width, size = max(self.width(tensor.dtype) // 8, 1), tensor.end - tensor.begin
        row = self.strides(tensor.shape)[0] * width if tensor.shape else 0
        first = next((p[0] for p, stays in axes[:1] if not stays and len(p)), 0)
        if not 0 <= first < (tensor.shape or (1,))[0]:
            at = first * row % 2**64
            if at + row > size:
                raise Refused("outside")
            return data[begin + at : begin + at + row]
        return super().gather(tensor, axes, data, begin)


class InclusiveStop(SmallSlicer):
    """Includes the element at the stop."""

    def range(self, size: int, start: Any, stop: Any, step: int) -> Sequence[int]:
        more = None if stop is None or not 0 <= stop < size else stop + 1
        return super().range(size, start, more, step)


class ReadsOn(SmallSlicer):
    """Does not clamp ranges to the dimension, and reads the data that follows it."""

    def bound(self, size: int, value: Any, low: int, high: int, default: int) -> int:  # noqa: ARG002
        if value is None:
            return default
        bound = self.number(value)
        if abs(bound) > 1000:
            raise Refused("far")
        return bound + size if bound < 0 else bound


class ReadsBefore(ReadsOn):
    """Clamps only the stop, and reads the data before the tensor."""

    def bound(self, size: int, value: Any, low: int, high: int, default: int) -> int:
        return min(super().bound(size, value, low, high, default), high)


class ExchangesStartAndStop(SmallSlicer):
    """Swaps start and stop if the start is greater."""

    def range(self, size: int, start: Any, stop: Any, step: int) -> Sequence[int]:
        places = super().range(size, start, stop, step)
        if not places and isinstance(start, int) and isinstance(stop, int) and start > stop >= 0:
            return super().range(size, stop, start, step)
        return places


class EmptyIsOne(SmallSlicer):
    """Returns at least one element."""

    def range(self, size: int, start: Any, stop: Any, step: int) -> Sequence[int]:
        places = super().range(size, start, stop, step)
        return places or range(min(places.start, max(size - 1, 0)), places.start + 1)  # type: ignore[attr-defined]


class RoundsStepsDown(SmallSlicer):
    """Omits the remainder of a range that the step does not divide."""

    def range(self, size: int, start: Any, stop: Any, step: int) -> Sequence[int]:
        places = super().range(size, start, stop, 1)
        return super().range(size, start, stop, step)[: len(places) // abs(step)]


def slicing(name: str, about: str, slicer: SmallSlicer) -> Planted:
    return Planted(f"slicer/{name}", about, "slice", lambda: slicer)


def _wide(widths: Mapping[str, int]) -> SmallSlicer:
    return SLICER.changed(width=lambda right, dtype: widths.get(dtype) or right(dtype))


def _cut_to(bits: int) -> SmallSlicer:
    half = 1 << bits - 1
    return SLICER.changed(number=lambda right, value: (right(value) + half) % (2 * half) - half)


VARIANTS: tuple[Planted, ...] = (
    *named(globals(), "slice", SmallSlicer),
    slicing("counts-from-last-dimension",
            "Applies indices to the last dimensions if there are fewer indices than dimensions.",
            SLICER.changed(parts=lambda right, shape, index: right(
                shape, index if Ellipsis in index or not index else (..., *index)))),
    slicing("ellipsis-is-one-dimension", "Treats an ellipsis as exactly one dimension.",
            SLICER.changed(parts=lambda right, shape, index: right(
                shape, tuple(slice(None) if part is Ellipsis else part for part in index)))),
    slicing("no-ellipsis", "Does not support an ellipsis.",
            SLICER.changed(parts=refusing(lambda _shape, index: Ellipsis in index))),
    slicing("no-empty-index", "Rejects the empty tuple.",
            SLICER.changed(parts=refusing(lambda _shape, index: index == ()))),
    slicing("skips-unknown-indices",
            "Selects the whole dimension for an index that is neither an integer nor a range.",
            SLICER.changed(axis=lambda right, size, part, dim: right(
                size,
                part if isinstance(part, int | slice) and type(part) is not bool else slice(None),
                dim))),
    slicing("lists-unchecked", "Selects the positions in a list without checking that they exist.",
            SLICER.changed(axis=lambda right, size, part, dim: (
                ([place + size if place < 0 else place for place in part], True)
                if isinstance(part, list) else right(size, part, dim)))),
    slicing("masks", "Interprets a boolean as a mask of the dimension at its position.",
            SLICER.changed(axis=lambda right, size, part, dim: (
                (range(size if part else 0), True) if type(part) is bool else right(size, part, dim)))),
    slicing("first-tensor-for-unknown", "Returns the first tensor for an unknown name.",
            SLICER.changed(named=lambda _, tensors, name: next(
                (tensor for tensor in tensors if tensor.name == name), tensors[0]))),
    slicing("path-names", "Rejects names that are empty or are not identifiers.",
            SLICER.changed(named=refusing(
                lambda _tensors, name: not (name.isascii() and name.isidentifier())))),
    slicing("loads-all-dtypes",
            "Loads all tensors before it slices one, in a framework without packed and rare dtypes.",
            SLICER.changed(named=refusing(lambda tensors, _name: any(
                tensor.dtype.startswith(("F4", "F6", "F8_E8", "F8_E4M3F")) for tensor in tensors)))),
    slicing("no-packed-parts", "Rejects slices along the last dimension of a packed tensor.",
            SLICER.changed(gather=refusing(lambda tensor, axes, _data, _begin: (
                SLICER.width(tensor.dtype) % 8 != 0 and axes and len(axes[-1][0]) != tensor.shape[-1])))),
    slicing("no-negative-integers", "Rejects negative integers.",
            SLICER.changed(integer=refusing(lambda _size, value: value < 0))),
    slicing("minus-1-is-not-last",
            "Counts negative integers from the last element, so -1 selects the element before it.",
            SLICER.changed(integer=lambda right, size, value: (
                right(size, value) if value >= 0 else max(right(size, value) - 1, 0)))),
    slicing("numbers-cut-to-32-bits", "Keeps only the lowest 32 bits of a number, including the sign.",
            _cut_to(32)),
    slicing("numbers-cut-to-64-bits", "Keeps only the lowest 64 bits of a number, including the sign.",
            _cut_to(64)),
    slicing("numbers-cut-to-64-bits-unsigned", "Reduces larger numbers to 64 bits without a sign.",
            SLICER.changed(number=lambda right, value: (
                right(value) if right(value) < 0 else right(value) % (1 << 64)))),
    slicing("open-start-is-1", "Starts a range without a start at the second element.",
            SLICER.changed(range=lambda right, size, start, stop, step: right(
                size, 1 if start is None and stop is not None else start, stop, step))),
    slicing("open-stop-is-last", "Stops a range without a stop before the last element.",
            SLICER.changed(range=lambda right, size, start, stop, step: right(
                size, start, -1 if stop is None and start is not None else stop, step))),
    slicing("length-underflows",
            "Computes the length of a range as an unsigned number, and allocates that much memory.",
            SLICER.changed(range=refusing(lambda _size, start, stop, step: (
                isinstance(start, int) and isinstance(stop, int) and start > stop >= 0 < step),
                MemoryError))),
    slicing("refuses-empty", "Rejects slices without elements.",
            SLICER.changed(gather=refusing_result(lambda raw: not raw))),
    slicing("step-0-hangs", "Iterates over a range in steps of 0.",
            SLICER.without("step-zero").changed(
                range=refusing(lambda _size, _start, _stop, step: step == 0, TimeoutError))),
    slicing("negative-bound-without-sign", "Drops the sign of a negative bound.",
            SLICER.changed(bound=lambda right, size, value, *others: right(
                size, None if value is None else abs(SLICER.number(value)), *others))),
    slicing("first-index-only", "Applies only the first index.",
            SLICER.changed(
                axis=lambda right, size, part, dim: right(size, part if dim == 0 else slice(None), dim))),
    slicing("two-ellipses", "Treats several ellipses as one.", SLICER.without("two-ellipses")),
    slicing("too-many-indices", "Ignores surplus indices, including indices into a scalar.",
            SLICER.without("too-many").changed(
                parts=lambda right, shape, index: right(shape, index)[: len(shape)])),
    slicing("no-upper-bound", "Does not check whether an integer is too large.", SLICER.without("above")),
    slicing("no-lower-bound", "Does not check whether an integer is too small.", SLICER.without("below")),
    slicing("column-major", "Assumes that the first index varies fastest.",
            SLICER.changed(strides=lambda right, shape: right(shape[::-1])[::-1])),
    slicing("all-elements-32-bits", "Assumes that all elements of whole-byte dtypes have 32 bits.",
            _wide(dict.fromkeys((dtype for dtype, bits in READER.widths.items() if bits >= 8), 32))),
    slicing("bf16-is-f32", "Assumes that BF16 is as wide as F32.", _wide({"BF16": 32})),
    slicing("complex-is-f32", "Assumes that C64 is as wide as F32.", _wide({"C64": 32})),
    slicing("packed-is-bytes", "Assumes that each packed element takes one byte.",
            _wide({"F4": 8, "F6_E2M3": 8, "F6_E3M2": 8})),
    slicing("place-forgotten", "Reads every tensor from the start of the data.", _Moved(what="nothing")),
    slicing("place-rounded", "Rounds the position of a tensor to whole elements.", _Moved(what="tensor")),
    slicing("data-start-rounded", "Rounds the start of the data to a multiple of 8.", _Moved(what="start")),
    slicing("place-from-list", "Computes positions from the order of the header.", _Moved(what="listed")),
    slicing("packed-start", "Rounds down the start of a packed slice.", SLICER.without("start-in-byte")),
    slicing("packed-end", "Rounds down the end of a packed slice.", SLICER.without("end-in-byte")),
    slicing("file-unchecked", "Does not check the layout of the file.", replace(SLICER, reader=LENIENT)),
    slicing("size-unchecked", "Does not compare the range with the shape.",
            replace(SLICER, reader=READER.without("range-size", "overlap"))),
    slicing("nearest-integer", "Returns the nearest element for an integer out of range.",
            SLICER.changed(
                integer=lambda right, size, value: right(size, min(max(value, -size), max(size - 1, 0))))),
    slicing("integers-begin-anew", "Starts again at the first element for an integer beyond the last.",
            SLICER.changed(integer=lambda _, size, value: value % max(size, 1))),
    slicing("integer-keeps-dimension", "Keeps the dimension that an integer should remove.",
            SLICER.changed(axis=lambda right, size, part, dim: (right(size, part, dim)[0], True))),
    slicing("squeezes", "Removes every dimension of length 1.",
            SLICER.changed(shape=lambda right, axes: [size for size in right(axes) if size != 1])),
    slicing("scalar-is-vector", "Gives a scalar the shape [1].",
            SLICER.changed(shape=lambda right, axes: right(axes) or [1])),
    slicing("empty-is-all", "Treats an empty range as the whole dimension.",
            SLICER.changed(
                range=lambda right, size, start, stop, step: right(size, start, stop, step) or range(size))),
    slicing("ignores-step", "Treats every step as 1.",
            SLICER.changed(range=lambda right, size, start, stop, _step: right(size, start, stop, 1))),
    slicing("forward-steps", "Ignores the sign of a step.",
            SLICER.changed(range=lambda right, size, start, stop, step: right(size, start, stop, abs(step)))),
    slicing("step-0-is-1", "Treats a step of 0 as 1.",
            SLICER.without("step-zero").changed(
                range=lambda right, size, start, stop, step: right(size, start, stop, step or 1))),
)  # fmt: skip
