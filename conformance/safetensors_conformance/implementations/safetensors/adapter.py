"""Adapters for the official library: bytes in memory, NumPy from a file, and safe_open with NumPy."""

import ctypes
import fcntl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import given
import lacking
import safetensors
from safetensors.numpy import load, load_file, save, save_file
from stc_host.library import UNTOLD, Held, call, item, marked, opened

# NumPy has no types for these dtypes. The library then raises one of several exception types (DTY-07).
NOT_IN_NUMPY = lacking.all_but(given.NUMPY)

SPELLED = {**{code: name for name, code in given.CODES.items()}, "F4": "float4_e2m1fn_x2"}


class Official:
    # The only documented exception type. Releases before 0.3 have none.
    rejects = tuple(filter(None, [getattr(safetensors, "SafetensorError", None)]))


@marked
class InMemory(Official):
    """``safetensors.deserialize(bytes)``: the complete core, without an array library."""

    def read(self, path: str) -> Iterator[tuple[str, str, list[int], bytes]]:
        with open(path, "rb", 0) as file:  # noqa: PTH123 - pathlib takes half of what a small file does
            data = file.read()
        for name, info in call(safetensors.deserialize, data):
            yield name, info["dtype"], info["shape"], info["data"]

    def write(self, path: str, tensors: list[Any], metadata: Any) -> None:
        """Save buffers with ``serialize_file``, which has accepted addresses instead of bytes since 0.8."""
        kept = [given.raw(t) for t in tensors]  # keep the buffers alive while the file is written
        rows = given.named(list(zip(tensors, kept, strict=True)), self._spec, lambda pair: pair[0].name)
        call(safetensors.serialize_file, rows, path, metadata)

    @staticmethod
    def _spec(pair: tuple[Any, bytearray]) -> Any:
        tensor, data = pair
        if tensor.dtype in ("F6_E2M3", "F6_E3M2"):
            raise NotImplementedError("the writing functions have no name for this dtype")
        dtype, shape = SPELLED.get(tensor.dtype, tensor.dtype.lower()), list(tensor.shape)
        if tensor.dtype == "F4":  # two elements in one, because torch counts them that way
            if not shape or shape[-1] % 2:
                raise NotImplementedError("four-bit floats must be given in pairs along the last dimension")
            shape[-1] //= 2
        spec = getattr(safetensors, "TensorSpec", None)
        if spec is None:
            return {"dtype": dtype, "shape": shape, "data": bytes(data)}
        address = ctypes.addressof((ctypes.c_char * len(data)).from_buffer(data)) if data else 0
        return call(spec, dtype=dtype, shape=shape, data_ptr=address, data_len=len(data))


@marked
class NumpyFile(Official):
    """``safetensors.numpy``: ``load_file`` and ``save_file``."""

    lacks = NOT_IN_NUMPY

    def write(self, path: str, tensors: list[Any], metadata: Any) -> None:
        call(save_file, given.named(tensors), path, metadata)

    def resave(self, path: str) -> None:
        call(save_file, call(load_file, path), path)

    def read(self, path: str) -> list[tuple[str, Any, Any, Any]]:
        return [(name, *given.part(array)) for name, array in call(load_file, path).items()]


@marked
class NumpyBytes(Official):
    """``safetensors.numpy``: ``load`` and ``save``, which read and write bytes in memory."""

    lacks = NOT_IN_NUMPY

    def write(self, path: str, tensors: list[Any], metadata: Any) -> None:
        data = call(save, given.named(tensors), metadata)
        with Path(path).open("ab") as file:
            # Other processes may save to this path, which the library cannot know.
            fcntl.flock(file, fcntl.LOCK_EX)
            file.truncate(0)
            file.write(data)

    def read(self, path: str) -> list[tuple[str, Any, Any, Any]]:
        arrays = call(load, Path(path).read_bytes())
        return [(name, *given.part(array)) for name, array in arrays.items()]


@marked
class SafeOpen(Official):
    """``safe_open(path, framework="np")``: first the header, then each tensor."""

    lacks = NOT_IN_NUMPY

    def open(self, path: str) -> dict[str, Any]:
        with opened(safetensors.safe_open, path, framework="np") as file:
            rows = []
            for name in call(file.keys):
                view = call(file.get_slice, name)
                # Old releases do not report the dtype here.
                dtype = call(view.get_dtype) if hasattr(view, "get_dtype") else UNTOLD
                rows.append((name, dtype, call(view.get_shape)))
            return {"tensors": rows, "metadata": call(file.metadata)}

    def read(self, path: str) -> dict[str, Any]:
        with opened(safetensors.safe_open, path, framework="np") as file:
            rows = [(name, *given.part(call(file.get_tensor, name))) for name in call(file.keys)]
            return {"tensors": rows, "metadata": call(file.metadata)}

    def slice(self, path: str, tensor: str, index: tuple[Any, ...]) -> tuple[Any, Any, Any]:
        with opened(safetensors.safe_open, path, framework="np") as file:
            return given.part(item(call(file.get_slice, tensor), index))

    def hold(self, path: str) -> Held:
        opener = call(safetensors.safe_open, path, framework="np")
        file = call(opener.__enter__)

        def tensor(name: str) -> tuple[Any, Any, Any]:
            array = call(file.get_tensor, name)  # lazy: the elements are read when they are accessed
            return given.code(array.dtype), array.shape, given.elements(array)

        return Held(tensor, lambda: call(opener.__exit__, None, None, None))

    share = hold
