"""Round trips between this project and the official library, both ways, through the public functions."""

from __future__ import annotations

from typing import Any

import safetensors
import safetensors.numpy
import safetensors.torch
import torch
from hypothesis import given

from safetensors_reference import numpy as ours_numpy
from safetensors_reference import read_header
from safetensors_reference import torch as ours_torch

from ..strategies import FEWER
from .samples import Sample, dicts, metadata


def raw(tensor: Any) -> bytes:
    """Return the bytes of an array or tensor in logical order."""
    if isinstance(tensor, torch.Tensor):
        flat = tensor.contiguous().reshape(-1)
        return bytes(flat.view(torch.uint8).numpy().tobytes()) if flat.numel() else b""
    return bytes(tensor.tobytes())


@FEWER
@given(dicts(), metadata())
def test_our_writer_to_the_official_reader(
    samples: dict[str, Sample], strings: dict[str, str] | None
) -> None:
    file = ours_numpy.save({name: s.array for name, s in samples.items()}, strings)
    found: Any = safetensors.deserialize(file)  # type: ignore[no-untyped-call]
    assert {n: (i["dtype"], tuple(i["shape"]), bytes(i["data"])) for n, i in found} == {
        name: (s.dtype, s.shape, s.raw) for name, s in samples.items()
    }


@FEWER
@given(dicts(("plain",)), metadata())
def test_the_official_writer_to_our_readers(
    samples: dict[str, Sample], strings: dict[str, str] | None
) -> None:
    if not samples and strings == {}:
        return  # the one file that the official writer gets wrong (WRT-05)
    file = bytes(safetensors.numpy.save({name: s.array for name, s in samples.items()}, strings))
    assert read_header(file).metadata == strings
    for load in (ours_numpy.load, ours_torch.load):
        tensors: dict[str, Any] = dict(load(file))
        assert {n: (tuple(t.shape), raw(t)) for n, t in tensors.items()} == {
            name: (s.shape, s.raw) for name, s in samples.items()
        }
