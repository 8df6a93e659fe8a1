"""Adapter for PyTorch's distributed checkpoint, with its reader and writer for safetensors files."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import lacking
import torch
import torch_given
import torch_rows
from stc_host.library import call, marked
from torch.distributed import checkpoint


@marked
class HuggingFaceStorage:
    version = str(torch.__version__)
    lacks = (*torch_rows.LACKS, *lacking.dtypes("F4", "F8_E8M0"))

    def open(self, path: str) -> list[tuple[str, Any, Any]]:
        with _reader(path) as reader:
            listed = call(reader.read_metadata).state_dict_metadata
        return [(name, *torch_rows.kind(t.properties.dtype, t.size)) for name, t in listed.items()]

    def read(self, path: str) -> list[tuple[Any, ...]]:
        with _reader(path) as reader:
            listed = call(reader.read_metadata).state_dict_metadata
            state = {
                name: call(call(torch.empty, math.prod(t.size), dtype=t.properties.dtype).reshape, t.size)
                for name, t in listed.items()
            }
            call(checkpoint.load, state, storage_reader=reader, no_dist=True)
        return [torch_rows.row(name, tensor) for name, tensor in state.items()]

    def save_sharded(self, folder: str, tensors: list[Any], metadata: Any, max_shard_size: int) -> None:
        if metadata is not None:
            raise NotImplementedError("the writer does not accept metadata")
        state = torch_given.named(tensors)
        placed: dict[str, int] = {}
        number, room = 0, -1
        for name, tensor in state.items():
            size = getattr(tensor, "nbytes", 0)  # a string has no such attribute
            if size > room:
                number, room = number + 1, max_shard_size
            placed[name] = number
            room -= size
        writer = call(checkpoint.HuggingFaceStorageWriter, folder, fqn_to_index_mapping=placed)
        call(checkpoint.save, state, storage_writer=writer, no_dist=True)


@contextmanager
def _reader(path: str) -> Iterator[Any]:
    with TemporaryDirectory() as folder:
        Path(folder, "model.safetensors").symlink_to(path)
        yield call(checkpoint.HuggingFaceStorageReader, folder)
