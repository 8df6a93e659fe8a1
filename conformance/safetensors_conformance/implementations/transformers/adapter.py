"""Adapter for ``save_pretrained``, and for the functions that ``from_pretrained`` uses to read files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch_given
import torch_rows
from stc_host.library import call, marked
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_utils import load_state_dict
from transformers.utils.hub import get_checkpoint_shard_files


class Config(PretrainedConfig):  # type: ignore[misc] # not installed where this is checked
    """Configuration of the model that is saved."""

    model_type = "any"


class Model(PreTrainedModel):  # type: ignore[misc] # as above
    """A model with one parameter. The tensors to save are passed separately."""

    config_class = Config

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.post_init()

    def _init_weights(self, module: Any) -> None:
        pass


@marked
class Load:
    """Loads one file, or the files that are listed in an index."""

    lacks = torch_rows.LACKS

    def read(self, path: str) -> list[tuple[Any, ...]]:
        return [torch_rows.row(name, tensor) for name, tensor in call(load_state_dict, path).items()]

    def index(self, path: str) -> list[tuple[Any, ...]]:
        files, _ = call(get_checkpoint_shard_files, str(Path(path).parent), path, local_files_only=True)
        tensors: dict[str, Any] = {}
        for file in files:
            tensors.update(call(load_state_dict, file))
        return [torch_rows.row(name, tensor) for name, tensor in tensors.items()]

    def save_sharded(self, folder: str, tensors: list[Any], metadata: Any, max_shard_size: int) -> None:
        if metadata is not None:
            raise NotImplementedError("save_pretrained does not accept metadata")
        state = torch_given.named(tensors)
        call(Model(Config()).save_pretrained, folder, state_dict=state, max_shard_size=max_shard_size)
