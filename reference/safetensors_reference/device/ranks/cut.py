"""Which bytes of a tensor belong to which rank when it is cut along a dimension.

A slice along dimension ``dim`` is a run of bytes, repeated once for every index into the dimensions before.
Nothing here touches files, memory or processes.
"""

from __future__ import annotations

from math import prod
from operator import index
from typing import Literal, NamedTuple

from ...header.model import TensorInfo
from ...rules.errors import AccessError
from ...rules.faults import quote

Uneven = Literal["refuse", "split"]


class Share(NamedTuple):
    """What one rank gets of a tensor.

    Attributes:
        shape: of the slice, in elements.
        first: where its first run begins, in bytes from the start of the tensor.
        run: bytes of each run.
    """

    shape: tuple[int, ...]
    first: int
    run: int


class Cut(NamedTuple):
    """A tensor as it is divided among the ranks.

    Attributes:
        runs: how many runs a share consists of.
        step: bytes from the start of one run to that of the next.
        shares: one for each rank.
        whole: True when every rank gets all of it.
    """

    runs: int
    step: int
    shares: tuple[Share, ...]
    whole: bool

    @property
    def room(self) -> int:
        """Bytes of the largest share, the first."""
        return self.runs * self.shares[0].run


def bounds(size: int, world: int) -> list[tuple[int, int]]:
    """Return (first index, end) for each of ``world`` ranks, as ``torch.chunk`` cuts a dimension of ``size``.

    Every rank has ``ceil(size / world)`` of them while they last, so the last ranks may have fewer or none.
    """
    most = -(-size // world)
    return [(min(rank * most, size), min((rank + 1) * most, size)) for rank in range(world)]


def cut_whole(info: TensorInfo, world: int) -> Cut:
    """Return the cut that gives every rank the whole tensor."""
    return Cut(1, info.nbytes, (Share(info.shape, 0, info.nbytes),) * world, True)


def cut_along(file: str, info: TensorInfo, dim: int, world: int, uneven: Uneven = "refuse") -> Cut:
    """Return the cut of a tensor along dimension ``dim`` among ``world`` ranks.

    Args:
        file: its name, for errors.
        info: the tensor.
        dim: the dimension; negative ones count from the last.
        world: number of ranks.
        uneven: ``split`` allows a size that is no multiple of ``world``, see ``bounds``.

    Raises AccessError for a scalar or a dimension that is not there (API_SLICE_OUT_OF_RANGE), for an uneven
    size, and for a cut through a byte that several elements share (API_SLICE_UNSUPPORTED, API-08).
    """
    where = f"{file}: tensor {quote(info.name)}"
    axis = _axis(where, info, dim)
    size = info.shape[axis]
    if size % world and uneven != "split":
        text = f"dimension {axis} of size {size:,} cannot be cut evenly among {world:,} ranks"
        hint = "uneven='split' cuts it as torch.chunk does"
        raise AccessError(f"{where}: {text}; {hint}", "API_SLICE_UNSUPPORTED", "API-07")
    inner = prod(info.shape[axis + 1 :]) * info.bits
    # Without elements there are no bytes to cut, however many rows there are.
    runs = prod(info.shape[:axis]) if info.nbytes else 1
    if world == 1:
        return Cut(1, info.nbytes, (Share(info.shape, 0, info.nbytes),), False)
    row = size * inner if info.nbytes else 0
    shares = []
    for begin, end in bounds(size, world):
        first, bits = (begin * inner, (end - begin) * inner) if info.nbytes else (0, 0)
        if first % 8 or bits % 8 or (runs > 1 and row % 8):
            text = f"{info.dtype} {list(info.shape)} cut along dimension {axis} among {world:,} ranks"
            reason = "cuts through bytes that elements share"
            raise AccessError(f"{where}: {text} {reason}", "API_SLICE_UNSUPPORTED", "API-08")
        shape = (*info.shape[:axis], end - begin, *info.shape[axis + 1 :])
        shares.append(Share(shape, first // 8, bits // 8))
    return Cut(runs, row // 8, tuple(shares), False)


def _axis(where: str, info: TensorInfo, dim: int) -> int:
    """Return ``dim`` counted from the front."""
    # True is an integer to Python and a mistake here.
    if isinstance(dim, bool) or not hasattr(dim, "__index__"):
        raise AccessError(f"{where}: a dimension is a number, not {repr(dim)[:80]}")
    number = index(dim)
    rank = len(info.shape)
    if not rank:
        text = f"{where}: a scalar has no dimension to cut; get_tensor gives it to every rank"
        raise AccessError(text, "API_SLICE_OUT_OF_RANGE", "API-07")
    if not -rank <= number < rank:
        text = f"{where}: no dimension {number}, the shape is {list(info.shape)}"
        raise AccessError(text, "API_SLICE_OUT_OF_RANGE", "API-07")
    return number % rank
