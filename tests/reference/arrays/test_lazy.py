"""Lazy access and loading: same content by every way, clean errors, files that change underneath."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given

from safetensors_reference import InvalidFileError, UnreadableError, safe_open
from safetensors_reference import numpy as with_numpy
from safetensors_reference import torch as with_torch
from safetensors_reference.arrays import buffers as buffers_module
from safetensors_reference.arrays.numpy import PackedTensor
from safetensors_reference.header.model import TensorInfo
from safetensors_reference.rules.dtypes import DTYPE_BITS
from safetensors_reference.rules.errors import AccessError, NoSuchTensorError, UnsupportedDtypeError
from safetensors_reference.source import PathSource

from ..strategies import FEWER, Model, models
from ..support import make, raw_bytes

_HEADER = (
    '{"b":{"dtype":"I64","shape":[1],"data_offsets":[8,16]},"__metadata__":{"k":"v"},'
    '"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
)
TWO = make(
    _HEADER + " " * (-len(_HEADER) % 8),
    np.array([1.5, -2], "<f4").tobytes() + np.array([7], "<i8").tobytes(),
)


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
    for load in (
        lambda: with_numpy.load(data),
        lambda: with_torch.load(data),
        lambda: with_numpy.load_file(path, mode="mmap"),
        lambda: with_torch.load_file(path, mode="mmap"),
    ):
        tensors = load()
        assert list(tensors) == [n for n in tensors if n in model.tensors]
        assert set(tensors) == set(model.tensors)
        for name, (dtype, shape, begin, end) in model.tensors.items():
            assert raw_bytes(tensors[name]) == data[start + begin : start + end], dtype
            assert logical_shape(tensors[name]) == shape


@pytest.mark.parametrize("code", sorted(DTYPE_BITS))
@pytest.mark.parametrize("with_framework", [with_numpy, with_torch])
def test_every_dtype_has_its_type_or_is_packed(with_framework: Any, code: str) -> None:
    size = DTYPE_BITS[code]
    header = f'{{"w":{{"dtype":"{code}","shape":[2,4],"data_offsets":[0,{size}]}}}}'
    data = bytes(i % 2 for i in range(size))
    tensor = with_framework.load(make(header, data))["w"]
    assert raw_bytes(tensor) == data
    packed = code.startswith("F6_") or (code == "F4" and with_framework is with_numpy)
    assert isinstance(tensor, PackedTensor) is packed
    if packed:
        assert (tensor.dtype, tensor.shape) == (code, (2, 4))


@pytest.mark.parametrize("kind", ["path", "str", "bytes", "bytearray", "memoryview", "file", "BytesIO"])
def test_sources_of_every_kind_give_the_same(two: Path, kind: str) -> None:
    with two.open("rb") as handle:
        what: Any = {
            "path": two,
            "str": str(two),
            "bytes": TWO,
            "bytearray": bytearray(TWO),
            "memoryview": memoryview(TWO),
            "file": handle,
            "BytesIO": io.BytesIO(TWO),
        }[kind]
        with safe_open(what) as file:
            assert file.keys() == ["b", "a"]
            assert file.offset_keys() == ["a", "b"]
            assert file.metadata() == {"k": "v"}
            assert file.info("a") == TensorInfo("a", "F32", (2,), 0, 8)
            assert raw_bytes(file.get_tensor("a")) == TWO[-16:-8]
            assert ("a" in file, "c" in file, len(file), list(file)) == (True, False, 2, ["b", "a"])


@pytest.mark.parametrize("name", ["c", "", "__metadata__", 3, None])
def test_an_unknown_name_is_a_clean_error(two: Path, name: Any) -> None:
    with safe_open(two) as file:
        for call in (file.get_tensor, file.get_slice, file.info):
            with pytest.raises(NoSuchTensorError) as caught:
                call(name)
            assert caught.value.code == "API_NO_SUCH_TENSOR"
            assert "two.safetensors" in str(caught.value)


@pytest.mark.parametrize("mode", ["copy", "mmap"])
def test_tensors_outlive_the_file_and_reads_after_closing_are_refused(two: Path, mode: Any) -> None:
    with safe_open(two, "np", mode=mode) as file:
        tensor = file.get_tensor("a")
        part = file.get_slice("a")
    assert tensor.tolist() == [1.5, -2.0]
    calls: list[Callable[[], object]] = [lambda: file.get_tensor("a"), lambda: part[0]]
    for call in calls:
        with pytest.raises(AccessError) as caught:
            call()
        assert caught.value.code == "API_CLOSED"
    file.close()


@pytest.mark.parametrize("mode", ["copy", "mmap"])
@pytest.mark.parametrize("framework", ["np", "pt"])
def test_writing_to_a_tensor_changes_neither_file_nor_other_tensors(
    two: Path, framework: str, mode: Any
) -> None:
    load: Any = with_numpy.load_file if framework == "np" else with_torch.load_file
    tensors = load(two, mode=mode)
    tensors["a"][0] = 99
    assert tensors["b"].tolist() == [7]
    assert two.read_bytes() == TWO


@pytest.mark.parametrize("framework", ["np", "pt"])
def test_one_dtype_that_the_library_lacks_leaves_the_others_readable(
    monkeypatch: pytest.MonkeyPatch, framework: str
) -> None:
    from safetensors_reference.arrays import numpy as numpy_types
    from safetensors_reference.arrays import torch as torch_types

    table = {k: v for k, v in numpy_types._table().items() if k != "BF16"}
    monkeypatch.setattr(numpy_types, "_table", lambda: table)
    monkeypatch.delitem(torch_types.TORCH_DTYPES, "BF16")
    header = (
        '{"w":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]},'
        '"x":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}}'
    )
    with safe_open(make(header, b"abc"), framework) as file:
        with pytest.raises(UnsupportedDtypeError) as caught:
            file.get_tensor("w")
        assert caught.value.code == "API_DTYPE_UNSUPPORTED"
        assert raw_bytes(file.get_tensor("x")) == b"c"


@pytest.mark.parametrize("framework", ["np", "pt"])
@pytest.mark.parametrize("shape", ["[0,9223372036854775808]", "[1" + ",1" * 64 + "]"])
def test_a_shape_that_the_library_cannot_hold_is_a_clean_error_or_right(framework: str, shape: str) -> None:
    size = 0 if "0" in shape else 1
    header = f'{{"w":{{"dtype":"U8","shape":{shape},"data_offsets":[0,{size}]}}}}'
    with safe_open(make(header, b"a" * size), framework) as file:
        try:
            tensor = file.get_tensor("w")
        except AccessError as err:
            codes = {err.code}
        else:
            codes = set()
            assert list(tensor.shape) == list(file.info("w").shape)
    assert codes <= {"LIM_RANK", "API_DTYPE_UNSUPPORTED"}


def test_an_invalid_file_is_refused_at_open_with_all_its_faults(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(TWO + b"x")
    for call in (safe_open, with_numpy.load_file, with_torch.load_file):
        with pytest.raises(InvalidFileError, match="OFF_TRAILING") as caught:
            call(path)
        assert [f.code for f in caught.value.explanation.faults] == ["OFF_TRAILING"]


def test_an_unknown_framework_or_mode_is_refused_and_only_paths_can_be_mapped(two: Path) -> None:
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        (two, {"framework": "tf"}, "must be"),
        (two, {"mode": "rw"}, "must be"),
        (TWO, {"mode": "mmap"}, "only a path can be mapped"),
    ]
    for what, arguments, words in wrong:
        with pytest.raises(AccessError, match=words):
            safe_open(what, **arguments)


# Files that change between open and read


def cut(path: Path) -> None:
    os.truncate(path, len(TWO) - 4)


def rewrite(path: Path) -> None:
    path.write_bytes(TWO[:-16] + bytes(16))
    os.utime(path, ns=(1, 1))


@pytest.mark.parametrize("mode", ["copy", "mmap"])
@pytest.mark.parametrize(("change", "words"), [(cut, "became shorter"), (rewrite, "was modified")])
def test_a_file_that_changes_after_opening_is_a_clean_error(
    two: Path, mode: Any, change: Callable[[Path], None], words: str
) -> None:
    with safe_open(two, "np", mode=mode) as file:
        change(two)
        with pytest.raises(AccessError, match=words) as caught:
            file.get_tensor("b")
        assert caught.value.code == "API_TRUNCATED"


@pytest.mark.parametrize("mode", ["copy", "mmap"])
def test_a_file_that_is_replaced_or_removed_keeps_its_old_content(two: Path, mode: Any) -> None:
    with safe_open(two, "np", mode=mode) as file:
        other = two.with_name("other")
        other.write_bytes(b"something else")
        other.replace(two)
        assert file.get_tensor("a").tolist() == [1.5, -2.0]
        two.unlink()
        assert file.get_tensor("b").tolist() == [7]


@pytest.fixture
def in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have small copies made as large ones are: in pieces, by four threads."""
    monkeypatch.setattr(buffers_module, "THREADED_FROM", 1)
    monkeypatch.setattr(buffers_module, "MAX_READ", 4099)
    monkeypatch.setattr(buffers_module, "THREADS", 4)


