"""Writes torch tensors (rules WRT-07, WRT-09, WRT-16 and WRT-20). Importing this module imports torch."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import numpy.typing as npt
import torch

from ..arrays.numpy import PackedTensor
from ..arrays.torch import CODES, WORDS, TorchTensor
from ..rules.errors import WriteError
from ..text import quote_some
from .atomic import write_file
from .numpy import check_packed
from .writer import (
    DeferredBytes,
    FilePlan,
    TensorData,
    plan,
    tensor_data,
    tensor_error,
    tensor_errors,
    unsupported_dtype,
)

MAX_WORK = 1_000_000
"""Steps for comparing two views, which then count as sharing memory. Real layouts need few steps."""


def save(tensors: Mapping[str, TorchTensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """Return ``tensors`` as a file in memory. Arguments and errors are the same as for ``save_file``."""
    return plan_file(tensors, metadata).to_bytes()


def save_file(
    tensors: Mapping[str, TorchTensor],
    path: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Save ``tensors`` as the file ``path``, which is replaced atomically; see ``atomic.write_file``.

    Args:
        tensors: mapping of names to dense tensors on any device. Non-contiguous tensors are copied and
            written in row-major order. Tensors on other devices are copied to the CPU one at a time.
            Gradients are not saved. For torch's packed F4 type, the last dimension is doubled in the file,
            because the format counts elements (DTY-10). Pass other F4 and F6 tensors as ``PackedTensor``.
        path: target file.
        metadata: mapping of strings to strings. If it is None, the file has no metadata map.

    Raises:
        WriteError: the input cannot be written, for example tensors that share memory (``save_model`` stores
            only one of them), sparse or quantised tensors, or tensors without data. Nothing has been written.
        NotSavedError: the file cannot be written. The target is unchanged.
    """
    write_file(path, plan_file(tensors, metadata).chunks())


def plan_file(tensors: Mapping[str, TorchTensor], metadata: Mapping[str, str] | None) -> FilePlan:
    out = plan(tensor_data(tensors, _tensor_data), metadata)
    shared = shared_groups(memory_regions(tensors))
    if shared:
        names = sorted(place.name for place in shared[0])
        text = f"{len(names)} tensors share memory: {quote_some(names)}"
        hint = "save_model stores only one copy of such tensors"
        raise WriteError(f"{text}; {hint}", "WRT_SHARED_STORAGE", "WRT-16")
    return out


def memory_regions(tensors: Mapping[str, TorchTensor]) -> Iterator[MemoryRegion]:
    for name, value in tensors.items():
        tensor = value.raw if isinstance(value, PackedTensor) else value
        with tensor_errors(name):
            if not tensor.numel():  # the tensor uses no memory
                continue
            at, width = tensor.data_ptr(), tensor.element_size()
            place = MemoryRegion.of(name, str(tensor.device), at, width, tensor.shape, tensor.stride())
        yield place


def _tensor_data(name: str, tensor: TorchTensor) -> TensorData:
    if isinstance(tensor, PackedTensor):
        raw = tensor.raw
        check(name, raw)
        check_packed(name, tensor, "tensor", raw.dtype == torch.uint8 and raw.dim() == 1)
        return TensorData(name, tensor.dtype, tensor.shape, _deferred(raw))
    check(name, tensor)
    code = CODES.get(tensor.dtype)
    if code is None:
        raise unsupported_dtype(name, f"the format has no dtype for {tensor.dtype}")
    shape = tuple(tensor.shape)
    if code == "F4":
        if not shape:
            text = "a scalar of torch's packed F4 type would have two elements"
            raise tensor_error(name, text, "WRT_SIZE_MISMATCH", "WRT-20")
        shape = (*shape[:-1], 2 * shape[-1])
    return TensorData(name, code, shape, _deferred(tensor))


