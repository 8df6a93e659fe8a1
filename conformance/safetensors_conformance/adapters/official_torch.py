"""Adapter of ``safetensors.torch.load_file`` on the CPU."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import safetensors
import torch
from safetensors.torch import load_file

CODES = {
    torch.bool: "BOOL",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.uint16: "U16",
    torch.int16: "I16",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.uint32: "U32",
    torch.int32: "I32",
    torch.float32: "F32",
    torch.uint64: "U64",
    torch.int64: "I64",
    torch.float64: "F64",
    torch.complex64: "C64",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.float8_e4m3fnuz: "F8_E4M3FNUZ",
    torch.float8_e5m2fnuz: "F8_E5M2FNUZ",
    torch.float8_e8m0fnu: "F8_E8M0",
    torch.float4_e2m1fn_x2: "F4",
}


class TorchFile:
    """``safetensors.torch.load_file``."""

    name = "safetensors"
    version = version("safetensors")
    language = "Rust"
    rejects = (safetensors.SafetensorError,)
    # torch has no six-bit floats, and packs two four-bit floats of the last dimension into one element.
    lacks = ("dtype-f6-e2m3", "dtype-f6-e3m2")

    def read(self, path: str) -> list[tuple[str, Any, Any, bytes]]:
        """Load every tensor."""
        return [self._row(name, tensor) for name, tensor in load_file(path).items()]

    @staticmethod
    def _row(name: str, tensor: Any) -> tuple[str, Any, Any, bytes]:
        shape = list(tensor.shape)
        if tensor.dtype is torch.float4_e2m1fn_x2 and shape:
            shape[-1] *= 2
        raw = tensor.contiguous().view(-1) if tensor.dim() == 0 else tensor.contiguous()
        data = raw.view(torch.uint8).numpy().tobytes() if raw.numel() else b""
        return name, CODES.get(tensor.dtype), shape, data
