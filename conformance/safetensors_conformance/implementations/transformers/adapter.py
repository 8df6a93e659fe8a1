"""Adapters for ``save_pretrained``, ``from_pretrained`` and the functions that ``from_pretrained`` uses."""

import json
from contextlib import suppress
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
    model_type = "any"


class Model(PreTrainedModel):  # type: ignore[misc] # as above
    """A model that has parameters with the given names and shapes."""

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
class Load:
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
        model = Model(Config(), {"weight": [1]})  # the tensors to save are passed separately
        call(model.save_pretrained, folder, state_dict=state, max_shard_size=max_shard_size)


@marked
class FromPretrained:
    def index(self, path: str) -> list[tuple[str, str, list[int], bytes]]:
        index = Path(path)
        config = Config(transformers_weights=index.name)
        call(Model.from_pretrained, index.parent, config=config, local_files_only=True, shapes=_shapes(index))
        return []


def _shapes(index: Path) -> dict[str, list[int]]:
    from safetensors import safe_open

    found: dict[str, list[int]] = {}
    with suppress(Exception):
        for name, file in json.loads(index.read_text("utf-8"))["weight_map"].items():
            with suppress(Exception), safe_open(index.parent / file, "pt") as shard:
                found[name] = shard.get_slice(name).get_shape()
    return found