@pytest.mark.usefixtures("in_pieces")
def test_a_file_that_shrinks_during_a_large_copy_is_a_clean_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "large"
    path.write_bytes(bytes(1 << 20))
    monkeypatch.setattr(buffers_module, "check_unchanged", lambda _source: os.truncate(path, 1 << 18))
    with closing(PathSource(path)) as source, pytest.raises(UnreadableError, match="shorter") as caught:
        buffers_module.read_range(source, 0, 1 << 20)
    assert caught.value.code == "API_TRUNCATED"


@pytest.mark.usefixtures("in_pieces")
@pytest.mark.parametrize("allowed", [0, 1, 99])
def test_a_large_copy_takes_the_threads_that_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allowed: int
) -> None:
    path = tmp_path / "large"
    data = np.random.default_rng(1).bytes(100_003)
    path.write_bytes(data)
    started: list[threading.Thread] = []
    start_thread = threading.Thread.start

    def scarce(thread: threading.Thread) -> None:
        if len(started) == allowed:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start_thread(thread)

    monkeypatch.setattr(threading.Thread, "start", scarce)
    with closing(PathSource(path)) as source:
        for start, count in ((0, len(data)), (1, 99_999), (50_000, 3)):
            assert bytes(buffers_module.read_range(source, start, count)) == data[start : start + count]
    assert len(started) == (allowed if allowed < 3 else 3 * 3)


