"""Adapter of the reader that PyTorch's distributed checkpoint has of its own, and of its writer of shards."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
import torch_given
from stc_host.library import call, marked
from torch.distributed import checkpoint
from torch.distributed.checkpoint import _consolidate_hf_safetensors, _hf_utils

_header = _hf_utils._get_safetensors_file_metadata  # noqa: SLF001 - what consolidate_safetensors_files calls
_data = _consolidate_hf_safetensors._read_tensor_data  # noqa: SLF001 - as above


@marked
class Consolidation:
    """Header and byte ranges, as the consolidation reads them."""

    version = str(torch.__version__)

    def open(self, path: str) -> dict[str, Any]:
        with Path(path).open("rb") as file:
            header, _ = call(_header, file)
        rows = [(name, *call(_kind, info)) for name, info in call(_entries, header)]
        return {"tensors": rows, "metadata": header.get("__metadata__")}

    def read(self, path: str) -> dict[str, Any]:
        """Read every range."""
        rows = []
        with Path(path).open("rb") as file:
            header, begin = call(_header, file)
            for name, info in call(_entries, header):
                dtype, shape = call(_kind, info)
                start, end = call(_range, info, shape)
                rows.append((name, dtype, shape, call(_data, file, start, end, begin)))
        return {"tensors": rows, "metadata": header.get("__metadata__")}

    def save_sharded(self, folder: str, tensors: list[Any], metadata: Any, max_shard_size: int) -> None:
        """Save with ``HuggingFaceStorageWriter``, whose caller says which tensor goes into which file."""
        if metadata is not None:
            raise NotImplementedError("takes no metadata")
        state = torch_given.named(tensors)
        placed: dict[str, int] = {}
        number, room = 0, -1
        for name, tensor in state.items():
            size = getattr(tensor, "nbytes", 0)  # a text has none
            if size > room:
                number, room = number + 1, max_shard_size
            placed[name] = number
            room -= size
        writer = call(checkpoint.HuggingFaceStorageWriter, folder, fqn_to_index_mapping=placed)
        call(checkpoint.save, state, storage_writer=writer, no_dist=True)


# The lines of the consolidation around its two functions, for a tensor that is not sharded, which begins at
# zero in every dimension. What they raise, it raises.


def _entries(header: Any) -> list[tuple[str, Any]]:
    return [(key, val) for key, val in header.items() if key != "__metadata__"]


def _kind(info: Any) -> tuple[Any, Any]:
    return info["dtype"], [size + 0 for size in info["shape"]]


def _range(info: Any, shape: list[Any]) -> tuple[Any, Any]:
    bytearray(min(math.prod(shape), 1))  # the buffer that it copies into, of which one byte tells as much
    return info["data_offsets"][0], info["data_offsets"][1]
