"""The torch writer against the official library, in both directions; refusals; and views that share bytes."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from torch._subclasses.fake_tensor import FakeTensorMode

from safetensors_reference import read_header
from safetensors_reference.arrays.numpy import PackedTensor
from safetensors_reference.arrays.torch import WORDS
from safetensors_reference.rules.errors import WriteError
from safetensors_reference.writing.torch import (
    MemoryRegion,
    memory_regions,
    regions_overlap,
    save,
    save_file,
    shared_groups,
)

from ..strategies import FEWER
from .samples import NUMPY_TYPES, Array, Sample, content, dicts, lay_out, metadata, wanted
from .support import listing, read_official, untouched

LAYOUTS = ("plain", "fortran", "permuted", "gaps")
"""Layouts of NumPy that torch has too."""


def words(array: Array) -> torch.Tensor:
    """The elements as integers, where they are: torch has no other types in common with ml_dtypes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a broadcast array is read-only
        return torch.from_numpy(array.view(f"i{array.itemsize}"))


def torch_type(code: str) -> Any:
    return getattr(torch, "float4_e2m1fn_x2" if code == "F4" else np.dtype(NUMPY_TYPES[code]).name)


@FEWER
@given(dicts(("plain",)) | dicts((*LAYOUTS, "broadcast")), metadata())
def test_the_official_reader_gets_back_what_was_saved_and_the_official_writer_writes_the_same(
    samples: dict[str, Sample], strings: dict[str, str] | None
) -> None:
    tensors = {name: words(s.array).view(torch_type(s.dtype)) for name, s in samples.items()}
    file = save(tensors, strings)
    assert read_official(file) == wanted(samples)
    assert read_header(file).metadata == strings
    # The official writer refuses other layouts, has no order of metadata, and gets one file wrong (WRT-05).
    plain = all(tensor.is_contiguous() for tensor in tensors.values())
    if plain and len(strings or ()) < 2 and (samples or strings != {}):
        assert bytes(safetensors.torch.save(tensors, strings)) == file


@pytest.mark.usefixtures("simulated")
@pytest.mark.parametrize("code", [*sorted(NUMPY_TYPES), "F4"])
def test_every_dtype_in_every_layout_and_on_a_device(code: str, tmp_path: Path) -> None:
    rng = random.Random(code)
    plain = content("U8" if code == "F4" else code, (2, 3, 4), rng)
    integers = {layout: words(lay_out(plain.copy(), layout, rng)) for layout in LAYOUTS}
    there = integers["plain"].to("simulated:1").transpose(0, 2).contiguous().transpose(0, 2)
    tensors = {name: each.view(torch_type(code)) for name, each in {**integers, "there": there}.items()}
    row = (code, (2, 3, 8 if code == "F4" else 4), plain.tobytes())
    path = tmp_path / "model.safetensors"
    save_file(tensors, path, {"z": "1", "format": "pt"})
    assert read_official(path.read_bytes()) == dict.fromkeys(tensors, row)
    assert path.read_bytes() == save(tensors, {"format": "pt", "z": "1"})
    with pytest.raises(WriteError, match="share memory"):
        save({"a": tensors["there"], "b": tensors["there"][0]})


def test_plain_data_of_subclasses_and_packed_tensors() -> None:
    class Labelled(torch.Tensor):  # type: ignore[misc] # torch has no types here
        pass

    weight = torch.nn.Linear(1, 1).weight
    tensors = {
        "label": torch.arange(2, dtype=torch.uint8).as_subclass(Labelled),
        "buffer": torch.nn.Buffer(torch.zeros(1)),
        "weight": weight,
        "packed": PackedTensor("F6_E2M3", (4,), torch.arange(6, dtype=torch.uint8)[::2]),
    }
    assert weight.requires_grad
    assert read_official(save(tensors)) == {
        "label": ("U8", (2,), b"\0\1"),
        "buffer": ("F32", (1,), bytes(4)),
        "weight": ("F32", (1, 1), weight.detach().numpy().tobytes()),
        "packed": ("F6_E2M3", (4,), b"\0\2\4"),
    }


def test_conjugate_and_negative_views() -> None:
    z = torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex64)
    negative = z.clone().conj().imag
    assert negative.is_neg()
    loaded = safetensors.torch.load(save({"conj": z.conj(), "neg": negative, "sub": z.clone()[1:].conj()}))
    found = {name: tensor.tolist() for name, tensor in loaded.items()}
    assert found == {"conj": [1 - 2j, 3 + 4j], "neg": [-2, 4], "sub": [3 + 4j]}


# ---- sharing ----


BASE = torch.arange(12.0)

