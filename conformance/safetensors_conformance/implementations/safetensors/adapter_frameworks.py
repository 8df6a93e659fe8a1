"""Adapters for the official library's modules for JAX, PaddlePaddle, MLX and TensorFlow."""

import importlib
from typing import Any

import given
import lacking
import numpy as np
import safetensors
from stc_host.library import call, marked

NAMELESS = lacking.dtypes(
    *("F4", "F6_E2M3", "F6_E3M2"), *("F8_E4M3", "F8_E4M3FNUZ", "F8_E5M2", "F8_E5M2FNUZ", "F8_E8M0")
)
"""Dtypes that the library looks up in NumPy. NumPy lacks them, so the library raises AttributeError."""


@marked
class Framework:
    """``load_file`` and ``save_file`` in one module, with the arrays of one framework."""

    rejects = (safetensors.SafetensorError,)
    module = ""
    _convert: Any
    """Function that creates an array from a NumPy array."""

    def __init__(self) -> None:
        self._module = importlib.import_module(f"safetensors.{self.module}")

    def read(self, path: str) -> list[tuple[str, Any, Any, Any]]:
        return [(name, *self.part(array)) for name, array in call(self._module.load_file, path).items()]

    def write(self, path: str, tensors: list[Any], metadata: Any) -> None:
        call(self._module.save_file, given.named(tensors, self.array), path, metadata)

    def resave(self, path: str) -> None:
        call(self._module.save_file, call(self._module.load_file, path), path)

    def part(self, array: Any) -> tuple[Any, Any, Any]:
        return given.part(array)

    def array(self, tensor: Any) -> Any:
        """Return an array of the framework. Raises NotImplementedError for tensors that it cannot express."""
        return self._convert(self.values(tensor))

    @staticmethod
    def values(tensor: Any) -> Any:
        """Return the elements as a NumPy array. Frameworks copy them, so they no longer share memory."""
        if tensor.dtype not in given.NUMPY:
            raise NotImplementedError("the elements are passed through NumPy, which has no such type")
        if tensor.byteorder != "little" or tensor.strides is not None:
            raise NotImplementedError("the arrays are always contiguous and in this machine's byte order")
        return given.array(tensor)


@marked
class Flax(Framework):
    """``safetensors.flax``, with 64-bit types enabled in JAX, which otherwise uses 32-bit types."""

    module = "flax"
    lacks = NAMELESS

    def __init__(self) -> None:
        import jax

        jax.config.update("jax_enable_x64", True)
        self._convert = jax.numpy.asarray
        super().__init__()


@marked
class TensorFlow(Framework):
    module = "tensorflow"
    lacks = NAMELESS

    def __init__(self) -> None:
        import tensorflow as tf

        self._convert = tf.convert_to_tensor
        super().__init__()

    def part(self, array: Any) -> tuple[Any, Any, Any]:
        return given.part(array.numpy())


@marked
class Paddle(Framework):
    module = "paddle"
    lacks = lacking.dtypes("F4", "F6_E2M3", "F6_E3M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F8_E8M0")

    def __init__(self) -> None:
        import paddle

        self._paddle = paddle
        names = {name: code for name, code in given.CODES.items() if hasattr(paddle, name)}
        self._codes = {getattr(paddle, name): code for name, code in names.items()}
        super().__init__()

    def part(self, array: Any) -> tuple[Any, Any, Any]:
        code, shape = self._codes.get(array.dtype, str(array.dtype)), list(array.shape)
        if not array.size:
            return code, shape, b""
        bits = {"BF16": "int16", "F8_E4M3": "uint8", "F8_E5M2": "uint8"}.get(code)
        return code, shape, (array.view(bits) if bits else array).numpy().tobytes()

    def array(self, tensor: Any) -> Any:
        values = self.values(tensor)
        try:
            return self._paddle.to_tensor(values)
        except (ValueError, OSError) as err:  # too many dimensions, or an unsigned integer type
            raise NotImplementedError(f"PaddlePaddle cannot create this array: {err}") from err


@marked
class Mlx(Framework):
    """``safetensors.mlx`` on the CPU, which uses NumPy and has the same types."""

    module = "mlx"
    lacks = lacking.all_but(given.NUMPY)

    def __init__(self) -> None:
        import mlx.core as mx

        mx.set_default_device(mx.cpu)
        self._mx = mx
        self._codes = {getattr(mx, n): code for n, code in given.CODES.items() if hasattr(mx, n)}
        self._codes[mx.bool_] = "BOOL"
        super().__init__()

    def part(self, array: Any) -> tuple[Any, Any, Any]:
        call(self._mx.eval, array)
        data = bytes(memoryview(array.reshape(-1).view(self._mx.uint8))) if array.size else b""
        return self._codes.get(array.dtype, str(array.dtype)), array.shape, data

    def array(self, tensor: Any) -> Any:
        dtype = next((key for key, code in self._codes.items() if code == tensor.dtype), None)
        if dtype is None or tensor.byteorder != "little" or tensor.nbytes is not None:
            raise NotImplementedError("MLX does not support this type")
        flat = self._mx.array(np.frombuffer(given.raw(tensor), np.uint8))
        return flat.view(dtype).reshape(tensor.shape)
