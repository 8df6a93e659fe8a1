"""Saving that fails: the old file stays, nothing else remains, and the error says what happened."""

from __future__ import annotations

import errno
import os
import resource
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import Mock

import pytest

from safetensors_reference.rules.errors import WriteError
from safetensors_reference.writing import atomic
from safetensors_reference.writing.atomic import NotSavedError, write_file

from .support import OLD, listing, ordinary_user, untouched


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


@pytest.mark.parametrize(("owner", "step"), [(os, "fsync"), (os, "fchmod"), (Path, "replace")])
def test_a_step_that_fails(owner: object, step: str, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, step, Mock(side_effect=OSError(errno.EIO, "Input/output error")))
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
    ("name", "make"),
    [
        ("x", Path.mkdir),
        ("x", os.mkfifo),
        ("x", lambda path: path.symlink_to("/dev/null")),
        ("x", lambda path: path.symlink_to(path)),
        ("no/x", None),
        ("file/x", None),
        ("a\0b", None),
    ],
)
def test_targets_that_cannot_be_files(
    name: str, make: Callable[[Path], object] | None, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(OLD)
    path = tmp_path / name
    if make is not None:
        make(path)
    before = listing(tmp_path)
    with pytest.raises(NotSavedError) as caught:
        write_file(path, [b"new"])
    assert str(path).replace("\0", "\\u0000") in str(caught.value)
    assert listing(tmp_path) == before
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


SCARCE = """
import os, resource, sys
from safetensors_reference.writing.atomic import NotSavedError, write_file
free = os.dup(0)
os.close(free)
resource.setrlimit(resource.RLIMIT_NOFILE, (free, free))
try:
    write_file(sys.argv[1], [b"new"])
except NotSavedError as err:
    print(type(err).__name__, err.errno)
"""


def test_without_a_descriptor_left(target: Path) -> None:
    said = subprocess.check_output([sys.executable, "-c", SCARCE, str(target)], stdin=subprocess.DEVNULL)
    assert said.decode() == f"NotSavedError {errno.EMFILE}\n"
    assert untouched(target)
