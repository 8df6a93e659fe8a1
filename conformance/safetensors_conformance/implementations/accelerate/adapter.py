"""Adapter of Accelerate's ``load_state_dict`` and ``load_checkpoint_in_model``."""

from __future__ import annotations

from typing import Any

import torch
import torch_rows
from accelerate import load_checkpoint_in_model
from accelerate.utils import load_state_dict
from stc_host.library import call, marked


class Elsewhere(torch.Tensor):  # type: ignore[misc] # not installed where this is checked
    """A tensor that says that it lies on a GPU."""

    device = torch.device("cuda:0")


class Model(torch.nn.Module):  # type: ignore[misc] # as above
    """Stands in for a model: keeps everything it is given. The library calls it, so it looks at nothing.

    It lies on two devices. Accelerate gives the tensors of a file to such a model as they are; for any other
    torch first drops those that the model has no parameter for, and here no model knows the names.
    """

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Any] = []

    def state_dict(self, *_: Any, **__: Any) -> Any:
        return {"cpu": torch.zeros(1), "gpu": torch.zeros(1).as_subclass(Elsewhere)}

    def load_state_dict(self, state_dict: Any, *_: Any, **__: Any) -> Any:
        self.kept.append(state_dict)


@marked
class Load:
    """One file, and a model through its index."""

    lacks = torch_rows.LACKS

    def read(self, path: str) -> list[tuple[Any, ...]]:
        return [torch_rows.row(name, tensor) for name, tensor in call(load_state_dict, path).items()]

    def index(self, path: str) -> list[tuple[Any, ...]]:
        """Load every file; a later tensor replaces an earlier one of the same name, as in a model."""
        model: Any = Model()
        tensors: dict[str, Any] = {}
        call(load_checkpoint_in_model, model, path)
        for state_dict in model.kept:
            tensors.update(state_dict)
        return [torch_rows.row(name, tensor) for name, tensor in tensors.items()]
