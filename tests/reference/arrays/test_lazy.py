"""Lazy access and loading: same content by every way, clean errors, files that change, large memory."""

from __future__ import annotations

import ctypes
import gc
import os
import struct
import threading
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from hypothesis import given

from safetensors_reference import UnreadableError, safe_open
from safetensors_reference import numpy as with_numpy
from safetensors_reference import torch as with_torch
from safetensors_reference.arrays import buffers
from safetensors_reference.arrays.buffers import (
    HUGE,
    HUGE_FROM,
    MADV_HUGEPAGE,
    MADV_NOHUGEPAGE,
    MADV_POPULATE_WRITE,
    Pages,
)
from safetensors_reference.arrays.numpy import PackedTensor
from safetensors_reference.header.model import TensorInfo
from safetensors_reference.rules.dtypes import DTYPE_BITS
from safetensors_reference.rules.errors import AccessError, NoSuchTensorError, UnsupportedDtypeError
from safetensors_reference.source import PathSource

from ..strategies import FEWER, Model, models
from ..support import entry, make, raw_bytes, refusal

_HEADER = (
    f'{{"b":{entry("I64", "[1]", "[8,16]")},"__metadata__":{{"k":"v"}},"a":{entry("F32", "[2]", "[0,8]")}}}'
)
TWO = make(_HEADER + " " * (-len(_HEADER) % 8), struct.pack("<ffq", 1.5, -2, 7))


def logical_shape(tensor: Any) -> tuple[int, ...]:
    shape = tuple(tensor.shape)
    if isinstance(tensor, torch.Tensor) and tensor.dtype is torch.float4_e2m1fn_x2:
        return (*shape[:-1], shape[-1] * 2)
    return shape


@pytest.fixture
def two(tmp_path: Path) -> Path:
    path = tmp_path / "two.safetensors"
    path.write_bytes(TWO)
    return path


@FEWER
@given(models())
def test_every_way_of_loading_gives_the_bytes_of_the_file(
    tmp_path_factory: pytest.TempPathFactory, model: Model
) -> None:
    data = model.file
    start = 8 + len(model.header)
    path = tmp_path_factory.getbasetemp() / "every-way.safetensors"
    path.write_bytes(data)
    for door, mode in product((with_numpy, with_torch), ("memory", "copy", "mmap")):
        tensors: dict[str, Any] = door.load(data) if mode == "memory" else door.load_file(path, mode=mode)
        assert set(tensors) == set(model.tensors)
        for name, (dtype, shape, begin, end) in model.tensors.items():
            assert raw_bytes(tensors[name]) == data[start + begin : start + end], dtype
            assert logical_shape(tensors[name]) == shape


@pytest.mark.parametrize("code", sorted(DTYPE_BITS))
@pytest.mark.parametrize("with_framework", [with_numpy, with_torch])
def test_every_dtype_has_its_type_or_is_packed(with_framework: Any, code: str) -> None:
    size = DTYPE_BITS[code]
    data = bytes(i % 2 for i in range(size))
    tensor = with_framework.load(make(f'{{"w":{entry(code, "[2,4]", f"[0,{size}]")}}}', data))["w"]
    assert raw_bytes(tensor) == data
    packed = code.startswith("F6_") or (code == "F4" and with_framework is with_numpy)
    assert isinstance(tensor, PackedTensor) is packed
    if packed:
        assert (tensor.dtype, tensor.shape) == (code, (2, 4))


def test_an_open_file_says_what_is_in_it(two: Path) -> None:
    with safe_open(two, "raw") as file:
        assert file.keys() == ["b", "a"]
        assert file.offset_keys() == ["a", "b"]
        assert file.metadata() == {"k": "v"}
        assert file.info("a") == TensorInfo("a", "F32", (2,), 0, 8)
        assert (bytes(file.get_tensor("a")), bytes(file.data())) == (TWO[-16:-8], TWO[-16:])
        assert ("a" in file, "c" in file, len(file), list(file)) == (True, False, 2, ["b", "a"])


@pytest.mark.parametrize("name", ["c", "", "__metadata__", 3, None])
def test_an_unknown_name_is_a_clean_error(two: Path, name: Any) -> None:
    with safe_open(two) as file:
        for call in (file.get_tensor, file.get_slice, file.info):
            with pytest.raises(NoSuchTensorError, match=r"two\.safetensors") as caught:
                call(name)
            assert caught.value.code == "API_NO_SUCH_TENSOR"


