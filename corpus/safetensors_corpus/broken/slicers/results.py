"""Broken slicers: what an index means, one mistake each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..correct.json import Refused
from ..correct.slicer import SLICER, Axis, SmallSlicer
from ..variant import Variant


class NoNegatives(SmallSlicer):
    """Does not count from the end."""

    def integer(self, size: int, value: int) -> int:
        if value < 0:
            raise Refused("negative")
        return super().integer(size, value)


class MinusFromLast(SmallSlicer):
    """Counts negative integers from the last element, so that -1 is the one before it."""

    def integer(self, size: int, value: int) -> int:
        return super().integer(size, value) if value >= 0 else max(super().integer(size, value) - 1, 0)


class Nearest(SmallSlicer):
    """Takes the nearest element for one that is not there."""

    def integer(self, size: int, value: int) -> int:
        return super().integer(size, min(max(value, -size), max(size - 1, 0)))


class Around(SmallSlicer):
    """Begins anew behind the last element."""

    def integer(self, size: int, value: int) -> int:
        return value % max(size, 1)


class CutNumbers(SmallSlicer):
    """Keeps the lowest bits of a number, with sign."""

    bits = 32

    def number(self, value: Any) -> int:
        """Return the number that is left."""
        half = 1 << self.bits - 1
        return (super().number(value) + half) % (2 * half) - half


class CutTo64(CutNumbers):
    """Keeps 64 bits."""

    bits = 64


class UnsignedNumbers(CutNumbers):
    """Keeps 64 bits of a number beyond them, without sign."""

    def number(self, value: Any) -> int:
        """Return the number that is left."""
        number = SLICER.number(value)
        return number if number < 0 else number % (1 << 64)


class WrappedOffset(SmallSlicer):
    """Computes the place of a row in 64 bits, and checks that instead of the index."""

    def integer(self, size: int, value: int) -> int:
        """Return the position, which may be anywhere."""
        return value + size if value < 0 else value

    def gather(self, tensor: Any, axes: Sequence[Axis], data: bytes, begin: int) -> bytes:
        """Return the bytes at the wrapped place."""
        width, size = max(self.width(tensor.dtype) // 8, 1), tensor.end - tensor.begin
        row = self.strides(tensor.shape)[0] * width if tensor.shape else 0
        first = next((p[0] for p, stays in axes[:1] if not stays and len(p)), 0)
        if not 0 <= first < (tensor.shape or (1,))[0]:
            at = first * row % 2**64
            if at + row > size:
                raise Refused("outside")
            return data[begin + at : begin + at + row]
        return super().gather(tensor, axes, data, begin)


class KeepsDimension(SmallSlicer):
    """Keeps the dimension that an integer takes away."""

    def axis(self, size: int, part: Any, dim: int) -> Axis:
        return super().axis(size, part, dim)[0], True


class Squeezes(SmallSlicer):
    """Takes every dimension of length 1 away."""

    def shape(self, axes: Sequence[Axis]) -> list[int]:
        return [size for size in super().shape(axes) if size != 1]


class ScalarIsVector(SmallSlicer):
    """Gives a scalar the shape [1]."""

    def shape(self, axes: Sequence[Axis]) -> list[int]:
        return super().shape(axes) or [1]


class InclusiveStop(SmallSlicer):
    """Gives the element at the stop as well."""

    def range(self, size: int, start: Any, stop: Any, step: int) -> Sequence[int]:
        more = None if stop is None or not 0 <= stop < size else stop + 1
        return super().range(size, start, more, step)


class OpenStartIsOne(SmallSlicer):
    """Starts an open range at its second element."""

    def range(self, size: int, start: Any, stop: Any, step: int) -> Sequence[int]:
        return super().range(size, 1 if start is None and stop is not None else start, stop, step)


class OpenStopIsLast(SmallSlicer):
    """Stops an open range before its last element."""

    def range(self, size: int, start: Any, stop: Any, step: int) -> Sequence[int]:
        return super().range(size, start, -1 if stop is None and start is not None else stop, step)


class ReadsOn(SmallSlicer):
    """Does not fit ranges to the dimension and reads on into what lies behind it."""

    def bound(self, size: int, value: Any, low: int, high: int, default: int) -> int:  # noqa: ARG002
        """Return the bound as it is given."""
        if value is None:
            return default
        bound = self.number(value)
        if abs(bound) > 1000:
            raise Refused("far")
        return bound + size if bound < 0 else bound


class ReadsBefore(ReadsOn):
    """Fits only the stop, and reads what lies before the tensor."""

    def bound(self, size: int, value: Any, low: int, high: int, default: int) -> int:
        return min(super().bound(size, value, low, high, default), high)


class StopAboveStart(SmallSlicer):
    """Exchanges start and stop when they stand the wrong way round."""

    def range(self, size: int, start: Any, stop: Any, step: int) -> Sequence[int]:
        places = super().range(size, start, stop, step)
        if not places and isinstance(start, int) and isinstance(stop, int) and start > stop >= 0:
            return super().range(size, stop, start, step)
        return places


class Underflows(SmallSlicer):
    """Computes the length of a range without sign and allocates as much."""

    def range(self, size: int, start: Any, stop: Any, step: int) -> Sequence[int]:
        if isinstance(start, int) and isinstance(stop, int) and start > stop >= 0 < step:
            raise MemoryError(f"{(stop - start) % 2**64} elements")
        return super().range(size, start, stop, step)


class EmptyIsAll(SmallSlicer):
    """Takes a range of no length for one without bounds."""

    def range(self, size: int, start: Any, stop: Any, step: int) -> Sequence[int]:
        return super().range(size, start, stop, step) or range(size)


class EmptyIsOne(SmallSlicer):
    """Gives one element at least."""

    def range(self, size: int, start: Any, stop: Any, step: int) -> Sequence[int]:
        places = super().range(size, start, stop, step)
        return places or range(min(places.start, max(size - 1, 0)), places.start + 1)  # type: ignore[attr-defined]


class RefusesEmpty(SmallSlicer):
    """Refuses to give no elements."""

    def gather(self, tensor: Any, axes: Sequence[Axis], data: bytes, begin: int) -> bytes:
        raw = super().gather(tensor, axes, data, begin)
        self.demand("empty", bool(raw))
        return raw


class IgnoresStep(SmallSlicer):
    """Takes every step for 1."""

    def range(self, size: int, start: Any, stop: Any, step: int) -> Sequence[int]:  # noqa: ARG002
        return super().range(size, start, stop, 1)


class RoundsStepsDown(SmallSlicer):
    """Leaves out the rest of a range that the step does not divide."""

    def range(self, size: int, start: Any, stop: Any, step: int) -> Sequence[int]:
        places = super().range(size, start, stop, 1)
        return super().range(size, start, stop, step)[: len(places) // abs(step)]


class ForwardSteps(SmallSlicer):
    """Overlooks the sign of a step."""

    def range(self, size: int, start: Any, stop: Any, step: int) -> Sequence[int]:
        return super().range(size, start, stop, abs(step))


class StepZeroIsOne(SmallSlicer):
    """Takes a step of 0 for none."""

    def range(self, size: int, start: Any, stop: Any, step: int) -> Sequence[int]:
        return super().range(size, start, stop, step or 1)


class StepZeroHangs(SmallSlicer):
    """Walks a range in steps of 0."""

    def range(self, size: int, start: Any, stop: Any, step: int) -> Sequence[int]:
        if step == 0:
            raise TimeoutError("never arrives")
        return super().range(size, start, stop, step)


class EndCountsFromFront(SmallSlicer):
    """Takes the sign of a negative bound away."""

    def bound(self, size: int, value: Any, low: int, high: int, default: int) -> int:
        return super().bound(size, None if value is None else abs(self.number(value)), low, high, default)


def _variant(name: str, slicer: SmallSlicer) -> Variant:
    about = (type(slicer).__doc__ or "").partition("\n")[0]
    return Variant(f"slicer/{name}", about, "slice", lambda: slicer)


VARIANTS: tuple[Variant, ...] = (
    _variant("no-negative-integers", NoNegatives()),
    _variant("minus-1-is-not-last", MinusFromLast()),
    _variant("nearest-integer", Nearest()),
    _variant("integers-begin-anew", Around()),
    _variant("numbers-cut-to-32-bits", CutNumbers()),
    _variant("numbers-cut-to-64-bits", CutTo64()),
    _variant("numbers-cut-to-64-bits-unsigned", UnsignedNumbers()),
    _variant("row-offset-wraps", WrappedOffset()),
    _variant("integer-keeps-dimension", KeepsDimension()),
    _variant("squeezes", Squeezes()),
    _variant("scalar-is-vector", ScalarIsVector()),
    _variant("inclusive-stop", InclusiveStop()),
    _variant("open-start-is-1", OpenStartIsOne()),
    _variant("open-stop-is-last", OpenStopIsLast()),
    _variant("reads-on", ReadsOn()),
    _variant("reads-before", ReadsBefore()),
    _variant("exchanges-start-and-stop", StopAboveStart()),
    _variant("length-underflows", Underflows()),
    _variant("empty-is-all", EmptyIsAll()),
    _variant("empty-is-one", EmptyIsOne()),
    _variant("refuses-empty", RefusesEmpty()),
    _variant("ignores-step", IgnoresStep()),
    _variant("rounds-steps-down", RoundsStepsDown()),
    _variant("forward-steps", ForwardSteps()),
    _variant("step-0-is-1", StepZeroIsOne().without("step-zero")),
    _variant("step-0-hangs", StepZeroHangs().without("step-zero")),
    _variant("negative-bound-without-sign", EndCountsFromFront()),
)
