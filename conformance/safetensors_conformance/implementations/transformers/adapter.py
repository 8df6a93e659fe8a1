"""Adapter of the two functions with which Transformers' ``from_pretrained`` loads shards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch_rows
from stc_host.library import call, marked
from transformers.modeling_utils import load_state_dict
from transformers.utils.hub import get_checkpoint_shard_files


@marked
class Shards:
    """Files out of the index, then every tensor of each file."""

    lacks = torch_rows.LACKS

    def index(self, path: str) -> list[tuple[Any, ...]]:
        """Load every tensor of every shard; a later one replaces an earlier one of the same name."""
        files, _ = call(get_checkpoint_shard_files, str(Path(path).parent), path, local_files_only=True)
        tensors: dict[str, Any] = {}
        for file in files:
            tensors.update(call(load_state_dict, file))
        return [torch_rows.row(name, tensor) for name, tensor in tensors.items()]