@pytest.mark.parametrize("mode", ["copy", "mmap"])
@pytest.mark.parametrize("framework", ["np", "pt"])
def test_tensors_outlive_the_file_and_change_nothing_and_reads_after_closing_are_refused(
    two: Path, framework: Any, mode: Any
) -> None:
    with safe_open(two, framework, mode=mode) as file:
        tensors = {name: file.get_tensor(name) for name in file}
        part = file.get_slice("a")
        again: Any = np.asarray(file.get_tensor("a"))
        assert np.shares_memory(again, np.asarray(tensors["a"])) == (mode == "mmap")
        del again
    handed = [from_dlpack(tensors["a"]) for from_dlpack in (np.from_dlpack, torch.from_dlpack)]
    tensors["a"][0] = 99
    assert (tensors["b"].tolist(), two.read_bytes()) == ([7], TWO)
    two.unlink()
    del tensors
    gc.collect()
    rest = [np.full(2, 7, np.float32) for _ in range(64)]  # takes the memory, were it free
    assert [tensor.tolist() for tensor in handed] == [[99, -2.0]] * 2, (len(rest), "one buffer, which stays")
    for call in (lambda: file.get_tensor("a"), lambda: part[0], file.data):
        assert refusal(AccessError, call)[0] == "API_CLOSED"
    file.close()


@pytest.mark.parametrize("framework", ["np", "pt"])
def test_one_dtype_that_the_library_lacks_leaves_the_others_readable(
    monkeypatch: pytest.MonkeyPatch, framework: str
) -> None:
    from safetensors_reference.arrays import numpy as numpy_types
    from safetensors_reference.arrays import torch as torch_types

    table = {k: v for k, v in numpy_types._table().items() if k != "BF16"}
    monkeypatch.setattr(numpy_types, "_table", lambda: table)
    monkeypatch.delitem(torch_types.TORCH_DTYPES, "BF16")
    header = f'{{"w":{entry("BF16", "[1]", "[0,2]")},"x":{entry("U8", "[1]", "[2,3]")}}}'
    with safe_open(make(header, b"abc"), framework) as file:
        assert refusal(UnsupportedDtypeError, file.get_tensor, "w")[0] == "API_DTYPE_UNSUPPORTED"
        assert raw_bytes(file.get_tensor("x")) == b"c"


@pytest.mark.parametrize("framework", ["np", "pt"])
@pytest.mark.parametrize("shape", ["[0,9223372036854775808]", "[1" + ",1" * 64 + "]"])
def test_a_shape_that_the_library_cannot_hold_is_a_clean_error_or_right(framework: str, shape: str) -> None:
    size = 0 if "0" in shape else 1
    with safe_open(make(f'{{"w":{entry("U8", shape, f"[0,{size}]")}}}', b"a" * size), framework) as file:
        try:
            assert tuple(file.get_tensor("w").shape) == file.info("w").shape
        except AccessError as err:
            assert err.code in ("LIM_RANK", "API_DTYPE_UNSUPPORTED")  # noqa: PT017 - it depends on the library


def test_an_unknown_framework_or_mode_is_refused_and_only_paths_can_be_mapped(two: Path) -> None:
    only = "only a path can be mapped"
    wrong: Any = ((two, "tf", "copy", "must be"), (two, "np", "rw", "must be"), (TWO, "np", "mmap", only))
    for what, framework, mode, words in wrong:
        with pytest.raises(AccessError, match=words):
            safe_open(what, framework, mode=mode)


# Files that change between open and read


def rewrite(path: Path) -> None:
    path.write_bytes(TWO[:-16] + bytes(16))
    os.utime(path, ns=(1, 1))


@pytest.mark.parametrize("mode", ["copy", "mmap"])
@pytest.mark.parametrize(
    ("change", "words"),
    [(lambda path: os.truncate(path, len(TWO) - 4), "became shorter"), (rewrite, "was modified")],
)
def test_a_file_that_changes_after_opening_is_a_clean_error(
    two: Path, mode: Any, change: Callable[[Path], object], words: str
) -> None:
    with safe_open(two, "np", mode=mode) as file:
        change(two)
        with pytest.raises(AccessError, match=words) as caught:
            file.get_tensor("b")
        assert caught.value.code == "API_TRUNCATED"


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[PathSource]:
    """A file that is copied as large ones are: in pieces, by four threads."""
    for name, value in (("THREADED_FROM", 1), ("MAX_READ", 4099), ("THREADS", 4)):
        monkeypatch.setattr(buffers, name, value)
    path = tmp_path / "large"
    path.write_bytes(LARGE)
    with PathSource(path) as source:
        yield source


LARGE = np.random.default_rng(1).bytes(100_003)


def test_a_file_that_shrinks_during_a_large_copy_is_a_clean_error(
    large: PathSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buffers, "check_unchanged", lambda source: os.truncate(source.name, 50_000))
    with pytest.raises(UnreadableError, match="shorter") as caught:
        buffers.read_range(large, 0, len(LARGE))
    assert caught.value.code == "API_TRUNCATED"


