"""What a load can be asked for: conversion, clones, several files; and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from safetensors_reference.device import load as load_module
from safetensors_reference.device import load_file, load_files
from safetensors_reference.device.engine import CpuEngine
from safetensors_reference.rules.errors import AccessError, NoSuchTensorError, UnsupportedDtypeError

from ..support import make, raw_bytes
from .support import DEVICES, WORDS, CountingEngine, data_of, file_of, install, said, storage, write


@pytest.mark.parametrize("device", DEVICES)
def test_conversion_of_floating_tensors_or_of_all(tmp_path: Path, device: str) -> None:
    codes = {"f": "F32", "h": "F16", "i": "I32", "p": "F4", "s": "F6_E2M3"}
    path = write(tmp_path, file_of([(name, code, [4]) for name, code in codes.items()]))
    before = load_file(path, device=device)
    floating: dict[str, Any] = load_file(path, device=device, dtype=torch.float64)
    types = [torch.float64, torch.float64, torch.int32, torch.float4_e2m1fn_x2, "F6_E2M3"]
    assert {n: t.dtype for n, t in floating.items()} == dict(zip(codes, types, strict=True))
    everything: dict[str, Any] = load_file(path, device=device, dtype=torch.float64, all_dtypes=True)
    for name in "fhi":
        assert everything[name].dtype == torch.float64
        assert torch.equal(everything[name], before[name].to(torch.float64))  # type: ignore[union-attr]
    assert everything["f"].device == torch.device(device)
    clones: dict[str, Any] = load_file(path, device=device, dtype=torch.float64, clone=True)
    assert {n: said(t) for n, t in clones.items()} == {n: said(t) for n, t in floating.items()}
    assert len({storage(t) for t in clones.values()}) == len(codes)


def test_complex_numbers_do_not_become_real_ones(tmp_path: Path, engine: CountingEngine) -> None:
    path = write(tmp_path, file_of([("a", "C64", [3]), ("b", "F32", [1])]))
    with pytest.raises(AccessError, match=r"file.safetensors: cannot convert complex tensors to"):
        load_file(path, device="cpu", dtype=torch.float16, all_dtypes=True)
    assert engine.sizes == []
    assert load_file(path, device="cpu", dtype=torch.float16)["a"].dtype == torch.complex64


def test_several_files_are_one_dict_and_a_buffer_each(tmp_path: Path, engine: CountingEngine) -> None:
    files = [file_of([(f"{c}{i}", "F32", [100 + i]) for i in range(5)], pad) for pad, c in enumerate("abc")]
    paths = [write(tmp_path, file, f"{i}.safetensors") for i, file in enumerate(files)]
    tensors = load_files(paths, device="cpu", threads=3, chunk=128)
    assert engine.sizes == [len(data_of(f)) for f in files]
    assert b"".join(map(raw_bytes, tensors.values())) == b"".join(map(data_of, files))
    some = load_files(paths, device="cpu", names=["c1", "a4"])
    assert {n: said(t) for n, t in some.items()} == {n: said(tensors[n]) for n in ("a4", "c1")}
    assert load_files([], device="cpu") == {}


def test_a_name_in_two_files_allocates_nothing(tmp_path: Path, engine: CountingEngine) -> None:
    one = write(tmp_path, file_of([("a", "U8", [1]), ("b", "U8", [1])]), "one")
    two = write(tmp_path, file_of([("b", "U8", [1]), ("c", "U8", [1])]), "two")
    for paths in ([one, two], [one, one]):
        with pytest.raises(AccessError, match=r'tensor "[ab]" is also in .*one'):
            load_files(paths, device="cpu")
    assert engine.sizes == []
    assert list(load_files([one, two], device="cpu", names=["a", "c"])) == ["a", "c"]


NUMBER = "must be a whole number of at least 1, not "


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"device": "nonsense"}, "must be 'cpu' or an accelerator such as 'cuda:0', not 'nonsense'"),
        *(({"device": device}, f"device '{device}' does not exist") for device in ("meta", "cuda:99")),
        ({"names": "ab"}, 'not the string "ab"'),
        ({"names": [["a"]]}, "must be a list of names"),
        *(
            ({"align": odd}, "align must be a power of two up to 256, not ")
            for odd in (3, 512, 0, 16.0, [16])
        ),
        *(({"threads": odd}, f"threads {NUMBER}{odd}") for odd in (0, True)),
        *(({"chunk": odd}, f"chunk {NUMBER}{odd}") for odd in (-1, 1.5)),
        ({"dtype": "F32"}, 'dtype must be a torch dtype, not "F32"'),
        ({"direct": True, "gds": True}, "cannot be used together"),
        ({"profile": "nonsense"}, 'profile must be one of text, official, hardened, not "nonsense"'),
        ({"profile": []}, "profile must be one of"),
        ({"align": 128, "clone": True}, "align=128 does not apply to the copies"),
        ({"align": 256, "dtype": torch.float16}, "align=256 does not apply to the copies"),
    ],
)
def test_what_cannot_be_asked_for_is_said(tmp_path: Path, arguments: Any, words: str) -> None:
    """A broken file is refused as such only when all else is right."""
    for data in (file_of(WORDS), file_of(WORDS) if "names" in arguments else b"broken"):
        with pytest.raises(AccessError, match=words):
            load_file(write(tmp_path, data), **{"device": "cpu", **arguments})


def test_only_lists_of_paths_and_paths_are_loaded_on_a_little_endian_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    load: Any
    for load, text, words in ((load_file, b"x", "expected a path, not"), (load_files, "x", "accepts a list")):
        for odd in (text, None, 5):
            with pytest.raises(AccessError, match=words):
                load(odd, device="cpu")
    monkeypatch.setattr(sys, "byteorder", "big")
    with pytest.raises(AccessError, match="little-endian"):
        load_file("x", device="cpu")


@pytest.mark.parametrize("names", [["nope"], ["a", "nope"], [3], ["a", None]])
def test_an_unknown_name_is_a_clean_error(words: Path, names: Any) -> None:
    with pytest.raises(NoSuchTensorError, match=r"file.safetensors: no tensor (\"nope\"|3|None)") as caught:
        load_file(words, device="cpu", names=names)
    assert caught.value.code == "API_NO_SUCH_TENSOR"


def test_a_mode_without_memory_is_refused(words: Path) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(), pytest.raises(AccessError, match="tensors have no memory because a torch mode"):
        load_file(words, device="cpu")


def test_what_torch_lacks_or_cannot_hold_is_known_before_anything_is_allocated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: CountingEngine
) -> None:
    from safetensors_reference.arrays import torch as torch_types

    huge = '{"w":{"dtype":"U8","shape":[0,9223372036854775808],"data_offsets":[0,0]}}'
    path = write(tmp_path, make(huge))
    with pytest.raises(AccessError, match=r'file.safetensors: tensor "w": torch does not support the shape'):
        load_file(path, device="cpu")
    monkeypatch.delitem(torch_types.TORCH_DTYPES, "BF16")
    path = write(tmp_path, file_of(WORDS))
    with pytest.raises(UnsupportedDtypeError, match=r"file.safetensors: dtype BF16 has no type"):
        load_file(path, device="cpu")
    assert engine.sizes == []
    assert raw_bytes(load_file(path, device="cpu", names=["e"])["e"]) == data_of(file_of(WORDS))[-5:]


def test_defaults_suit_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def transfer(_targets: Any, _engine: Any, _ring: Any, chunk: int) -> SimpleNamespace:
        seen.append(chunk)
        return SimpleNamespace(run=seen.append)

    monkeypatch.setattr(load_module, "Transfer", transfer)
    monkeypatch.setattr(load_module, "cores", lambda: 64)
    path = write(tmp_path, file_of([("a", "U8", [3 << 20])]))
    for size in (load_module.CPU_CHUNK, 1 << 16):
        monkeypatch.setattr(load_module, "CPU_CHUNK", size)
        load_file(path, device="cpu")
    assert seen == [1 << 20, 3, 1 << 16, 12]


def test_memory_that_is_not_aligned_is_refused(words: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd(CpuEngine):
        def allocate(self, size: int) -> torch.Tensor:
            return super().allocate(size + 1)[1:]

    install(monkeypatch, Odd())
    with pytest.raises(RuntimeError, match=r"file.safetensors: the memory of cpu is not aligned to 256"):
        load_file(words, device="cpu")
