"""Loaders that do something wrong, each in its own way; run in processes of their own."""

from __future__ import annotations

from typing import Any

from safetensors_reference.torch import load_file

try:
    from .bare import prints
except ImportError:  # as a loader it is no part of a package
    from bare import prints  # type: ignore[no-redef]


def right(path: str, device: str) -> dict[str, Any]:
    prints()
    return dict(load_file(path))


def flipped(path: str, device: str) -> dict[str, Any]:
    tensors = right(path, device)
    last = tensors[max(tensors)]
    last.view(-1).view(dtype=_torch().uint8)[-1] ^= 1
    return tensors


def swapped(path: str, device: str) -> dict[str, Any]:
    """Exchange two pages, which no sum over the tensor would notice."""
    tensors = right(path, device)
    pages = tensors[max(tensors)].view(-1).view(dtype=_torch().uint8)[: 2 * 4096].view(2, 4096)
    pages.copy_(pages.flip(0).clone())
    return tensors


def forgetful(path: str, device: str) -> dict[str, Any]:
    tensors = right(path, device)
    del tensors[min(tensors)]
    return tensors


def _torch() -> Any:
    import torch

    return torch
