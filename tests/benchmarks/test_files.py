"""Files, their page cache and the check of what loaders return."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import chain, repeat
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from safetensors.torch import load_file as official_load

from benchmarks.device import check, files, memory, page_cache
from safetensors_reference import read_header
from safetensors_reference.torch import load_file

SIZE = 1_500_000


Made = tuple[Path, Path | None]


@pytest.fixture(params=[False, True], ids=["bytes", "sums"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Made:
    """A file, and its sums where not all bytes are compared."""
    path = files.make("llm", tmp_path / "x.safetensors", SIZE, 0).path
    sums = path.with_suffix(".npz")
    check.save_sums(path, sums)
    return path, sums if request.param else None


def test_llm_file_has_an_odd_header_that_both_readers_accept(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    made = files.make("llm", path, SIZE, 0)
    header = read_header(path)
    assert header.data_start % 2 == 1
    assert made.header == header.data_start - 8
    assert len(header.tensors) == made.tensors > 9
    assert made.size == path.stat().st_size
    assert 0.5 * SIZE < made.size < 1.1 * SIZE
    ours, theirs = load_file(path), official_load(path)
    assert ours.keys() == theirs.keys()
    # Its twin has the same tensors, with memory of their own.
    files.save_twin(path, tmp_path / "x.pt")
    twin = torch.load(tmp_path / "x.pt", weights_only=True)
    assert len({t.untyped_storage().data_ptr() for t in twin.values()}) == made.tensors
    assert check.check(twin, path, "cpu", None)["wrong"] == 0
    small = files.make("small", tmp_path / "small", 0, 123)
    assert small.tensors == len(read_header(small.path).tensors) == 123


@pytest.mark.parametrize("size", [10**6, 64 * 10**6, 8 * 10**9])
def test_sizes_are_about_what_was_asked_for(size: int) -> None:
    for kind in ("large", "llm"):
        plan = files.layout(kind, size, 0)
        total = sum(2 * int(np.prod(tensor.shape)) for tensor in plan.tensors)
        assert 0.85 * size < total <= 1.01 * size, kind
    assert len(files.layout("large", size, 0).tensors) <= 64


def test_no_two_pages_are_equal(tmp_path: Path) -> None:
    made = files.make("large", tmp_path / "x", 10 << 20, 0)
    data = np.fromfile(made.path, np.uint8, offset=made.header + 8)
    pages = data[: len(data) // 4096 * 4096].reshape(-1, 4096)
    assert len({page.tobytes() for page in pages}) == len(pages)


def test_the_right_tensors_pass(made: Made) -> None:
    path, sums = made
    found = check.check(load_file(path), path, "cpu", sums)
    how = check.ALL if sums is None else check.SAMPLED
    assert found == {"how": how, "wrong": 0, "first": None, "misaligned": 0}


def flipped(tensor: torch.Tensor) -> torch.Tensor:
    tensor.view(-1).view(torch.uint8)[-1] ^= 1
    return tensor


def swapped(tensor: torch.Tensor) -> torch.Tensor:
    """Exchange two pages, which no sum over the tensor would notice."""
    pages = tensor.view(-1).view(torch.uint8)[: 2 * 4096].view(2, 4096)
    pages.copy_(pages.flip(0).clone())
    return tensor


WRONG: list[tuple[str, Callable[[torch.Tensor], torch.Tensor | None]]] = [
    ("differs", flipped),
    ("differs", swapped),
    ("is missing", lambda _: None),
    ("has dtype", lambda t: t.view(torch.int16)),
    ("has shape", lambda t: t.reshape(1, -1)),
    ("is on meta, not on cpu", lambda t: t.to("meta")),
]
"""What is said of a tensor that is changed, or left out for None."""


def test_wrong_tensors_are_found(made: Made) -> None:
    path, sums = made
    for word, change in WRONG:
        tensors: dict[str, Any] = load_file(path)
        name = max(tensors)
        tensors[name] = change(tensors[name])
        found = check.check({n: t for n, t in tensors.items() if t is not None}, path, "cpu", sums)
        assert (found["wrong"], word in found["first"]) == (1, True), word


def test_extra_and_misaligned_tensors_are_counted(made: Made) -> None:
    path, sums = made
    tensors = dict(official_load(path))
    # Views of a mapped file with an odd header, as the official library hands them out.
    assert tensors[min(tensors)].data_ptr() % 2 == 1
    found = check.check({**tensors, "more": torch.zeros(1)}, path, "cpu", sums)
    assert found["wrong"] == 1
    assert "'more' is not in the file" in found["first"]
    assert found["misaligned"] == len(tensors)


def test_cold_and_warm(tmp_path: Path) -> None:
    if page_cache.filesystem(tmp_path) in {"tmpfs", "ramfs", "overlay"}:
        pytest.skip("tests run in a file system that keeps files in memory")
    path = tmp_path / "x"
    path.write_bytes(bytes(8 << 20))
    assert page_cache.evict(path) <= page_cache.COLD
    page_cache.warm(path)
    assert page_cache.resident(path) == 1.0
    path.write_bytes(b"")
    assert page_cache.resident(path) == 1.0


def test_memory_file_systems_are_known_and_stay_warm() -> None:
    assert page_cache.filesystem(Path("/proc/self")) == "proc"
    folder = Path("/dev/shm")
    if not folder.is_dir() or page_cache.filesystem(folder) != "tmpfs":
        pytest.skip("no memory file system")
    path = folder / f"stc-test-{id(folder)}"
    try:
        path.write_bytes(bytes(1 << 20))
        assert page_cache.evict(path) == 1.0
    finally:
        path.unlink()


def test_the_lowest_free_memory_is_seen_while_a_load_runs() -> None:
    """Less and less is free, and then more again."""
    device = Mock(free=100, free_now=Mock(side_effect=chain([90, 40], repeat(70))))
    for known, lowest in ((device, 40), (None, None)):
        with memory.Watch(known) as watch:
            time.sleep(10 * memory.INTERVAL)
        assert watch.lowest == lowest


def test_growth_of_host_memory_is_seen() -> None:
    before = memory.host()
    if not before or not memory.forget_peak():
        pytest.skip("this system does not tell")
    block = np.ones(64 << 20, np.uint8)
    del block
    assert memory.host()["hwm"] - before["rss"] > 48 << 20
