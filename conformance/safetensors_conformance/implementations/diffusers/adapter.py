"""Adapters for Diffusers' ``from_pretrained``, and for its functions that find shards and read files."""

from pathlib import Path
from typing import Any

import torch
import torch_rows
from diffusers import ConfigMixin, ModelMixin
from diffusers.configuration_utils import register_to_config
from diffusers.models.model_loading_utils import load_state_dict
from diffusers.utils.hub_utils import _get_checkpoint_shard_files as shard_files
from stc_host.library import call, marked


class Model(ModelMixin, ConfigMixin):  # type: ignore[misc] # not installed where this is checked
    """A model with one parameter, which accepts any tensors in its files."""

    config_name = "config.json"

    @register_to_config  # type: ignore[untyped-decorator] # as above
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))


@marked
class FromPretrained:
    def index(self, path: str) -> list[tuple[str, str, list[int], bytes]]:
        folder = Path(path).parent
        (folder / "config.json").write_text('{"_class_name": "Model"}', encoding="utf-8")
        (folder / "diffusion_pytorch_model.safetensors.index.json").symlink_to(path)
        call(
            Model.from_pretrained,
            folder,
            local_files_only=True,
            use_safetensors=True,
            low_cpu_mem_usage=False,
        )
        return []


@marked
class Load:
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
