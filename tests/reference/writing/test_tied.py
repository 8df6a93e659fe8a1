"""Models with tied weights, saved and loaded by this package and by the official one in all combinations."""

# torch has no types here, so that its classes are Any.
# mypy: disable-error-code="misc"

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import nn

from safetensors_reference import read_header
from safetensors_reference.rules.errors import UnsupportedDtypeError, WriteError
from safetensors_reference.torch import StateMismatchError, load_model, save_model
from safetensors_reference.writing.writer import TensorData, plan

from .samples import Tied


def holding(
    shape: tuple[int, ...], **views: Callable[[torch.Tensor], torch.Tensor]
) -> Callable[[], nn.Module]:
    """Return a maker of models whose buffers are views of one random tensor."""

    def make() -> nn.Module:
        model, base = nn.Module(), torch.randn(shape)
        for name, view in views.items():
            model.register_buffer(name, view(base))
        return model

    return make


part_tied = holding((3, 4), weight=lambda base: base, first=lambda base: base[0])
turned = holding((3, 4), b=lambda base: base, a=lambda base: base.t())
"""A weight and its transpose, which the official writer cannot handle."""
fused = holding((4, 6), left=lambda base: base[:, :3], right=lambda base: base[:, 3:])
"""Two views of one storage without a common byte."""
chain = holding((6,), a=lambda base: base[:4], b=lambda base: base[2:])
"""Two views that overlap, neither of which covers all."""
holes = holding((4,), a=lambda base: base[::3].unsqueeze(1).expand(2, 2), b=lambda base: base[2:])
"""A view with as many elements as its span, two of them twice and two never."""
spread = holding((4,), b=lambda base: base, a=lambda base: base.expand(3, 4))
"""A row, and a view that repeats it."""


def plain() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))


def same(a: nn.Module, b: nn.Module) -> bool:
    one, two = a.state_dict(), b.state_dict()
    return list(one) == list(two) and all(torch.equal(one[name], two[name]) for name in one)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


@pytest.mark.parametrize("make", [Tied, part_tied, plain, turned, fused])
def test_a_model_that_was_saved_is_loaded_and_the_file_is_that_of_the_official_library(
    make: Callable[[], nn.Module], path: Path
) -> None:
    model, other = make(), make()
    assert not same(model, other)
    save_model(model, path)
    assert load_model(other, path) == ([], [])
    assert same(model, other)
    if make not in (turned, fused):  # which the official writer refuses
        ours = path.read_bytes()
        safetensors.torch.save_model(model, str(path))
        files = [(read_header(file), file) for file in (ours, path.read_bytes())]
        first, second = ((header[1:], file[header.data_start :]) for header, file in files)
        assert first == second


@pytest.mark.parametrize(
    ("make", "shapes", "notes"),
    # Repeated elements are not what is kept.
    [(turned, {"a": (4, 3)}, {"b": "a"}), (spread, {"b": (4,)}, {"a": "b"})],
)
def test_what_is_kept(
    make: Callable[[], nn.Module], shapes: dict[str, Any], notes: dict[str, str], path: Path
) -> None:
    save_model(make(), path)
    header = read_header(path)
    assert ({i.name: i.shape for i in header.tensors.values()}, header.metadata) == (shapes, notes)


def test_what_is_noted_keeps_the_words_of_the_caller(path: Path) -> None:
    strings = {"head.weight": "mine", "format": "pt"}
    save_model(Tied(), path, strings)
    assert strings == {"head.weight": "mine", "format": "pt"}  # the caller's own map is left alone
    header = read_header(path)
    assert header.metadata == {"embed.weight": "again", "head.weight": "mine", "format": "pt"}
    assert {"again", "embed.weight", "head.weight"} & set(header.tensors) == {"again"}


class Extra(nn.Linear):
    def get_extra_state(self) -> Any:
        return {"version": 1}


