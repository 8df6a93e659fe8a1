"""Tensors to save as torch tensors; runs in the environment of the library under test."""

from __future__ import annotations

import math
from typing import Any

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
    out = {t.name: _tensor(t, memory) for t in tensors}
    if len(out) != len(tensors):
        raise NotImplementedError("takes a map, in which no name stands twice")
    return out


def _tensor(given: Any, memory: dict[int, Any]) -> Any:
    if given.dtype == TEXT:
        return "a text"
    kind = _TYPES.get(given.dtype)
    if kind is None or given.dtype == "F4" or given.strides is not None or given.byteorder != "little":
        raise NotImplementedError(f"no torch tensor is made here of {given.dtype} or of a view")
    size = math.prod(given.shape) * kind.itemsize
    if not size:
        return torch.empty(given.shape, dtype=kind)
    key = id(given.storage)
    if key not in memory:
        memory[key] = torch.frombuffer(given.storage, dtype=torch.uint8)
    return memory[key][given.offset : given.offset + size].view(kind).reshape(given.shape)


def size_of(tensor: Any) -> int:
    """Return the bytes of a tensor, none for a text."""
    return 0 if isinstance(tensor, str) else int(tensor.numel() * tensor.element_size())
