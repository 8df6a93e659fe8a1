"""Adapter for ``mlx.core.load`` and ``mlx.core.save_safetensors``, on the CPU.

MLX reads the header immediately and the data when it is needed.
"""

from importlib.metadata import version
from typing import Any

import given
import lacking
import mlx.core as mx
import numpy as np
from stc_host.library import Held, call, item, marked

CODES = {mx.bool_: "BOOL", **{getattr(mx, n): code for n, code in given.CODES.items() if hasattr(mx, n)}}

REFUSES_E8M0 = tuple(map(int, version("mlx").split(".")[:2])) < (0, 32)
"""Whether this version rejects F8_E8M0. Since 0.32, MLX returns the elements as U8."""


@marked
class Load:
    lacks = lacking.dtypes(
        *("F4", "F6_E2M3", "F6_E3M2", "F64", "F8_E4M3FNUZ", "F8_E5M2", "F8_E5M2FNUZ"),
        *(["F8_E8M0"] if REFUSES_E8M0 else []),
    )

    def __init__(self) -> None:
        mx.set_default_device(mx.cpu)

    def open(self, path: str) -> dict[str, Any]:
        arrays, metadata = call(mx.load, path, format="safetensors", return_metadata=True)
        rows = [(name, code(array), array.shape) for name, array in arrays.items()]
        return {"tensors": rows, "metadata": metadata}

    def read(self, path: str) -> dict[str, Any]:
        arrays, metadata = call(mx.load, path, format="safetensors", return_metadata=True)
        return {"tensors": [(name, *part(array)) for name, array in arrays.items()], "metadata": metadata}

    def write(self, path: str, tensors: list[Any], metadata: Any) -> None:
        """Save arrays, and pass metadata only if the request contains any."""
        more = () if metadata is None else (metadata,)
        call(mx.save_safetensors, path, given.named(tensors, array), *more)

    def resave(self, path: str) -> None:
        arrays, metadata = call(mx.load, path, format="safetensors", return_metadata=True)
        call(mx.save_safetensors, path, arrays, metadata)

    def hold(self, path: str) -> Held:
        arrays = call(mx.load, path, format="safetensors")
        return Held(lambda name: part(item(arrays, name)), arrays.clear)  # there is nothing to close

    share = hold


def part(array: Any) -> tuple[Any, Any, bytes]:
    call(mx.eval, array)
    data = bytes(memoryview(array.reshape(-1).view(mx.uint8))) if array.size else b""
    return code(array), array.shape, data


def code(array: Any) -> str:
    return CODES.get(array.dtype, str(array.dtype))


def array(tensor: Any) -> Any:
    dtype = next((key for key, code in CODES.items() if code == tensor.dtype), None)
    if dtype is None or tensor.byteorder != "little" or tensor.nbytes is not None:
        raise NotImplementedError("MLX cannot represent this array")
    if tensor.strides is None:
        return mx.array(np.frombuffer(given.raw(tensor), np.uint8)).view(dtype).reshape(tensor.shape)
    size = dtype.size
    if any(stride % size or stride < 0 for stride in tensor.strides) or tensor.offset % size:
        raise NotImplementedError("MLX cannot represent this array")
    whole = len(tensor.storage) // size * size
    base = mx.array(np.frombuffer(tensor.storage, np.uint8, whole)).view(dtype)
    strides = [stride // size for stride in tensor.strides]
    return mx.as_strided(base, tensor.shape, strides, tensor.offset // size)
