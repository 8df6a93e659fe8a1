"""What huggingface_hub writes is read without faults, and what we write it reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from huggingface_hub import load_torch_model, save_torch_state_dict
from safetensors.torch import save_file as save_torch

from safetensors_reference.model.read import explain_index, open_index
from safetensors_reference.model.write import save_sharded

INDEX = "model.safetensors.index.json"


class Tied(torch.nn.Module):  # type: ignore[misc]  # torch is not followed by the type checker
    """A small model with tied weights and a buffer of BOOL."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(8, 4)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(5))
        self.head = torch.nn.Linear(4, 8, bias=False)
        self.head.weight = self.embed.weight
        self.mask: torch.Tensor
        self.register_buffer("mask", torch.ones(3, dtype=torch.bool))


@pytest.mark.parametrize("limit", [1, 100, 200])
def test_saved_models_of_the_hub_library_have_no_faults(tmp_path: Path, limit: int) -> None:
    model = Tied()
    save_torch_state_dict(model.state_dict(), tmp_path, max_shard_size=limit)
    seen = explain_index(tmp_path / INDEX)
    assert (seen.faults, seen.notes) == ([], [])
    header = open_index(tmp_path / INDEX)
    state = model.state_dict()
    assert set(header.tensors) | {"embed.weight", "head.weight"} == set(state)
    for name, (_, info) in header.tensors.items():
        assert (info.shape, info.nbytes) == (tuple(state[name].shape), state[name].nbytes)
    assert header.metadata == json.loads((tmp_path / INDEX).read_bytes())["metadata"]


def test_the_hub_library_loads_what_we_save(tmp_path: Path) -> None:
    model = Tied()
    state = {name: tensor for name, tensor in model.state_dict().items() if name != "head.weight"}
    sizes = {name: tensor.nbytes for name, tensor in state.items()}
    path = save_sharded(save_torch, state, sizes, tmp_path, 100)
    assert explain_index(path).faults == []
    other = Tied()
    load_torch_model(other, tmp_path, strict=False, safe=True)
    for name, tensor in model.state_dict().items():
        assert torch.equal(other.state_dict()[name], tensor)