@pytest.mark.usefixtures("in_pieces")
def test_an_interrupted_large_copy_stops_its_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "large"
    path.write_bytes(bytes(1 << 20))
    preadv, start = os.preadv, threading.Thread.start
    gate = threading.Event()
    reads: list[int] = []
    started: list[threading.Thread] = []

    def read(fd: int, into: list[memoryview], at: int) -> int:
        reads.append(at)
        gate.wait(10)
        return preadv(fd, into, at)

    def interrupted(thread: threading.Thread) -> None:
        if started:
            raise KeyboardInterrupt
        started.append(thread)
        start(thread)

    monkeypatch.setattr(os, "preadv", read)
    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with closing(PathSource(path)) as source:
        with pytest.raises(KeyboardInterrupt):
            buffers_module.read_range(source, 0, 1 << 20)
        gate.set()
        started[0].join(10)
        assert not started[0].is_alive()
    assert len(reads) <= 1


def test_touching_the_missing_part_of_a_mapped_file_ends_only_a_process_that_mapped_it(two: Path) -> None:
    """The documented limit of mmap mode: what was handed out before the cut dies by SIGBUS."""
    code = (
        "import os, sys\n"
        "from safetensors_reference import safe_open\n"
        "file = safe_open(sys.argv[1], 'np', mode='mmap')\n"
        "assert file.header.data_start % 8 == 0\n"
        "tensor = file.get_tensor('a')\n"
        "os.truncate(sys.argv[1], 0)\n"
        "print(tensor.tolist())\n"
    )
    run = subprocess.run([sys.executable, "-c", code, str(two)], capture_output=True, check=False)
    assert run.returncode < 0


def test_opening_reads_no_data(tmp_path: Path) -> None:
    """A sparse file of a tebibyte opens, and its last tensor is read (API-01, OFF-14)."""
    size = 1 << 40
    header = (
        f'{{"a":{{"dtype":"U8","shape":[{size}],"data_offsets":[0,{size}]}},'
        f'"b":{{"dtype":"U8","shape":[3],"data_offsets":[{size},{size + 3}]}}}}'
    )
    path = tmp_path / "sparse.safetensors"
    prefix = make(header)
    try:
        with path.open("wb") as file:
            file.write(prefix)
            file.seek(len(prefix) + size)
            file.write(b"end")
    except OSError:
        pytest.skip("this file system has no files of a tebibyte")
    with safe_open(path) as opened:
        assert opened.get_tensor("b").tobytes() == b"end"
        assert opened.get_slice("a")[size - 2 :].tolist() == [0, 0]
    path.unlink()
