"""Adapter for the two functions that Diffusers' ``from_pretrained`` uses to find shards and to read files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch_rows
from diffusers.models.model_loading_utils import load_state_dict
from diffusers.utils.hub_utils import _get_checkpoint_shard_files as shard_files
from stc_host.library import call, marked


@marked
class Load:
    """Loads one file, or the files that are listed in an index."""

    lacks = torch_rows.LACKS

    def read(self, path: str) -> list[tuple[Any, ...]]:
        return [torch_rows.row(name, tensor) for name, tensor in call(load_state_dict, path).items()]

    def index(self, path: str) -> list[tuple[Any, ...]]:
        """Load every tensor of every shard. A later tensor replaces an earlier one with the same name."""
        files, _ = call(shard_files, str(Path(path).parent), path, local_files_only=True)
        tensors: dict[str, Any] = {}
        for file in files:
            tensors.update(call(load_state_dict, file))
        return [torch_rows.row(name, tensor) for name, tensor in tensors.items()]
