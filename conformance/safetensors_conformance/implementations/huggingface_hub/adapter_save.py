"""Adapter of ``huggingface_hub.save_torch_state_dict``; the official library writes the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch_given
import torch_rows
from huggingface_hub import save_torch_state_dict
from stc_host.library import call, marked


@marked
class SaveTorch:
    """Saves tensors that fit into one shard."""

    lacks = torch_rows.LACKS

    def write(self, path: str, tensors: list[Any], metadata: Any) -> None:
        """Save into the folder of the file, under its name."""
        file = Path(path)
        pattern = file.stem + "{suffix}" + file.suffix
        state = torch_given.named(tensors)
        call(save_torch_state_dict, state, file.parent, filename_pattern=pattern, metadata=metadata)
