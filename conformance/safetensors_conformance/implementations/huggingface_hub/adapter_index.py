"""Adapter for huggingface_hub's functions that load and save torch tensors with the official library."""

from pathlib import Path
from typing import Any

import torch_given
import torch_rows
from huggingface_hub import load_state_dict_from_file, load_torch_model, save_torch_state_dict
from stc_host.library import call, marked


class Model:
    """A fake model that keeps all tensors. It only stores what the library passes to it."""

    def __init__(self) -> None:
        self.given: list[Any] = []

    def load_state_dict(self, state_dict: Any, strict: bool = True) -> None:  # noqa: ARG002
        self.given.append(state_dict)

    def state_dict(self) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for state_dict in self.given:
            out.update(state_dict)
        return out


@marked
class LoadTorchModel:
    # The exceptions that the function documents, and the one raised by the function that reads each file.
    rejects = (ValueError, OSError, ImportError)
    lacks = torch_rows.LACKS

    def read(self, path: str) -> list[tuple[Any, ...]]:
        tensors = call(load_state_dict_from_file, path)
        return [torch_rows.row(name, tensor) for name, tensor in tensors.items()]

    def index(self, path: str) -> list[tuple[Any, ...]]:
        model: Any = Model()
        pattern = Path(path).name.replace(".safetensors.index.json", "{suffix}.safetensors")
        call(load_torch_model, model, Path(path).parent, filename_pattern=pattern)
        return [torch_rows.row(name, tensor) for name, tensor in model.state_dict().items()]

    def save_sharded(self, folder: str, tensors: list[Any], metadata: Any, max_shard_size: int) -> None:
        given = torch_given.named(tensors)
        call(save_torch_state_dict, given, folder, max_shard_size=max_shard_size, metadata=metadata)
