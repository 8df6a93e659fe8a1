"""Models with tied weights, saved and loaded by this package and by the official one in all combinations."""

# torch has no types here, so that its classes are Any.
# mypy: disable-error-code="misc"

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors
import safetensors.torch
import torch
from torch import nn

from safetensors_reference import explain
from safetensors_reference.rules.errors import UnsupportedDtypeError, WriteError
from safetensors_reference.torch import StateMismatchError, load_model, save_model
from safetensors_reference.writing.writer import TensorData, plan


class Tied(nn.Module):
    """An output layer that uses the embedding's weight, and a third name for it."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(5, 4)
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.embed.weight
        self.again = self.embed.weight
        self.norm = nn.BatchNorm1d(4)


class PartTied(nn.Module):
    """A buffer that is the first row of a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 4))
        self.register_buffer("first", self.weight.detach()[0])


class Turned(nn.Module):
    """A weight and its transpose, which the official writer cannot handle."""

    def __init__(self) -> None:
        super().__init__()
        self.b = nn.Parameter(torch.randn(3, 4))
        self.register_buffer("a", self.b.detach().t())


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(3, 2)
        self.b = nn.Linear(2, 2)


MODELS: list[Callable[[], nn.Module]] = [Tied, PartTied, Plain]


def save_official(model: nn.Module, path: Path) -> None:
    safetensors.torch.save_model(model, str(path))


def load_official(model: nn.Module, path: Path) -> Any:
    return safetensors.torch.load_model(model, str(path))


def same(a: nn.Module, b: nn.Module) -> bool:
    one, two = a.state_dict(), b.state_dict()
    return list(one) == list(two) and all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("save", [save_model, save_official])
@pytest.mark.parametrize("load", [load_model, load_official])
def test_all_four_ways_round(make: Callable[[], nn.Module], save: Any, load: Any, tmp_path: Path) -> None:
    model, other = make(), make()
    assert not same(model, other)
    path = tmp_path / "model.safetensors"
    save(model, path)
    assert [list(names) for names in load(other, path)] == [[], []]
    assert same(model, other)


@pytest.mark.parametrize("make", MODELS)
def test_the_file_is_that_of_the_official_library(make: Callable[[], nn.Module], tmp_path: Path) -> None:
    model = make()
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    save_model(model, ours)
    save_official(model, theirs)
    one, two = explain(ours).header, explain(theirs).header
    assert one is not None and two is not None  # noqa: PT018
    assert (one.tensors, one.metadata) == (two.tensors, two.metadata)
    assert ours.read_bytes()[one.data_start :] == theirs.read_bytes()[two.data_start :]


def test_a_weight_and_its_transpose(tmp_path: Path) -> None:
    model, other = Turned(), Turned()
    path = tmp_path / "model.safetensors"
    save_model(model, path)
    header = explain(path).header
    assert header is not None
    assert [(i.name, i.shape) for i in header.tensors.values()] == [("a", (4, 3))]
    assert load_model(other, path) == ([], [])
    assert same(model, other)


def test_what_is_kept_and_what_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    strings = {"head.weight": "mine", "format": "pt"}
    save_model(Tied(), path, strings)
    assert strings == {"head.weight": "mine", "format": "pt"}  # the caller's own map is left alone
    header = explain(path).header
    assert header is not None
    assert header.metadata == {"embed.weight": "again", "head.weight": "mine", "format": "pt"}
    assert "again" in header.tensors
    assert not {"embed.weight", "head.weight"} & set(header.tensors)


@pytest.mark.parametrize("bad", [{"a": 1}, ["a"]])
def test_refused_metadata(bad: Any, tmp_path: Path) -> None:
    with pytest.raises(WriteError) as caught:
        save_model(Tied(), tmp_path / "model.safetensors", bad)
    assert caught.value.code == "WRT_BAD_METADATA"


