"""Adapter for ``tinygrad.nn.state``: ``safe_save``, and ``safe_load`` with lazy views of the file."""

import shutil
from typing import Any

import given
import lacking
from stc_host.library import Held, call, item, marked
from tinygrad import Tensor, dtypes
from tinygrad.nn.state import inverse_safe_dtypes, safe_dtypes, safe_load, safe_load_metadata, safe_save


@marked
class State:
    lacks = lacking.all_but(safe_dtypes)

    def read(self, path: str) -> dict[str, Any]:
        rows = [(name, *part(tensor)) for name, tensor in call(safe_load, path).items()]
        _, _, header = call(safe_load_metadata, path)
        return {"tensors": rows, "metadata": header.get("__metadata__")}

    def open(self, path: str) -> list[tuple[str, Any, Any]]:
        return [(name, code(tensor), tensor.shape) for name, tensor in call(safe_load, path).items()]

    def write(self, path: str, tensors: list[Any], metadata: Any) -> None:
        _needs_clang()
        call(safe_save, given.named(tensors, tensor_of), path, metadata)

    def resave(self, path: str) -> None:
        _needs_clang()
        call(safe_save, call(safe_load, path), path)

    def hold(self, path: str) -> Held:
        tensors = call(safe_load, path)
        return Held(lambda name: part(item(tensors, name)), tensors.clear)  # there is nothing to close

    share = hold


def _needs_clang() -> None:
    if shutil.which("clang") is None:
        raise NotImplementedError("saving uses tinygrad's CPU device, which compiles with clang")


def code(tensor: Any) -> str:
    return inverse_safe_dtypes.get(tensor.dtype, str(tensor.dtype))


def part(tensor: Any) -> tuple[Any, Any, bytes]:
    if 0 in tensor.shape:
        data = b""
    elif hasattr(tensor, "data"):
        flat = call(call(tensor.flatten).bitcast, dtypes.uint8)
        data = bytes(call(flat.data))
    else:
        data = call(tensor.numpy).tobytes()
    return code(tensor), tensor.shape, data


def tensor_of(tensor: Any) -> Any:
    if tensor.dtype not in safe_dtypes or tensor.nbytes is not None:
        raise NotImplementedError("tinygrad cannot represent this tensor")
    return Tensor(bytes(given.raw(tensor)), dtype=safe_dtypes[tensor.dtype]).reshape(tensor.shape)
