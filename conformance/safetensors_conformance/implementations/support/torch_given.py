"""Represent the tensors to write as torch tensors, in the environment of the library under test."""

from typing import Any

import given
import torch
import torch_rows

TYPES = {code: dtype for dtype, code in torch_rows.CODES.items()}
TEXT = "STRING"
"""Element type of the strings that quantised models contain among their tensors."""


def named(tensors: list[Any]) -> dict[Any, Any]:
    storages: dict[int, Any] = {}
    return given.named(tensors, lambda tensor: of(tensor, storages))


def of(tensor: Any, storages: dict[int, Any]) -> Any:
    """Return a torch view of a tensor. Raises NotImplementedError if torch cannot represent it."""
    if tensor.dtype == TEXT:
        return "a text"
    dtype = TYPES.get(tensor.dtype)
    if dtype is None or tensor.nbytes is not None or tensor.byteorder != "little":
        raise NotImplementedError("torch cannot represent this tensor")
    made, shape = torch.empty(0, dtype=dtype), list(tensor.shape)
    size = made.element_size()
    if tensor.dtype == "F4":  # two elements in one
        if not shape or shape[-1] % 2 or tensor.strides is not None:
            raise NotImplementedError("torch packs pairs of elements along the last dimension")
        shape[-1] //= 2
    steps = tensor.strides
    if steps is None:
        steps = [size] * len(shape)
        for place in reversed(range(len(shape) - 1)):
            steps[place] = steps[place + 1] * max(shape[place + 1], 1)
    if tensor.offset % size or any(step % size or step < 0 for step in steps):
        raise NotImplementedError(
            "torch supports only non-negative strides, and only offsets and strides of whole elements"
        )
    memory = tensor.storage
    if id(memory) not in storages:
        flat = torch.frombuffer(memory, dtype=torch.uint8) if memory else torch.empty(0, dtype=torch.uint8)
        storages[id(memory)] = flat.untyped_storage()
    whole = storages[id(memory)]
    return made.set_(whole, tensor.offset // size, shape, [s // size for s in steps])
