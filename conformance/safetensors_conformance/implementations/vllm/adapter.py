"""Adapters of vLLM's iterators over the weights of a model, cut out of ``model_loader/weight_utils.py``."""

from __future__ import annotations

import glob
import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cut_out
import torch_rows
from stc_host.library import Refused, call, each, marked

FOLDER = "vllm/model_executor/model_loader"
LOG = logging.getLogger("vllm")
LOG.info_once = LOG.warning_once = lambda *_: None  # type: ignore[attr-defined] # as vLLM's logger has them
NOT_INSTALLED = SimpleNamespace(placeholder_attr=lambda _: None)
"""Replacements for optional packages."""
# vLLM's own filter of tensors per rank; every tensor is loaded here.
EXPERTS = cut_out.module("vllm", f"{FOLDER}/ep_weight_filter.py")
UTILS = cut_out.module(
    "vllm",
    f"{FOLDER}/weight_utils.py",
    ("vllm", "transformers", "huggingface_hub"),
    {
        "vllm.utils.import_utils": {"PlaceholderModule": lambda _: NOT_INSTALLED},
        "vllm.logger": {"init_logger": lambda _: LOG},
        "vllm.model_executor.model_loader.ep_weight_filter": {
            "should_skip_weight": EXPERTS.should_skip_weight
        },
    },
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
        files = glob.glob(f"{folder}/*.safetensors")  # noqa: PTH207 - the names as vLLM has them
        files = call(UTILS.filter_duplicate_safetensors_files, files, folder, Path(path).name)
        if files == []:
            raise Refused("Cannot find any model weights")
        tensors = {row[0]: row for row in self._rows(files)}  # as weight loaders, which copy each in turn
        yield from tensors.values()

    def _rows(self, files: list[str]) -> Iterator[tuple[Any, ...]]:
        for name, tensor in each(self._weights(files)):
            yield torch_rows.row(name, tensor)

    def _weights(self, files: list[str]) -> Any:
        return call(UTILS.safetensors_weights_iterator, files, False)


@marked
class Eager(Lazy):
    """``safetensors_weights_iterator`` with the strategy ``eager``, that is ``safetensors.torch.load``."""

    lacks = ("dtype-f4", *torch_rows.LACKS)

    def _weights(self, files: list[str]) -> Any:
        return call(UTILS.safetensors_weights_iterator, files, False, "eager")


@marked
class Threads(Lazy):
    """``multi_thread_safetensors_weights_iterator``."""

    def _weights(self, files: list[str]) -> Any:
        return call(UTILS.multi_thread_safetensors_weights_iterator, files, False)
