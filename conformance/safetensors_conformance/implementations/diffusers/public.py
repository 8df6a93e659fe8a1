"""Diffusers' public function ``from_pretrained``, for comparison with the adapter."""

from __future__ import annotations

from pathlib import Path

import torch
from diffusers import ConfigMixin, ModelMixin
from diffusers.configuration_utils import register_to_config
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
    """Calls ``ModelMixin.from_pretrained`` on a folder."""

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