def check(name: str, tensor: object) -> None:
    with tensor_errors(name):
        if not isinstance(tensor, torch.Tensor):
            raise unsupported_dtype(name, f"expected a torch tensor, not {type(tensor).__name__}")
        if tensor.device.type == "meta" or torch.nn.parameter.is_lazy(tensor):
            raise tensor_error(name, "the tensor has no data yet", "WRT_SIZE_MISMATCH", "WRT-17")
        if tensor.layout != torch.strided or tensor.is_nested:
            kind = "nested" if tensor.is_nested else str(tensor.layout).removeprefix("torch.")
            raise tensor_error(name, f"the tensor is {kind}, not dense", "WRT_NOT_CONTIGUOUS", "WRT-07")
        # Subclasses with their own dispatch (distributed, fake, quantised) store their elements elsewhere.
        if type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
            text = f"the elements of a {type(tensor).__name__} are not in plain memory"
            raise tensor_error(name, text, "WRT_NOT_CONTIGUOUS", "WRT-07")
        if tensor.numel() and _storage_needed(tensor) > tensor.untyped_storage().nbytes():
            text = "the storage of the tensor was freed or truncated"
            raise tensor_error(name, text, "WRT_SIZE_MISMATCH", "WRT-17")
        if tensor.numel() and not tensor.data_ptr():  # a tensor of zeros without storage
            raise tensor_error(name, "its elements are not in memory", "WRT_NOT_CONTIGUOUS", "WRT-07")


def _storage_needed(tensor: torch.Tensor) -> int:
    last: int = tensor.storage_offset()
    for length, stride in zip(tensor.shape, tensor.stride(), strict=True):
        last += (length - 1) * stride
    return (last + 1) * int(tensor.element_size())


def _deferred(tensor: torch.Tensor) -> DeferredBytes:
    return DeferredBytes(tensor.numel() * tensor.element_size(), lambda: _raw(tensor))


def _raw(tensor: torch.Tensor) -> memoryview:
    plain = tensor.detach().as_subclass(torch.Tensor).resolve_conj().resolve_neg()
    # View the elements as integers, because torch cannot copy every type and NumPy does not support every
    # type.
    words = plain.view(WORDS[plain.element_size()]).cpu().contiguous().reshape(-1).numpy()
    part = tensor.element_size() // (2 if tensor.is_complex() else 1)
    return np.ascontiguousarray(words.view(f"=i{part}"), dtype=f"<i{part}").view(np.uint8).data


@dataclass(frozen=True, slots=True)
class MemoryRegion:
    """The memory of a tensor. ``dims`` contains (length, stride in bytes), with the longest stride first."""

    name: str
    device: str
    address: int
    itemsize: int
    dims: tuple[tuple[int, int], ...]

    @classmethod
    def of(
        cls, name: str, device: str, address: int, itemsize: int, shape: Iterable[int], strides: Iterable[int]
    ) -> MemoryRegion:
        dims = [(d, s * itemsize) for d, s in zip(shape, strides, strict=True) if d > 1 and s > 0]
        dims.sort(key=lambda dim: dim[1], reverse=True)
        return cls(name, device, address, itemsize, tuple(dims))

    @property
    def end(self) -> int:
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


def shared_groups(regions: Iterable[MemoryRegion]) -> list[list[MemoryRegion]]:
    """Return groups of two or more regions that share bytes, either directly or through other regions."""
    group_of: dict[str, list[MemoryRegion]] = {}
    open_regions: list[MemoryRegion] = []  # earlier regions that end after the start of the current one
    for place in sorted(regions, key=lambda p: (p.device, p.address, p.name)):
        open_regions = [p for p in open_regions if p.device == place.device and p.end > place.address]
        group_of[place.name] = [place]
        for other in open_regions:
            mine, theirs = group_of[place.name], group_of[other.name]
            if mine is not theirs and regions_overlap(other, place):
                theirs += mine
                group_of.update((member.name, theirs) for member in mine)
        open_regions.append(place)
    groups = {id(group): group for group in group_of.values()}
    return [group for group in groups.values() if len(group) > 1]


def regions_overlap(a: MemoryRegion, b: MemoryRegion) -> bool:
    """Return whether two regions of one device share bytes, given that their first and last bytes overlap."""
    if a.dense and b.dense:
        return True
    try:
        return bool(np.shares_memory(_view_of(a), _view_of(b), max_work=MAX_WORK))  # type: ignore[arg-type] # any limit is fine
    except np.exceptions.TooHardError:
        return True


def _view_of(place: MemoryRegion) -> npt.NDArray[np.void]:
    interface = {
        "version": 3,
        "data": (place.address, True),
        "shape": tuple(length for length, _ in place.dims),
        "strides": tuple(stride for _, stride in place.dims),
        "typestr": f"|V{place.itemsize}",
    }
    return np.asarray(SimpleNamespace(__array_interface__=interface))