@pytest.mark.parametrize("allowed", [0, 1, 99])
def test_a_large_copy_takes_the_threads_that_there_are(
    large: PathSource, monkeypatch: pytest.MonkeyPatch, allowed: int
) -> None:
    started: list[threading.Thread] = []
    start_thread = threading.Thread.start

    def scarce(thread: threading.Thread) -> None:
        if len(started) == allowed:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start_thread(thread)

    monkeypatch.setattr(threading.Thread, "start", scarce)
    for start, count in ((0, len(LARGE)), (1, 99_999), (50_000, 3)):
        assert bytes(buffers.read_range(large, start, count)) == LARGE[start : start + count]
    assert len(started) == (allowed if allowed < 3 else 3 * 3)


def test_an_interrupted_large_copy_stops_its_threads(
    large: PathSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    preadv, start = os.preadv, threading.Thread.start
    gate = threading.Event()
    started: list[threading.Thread] = []

    def slow_read(fd: int, into: list[memoryview], at: int) -> int:
        gate.wait(10)
        return preadv(fd, into, at)

    read = Mock(side_effect=slow_read)

    def interrupted(thread: threading.Thread) -> None:
        if started:
            raise KeyboardInterrupt
        started.append(thread)
        start(thread)

    monkeypatch.setattr(os, "preadv", read)
    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        buffers.read_range(large, 0, len(LARGE))
    gate.set()
    started[0].join(10)
    assert (started[0].is_alive(), read.call_count <= 1) == (False, True)


def test_opening_reads_no_data(tmp_path: Path) -> None:
    """A sparse file of a tebibyte opens, and its last tensor is read (API-01, OFF-14)."""
    size = 1 << 40
    path = tmp_path / "sparse.safetensors"
    rows = f'"a":{entry("U8", f"[{size}]", f"[0,{size}]")},"b":{entry("U8", "[3]", f"[{size},{size + 3}]")}'
    prefix = make(f"{{{rows}}}")
    path.write_bytes(prefix)
    try:
        os.truncate(path, len(prefix) + size)
    except OSError:
        pytest.skip("this file system has no files of a tebibyte")
    with path.open("ab") as file:
        file.write(b"end")
    with safe_open(path) as opened:
        assert opened.get_tensor("b").tobytes() == b"end"
        assert opened.get_slice("a")[size - 2 :].tolist() == [0, 0]
    path.unlink()


# New memory for large loads


def address_of(view: memoryview) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(view))


@pytest.mark.parametrize("size", [1, 4096, HUGE_FROM - 1, HUGE_FROM, HUGE_FROM + 1, 3 * HUGE_FROM + 4097])
@pytest.mark.parametrize("advised", [True, False])
def test_memory_is_zero_and_writable_to_its_last_byte(
    monkeypatch: pytest.MonkeyPatch, size: int, advised: bool
) -> None:
    if not advised:
        monkeypatch.setattr(buffers, "_madvise", None)
    made = Pages()
    view = made.new(size)
    assert len(view) == size
    assert size < HUGE_FROM or address_of(view) % HUGE == 0
    made.make(address_of(view), size)
    assert bytes(view) == bytes(size)
    view[0] = view[size - 1] = 7
    assert bytes(view).count(7) == (2 if size > 1 else 1)


def test_memory_that_there_is_not_is_a_memory_error() -> None:
    for size in (1 << 62, 1 << 80):
        with pytest.raises(MemoryError):
            Pages().new(size)


def test_huge_pages_are_given_up_at_the_first_that_comes_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[tuple[int, int, int]] = []
    monkeypatch.setattr(buffers, "_advise", lambda *advice: not taken.append(advice))  # type: ignore[func-returns-value]
    made = Pages()
    small, *views = (made.new(size) for size in (HUGE_FROM - 1, HUGE_FROM, 2 * HUGE_FROM))
    assert [advice[1:] for advice in taken] == [(n * HUGE_FROM, MADV_HUGEPAGE) for n in (1, 2)]
    # Seconds for each call, and whether it is the one that is too slow; more pages may take longer.
    first = address_of(views[0])
    for at, size, seconds, slow in (
        (first, HUGE, 0.9 * buffers.SLOW, False),
        (address_of(views[1]), 8 * HUGE, 8.5 * buffers.SLOW, False),
        (first + HUGE, HUGE, 2.1 * buffers.SLOW, True),
        (address_of(small), len(small), 9.0, False),
    ):
        taken.clear()
        times = iter((0.0, seconds))
        monkeypatch.setattr("safetensors_reference.arrays.buffers.time.thread_time", lambda t=times: next(t))
        made.make(at, size)
        assert [advice for _, _, advice in taken] == [MADV_POPULATE_WRITE, *[MADV_NOHUGEPAGE] * 2 * slow]
        assert not slow or [advice[:2] for advice in taken[1:]] == [(address_of(v), len(v)) for v in views]
