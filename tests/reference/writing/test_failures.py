"""Saving that fails: the old file stays, nothing else remains, and the error says what happened."""

from __future__ import annotations

import errno
import os
import resource
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from safetensors_reference.rules.errors import WriteError
from safetensors_reference.writing import atomic
from safetensors_reference.writing.atomic import NotSavedError, write_file
from safetensors_reference.writing.numpy import save_file
from safetensors_reference.writing.writer import DeferredBytes, TensorData, plan

from .support import OLD, listing, ordinary_user, read_official, untouched


class TroubleError(Exception):
    pass


def failing(error: BaseException, before: int = 3 * atomic.FLUSH_FROM) -> Iterator[bytes]:
    yield bytes(before)
    raise error


@pytest.mark.parametrize(
    "error", [TroubleError(), MemoryError(), KeyboardInterrupt(), SystemExit(), WriteError("no")]
)
@pytest.mark.parametrize("exists", [True, False])
def test_an_exception_leaves_everything_as_it_was(error: BaseException, exists: bool, target: Path) -> None:
    if not exists:
        target.unlink()
    with pytest.raises(type(error)) as caught:
        write_file(target, failing(error))
    assert caught.value is error
    assert untouched(target) if exists else listing(target.parent) == []


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Let the system refuse files beyond ``size``; Python ignores the signal that goes with it."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("allowed", [0, 1, atomic.MAX_WRITE - 1, atomic.MAX_WRITE + 4096])
def test_a_file_the_system_cuts_off(allowed: int, target: Path) -> None:
    with largest_file(allowed), pytest.raises(NotSavedError) as caught:
        write_file(target, [bytes(atomic.MAX_WRITE), bytes(atomic.MAX_WRITE)])
    assert caught.value.errno == errno.EFBIG
    assert str(target) in str(caught.value)
    assert untouched(target)


@contextmanager
def small_disk(path: Path) -> Iterator[None]:
    path.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", path], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", path], check=True)


def test_a_full_disk(tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    with small_disk(folder):
        target = folder / "model.safetensors"
        target.write_bytes(OLD)
        tensors = {"a": np.ones(100_000, np.uint8), "b": np.ones((1000, 1000), np.uint8).T}
        with pytest.raises(NotSavedError) as caught:
            save_file(tensors, target)
        assert caught.value.errno == errno.ENOSPC
        assert (caught.value.code, caught.value.rule) == ("IO_ERROR", "WRT-19")
        assert str(target) in str(caught.value)
        assert untouched(target)
        save_file({"a": tensors["a"]}, target)
        assert list(read_official(target.read_bytes())) == ["a"]


@pytest.mark.parametrize(("owner", "step"), [(os, "fsync"), (os, "fchmod"), (Path, "replace")])
def test_a_step_that_fails(owner: object, step: str, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(owner, step, fail)
    with pytest.raises(NotSavedError, match=r"model\.safetensors: not saved: Input/output error") as caught:
        write_file(target, [b"new"])
    assert caught.value.errno == errno.EIO
    assert untouched(target)


def test_content_is_on_the_disk_before_the_rename(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def spy_fsync(fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            steps.append("directory")
            raise OSError(errno.EINVAL, "Invalid argument")  # which is no failure of the save
        steps.append(f"file of {os.fstat(fd).st_size}")
        fsync(fd)

    def spy_replace(path: Path, other: Path) -> Path:
        steps.append("rename")
        return replace(path, other)

    monkeypatch.setattr(os, "fsync", spy_fsync)
    monkeypatch.setattr(Path, "replace", spy_replace)
    write_file(target, [b"new"])
    assert steps == ["file of 3", "rename", "directory"]
    assert target.read_bytes() == b"new"


@pytest.mark.parametrize(("read_only", "words"), [("folder", "Permission denied"), ("file", "read-only")])
def test_a_read_only_place(read_only: str, words: str, public: Path) -> None:
    (public.parent if read_only == "folder" else public).chmod(0o555)
    with ordinary_user(), pytest.raises(NotSavedError, match=words) as caught:
        write_file(public, [b"new"])
    assert caught.value.errno == errno.EACCES
    assert untouched(public)


@pytest.mark.parametrize(
    "kind", ["directory", "fifo", "device", "missing directory", "file as directory", "loop", "zero byte"]
)
def test_targets_that_cannot_be_files(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "target"
    if kind == "directory":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/null")
    elif kind == "missing directory":
        path = path / "x"
    elif kind == "file as directory":
        path.write_bytes(OLD)
        path = path / "x"
    elif kind == "zero byte":
        path = tmp_path / "a\0b"
    else:
        path.symlink_to(path)
    before = listing(tmp_path)
    with pytest.raises(NotSavedError) as caught:
        write_file(path, [b"new"])
    assert str(path).replace("\0", "\\u0000") in str(caught.value)
    assert listing(tmp_path) == before
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_without_a_descriptor_left(target: Path) -> None:
    program = (
        "import os, resource, sys, numpy\n"
        "from safetensors_reference.numpy import save_file\n"
        "free = os.dup(0)\n"
        "os.close(free)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (free, free))\n"
        "try:\n"
        "    save_file({'w': numpy.ones(3)}, sys.argv[1])\n"
        "except Exception as err:\n"
        "    print(type(err).__name__, err.errno)\n"
    )
    said = subprocess.check_output([sys.executable, "-c", program, str(target)], stdin=subprocess.DEVNULL)
    assert said.decode() == f"NotSavedError {errno.EMFILE}\n"
    assert untouched(target)


def test_data_that_turn_out_too_short_leave_the_old_file(target: Path) -> None:
    rows = [TensorData("a", "U8", (2 * atomic.FLUSH_FROM,), bytes(2 * atomic.FLUSH_FROM))]
    rows.append(TensorData("z", "U8", (2,), DeferredBytes(2, lambda: b"1")))
    with pytest.raises(WriteError, match=r"the data has 1 byte$"):
        write_file(target, plan(rows).chunks())
    assert untouched(target)
