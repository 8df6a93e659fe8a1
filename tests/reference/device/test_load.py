"""Tensors on a device: the bytes of the file, whatever its layout and however the work is cut up."""

from __future__ import annotations

import os
import tempfile
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from safetensors_reference import read_header
from safetensors_reference.arrays import buffers
from safetensors_reference.device import load_file
from safetensors_reference.device.engine import CpuEngine, CpuLane
from safetensors_reference.torch import load as load_bytes

from ..naive import BITS
from ..strategies import FEWER, Model, models
from ..support import raw_bytes
from .support import (
    DEVICES,
    WORDS,
    CountingEngine,
    LateLane,
    StagedLane,
    address,
    data_of,
    file_of,
    install,
    said,
    storage,
    tracked,
    write,
)

OPTIONS = {
    "chunk": st.integers(1, 60) | st.just(1 << 20),
    "threads": st.integers(1, 4),
    "align": st.sampled_from([None, 1, 16, 64]),
    "clone": st.booleans(),
}


@FEWER
@given(
    models(),
    st.data(),
    st.fixed_dictionaries(OPTIONS),
    st.integers(1, 3),
    st.sampled_from([LateLane, StagedLane]),
)
def test_any_layout_any_chunk_any_number_of_threads(
    model: Model, data: st.DataObject, options: dict[str, Any], slots: int, lane: type[CpuLane]
) -> None:
    names = data.draw(st.none() | st.sets(st.sampled_from([*model.tensors]))) if model.tensors else None
    start = 8 + len(model.header)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        install(patch, CountingEngine(lane), slots)
        tensors = load_file(write(Path(folder), model.file), device="cpu", names=names, **options)
    assert list(tensors) == [n for n in read_header(model.file).tensors if names is None or n in names]
    plain = load_bytes(model.file)
    clone = options["clone"]
    for name, tensor in tensors.items():
        code, _, begin, end = model.tensors[name]
        assert raw_bytes(tensor) == model.file[start + begin : start + end]
        assert said(tensor) == said(plain[name])
        if begin != end and not clone:
            assert address(tensor) % max(options["align"] or 1, BITS[code] // 8, 1) == 0
    if clone:
        full = [storage(t) for n, t in tensors.items() if model.tensors[n][3] > model.tensors[n][2]]
        assert len(set(full)) == len(full)


@pytest.mark.parametrize("device", DEVICES)
def test_every_dtype_whatever_the_length_of_the_header_and_the_mode_of_torch(
    tmp_path: Path, device: str
) -> None:
    contexts = [nullcontext()] * 7 + [torch.device("meta"), torch.inference_mode()]
    shapes = ([2, 4], [0, 8], [8])
    every = [(f"{code} {shape}", code, shape) for code in sorted(BITS) for shape in shapes]
    for padding, context in enumerate(contexts):
        file = file_of([*WORDS, *every, ("F4 odd", "F4", [2, 3])], padding)
        with context:
            path = write(tmp_path, file)
            tensors: dict[str, Any] = load_file(path, device=device, chunk=100, clone=padding == 7)
        assert {n: said(t) for n, t in tensors.items()} == {n: said(t) for n, t in load_bytes(file).items()}
        assert {str(getattr(tensor, "raw", tensor).device) for tensor in tensors.values()} == {device}


def test_the_buffer_is_the_data_of_the_file_and_nothing_more(tmp_path: Path, engine: CountingEngine) -> None:
    file = file_of([(f"t{i:05}", "F32", [i % 7]) for i in range(3000)])
    path = write(tmp_path, file)
    tensors = load_file(path, device="cpu")
    assert engine.sizes == [len(data_of(file))]
    assert len({storage(t) for t in tensors.values() if raw_bytes(t)}) == 1
    load_file(path, device="cpu", names=["t00003", "t00005"])
    assert load_file(path, device="cpu", names=[]) == {}
    assert engine.sizes[1:] == [(3 + 5) * 4, 0]


def test_reads_go_by_chunks_and_not_by_tensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    file = file_of([(f"t{i}", "F32", [4]) for i in range(2000)])
    path = write(tmp_path, file)
    calls: list[int] = []
    real = os.preadv
    monkeypatch.setattr(os, "preadv", lambda *args: calls.append(len(args[1])) or real(*args))  # type: ignore[func-returns-value]
    load_file(path, device="cpu", chunk=16_000)
    assert calls == [1, 1]
    calls.clear()
    install(monkeypatch, slot_bytes=8192)
    assert raw_bytes(load_file(path, device="cpu", chunk=1 << 40)["t1999"]) == file[-16:]
    assert len(calls) == 4, "chunks are no larger than a slot"


@pytest.mark.parametrize("most", [1, 3, 7, 1 << 20])
def test_short_reads_and_those_of_many_pieces_are_taken_up_where_they_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(buffers, "MAX_PIECES", 16)
    real = os.preadv

    def preadv(fd: int, buffers: list[memoryview], at: int) -> int:
        room, less = most, []
        for buffer in buffers:
            less.append(buffer[:room])
            room -= len(less[-1])
        return real(fd, less, at)

    monkeypatch.setattr(os, "preadv", preadv)
    gaps = [t for i in range(50) for t in ((f"u{i}", "U8", [3]), (f"f{i}", "F64", [2]))]
    file = file_of([*WORDS, *gaps], 1)
    tensors = load_file(write(tmp_path, file), device="cpu", chunk=500, threads=2)
    assert b"".join(map(raw_bytes, tensors.values())) == data_of(file)


@pytest.mark.parametrize("clone", [False, True])
def test_the_memory_goes_with_the_last_tensor(
    words: Path, monkeypatch: pytest.MonkeyPatch, clone: bool
) -> None:
    memories: list[weakref.ref[Any]] = []

    monkeypatch.setattr(CpuEngine, "allocate", lambda _self, size: tracked(size, memories))
    tensors = load_file(words, device="cpu", clone=clone)
    assert (memories[0]() is None) is clone
    kept = tensors["a"]
    tensors.clear()
    words.unlink()
    assert (memories[0]() is None) is clone
    assert raw_bytes(kept) == data_of(file_of(WORDS))[:1200]
    del kept
    assert memories[0]() is None


def test_loads_at_once_share_a_small_ring_and_all_come_out_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = install(monkeypatch, CountingEngine(LateLane), 2)
    files = [file_of([("a", "U8", [20_000 + 1000 * i])], i) for i in range(6)]
    paths = [write(tmp_path, file, str(i)) for i, file in enumerate(files)]
    right: list[bool] = []

    def work(number: int) -> None:
        for _ in range(3):
            tensors = load_file(paths[number], device="cpu", chunk=700, threads=3)
            right.append(raw_bytes(tensors["a"]) == data_of(files[number]))

    with ThreadPoolExecutor(len(files)) as pool:
        list(pool.map(work, range(len(files))))
    assert right == [True] * 18
    assert ring.made == ring.free <= 2
