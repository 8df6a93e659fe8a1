"""Adapter of the reader that MindSpore has of its own for transforming shards."""

from __future__ import annotations

from typing import Any

import given
import lacking
from mindspore.parallel import transform_safetensors
from stc_host.library import Held, attribute, call, marked, opened

_open = transform_safetensors._fast_safe_open  # noqa: SLF001 - the reader has no public name


@marked
class Fast:
    """Header first, then each tensor as an array."""

    rejects = (ValueError,)  # what its function read_metadata documents
    lacks = lacking.all_but(transform_safetensors.numpy_dtype)

    def open(self, path: str) -> dict[str, Any]:
        with opened(_open, path, framework="np") as file:
            views = file.tensors.items()
            rows = [(name, view.info["dtype"], attribute(view, "shape")) for name, view in views]
            return {"tensors": rows, "metadata": call(file.metadata)}

    def read(self, path: str) -> dict[str, Any]:
        with opened(_open, path, framework="np") as file:
            rows = [(name, *given.part(call(file.get_tensor, name))) for name in call(file.keys)]
            return {"tensors": rows, "metadata": call(file.metadata)}

    def hold(self, path: str) -> Held:
        file = call(_open, path, framework="np")

        def tensor(name: str) -> tuple[Any, ...]:
            array = call(file.get_tensor, name)
            return given.code(array.dtype), array.shape, given.elements(array)

        return Held(tensor, lambda: call(file.__exit__))
