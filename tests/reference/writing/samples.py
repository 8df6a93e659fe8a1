"""Random NumPy arrays in every memory layout, with the bytes a file must hold for them; a tied model."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from torch import nn

from ..strategies import names
from .support import Row

Array = npt.NDArray[Any]

NUMPY_TYPES: dict[str, Any] = {
    "BOOL": np.bool_,
    "U8": np.uint8, "I8": np.int8,
    "U16": np.uint16, "I16": np.int16, "F16": np.float16,
    "U32": np.uint32, "I32": np.int32, "F32": np.float32,
    "U64": np.uint64, "I64": np.int64, "F64": np.float64, "C64": np.complex64,
    "BF16": ml_dtypes.bfloat16,
    "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2, "F8_E8M0": ml_dtypes.float8_e8m0fnu,
    "F8_E4M3FNUZ": ml_dtypes.float8_e4m3fnuz, "F8_E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
}  # fmt: skip
"""Every dtype of the format that fills whole bytes."""

LAYOUTS = (
    "plain", "fortran", "permuted", "gaps", "backwards", "broadcast", "big-endian", "unaligned", "read-only",
)  # fmt: skip


@dataclass(frozen=True)
class Sample:
    """An array, and what the file must say about it: dtype code, shape, and its bytes."""

    array: Array
    dtype: str
    shape: tuple[int, ...]
    raw: bytes


def content(code: str, shape: tuple[int, ...], rng: random.Random) -> Array:
    """Return a plain array of random bits, every NaN included."""
    dtype = np.dtype(NUMPY_TYPES[code])
    count = math.prod(shape) * dtype.itemsize
    bits = bytes(rng.randrange(2) for _ in range(count)) if code == "BOOL" else rng.randbytes(count)
    return np.frombuffer(bytearray(bits), dtype).reshape(shape)


def lay_out(plain: Array, layout: str, rng: random.Random) -> Array:
    """Return an array of the same elements as ``plain`` that lies in memory another way."""
    if layout == "fortran":
        return np.array(plain, order="F")
    if layout == "permuted":
        order = rng.sample(range(plain.ndim), plain.ndim)
        return plain.transpose(order).copy().transpose(np.argsort(order))
    if layout == "gaps":
        steps = [rng.randint(1, 3) for _ in plain.shape]
        wide = [d * s for d, s in zip(plain.shape, steps, strict=True)]
        # Bytes of 0x01 lie between the elements and must not turn up in a file.
        room = np.full(math.prod(wide) * plain.itemsize, 1, np.uint8).view(plain.dtype).reshape(wide)
        parts: Any = (..., *(slice(None, None, s) for s in steps))
        view: Array = room[parts]
        view[...] = plain
        return view
    if layout == "backwards":
        turn: Any = (..., *(slice(None, None, rng.choice((1, -1))) for _ in plain.shape))
        turned: Array = plain[turn].copy()[turn]
        return turned
    if layout == "big-endian":
        return plain.astype(plain.dtype.newbyteorder(">"))
    if layout == "unaligned":
        room = np.empty(plain.nbytes + 1, np.uint8)[1:]
        room[:] = np.frombuffer(plain.tobytes(), np.uint8)
        return room.view(plain.dtype).reshape(plain.shape)
    if layout == "read-only":
        plain.flags.writeable = False
    return plain


@st.composite
def samples(draw: DrawFn, layouts: tuple[str, ...] = LAYOUTS) -> Sample:
    code = draw(st.sampled_from(sorted(NUMPY_TYPES)))
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=4)))
    layout = draw(st.sampled_from(layouts))
    rng = random.Random(draw(st.integers(0, 2**32 - 1)))
    if layout == "broadcast":
        wide = shape
        shape = tuple(rng.choice((1, d)) for d in shape)
        plain = content(code, shape, rng)
        places = (tuple(i % d for i, d in zip(at, shape, strict=True)) for at in np.ndindex(*wide))
        spread = b"".join(plain[place].tobytes() for place in places)
        return Sample(np.broadcast_to(plain, wide), code, wide, spread)
    plain = content(code, shape, rng)
    return Sample(lay_out(plain.copy(), layout, rng), code, shape, plain.tobytes())


def metadata(max_size: int = 3) -> SearchStrategy[dict[str, str] | None]:
    return st.none() | st.dictionaries(st.text(max_size=4), st.text(max_size=8), max_size=max_size)


def dicts(layouts: tuple[str, ...] = LAYOUTS) -> SearchStrategy[dict[str, Sample]]:
    return st.dictionaries(names, samples(layouts), max_size=4)


def wanted(drawn: dict[str, Sample]) -> dict[str, Row]:
    """What the official reader has to find in a file of these samples."""
    return {name: (s.dtype, s.shape, s.raw) for name, s in drawn.items()}


class Tied(nn.Module):  # type: ignore[misc]  # torch is not followed by the type checker
    """An output layer that uses the embedding's weight, and a third name for it."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(5, 4)
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.embed.weight
        self.again = self.embed.weight
        self.norm = nn.BatchNorm1d(4)
