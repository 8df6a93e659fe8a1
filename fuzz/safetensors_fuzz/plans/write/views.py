"""Random views into memory: contiguous or not, big-endian, and several in one storage."""

from __future__ import annotations

from math import prod
from typing import Any

from safetensors_reference.rules.dtypes import DTYPE_BITS

from ..question import Plan
from ..random_dtypes import Dice


def _add(out: Plan, name: str, dtype: str, shape: list[int], storage: str, **more: Any) -> None:
    tensor = {"name": name, "dtype": dtype, "shape": shape, "storage": storage, "offset": 0, "strides": None}
    out["tensors"].append({**tensor, "byteorder": "little", "nbytes": None, **more})


def _storage(out: Plan, dtype: str, size: int, *, guard: bool) -> str:
    name = f"view {len(out['storages'])}"
    out["storages"][name] = {"size": size, "fill": "000101" if dtype == "BOOL" else "", "guard": guard}
    return name


def _guarded(rng: Dice, out: Plan) -> bool:
    """Decide whether foreign memory lies around. Beside bytes that repeat it could not be told apart."""
    guard = rng.random() < 0.7 and not any(s["fill"] for s in out["storages"].values())
    if guard and "no-foreign-bytes" not in out["properties"]:
        out["properties"].append("no-foreign-bytes")
    return guard


def _row_major(shape: list[int], width: int) -> list[int]:
    return [width * prod(shape[dim + 1 :]) for dim in range(len(shape))]


def contiguous(rng: Dice, out: Plan) -> None:
    """Give a contiguous view inside a larger storage, its strides spelled out at times."""
    dtype = rng.choice(rng.whole)
    width = DTYPE_BITS[dtype] // 8
    shape = [rng.choice((0, 1, 1, 2, 3)) for _ in range(rng.randint(0, 4))]
    size = prod(shape) * width
    offset = rng.choice((0, width, 2 * width, 3))
    strides = None
    if rng.random() < 0.6:
        # Strides of dimensions of one element lead nowhere; without elements none leads anywhere.
        odd = (999, -8, 0, 4096)
        strides = [
            rng.choice((stride, *odd)) if n == 1 or 0 in shape else stride
            for n, stride in zip(shape, _row_major(shape, width), strict=True)
        ]
    storage = _storage(out, dtype, offset + size + rng.choice((0, width)), guard=_guarded(rng, out))
    _add(out, "view", dtype, shape, storage, offset=offset, strides=strides)


def strided(rng: Dice, out: Plan) -> None:
    """Give a view that is not contiguous: a random walk from a contiguous array."""
    dtype = rng.choice((*rng.whole, "BOOL"))
    width = DTYPE_BITS[dtype] // 8
    shape = [rng.randint(2, 5) for _ in range(rng.choice((1, 2, 2, 3, 3)))]
    size = prod(shape) * width
    strides, offset = _row_major(shape, width), 0
    for _ in range(rng.choice((1, 1, 2, 3))):
        offset += _stride_step(rng, shape, strides)
    if rng.random() < 0.1:
        shape, strides, offset, size = [2], [width + rng.randint(1, 3)], 0, 3 * width + 3
    storage = _storage(out, dtype, size, guard=_guarded(rng, out))
    order = "big" if width > 1 and rng.random() < 0.1 else "little"
    _add(out, "view", dtype, shape, storage, offset=offset, strides=strides, byteorder=order)
    rng.shuffle(out["tensors"])


def _stride_step(rng: Dice, shape: list[int], strides: list[int]) -> int:
    """Change a view in place as an array library would and return by how much its start moves."""
    dim = rng.randrange(len(shape))
    kind = rng.choice(("axes", "axes", "every", "back", "crop", "repeat", "windows"))
    if kind == "axes":
        order = rng.sample(range(len(shape)), len(shape))
        shape[:], strides[:] = [shape[d] for d in order], [strides[d] for d in order]
    elif kind == "every":
        step = rng.randint(2, 3)
        shape[dim] = -(-shape[dim] // step)
        strides[dim] *= step
    elif kind == "back":
        moved = (shape[dim] - 1) * strides[dim]
        strides[dim] = -strides[dim]
        return moved
    elif kind == "crop" and shape[dim] > 1:
        start = rng.randint(0, 1)
        shape[dim] -= 1
        return start * strides[dim]
    elif kind == "repeat":
        strides[dim] = 0
    elif kind == "windows" and len(shape) == 1 and shape[0] > 2 and strides[0] > 0:
        shape[:], strides[:] = [shape[0] - 1, 2], [strides[0], strides[0]]
    return 0


def big_endian(rng: Dice, out: Plan) -> None:
    """Give elements that lie in memory with their highest byte first."""
    dtype = rng.choice([dtype for dtype in rng.whole if DTYPE_BITS[dtype] > 8])
    shape = [rng.randint(1, 3) for _ in range(rng.randint(0, 2))]
    storage = _storage(out, dtype, prod(shape) * DTYPE_BITS[dtype] // 8, guard=False)
    _add(out, "big", dtype, shape, storage, byteorder="big")
    rng.shuffle(out["tensors"])


def parts(rng: Dice, out: Plan) -> None:
    """Give several tensors of one storage that have no byte in common."""
    dtype = rng.choice(rng.whole)
    width = DTYPE_BITS[dtype] // 8
    lengths = [rng.randint(0, 3) for _ in range(rng.randint(2, 3))]
    gap = rng.choice((0, 0, width))
    storage = _storage(out, dtype, sum(lengths) * width + len(lengths) * gap, guard=_guarded(rng, out))
    offset = 0
    names = rng.sample("xyz", len(lengths))
    for name, length in zip(names, lengths, strict=True):
        _add(out, name, dtype, [length], storage, offset=offset)
        offset += length * width + gap


def shared(rng: Dice, out: Plan) -> None:
    """Give several tensors that have bytes in common."""
    dtype = rng.choice(rng.whole)
    width, length = DTYPE_BITS[dtype] // 8, rng.choice((4, 6))
    storage = _storage(out, dtype, length * width, guard=_guarded(rng, out))
    forms: list[tuple[list[int], int]] = [([length], 0), ([2, length // 2], 0), ([length // 2], 1)]
    forms += [([length // 2], 0), ([length - 2], 2), ([length - 2], 0), ([length], 0)]
    for name in rng.sample("xyz", rng.choice((2, 2, 3))):
        shape, first = rng.choice(forms)
        _add(out, name, dtype, list(shape), storage, offset=first * width)
