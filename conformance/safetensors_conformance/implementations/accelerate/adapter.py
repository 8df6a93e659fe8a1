"""Adapter for Accelerate's ``load_state_dict`` and ``load_checkpoint_in_model``."""

from typing import Any

import torch
import torch_rows
from accelerate import load_checkpoint_in_model
from accelerate.utils import load_state_dict
from stc_host.library import call, marked


class Elsewhere(torch.Tensor):  # type: ignore[misc] # not installed where this is checked
    """A tensor that claims to be on a GPU."""

    device = torch.device("cuda:0")


class Model(torch.nn.Module):  # type: ignore[misc] # as above
    """A fake model that keeps all tensors. It only stores what the library passes to it.

    It claims to span two devices, because torch would otherwise drop the tensors that have no parameter.
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
    lacks = torch_rows.LACKS

    def read(self, path: str) -> list[tuple[Any, ...]]:
        return [torch_rows.row(name, tensor) for name, tensor in call(load_state_dict, path).items()]

    def index(self, path: str) -> list[tuple[Any, ...]]:
        """Load every file. A later tensor replaces an earlier one with the same name, as in a model."""
        model: Any = Model()
        tensors: dict[str, Any] = {}
        call(load_checkpoint_in_model, model, path)
        for state_dict in model.kept:
            tensors.update(state_dict)
        return [torch_rows.row(name, tensor) for name, tensor in tensors.items()]