@pytest.mark.parametrize(
    ("make", "more", "code", "words"),
    [
        (Tied, {"metadata": {"a": 1}}, "WRT_BAD_METADATA", "metadata"),
        (Tied, {"metadata": ["a"]}, "WRT_BAD_METADATA", "metadata"),
        (fused, {"force_contiguous": False}, "WRT_NOT_CONTIGUOUS", "left"),
        (chain, {}, "WRT_SHARED_STORAGE", '"a", "b"'),
        (holes, {}, "WRT_SHARED_STORAGE", '"a", "b"'),
        (lambda: Extra(1, 1), {}, "WRT_UNSUPPORTED_DTYPE", "_extra_state"),
    ],
)
def test_what_cannot_be_saved(make: Any, more: Any, code: str, words: str, path: Path) -> None:
    with pytest.raises(WriteError, match=words) as caught:
        save_model(make(), path, **more)
    assert caught.value.code == code
    assert not path.exists()


def test_views_of_which_none_is_whole_are_loaded_under_every_name(path: Path) -> None:
    write(path, ["a", "b"], torch.full((4,), 7.0))
    model = chain()
    assert load_model(model, path) == ([], [])
    assert model.a.tolist() == model.b.tolist() == [7.0] * 4


def write(path: Path, names: list[str], tensor: torch.Tensor) -> None:
    data = tensor.contiguous().numpy().tobytes()
    path.write_bytes(plan(TensorData(n, "F32", tuple(tensor.shape), data) for n in names).to_bytes())


@pytest.mark.parametrize(
    "names",
    [["a", "b"], ["a"], ["b"], [], ["a", "other"], ["other", "another"], ["a", "b", "other"]],
)
@pytest.mark.parametrize("tied", [True, False])
def test_missing_and_unexpected_are_those_of_the_official_library(
    names: list[str], tied: bool, path: Path
) -> None:
    def two() -> nn.Module:
        layers = nn.ModuleDict({name: nn.Linear(2, 2, bias=False) for name in "ab"})
        if tied:
            layers["b"].weight = layers["a"].weight
        return layers

    names = [f"{name}.weight" if name in "ab" else name for name in names]
    write(path, names, torch.ones(2, 2))
    missing, unexpected = safetensors.torch.load_model(two(), str(path), strict=False)
    wanted = (sorted(missing), sorted(unexpected))
    assert load_model(two(), path, strict=False) == wanted
    if wanted == ([], []):
        assert load_model(two(), path) == wanted
        return
    with pytest.raises(RuntimeError):
        safetensors.torch.load_model(two(), str(path))
    with pytest.raises(StateMismatchError) as caught:
        load_model(two(), path)
    assert isinstance(caught.value, RuntimeError)
    assert (caught.value.missing, caught.value.unexpected) == wanted
    for name in [*wanted[0], *wanted[1]]:
        assert f'"{name}"' in str(caught.value)


def test_models_without_data_yet_or_of_another_dtype(path: Path) -> None:
    """Lazy and meta tensors lie nowhere, so they are tied to nothing."""
    source = nn.Linear(3, 2)
    save_model(source, path)
    lazy = nn.LazyLinear(2)
    assert (load_model(lazy, path), same(source, lazy)) == (([], []), True)
    with torch.device("meta"):
        meta = nn.Linear(3, 2)
    with pytest.warns(UserWarning, match="meta"):
        assert load_model(meta, path) == ([], [])
    # Device and dtype of the model stay.
    model = nn.Linear(3, 2, dtype=torch.float64)
    load_model(model, path, device=torch.device("cpu"))
    assert model.weight.dtype == torch.float64
    assert torch.equal(model.weight, source.weight.double())


def test_packed_elements_cannot_be_loaded_into_a_model(path: Path) -> None:
    path.write_bytes(plan([TensorData("weight", "F6_E2M3", (4,), bytes(3))]).to_bytes())
    with pytest.raises(UnsupportedDtypeError, match='"weight"'):
        load_model(nn.Linear(2, 2), path)
