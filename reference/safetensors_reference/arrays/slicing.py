"""Slices a tensor with the semantics of NumPy, reading only the rows that are needed (API-05 to API-09).

Slicing treats elements as opaque bytes, so the result is the same for every dtype and framework. It supports
integers, slices with any step, an ellipsis, and tuples of these. Slices are clamped as in NumPy. NumPy's
advanced indexing is rejected.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import SupportsIndex

import numpy as np
import numpy.typing as npt

from ..header.model import TensorInfo, show_shape
from ..rules.dtypes import DTYPE_BITS
from ..rules.errors import AccessError
from ..text import shown
from .numpy import MAX_RANK


def take(
    info: TensorInfo, index: object, read: Callable[[int, int], memoryview]
) -> tuple[tuple[int, ...], npt.NDArray[np.uint8]]:
    """Return the shape and bytes of ``tensor[index]``, read with ``read``. Raises AccessError."""
    parts = _normalise(info, index)
    if DTYPE_BITS[info.dtype] % 8:
        # An indexed dimension with only one element does not affect byte positions.
        kept = [d for d, part in enumerate(parts) if info.shape[d] != 1 or isinstance(part, slice)]
        info = info._replace(shape=tuple(info.shape[d] for d in kept))
        parts = [parts[d] for d in kept]
    outer, width = _blocks(info)
    if all(map(_is_full, parts[outer:], info.shape[outer:])):
        return _take(info.shape[:outer], parts[:outer], width, info.shape[outer:], read)
    shape, used, tail = _byte_runs(info, parts)
    result_shape, flat = _take(shape, used, 1, (), read)
    return (*result_shape[:-1], *tail), flat


def _take(
    shape: tuple[int, ...],
    parts: list[int | slice],
    width: int,
    inner: tuple[int, ...],
    read: Callable[[int, int], memoryview],
) -> tuple[tuple[int, ...], npt.NDArray[np.uint8]]:
    used = list(parts)
    start, rows, first = _narrow(shape, used, width)
    count = rows * prod(shape[first + 1 :]) * width if first < len(shape) else width
    raw = read(start, count) if count else memoryview(b"")
    if first < len(shape):
        block_shape = (rows, *shape[first + 1 :])
        if width == 0 or count == 0:
            pairs = zip(used[first:], block_shape, strict=True)
            left = [_length(part, dim) for part, dim in pairs if isinstance(part, slice)]
            return (*left, *inner), np.empty(0, np.uint8)
        if len(block_shape) > MAX_RANK:
            text = f"the slice has {len(block_shape):,} dimensions, but NumPy supports only {MAX_RANK}"
            raise AccessError(text, "LIM_RANK", "SHP-10")
        block = np.frombuffer(raw, f"V{width}").reshape(block_shape)[tuple(used[first:])]
        flat = np.ascontiguousarray(block).reshape(-1).view(np.uint8)
        return (*block.shape, *inner), flat
    return inner, np.frombuffer(raw, np.uint8).copy()


def _is_full(part: int | slice, dim: int) -> bool:
    return isinstance(part, slice) and part.indices(dim) == (0, dim, 1)


def _byte_runs(
    info: TensorInfo, parts: list[int | slice]
) -> tuple[tuple[int, ...], list[int | slice], tuple[int, ...]]:
    """Return the shape and parts of a slice of bytes for packed elements, and the other dimensions."""
    bits = DTYPE_BITS[info.dtype]
    at = max(d for d, part in enumerate(parts) if not _is_full(part, info.shape[d]))
    part, inner = parts[at], prod(info.shape[at + 1 :])
    row = info.shape[at] * inner
    if isinstance(part, slice):
        begin, end, step = part.indices(info.shape[at])
        end = max(begin, end)
        tail = (end - begin, *info.shape[at + 1 :])
    else:
        begin, end, step = part, part + 1, 1
        tail = info.shape[at + 1 :]
    outer = parts[:at]
    shape = info.shape[:at]
    first = 0
    if row * bits % 8:
        # Adjacent rows share bytes, so only a run inside a single row can be cut out.
        taken = [
            range(*p.indices(n)) if isinstance(p, slice) else (p,) for p, n in zip(outer, shape, strict=True)
        ]
        if any(len(numbers) != 1 for numbers in taken):
            raise _cut(info)
        first = sum(numbers[0] * prod(shape[d + 1 :]) * row for d, numbers in enumerate(taken))
        tail = (*(1 for p in outer if isinstance(p, slice)), *tail)
        outer, shape, row = [], (), prod(info.shape)
    run = [(first + n * inner) * bits for n in (begin, end)]
    if step != 1 or run[0] % 8 or run[1] % 8 or row * bits % 8:
        raise _cut(info)
    return (*shape, row * bits // 8), [*outer, slice(run[0] // 8, run[1] // 8)], tail


def _cut(info: TensorInfo) -> AccessError:
    text = "this slice would split bytes that several elements share"
    return _error(info, text, "API_SLICE_UNSUPPORTED", "API-08")


def _length(part: slice, dim: int) -> int:
    steps = range(*part.indices(dim))
    return (steps[-1] - steps[0]) // steps.step + 1 if steps else 0


def _blocks(info: TensorInfo) -> tuple[int, int]:
    bits = DTYPE_BITS[info.dtype]
    outer = len(info.shape)
    while bits % 8 and outer:
        outer -= 1
        bits *= info.shape[outer]
    return outer, bits // 8


def _normalise(info: TensorInfo, index: object) -> list[int | slice]:
    given = index if isinstance(index, tuple) else (index,)
    dots = sum(part is Ellipsis for part in given)
    rank = len(info.shape)
    if dots > 1:
        raise _unsupported(info, "more than one ellipsis")
    if len(given) - dots > rank:
        text = f"there are {len(given) - dots} indices for {rank} dimensions"
        raise _error(info, text, "API_SLICE_OUT_OF_RANGE", "API-07")
    at = next((i for i, part in enumerate(given) if part is Ellipsis), len(given))
    full = [slice(None)] * (rank - len(given) + dots)
    parts = [*given[:at], *full, *given[at + dots :]]
    return [_part(info, part, dim) for part, dim in zip(parts, info.shape, strict=True)]


def _part(info: TensorInfo, part: object, dim: int) -> int | slice:
    if isinstance(part, slice):
        try:
            part.indices(dim)
        except (TypeError, ValueError) as err:
            raise _unsupported(info, str(err)) from err
        return part
    # True is an integer in Python and a mask in NumPy, but neither is what a caller means here.
    if isinstance(part, (bool, np.bool_)) or not isinstance(part, SupportsIndex):
        raise _unsupported(info, f"an index of type {type(part).__name__}")
    try:
        number = part.__index__()
    except TypeError as err:  # arrays have this method, but it may raise
        raise _unsupported(info, f"an index of type {type(part).__name__}") from err
    if not -dim <= number < dim:
        text = f"index {shown(number)} is out of range for a dimension of {dim}"
        raise _error(info, text, "API_SLICE_OUT_OF_RANGE", "API-09")
    return number + dim if number < 0 else number


def _unsupported(info: TensorInfo, reason: str) -> AccessError:
    return _error(info, f"{reason} is not supported", "API_SLICE_UNSUPPORTED", "API-07")


def _error(info: TensorInfo, text: str, code: str, rule: str) -> AccessError:
    return AccessError(f"{info.dtype} {show_shape(info.shape)}: {text}", code, rule)


def _narrow(shape: tuple[int, ...], parts: list[int | slice], width: int) -> tuple[int, int, int]:
    """Return the first byte of the slice, its number of rows and their dimension; ``parts`` count from it."""
    start = 0
    for dim, part in enumerate(parts):
        stride = prod(shape[dim + 1 :]) * width
        if isinstance(part, int):
            start += part * stride
            continue
        steps = range(*part.indices(shape[dim]))
        if not steps:
            parts[dim] = slice(0, 0)
            return start, 0, dim
        low, high = min(steps[0], steps[-1]), max(steps[0], steps[-1])
        stop = steps[-1] - low + (1 if steps.step > 0 else -1)
        parts[dim] = slice(steps[0] - low, stop if stop >= 0 else None, steps.step)
        return start + low * stride, high - low + 1, dim
    return start, 1, len(shape)
