"""Tensors to save as torch tensors; runs in the environment of the library under test."""

from __future__ import annotations

import math
from typing import Any

import given
import torch
from torch_rows import CODES

_TYPES = {code: kind for kind, code in CODES.items()}
TEXT = "STRING"
"""Element type of what is no tensor but a text, as the state of quantised models has them."""


def named(tensors: list[Any]) -> dict[str, Any]:
    """Return name -> tensor, tensors of one storage as views of one.

    Raises NotImplementedError for what no torch tensor can be, and when a name stands twice.
    """
    memory: dict[int, Any] = {}
    return given.named(tensors, lambda tensor: _tensor(tensor, memory))


def _tensor(tensor: Any, memory: dict[int, Any]) -> Any:
    if tensor.dtype == TEXT:
        return "a text"
    kind = _TYPES.get(tensor.dtype)
    if kind is None or tensor.dtype == "F4" or tensor.strides is not None or tensor.byteorder != "little":
        raise NotImplementedError(
            f"no torch tensor is made here of {tensor.dtype}, nor of a view with strides"
        )
    size = math.prod(tensor.shape) * given.BITS[tensor.dtype] // 8
    if not size:
        return torch.empty(tensor.shape, dtype=kind)
    key = id(tensor.storage)
    if key not in memory:
        memory[key] = torch.frombuffer(tensor.storage, dtype=torch.uint8)
    return memory[key][tensor.offset : tensor.offset + size].view(kind).reshape(tensor.shape)
