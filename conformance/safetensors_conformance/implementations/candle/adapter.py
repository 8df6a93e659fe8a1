"""Adapter for candle's Python binding, which converts tensors of the official parser to its own types."""

import struct
from typing import Any

import candle
import lacking
from candle import utils
from stc_host.library import UNTOLD, call, marked

FORMATS = {"U8": "B", "U32": "I", "I64": "q", "F32": "f"}


@marked
class Utils:
    lacks = lacking.all_but(("U8", "U16", "U32", "I32", "I64", "F16", "BF16", "F32", "F64"))

    def read(self, path: str) -> list[tuple[str, Any, Any]]:
        """Load every tensor, but without its bytes, because Python numbers do not preserve them."""
        return [(name, code(t), list(t.shape)) for name, t in call(utils.load_safetensors, path).items()]

    def write(self, path: str, tensors: list[Any], metadata: Any) -> None:
        """Save tensors that are created from Python numbers. The function has no metadata argument."""
        if metadata is not None or len({t.name for t in tensors}) != len(tensors):
            raise NotImplementedError("save_safetensors accepts a map of tensors but no metadata")
        call(utils.save_safetensors, path, {t.name: self._tensor(t) for t in tensors})

    def resave(self, path: str) -> None:
        call(utils.save_safetensors, path, call(utils.load_safetensors, path))

    @staticmethod
    def _tensor(tensor: Any) -> Any:
        odd = tensor.strides is not None or tensor.byteorder != "little" or tensor.nbytes is not None
        if odd or tensor.dtype not in FORMATS or 0 in tensor.shape:
            raise NotImplementedError("candle cannot create this tensor from Python numbers")
        count = 1
        for size in tensor.shape:
            count *= size
        values = struct.unpack_from(f"<{count}{FORMATS[tensor.dtype]}", tensor.storage, tensor.offset)
        if any(value != value for value in values):
            raise NotImplementedError("a Python number does not preserve the bits of a NaN")
        return candle.Tensor(list(values)).to_dtype(tensor.dtype.lower()).reshape(tensor.shape)


def code(tensor: Any) -> Any:
    name = str(tensor.dtype)
    return UNTOLD if name in ("I64", "U32") else name
