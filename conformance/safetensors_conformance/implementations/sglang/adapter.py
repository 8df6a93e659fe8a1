"""Adapters of SGLang's iterators over the weights of a model, cut out of ``model_loader/weight_utils.py``."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cut_out
import torch_rows
from stc_host.library import Refused, call, each, marked

UTILS = cut_out.module(
    "sglang",
    "sglang/srt/model_loader/weight_utils.py",
    ("sglang", "huggingface_hub", "pydantic"),
    {"sglang.srt.utils": {"BAR_FORMAT": None}},
)


@marked
class Lazy:
    """``safetensors_weights_iterator`` with its defaults."""

    lacks = torch_rows.LACKS

    def read(self, path: str) -> Iterator[tuple[Any, ...]]:
        yield from self._rows([path])

    def index(self, path: str) -> Iterator[tuple[Any, ...]]:
        """Load a folder: the filter with the lines of ``DefaultModelLoader._prepare_weights`` around it."""
        folder = str(Path(path).parent)
        files = glob.glob(f"{folder}/*.safetensors")  # noqa: PTH207 - the names as SGLang has them
        files = call(UTILS.filter_duplicate_safetensors_files, files, folder, Path(path).name)
        if files == []:
            raise Refused("Cannot find any model weights")
        files.sort()  # as SGLANG_SORT_WEIGHT_FILES says unless it is set
        tensors = {row[0]: row for row in self._rows(files)}  # as weight loaders, which copy each in turn
        yield from tensors.values()

    def _rows(self, files: list[str]) -> Iterator[tuple[Any, ...]]:
        for name, tensor in each(self._weights(files)):
            yield torch_rows.row(name, tensor)

    def _weights(self, files: list[str]) -> Any:
        return call(UTILS.safetensors_weights_iterator, files)


@marked
class Threads(Lazy):
    """``buffered_multi_thread_safetensors_weights_iterator``."""

    def _weights(self, files: list[str]) -> Any:
        return call(UTILS.buffered_multi_thread_safetensors_weights_iterator, files, 4)
