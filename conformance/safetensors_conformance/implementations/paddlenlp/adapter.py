"""Adapter for PaddleNLP's own reader, a module that does not need Paddle."""

from typing import Any

import cut_out
import given
import lacking
from stc_host.library import call, item, marked, opened

READER = cut_out.module("paddlenlp", "paddlenlp/utils/safetensors.py")


@marked
class Fast:
    # For types that NumPy lacks, this table contains the size instead of a type.
    lacks = lacking.all_but(code for code, dtype in READER.numpy_dtype.items() if not isinstance(dtype, int))

    def read(self, path: str) -> list[tuple[str, Any, Any, bytes]]:
        return [(name, *given.part(array)) for name, array in call(READER.fast_load_file, path).items()]

    def slice(self, path: str, tensor: str, index: tuple[Any, ...]) -> tuple[Any, ...]:
        with opened(READER.fast_safe_open, path, framework="np") as file:
            return given.part(item(call(file.get_slice, tensor), index))


@marked
class LoadStateDict:
    """``load_state_dict``, which PaddleNLP uses to load models. Its result is ignored."""

    def __init__(self) -> None:
        from paddlenlp.transformers.model_utils import load_state_dict

        self._load = load_state_dict

    def read(self, path: str) -> list[tuple[Any, ...]]:
        call(self._load, path)
        return []
