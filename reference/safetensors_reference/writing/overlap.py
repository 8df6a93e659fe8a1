"""Which tensors share memory, told from where their elements lie (WRT-16).

Views of one storage need not have a byte in common, as the rows or columns of one matrix have not; those are
independent tensors. Only a common byte makes two tensors share.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import numpy.typing as npt

MAX_WORK = 1_000_000
"""Effort spent on one pair of views before they count as sharing; real layouts need a handful of steps."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the elements of one tensor lie.

    Attributes:
        name: name of the tensor.
        device: memory that the address is in.
        address: first byte.
        itemsize: bytes of one element.
        dims: (length, stride in bytes) of each dimension, longest stride first. Dimensions that reach no
            further byte, of length 1 or stride 0, are left out.
    """

    name: str
    device: str
    address: int
    itemsize: int
    dims: tuple[tuple[int, int], ...]

    @classmethod
    def of(
        cls, name: str, device: str, address: int, itemsize: int, shape: Iterable[int], strides: Iterable[int]
    ) -> Place:
        """Make a place; ``shape`` has no zeros, ``strides`` count elements and are not negative."""
        dims = [(d, s * itemsize) for d, s in zip(shape, strides, strict=True) if d > 1 and s > 0]
        dims.sort(key=lambda dim: dim[1], reverse=True)
        return cls(name, device, address, itemsize, tuple(dims))

    @property
    def end(self) -> int:
        """One past the last byte."""
        return self.address + self.itemsize + sum((length - 1) * stride for length, stride in self.dims)

    @property
    def dense(self) -> bool:
        """Whether every byte from the first to the last belongs to the tensor."""
        step = self.itemsize
        for length, stride in reversed(self.dims):
            if stride > step:
                return False
            step = stride * (length - 1) + step
        return True


def groups(places: Iterable[Place]) -> list[list[Place]]:
    """Return the groups of places that share bytes, directly or through others; each has two or more."""
    ordered = sorted(places, key=lambda p: (p.device, p.address, p.name))
    parent = list(range(len(ordered)))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    reaching: list[int] = []  # earlier places that end behind the start of this one
    for index, place in enumerate(ordered):
        reaching = [
            i for i in reaching if ordered[i].device == place.device and ordered[i].end > place.address
        ]
        for other in reaching:
            if root(other) != root(index) and share(ordered[other], place):
                parent[root(index)] = root(other)
        reaching.append(index)
    found: dict[int, list[Place]] = {}
    for index, place in enumerate(ordered):
        found.setdefault(root(index), []).append(place)
    return [group for group in found.values() if len(group) > 1]


def share(a: Place, b: Place) -> bool:
    """Return whether two places have a byte in common."""
    if a.device != b.device or a.end <= b.address or b.end <= a.address:
        return False
    if a.dense and b.dense:
        return True
    try:
        return bool(np.shares_memory(_phantom(a), _phantom(b), max_work=MAX_WORK))  # type: ignore[arg-type] # any limit is fine
    except np.exceptions.TooHardError:
        return True


def _phantom(place: Place) -> npt.NDArray[np.void]:
    """Return an array that lies at ``place``, for arithmetic only: its elements are never looked at."""
    interface = {
        "version": 3,
        "data": (place.address, True),
        "shape": tuple(length for length, _ in place.dims),
        "strides": tuple(stride for _, stride in place.dims),
        "typestr": f"|V{place.itemsize}",
    }
    return np.asarray(SimpleNamespace(__array_interface__=interface))