SHARING: dict[str, dict[str, Any]] = {
    "same tensor": {"a": BASE, "b": BASE},
    "one element": {"a": BASE[:6], "b": BASE[5:]},
    "crossing": {"a": BASE.view(3, 4)[1], "b": BASE.view(3, 4)[:, 2]},
    "detached": {"a": BASE, "b": BASE.detach().requires_grad_()},
    "another dtype": {"a": BASE, "b": BASE.view(torch.uint8)[40:41]},
    "another storage": {"a": BASE, "b": torch.from_numpy(BASE.numpy())},
    "conjugate": {"a": (z := torch.zeros(1, dtype=torch.complex64)), "b": z.conj()},
    "expanded": {"a": (one := torch.zeros(1)), "b": one.expand(3)},
    "packed": {"a": (three := torch.zeros(3, dtype=torch.uint8)), "b": PackedTensor("F4", (2,), three[2:])},
}


@pytest.mark.parametrize("what", SHARING)
def test_sharing_is_refused(what: str, tmp_path: Path) -> None:
    with pytest.raises(WriteError, match='2 tensors share memory: "a", "b"') as caught:
        save_file(SHARING[what], tmp_path / "model.safetensors")
    assert (caught.value.code, caught.value.rule) == ("WRT_SHARED_STORAGE", "WRT-16")
    assert listing(tmp_path) == []


def test_tensors_without_elements_share_nothing_and_an_error_names_a_few_of_many() -> None:
    assert len(read_official(save({"a": BASE, "b": BASE[:0], "c": BASE[3:3]}))) == 3
    with pytest.raises(WriteError, match="100 tensors share memory") as caught:
        save({str(i): BASE for i in range(100)})
    assert len(str(caught.value)) < 200


# ---- refusals ----


def freed() -> torch.Tensor:
    tensor = torch.zeros(8)
    tensor.untyped_storage().resize_(0)
    return tensor


def fake() -> Any:
    with FakeTensorMode():
        return torch.zeros(3)


def u8(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape, dtype=torch.uint8)


DTYPE, PLACE = ("WRT_UNSUPPORTED_DTYPE", "WRT-09"), ("WRT_NOT_CONTIGUOUS", "WRT-07")
SIZE = ("WRT_SIZE_MISMATCH", "WRT-17")
REFUSED: dict[str, tuple[Callable[[], Any], tuple[str, str]]] = {
    "complex128": (lambda: torch.zeros(1, dtype=torch.complex128), DTYPE),
    "complex32": (lambda: torch.empty(1, dtype=torch.complex32), DTYPE),
    "quantised": (lambda: torch.quantize_per_tensor(torch.zeros(3), 1.0, 0, torch.qint8), DTYPE),
    "a list": (lambda: [1.0], DTYPE),
    "a NumPy array": (lambda: torch.zeros(1).numpy(), DTYPE),
    "sparse": (lambda: torch.zeros(3).to_sparse(), PLACE),
    "mkldnn": (lambda: torch.zeros(3).to_mkldnn(), PLACE),
    "nested": (lambda: torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]), PLACE),
    "fake": (fake, PLACE),
    "meta": (lambda: torch.zeros(3, device="meta"), SIZE),
    "lazy": (torch.nn.parameter.UninitializedParameter, SIZE),
    "freed": (freed, SIZE),
    "F4 scalar": (lambda: u8(1)[0].view(torch.float4_e2m1fn_x2), ("WRT_SIZE_MISMATCH", "WRT-20")),
    "packed bytes": (lambda: PackedTensor("F4", (2,), b"\0"), DTYPE),
    "packed floats": (lambda: PackedTensor("F4", (2,), torch.zeros(1)), SIZE),
    "packed rows": (lambda: PackedTensor("F4", (2,), u8(1, 1)), SIZE),
    "packed too short": (lambda: PackedTensor("F4", (4,), u8(1)), SIZE),
    "packed whole bytes": (lambda: PackedTensor("U8", (1,), u8(1)), DTYPE),
    "packed meta": (lambda: PackedTensor("F4", (2,), u8(1).to("meta")), SIZE),
}


@pytest.mark.filterwarnings("ignore")  # torch warns of tensors of rare kinds
@pytest.mark.parametrize("what", REFUSED)
def test_refused_before_anything_is_written(what: str, target: Path) -> None:
    make, told = REFUSED[what]
    with pytest.raises(WriteError, match="last one") as caught:
        save_file({"first": torch.zeros(1000), "last one" + "😀" * 5000: make()}, target)
    assert len(str(caught.value)) < 1100
    assert (caught.value.code, caught.value.rule) == told
    assert untouched(target)


class Refusing(torch.Tensor):  # type: ignore[misc] # torch has no types here
    @classmethod
    def __torch_function__(cls, *_: object, **__: object) -> Any:
        raise RuntimeError("a second\nline")


