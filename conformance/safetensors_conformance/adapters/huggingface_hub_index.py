"""Adapter of ``huggingface_hub.load_torch_model`` with an index; the official library reads the shards."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch_rows
from huggingface_hub import load_torch_model


class Model:
    """Stands in for a model: keeps every tensor it is given."""

    def __init__(self) -> None:
        self.tensors: dict[str, Any] = {}

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:  # noqa: ARG002
        """Take tensors."""
        self.tensors.update(state_dict)

    def state_dict(self) -> dict[str, Any]:
        """Return the tensors."""
        return self.tensors


class LoadTorchModel:
    """Loads the shards that an index names into a model."""

    name = "huggingface-hub"
    version = version("huggingface-hub")
    language = "Python"
    rejects = (ValueError, OSError)

    def index(self, path: str) -> list[tuple[Any, ...]]:
        """Load the folder in which the index lies."""
        model: Any = Model()
        pattern = Path(path).name.replace(".safetensors.index.json", "{suffix}.safetensors")
        load_torch_model(model, Path(path).parent, filename_pattern=pattern)
        return [torch_rows.row(name, tensor) for name, tensor in model.tensors.items()]
