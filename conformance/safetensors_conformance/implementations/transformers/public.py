"""Transformers' public function ``from_pretrained``, for comparison with the adapter."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from stc_host.library import call, marked
from transformers import PretrainedConfig, PreTrainedModel


class Config(PretrainedConfig):  # type: ignore[misc] # not installed where this is checked
    """Configuration of the model."""

    model_type = "any"


class Model(PreTrainedModel):  # type: ignore[misc] # as above
    """A model that has the parameters of a checkpoint."""

    config_class = Config

    def __init__(self, config: Any, shapes: dict[str, list[int]]) -> None:
        super().__init__(config)
        for name, shape in shapes.items():
            with suppress(KeyError, AttributeError):  # not a valid parameter name in torch
                self._add(name, torch.nn.Parameter(torch.zeros(shape)))
        self.post_init()

    def _add(self, name: str, parameter: torch.nn.Parameter) -> None:
        owner: torch.nn.Module = self
        *parents, last = name.split(".")
        for part in parents:
            if not hasattr(owner, part):
                owner.add_module(part, torch.nn.Module())
            owner = getattr(owner, part)
        owner.register_parameter(last, parameter)

    def _init_weights(self, module: Any) -> None:
        pass


@marked
class FromPretrained:
    """Calls ``PreTrainedModel.from_pretrained`` on a folder."""

    def index(self, path: str) -> list[tuple[str, str, list[int], bytes]]:
        index = Path(path)
        config = Config(transformers_weights=index.name)
        call(Model.from_pretrained, index.parent, config=config, local_files_only=True, shapes=shapes(index))
        return []


def shapes(index: Path) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    with suppress(Exception):
        for name, file in json.loads(index.read_text("utf-8"))["weight_map"].items():
            with suppress(Exception), safe_open(index.parent / file, "pt") as shard:
                found[name] = shard.get_slice(name).get_shape()
    return found
