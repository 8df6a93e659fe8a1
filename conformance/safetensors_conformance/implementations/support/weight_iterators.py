"""Iterators over the weights of a model, as in vLLM and SGLang. This module runs in their environments."""

import glob
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch_rows
from stc_host.library import Refused, call, each, marked


@marked
class Weights:
    """Base class of adapters that call the function ``iterator`` of a module with ``arguments``."""

    lacks: tuple[str, ...] = torch_rows.LACKS
    utils: Any
    iterator: str
    arguments: tuple[Any, ...] = ()
    order: Any = list
    """Function that orders the files in a folder."""

    def read(self, path: str) -> Iterator[tuple[Any, ...]]:
        yield from self._rows([path])

    def index(self, path: str) -> Iterator[tuple[Any, ...]]:
        """Load the files of a folder in the same way as ``DefaultModelLoader._prepare_weights``."""
        folder = str(Path(path).parent)
        files = glob.glob(f"{folder}/*.safetensors")  # noqa: PTH207 - the names as the libraries have them
        files = call(self.utils.filter_duplicate_safetensors_files, files, folder, Path(path).name)
        if files == []:
            raise Refused("Cannot find any model weights")
        # weight loaders copy each tensor before they request the next
        tensors = {row[0]: row for row in self._rows(self.order(files))}
        yield from tensors.values()

    def _rows(self, files: list[str]) -> Iterator[tuple[Any, ...]]:
        for name, tensor in each(call(getattr(self.utils, self.iterator), files, *self.arguments)):
            yield torch_rows.row(name, tensor)
