"""Adapters for PaddleFormers' own reader, a module that does not need Paddle."""

from typing import Any

import cut_out
import given
import lacking
from stc_host.library import Held, call, item, marked, opened

READER = cut_out.module("paddleformers", "paddleformers/utils/safetensors.py")


@marked
class Fast:
    lacks = lacking.all_but(READER.numpy_dtype)

    def open(self, path: str) -> dict[str, Any]:
        with opened(READER.fast_safe_open, path, framework="np") as file:
            views = [(name, call(file.get_slice, name)) for name in call(file.keys)]
            rows = [(name, view.info["dtype"], call(view.get_shape)) for name, view in views]
            return {"tensors": rows, "metadata": call(file.metadata)}

    def read(self, path: str) -> list[tuple[str, Any, Any, bytes]]:
        return [(name, *given.part(array)) for name, array in call(READER.fast_load_file, path).items()]

    def slice(self, path: str, tensor: str, index: tuple[Any, ...]) -> tuple[Any, ...]:
        with opened(READER.fast_safe_open, path, framework="np") as file:
            return given.part(item(call(file.get_slice, tensor), index))

    def hold(self, path: str) -> Held:
        file = call(READER.fast_safe_open, path, framework="np")
        return Held(lambda name: given.part(call(file.get_tensor, name)), lambda: call(file.__exit__))


@marked
class LoadStateDict:
    """``load_state_dict``, which PaddleFormers uses to load models. Its result is ignored."""

    def __init__(self) -> None:
        from paddleformers.transformers.model_utils import load_state_dict

        self._load = load_state_dict

    def read(self, path: str) -> list[tuple[Any, ...]]:
        call(self._load, path, return_numpy=True)
        return []
