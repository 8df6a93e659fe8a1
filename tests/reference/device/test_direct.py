"""O_DIRECT: the same tensors, or a clear word that the file system lacks it."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from safetensors_reference import UnreadableError
from safetensors_reference.device import load_file
from safetensors_reference.device.readers import DirectReader
from safetensors_reference.rules.errors import AccessError
from safetensors_reference.source import PathSource

from ..support import raw_bytes
from .support import CountingEngine, LateLane, StagedLane, data_of, file_of, install, write

PAGE = 4096


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder on a file system that has O_DIRECT."""
    source = PathSource(write(tmp_path, bytes(PAGE)))
    try:
        reader = DirectReader(source)
        os.preadv(reader.fd, [memoryview(bytearray(PAGE))[:0]], 0)
        reader.close()
    except (AccessError, OSError):
        pytest.skip("the file system of temporary files has no O_DIRECT")
    finally:
        source.close()
    return tmp_path


def reading(
    patch: pytest.MonkeyPatch, read: Callable[[Callable[..., int], tuple[Any, ...]], int]
) -> list[tuple[int, int]]:
    """Have ``read`` take the place of ``os.preadv``, and return the places and sizes of all reads."""
    real, calls = os.preadv, []

    def preadv(*args: Any) -> int:
        calls.append((args[2], sum(map(len, args[1]))))
        return read(real, args)

    patch.setattr(os, "preadv", preadv)
    return calls


@pytest.mark.parametrize("seed", range(12))
def test_the_same_tensors_as_without(folder: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    rng = random.Random(seed)
    install(monkeypatch, CountingEngine(LateLane if seed % 2 else StagedLane), 2, 4 * PAGE)
    codes = ("U8", "F32", "F64", "F6_E2M3", "BF16")
    tensors = [(f"t{i}", rng.choice(codes), [4, rng.randint(0, 3000)]) for i in range(8)]
    file = file_of(tensors, seed)
    path = write(folder, file)
    names = None if seed % 3 else [f"t{i}" for i in range(0, 8, 3)]
    options: dict[str, Any] = {"device": "cpu", "names": names, "align": rng.choice([None, 16, 64])}
    plain = load_file(path, **options)
    chunk = rng.choice([1000, PAGE, 3 * PAGE + 1, 1 << 20])
    direct = load_file(path, direct=True, threads=3, chunk=chunk, **options)
    assert [(n, raw_bytes(t)) for n, t in direct.items()] == [(n, raw_bytes(t)) for n, t in plain.items()]


def test_reads_are_whole_pages_and_no_page_is_read_twice(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, slot_bytes=8 * PAGE)
    file = file_of([("a", "U8", [100_001])], 5)
    path = write(folder, file)
    calls = reading(monkeypatch, lambda real, args: real(*args))
    tensors = load_file(path, device="cpu", direct=True, chunk=4 * PAGE, threads=2)
    assert raw_bytes(tensors["a"]) == data_of(file)
    pages = [page for at, size in calls for page in range(at, at + size, PAGE)]
    assert all(at % PAGE == 0 == size % PAGE for at, size in calls)
    assert sorted(pages) == list(range(0, len(file), PAGE))


@pytest.mark.parametrize("most", [PAGE, 2 * PAGE, PAGE + 512, 100])
def test_short_reads_are_taken_up_at_the_last_whole_page(
    folder: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    calls = reading(monkeypatch, lambda real, args: min(most, real(*args)))
    file = file_of([("a", "U8", [60_001])], 1)
    path = write(folder, file)
    if most < PAGE:
        with pytest.raises(UnreadableError, match=r"file.safetensors: at byte 0: .*less than a page"):
            load_file(path, device="cpu", direct=True)
        return
    assert raw_bytes(load_file(path, device="cpu", direct=True, chunk=5 * PAGE)["a"]) == data_of(file)
    assert all(at % PAGE == 0 for at, _ in calls)


@pytest.mark.parametrize("left", [0, 10, PAGE, 3 * PAGE + 7, 60_000])
def test_a_file_that_shrinks_is_noticed(folder: Path, monkeypatch: pytest.MonkeyPatch, left: int) -> None:
    file = file_of([("a", "U8", [60_001])])
    path = write(folder, file)
    reading(monkeypatch, lambda real, args: os.truncate(path, left) or real(*args))  # type: ignore[func-returns-value]
    with pytest.raises(UnreadableError, match=r"file.safetensors: the file became shorter") as caught:
        load_file(path, device="cpu", direct=True, threads=1)
    assert caught.value.code == "API_TRUNCATED"
    assert str(caught.value).endswith(f" at byte {max(left, len(file) - 60_001):,}")


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("open", errno.EINVAL, "its file system does not support O_DIRECT"),
        ("open", errno.EACCES, "cannot be opened with O_DIRECT: Permission"),
        ("preadv", errno.EINVAL, "its file system does not support O_DIRECT"),
        ("O_DIRECT", 0, "this system has no O_DIRECT"),
    ],
)
def test_a_system_without_it_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, engine: CountingEngine, name: str, code: int, words: str
) -> None:
    path = write(folder, file_of([("a", "U8", [9])]))
    real = PathSource(path)
    monkeypatch.setattr("safetensors_reference.device.load.PathSource", lambda _path: real)
    if code:
        monkeypatch.setattr(os, name, Mock(side_effect=OSError(code, os.strerror(code))))
    else:
        monkeypatch.delattr(os, name)
    with pytest.raises(AccessError, match=rf"file.safetensors: {words}.*; load without direct=True"):
        load_file(path, device="cpu", direct=True)
    assert name == "preadv" or engine.sizes == []
