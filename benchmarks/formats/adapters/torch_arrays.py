"""Conversion between arrays and torch tensors without copies, for the two formats that torch reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..way import Way


def tensor(array: Any) -> Any:
    if not isinstance(array, np.ndarray):
        return array
    if array.dtype.isbuiltin == 1:
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(f"u{array.itemsize}")).view(getattr(torch, array.dtype.name))


class TorchWay(Way):
    """A way whose tensors are torch tensors."""

    def array(self, tensor: Any) -> np.ndarray[Any, Any]:
        return tensor.reshape(-1).view(torch.uint8).numpy()

    def dtype(self, tensor: Any) -> str:
        return str(tensor.dtype).removeprefix("torch.")
