"""Writing torch tensors (rules WRT-07, WRT-09, WRT-16 and WRT-20). Importing this module imports torch."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import torch

from ..arrays.packed import PackedTensor
from ..arrays.torch_types import CODES
from ..rules.errors import WriteError
from ..rules.faults import quote
from .atomic import write_file
from .numpy import check_packed
from .overlap import Place, groups
from .writer import Deferred, FilePlan, TensorData, plan, refused, unsupported

TorchTensor: TypeAlias = torch.Tensor | PackedTensor[torch.Tensor]

_WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_SHOWN = 8


def save(tensors: Mapping[str, TorchTensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """Return ``tensors`` as a file in memory. Arguments and errors are those of ``save_file``."""
    return plan_file(tensors, metadata).to_bytes()


def save_file(
    tensors: Mapping[str, TorchTensor],
    path: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Save ``tensors`` as the file ``path``, which is replaced as a whole; see ``atomic.write_file``.

    Args:
        tensors: name -> dense tensor on any device. One that is not contiguous is written in row-major order,
            through a copy of this one tensor; other devices are copied to the CPU tensor by tensor. Gradients
            are left out. The packed F4 type is written with its last dimension doubled, in elements (DTY-10).
            A ``PackedTensor`` holds F4 or F6.
        path: target.
        metadata: strings to strings; None writes no map, not an empty one.

    Raises:
        WriteError: something cannot be written: tensors that share memory (``tied.save_model`` stores such
            tensors once), sparse or quantised tensors, tensors without data. Nothing was written.
        NotSavedError: the file cannot be written. The target is as it was before.
    """
    write_file(path, plan_file(tensors, metadata).chunks())


def plan_file(tensors: Mapping[str, TorchTensor], metadata: Mapping[str, str] | None) -> FilePlan:
    """Lay out a file; raises WriteError as ``save_file`` does."""
    out = plan(_tensor_data(tensors), metadata)
    shared = groups(places(tensors))
    if shared:
        names = sorted(place.name for place in shared[0])
        shown = ", ".join(quote(name) for name in names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
        text = f"{len(names)} tensors share memory: {shown}; save_model stores such tensors once"
        raise WriteError(text, "WRT_SHARED_STORAGE", "WRT-16")
    return out


def places(tensors: Mapping[str, TorchTensor]) -> Iterator[Place]:
    """Yield where each tensor lies in memory, for those that ``check`` lets pass and that have elements."""
    for name, value in tensors.items():
        tensor = value.raw if isinstance(value, PackedTensor) else value
        # A tensor without elements, or on the meta device, lies nowhere.
        if tensor.numel() and tensor.data_ptr():
            yield Place.of(
                name,
                str(tensor.device),
                tensor.data_ptr(),
                tensor.element_size(),
                tensor.shape,
                tensor.stride(),
            )


def _tensor_data(tensors: Mapping[str, TorchTensor]) -> Iterator[TensorData]:
    for name, value in tensors.items():
        if isinstance(value, PackedTensor):
            yield _packed(name, value)
        else:
            yield _plain(name, value)


def _plain(name: str, tensor: torch.Tensor) -> TensorData:
    check(name, tensor)
    code = CODES.get(tensor.dtype)
    if code is None:
        raise unsupported(name, f"the format has no dtype for {tensor.dtype}")
    shape = tuple(tensor.shape)
    if code == "F4":
        if not shape:
            text = "a scalar of packed F4 holds two elements, which no scalar has"
            raise refused(name, text, "WRT_SIZE_MISMATCH", "WRT-20")
        shape = (*shape[:-1], 2 * shape[-1])
    return TensorData(name, code, shape, _deferred(tensor))


def _packed(name: str, packed: PackedTensor[Any]) -> TensorData:
    check(name, packed.raw)
    if packed.raw.dtype != torch.uint8 or packed.raw.dim() != 1:
        raise refused(name, "raw must be a one-dimensional tensor of uint8", "WRT_SIZE_MISMATCH", "WRT-17")
    check_packed(name, packed)
    return TensorData(name, packed.dtype, packed.shape, _deferred(packed.raw))


def check(name: str, tensor: object) -> None:
    """Raise WriteError for anything but a dense tensor whose elements lie in memory."""
    if not isinstance(tensor, torch.Tensor):
        raise unsupported(name, f"expected a torch tensor, not {type(tensor).__name__}")
    if tensor.device.type == "meta" or torch.nn.parameter.is_lazy(tensor):
        raise refused(name, "the tensor has no data yet", "WRT_SIZE_MISMATCH", "WRT-17")
    if tensor.layout != torch.strided or tensor.is_nested:
        kind = "nested" if tensor.is_nested else str(tensor.layout).removeprefix("torch.")
        raise refused(name, f"the tensor is {kind}, not dense", "WRT_NOT_CONTIGUOUS", "WRT-07")
    # A subclass with a dispatch of its own (distributed, fake, quantised) keeps its elements elsewhere.
    if type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        text = f"the elements of a {type(tensor).__name__} do not lie in plain memory"
        raise refused(name, text, "WRT_NOT_CONTIGUOUS", "WRT-07")
    if tensor.numel() and _needed(tensor) > tensor.untyped_storage().nbytes():
        raise refused(name, "the storage of the tensor was freed or cut", "WRT_SIZE_MISMATCH", "WRT-17")


def _needed(tensor: torch.Tensor) -> int:
    """Return how many bytes the storage must have so that every element lies inside it."""
    last: int = tensor.storage_offset()
    for length, stride in zip(tensor.shape, tensor.stride(), strict=True):
        last += (length - 1) * stride
    return (last + 1) * int(tensor.element_size())


def _deferred(tensor: torch.Tensor) -> Deferred:
    return Deferred(tensor.numel() * tensor.element_size(), lambda: _raw(tensor))


def _raw(tensor: torch.Tensor) -> memoryview:
    """Return the elements as bytes, little-endian, row-major; copied only where they are not that yet."""
    plain = tensor.detach().as_subclass(torch.Tensor).resolve_conj().resolve_neg()
    # Integers of the same width: torch cannot copy every element type, and NumPy does not know all of them.
    words = plain.view(_WORDS[plain.element_size()]).cpu().contiguous().reshape(-1).numpy()
    part = tensor.element_size() // (2 if tensor.is_complex() else 1)
    return np.ascontiguousarray(words.view(f"=i{part}"), dtype=f"<i{part}").view(np.uint8).data