def test_independent_views_are_all_stored(tmp_path: Path) -> None:
    class Fused(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            both = torch.randn(4, 6)
            self.register_buffer("left", both[:, :3])
            self.register_buffer("right", both[:, 3:])

    model, other = Fused(), Fused()
    path = tmp_path / "model.safetensors"
    save_model(model, path)
    assert load_model(other, path) == ([], [])
    assert same(model, other)
    with pytest.raises(WriteError) as caught:
        save_model(model, path, force_contiguous=False)
    assert (caught.value.code, caught.value.rule) == ("WRT_NOT_CONTIGUOUS", "WRT-07")


def test_views_of_which_none_is_whole(tmp_path: Path) -> None:
    class Chain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            base = torch.randn(6)
            self.register_buffer("a", base[:4])
            self.register_buffer("b", base[2:])

    path = tmp_path / "model.safetensors"
    with pytest.raises(WriteError, match='"a", "b"') as caught:
        save_model(Chain(), path)
    assert (caught.value.code, caught.value.rule) == ("WRT_SHARED_STORAGE", "WRT-16")
    assert not path.exists()
    # A file that holds every name can still be loaded.
    path.write_bytes(
        plan(TensorData(n, "F32", (4,), torch.full((4,), 7.0).numpy().tobytes()) for n in "ab").to_bytes()
    )
    model = Chain()
    assert load_model(model, path) == ([], [])
    assert model.a.tolist() == model.b.tolist() == [7.0] * 4


def test_repeated_elements_are_not_what_is_kept(tmp_path: Path) -> None:
    class Spread(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.b = nn.Parameter(torch.randn(4))
            self.register_buffer("a", self.b.detach().expand(3, 4))

    path = tmp_path / "model.safetensors"
    save_model(Spread(), path)
    header = explain(path).header
    assert header is not None
    assert list(header.tensors) == ["b"]
    assert header.metadata == {"a": "b"}


def test_holes_are_not_held(tmp_path: Path) -> None:
    class Holes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            base = torch.randn(4)
            # As many elements as lie between the first and the last, but two of them twice and two never.
            self.register_buffer("a", base[::3].unsqueeze(1).expand(2, 2))
            self.register_buffer("b", base[2:])

    with pytest.raises(WriteError) as caught:
        save_model(Holes(), tmp_path / "model.safetensors")
    assert caught.value.code == "WRT_SHARED_STORAGE"


def test_a_state_that_is_no_tensor(tmp_path: Path) -> None:
    class Extra(nn.Linear):
        def get_extra_state(self) -> Any:
            return {"version": 1}

    with pytest.raises(WriteError, match="_extra_state") as caught:
        save_model(Extra(1, 1), tmp_path / "model.safetensors")
    assert caught.value.code == "WRT_UNSUPPORTED_DTYPE"


def write(path: Path, names: list[str], tensor: torch.Tensor) -> None:
    data = tensor.contiguous().numpy().tobytes()
    path.write_bytes(plan(TensorData(n, "F32", tuple(tensor.shape), data) for n in names).to_bytes())


@pytest.mark.parametrize(
    "names",
    [
        ["a.weight", "b.weight"],
        ["a.weight"],
        ["b.weight"],
        [],
        ["a.weight", "other"],
        ["other", "another"],
        ["a.weight", "b.weight", "other"],
    ],
)
@pytest.mark.parametrize("tied", [True, False])
def test_missing_and_unexpected_are_those_of_the_official_library(
    names: list[str], tied: bool, tmp_path: Path
) -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(2, 2, bias=False)
            self.b = nn.Linear(2, 2, bias=False)
            if tied:
                self.b.weight = self.a.weight

    path = tmp_path / "model.safetensors"
    write(path, names, torch.ones(2, 2))
    missing, unexpected = safetensors.torch.load_model(Two(), str(path), strict=False)
    wanted = (sorted(missing), sorted(unexpected))
    assert load_model(Two(), path, strict=False) == wanted
    if wanted == ([], []):
        assert load_model(Two(), path) == wanted
        return
    with pytest.raises(RuntimeError):
        safetensors.torch.load_model(Two(), str(path))
    with pytest.raises(StateMismatchError) as caught:
        load_model(Two(), path)
    assert isinstance(caught.value, RuntimeError)
    assert (caught.value.missing, caught.value.unexpected) == wanted
    for name in [*wanted[0], *wanted[1]]:
        assert f'"{name}"' in str(caught.value)


def test_a_model_without_data_yet(tmp_path: Path) -> None:
    """Lazy and meta tensors lie nowhere, so they are tied to nothing."""
    path = tmp_path / "model.safetensors"
    source = nn.Linear(3, 2)
    save_model(source, path)
    lazy = nn.LazyLinear(2)
    assert load_model(lazy, path) == ([], [])
    assert same(source, lazy)
    with torch.device("meta"):
        meta = nn.Linear(3, 2)
    with pytest.warns(UserWarning, match="meta"):
        assert load_model(meta, path) == ([], [])


def test_device_and_dtype_of_the_model_stay(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    source = nn.Linear(3, 2)
    save_model(source, path)
    model = nn.Linear(3, 2, dtype=torch.float64)
    load_model(model, path, device=torch.device("cpu"))
    assert model.weight.dtype == torch.float64
    assert torch.equal(model.weight, source.weight.double())


def test_packed_elements_cannot_be_loaded_into_a_model(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(plan([TensorData("weight", "F6_E2M3", (4,), bytes(3))]).to_bytes())
    with pytest.raises(UnsupportedDtypeError, match='"weight"'):
        load_model(nn.Linear(2, 2), path)


def test_saving_a_model_over_the_file_it_maps(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    model = Tied()
    save_model(model, path)
    mapped = safetensors.torch.load_file(path)
    again = Tied()
    again.load_state_dict(mapped, strict=False, assign=True)
    again.head.weight = again.embed.weight = again.again
    save_model(again, path)
    other = Tied()
    load_model(other, path)
    assert same(other, model)
