"""What the torch writer refuses: tensors that share memory, have none, or have no dtype in the format."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from safetensors_reference.arrays.packed import PackedTensor
from safetensors_reference.rules.errors import WriteError
from safetensors_reference.writing.torch import save, save_file

from .support import listing, read_official

# ---- sharing ----


def test_views_without_a_common_byte_are_independent() -> None:
    fused = torch.arange(24.0).reshape(4, 6)
    parts = {"q": fused[:, :2], "k": fused[:, 2:4], "v": fused[:, 4:]}
    loaded = safetensors.torch.load(save(parts))
    assert all(torch.equal(loaded[name], part) for name, part in parts.items())
    halves = {"even": fused.view(-1)[::2], "odd": fused.view(-1)[1::2]}
    assert safetensors.torch.load(save(halves))["odd"].tolist() == list(range(1, 24, 2))


BASE = torch.arange(12.0)

SHARING: dict[str, dict[str, torch.Tensor]] = {
    "same tensor": {"a": BASE, "b": BASE},
    "alias": {"a": BASE, "b": BASE.view(3, 4)},
    "transposed": {"a": BASE.view(3, 4), "b": BASE.view(3, 4).t()},
    "part": {"a": BASE, "b": BASE[5:6]},
    "one element": {"a": BASE[:6], "b": BASE[5:]},
    "crossing": {"a": BASE.view(3, 4)[1], "b": BASE.view(3, 4)[:, 2]},
    "detached": {"a": BASE, "b": BASE.detach().requires_grad_()},
    "another dtype": {"a": BASE, "b": BASE.view(torch.uint8)[40:41]},
    "another storage": {"a": BASE, "b": torch.from_numpy(BASE.numpy())},
    "conjugate": {"a": (z := torch.zeros(1, dtype=torch.complex64)), "b": z.conj()},
    "expanded": {"a": (one := torch.zeros(1)), "b": one.expand(3)},
    "last of many": {**{str(i): torch.zeros(1) for i in range(50)}, "a": BASE, "b": BASE},
}


@pytest.mark.parametrize("what", SHARING)
def test_sharing_is_refused(what: str, tmp_path: Path) -> None:
    with pytest.raises(WriteError, match='2 tensors share memory: "a", "b"') as caught:
        save_file(SHARING[what], tmp_path / "model.safetensors")
    assert (caught.value.code, caught.value.rule) == ("WRT_SHARED_STORAGE", "WRT-16")
    assert listing(tmp_path) == []


def test_packed_tensors_share_too() -> None:
    raw = torch.zeros(3, dtype=torch.uint8)
    with pytest.raises(WriteError, match="share memory"):
        save({"a": raw, "b": PackedTensor("F4", (2,), raw[2:])})


def test_tensors_without_elements_share_nothing() -> None:
    assert len(read_official(save({"a": BASE, "b": BASE[:0], "c": BASE[3:3]}))) == 3


def test_the_error_names_a_few_of_many() -> None:
    with pytest.raises(WriteError, match="1000 tensors share memory") as caught:
        save({str(i): BASE for i in range(1000)})
    assert len(str(caught.value)) < 200


# ---- refusals ----


def freed() -> torch.Tensor:
    tensor = torch.zeros(8)
    tensor.untyped_storage().resize_(0)
    return tensor


def fake() -> torch.Tensor:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.zeros(3)


def complex_half() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.empty(1, dtype=torch.complex32)


def quantised() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.quantize_per_tensor(torch.zeros(3), 1.0, 0, torch.qint8)


def nested() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)])


def half_scalar() -> torch.Tensor:
    return torch.zeros((), dtype=torch.uint8).view(torch.float4_e2m1fn_x2)


def u8(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape, dtype=torch.uint8)


REFUSED: dict[str, tuple[Any, str, str]] = {
    "complex128": (lambda: torch.zeros(1, dtype=torch.complex128), "WRT_UNSUPPORTED_DTYPE", "WRT-09"),
    "complex32": (complex_half, "WRT_UNSUPPORTED_DTYPE", "WRT-09"),
    "quantised": (quantised, "WRT_UNSUPPORTED_DTYPE", "WRT-09"),
    "a list": (lambda: [1.0], "WRT_UNSUPPORTED_DTYPE", "WRT-09"),
    "a NumPy array": (lambda: torch.zeros(1).numpy(), "WRT_UNSUPPORTED_DTYPE", "WRT-09"),
    "sparse": (lambda: torch.zeros(3).to_sparse(), "WRT_NOT_CONTIGUOUS", "WRT-07"),
    "mkldnn": (lambda: torch.zeros(3).to_mkldnn(), "WRT_NOT_CONTIGUOUS", "WRT-07"),
    "nested": (nested, "WRT_NOT_CONTIGUOUS", "WRT-07"),
    "fake": (fake, "WRT_NOT_CONTIGUOUS", "WRT-07"),
    "meta": (lambda: torch.zeros(3, device="meta"), "WRT_SIZE_MISMATCH", "WRT-17"),
    "lazy": (torch.nn.parameter.UninitializedParameter, "WRT_SIZE_MISMATCH", "WRT-17"),
    "freed": (freed, "WRT_SIZE_MISMATCH", "WRT-17"),
    "F4 scalar": (half_scalar, "WRT_SIZE_MISMATCH", "WRT-20"),
    "packed bytes": (lambda: PackedTensor("F4", (2,), b"\0"), "WRT_UNSUPPORTED_DTYPE", "WRT-09"),
    "packed floats": (lambda: PackedTensor("F4", (2,), torch.zeros(1)), "WRT_SIZE_MISMATCH", "WRT-17"),
    "packed rows": (lambda: PackedTensor("F4", (2,), u8(1, 1)), "WRT_SIZE_MISMATCH", "WRT-17"),
    "packed too short": (lambda: PackedTensor("F4", (4,), u8(1)), "WRT_SIZE_MISMATCH", "WRT-17"),
    "packed whole bytes": (lambda: PackedTensor("U8", (1,), u8(1)), "WRT_UNSUPPORTED_DTYPE", "WRT-09"),
    "packed meta": (lambda: PackedTensor("F4", (2,), u8(1).to("meta")), "WRT_SIZE_MISMATCH", "WRT-17"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_refused_before_anything_is_written(what: str, tmp_path: Path) -> None:
    make, code, rule = REFUSED[what]
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"old")
    with pytest.raises(WriteError, match="last one") as caught:
        save_file({"first": torch.zeros(1000), "last one": make()}, path)
    assert (caught.value.code, caught.value.rule) == (code, rule)
    assert path.read_bytes() == b"old"
    assert listing(tmp_path) == [path.name]


@pytest.mark.parametrize("name", ["__metadata__", "\ud800", 1, None])
def test_refused_names(name: Any) -> None:
    with pytest.raises(WriteError) as caught:
        save({"a": torch.zeros(1), name: torch.zeros(1)})
    assert caught.value.code == "WRT_BAD_NAME"


def test_refused_metadata() -> None:
    with pytest.raises(WriteError) as caught:
        save({}, {"a": 1})  # type: ignore[dict-item]
    assert caught.value.code == "WRT_BAD_METADATA"