def within(transform: Callable[[Callable[[torch.Tensor], torch.Tensor]], Any]) -> None:
    """Save a tensor as a transformed function sees it."""
    transform(lambda x: save({"w": x}) and x.sum())(torch.ones(3, 2))


FOREIGN: dict[str, Callable[[], object]] = {
    "vmap": lambda: within(torch.vmap),
    "grad": lambda: within(torch.func.grad),
    "zero": lambda: save({"w": torch._efficientzerotensor((2,))}),
    "torch function": lambda: save({"w": torch.ones(2).as_subclass(Refusing)}),
    "packed": lambda: save({"w": PackedTensor("F4", (2,), torch.ones(2).as_subclass(Refusing))}),
}


@pytest.mark.parametrize("what", FOREIGN)
def test_what_torch_raises_about_a_tensor_names_it(what: str) -> None:
    with pytest.raises(WriteError, match='tensor "w": its elements ') as caught:
        FOREIGN[what]()
    assert (caught.value.code, caught.value.rule) == ("WRT_NOT_CONTIGUOUS", "WRT-07")
    assert str(caught.value).isprintable()


@st.composite
def views(draw: DrawFn) -> tuple[torch.Tensor, set[int]]:
    """A view of 640 bytes, and the places of its bytes among them."""
    size = draw(st.sampled_from([1, 2, 4, 8]))
    shape = draw(st.lists(st.integers(1, 4), max_size=3))
    strides = [draw(st.integers(0, 8)) for _ in shape]
    at = draw(st.integers(0, 40 // size))
    rows, steps = torch.arange(640).reshape(-1, size), [*(s * size for s in strides), 1]
    places = rows.as_strided([*shape, size], steps, at * size)
    return MEMORY.view(WORDS[size]).as_strided(shape, strides, at), set(places.reshape(-1).tolist())


MEMORY = torch.zeros(640, dtype=torch.uint8)


@FEWER
@given(st.lists(views(), max_size=6))
def test_regions_and_groups(drawn: list[tuple[torch.Tensor, set[int]]]) -> None:
    regions = list(memory_regions({str(number): view for number, (view, _) in enumerate(drawn)}))
    for here, (_, places) in zip(regions, drawn, strict=True):
        first = here.address - MEMORY.data_ptr()
        assert (first, here.end - here.address) == (min(places), max(places) + 1 - min(places))
        assert here.dense == (len(places) == here.end - here.address)
    # Merge sets of bytes until no two touch each other.
    merged = [({str(number)}, places) for number, (_, places) in enumerate(drawn)]
    while pair := next(((a, b) for a, b in combinations(merged, 2) if a[1] & b[1]), None):
        merged = [m for m in merged if m is not pair[0] and m is not pair[1]]
        merged.append((pair[0][0] | pair[1][0], pair[0][1] | pair[1][1]))
    groups = sorted(sorted(region.name for region in group) for group in shared_groups(regions))
    assert groups == sorted(sorted(names) for names, _ in merged if len(names) > 1)


def place(
    name: str, address: int, shape: tuple[int, ...], strides: tuple[int, ...], device: str = "cpu"
) -> MemoryRegion:
    return MemoryRegion.of(name, device, address, 4, shape, strides)


def test_other_devices_are_other_memory() -> None:
    cpu, one, two = (place(device, 4096, (4,), (1,), device) for device in ("cpu", "cuda:0", "cuda:1"))
    assert shared_groups([cpu, one, two]) == []
    part = place("part", 4100, (1,), (1,), "cuda:0")
    assert shared_groups([cpu, one, two, part]) == [[one, part]]


def test_many_views_of_one_storage_are_quick() -> None:
    many = [place(str(i), 4096 + 64 * i, (4, 4), (4, 1)) for i in range(20_000)]
    assert shared_groups(many) == []
    assert len(shared_groups([*many, place("all", 4096, (320_000,), (1,))])[0]) == 20_001


def test_a_pair_that_is_too_hard_counts_as_sharing(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = place("a", 4096, (4,), (2,)), place("b", 4100, (4,), (2,))
    assert not regions_overlap(a, b)
    monkeypatch.setattr(np, "shares_memory", Mock(side_effect=np.exceptions.TooHardError))
    assert regions_overlap(a, b)


def test_more_dimensions_than_numpy_has() -> None:
    # Only as many dimensions as memory can hold reach NumPy: length 1 and stride 0 do not count.
    a = place("a", 4096, (1,) * 70 + (2,) * 70 + (3,), (5,) * 70 + (0,) * 70 + (2,))
    b = place("b", 4100, (3,), (2,))
    assert a.dims == ((3, 8),)
    assert not regions_overlap(a, b)
