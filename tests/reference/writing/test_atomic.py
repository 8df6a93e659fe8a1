"""Replacing files: content, permissions and links afterwards, and what remains when saving fails."""

from __future__ import annotations

import errno
import os
import re
import resource
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from safetensors_reference import numpy as with_numpy
from safetensors_reference import torch as with_torch
from safetensors_reference.rules.errors import WriteError
from safetensors_reference.writing import atomic
from safetensors_reference.writing.atomic import MAX_WRITE, NotSavedError, write_file

from .support import NOBODY, OLD, listing, ordinary_user, read_official, untouched


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# ---- what is written ----


@pytest.mark.parametrize(
    "sizes",
    [[], [0], [1], [1, 0, 2], [10] * 9, [99, 100, 101, 5], [5, 1000, 5], [64, 64], [63, 1, 64, 0, 200]],
)
def test_pieces_of_all_sizes(sizes: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("JOINED_BELOW", 64), ("FLUSH_FROM", 128), ("MAX_WRITE", 100)):
        monkeypatch.setattr(atomic, name, value)
    chunks = [bytes([i % 251]) * size for i, size in enumerate(sizes)]
    path = tmp_path / "file"
    with path.open("wb", buffering=0) as file:
        # The system may take less than it is given.
        slow = SimpleNamespace(write=lambda data: file.write(data[:30]))
        for chunk in atomic._pieces(chunks):
            atomic._write(slow, chunk)  # type: ignore[arg-type]
    assert path.read_bytes() == b"".join(chunks)
    write_file(path, iter(chunks))
    assert path.read_bytes() == b"".join(chunks)
    assert all(0 < len(piece) <= 128 + 64 for piece in atomic._pieces(chunks))


# ---- permissions and links ----


def test_the_temporary_file_of_a_private_file_is_private(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic, "_NAMELESS", 0)
    target.chmod(0o644)
    seen: list[int] = []

    def chunks() -> Iterator[bytes]:
        yield bytes(atomic.FLUSH_FROM)
        seen.extend(mode(p) for p in target.parent.iterdir() if p != target)

    write_file(target, chunks())
    assert seen == [0o600]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away and become a member of a group")
@pytest.mark.parametrize("member", [True, False])
def test_an_existing_file_keeps_its_owner_and_for_members_its_group(member: bool, public: Path) -> None:
    os.chown(public, NOBODY, NOBODY)
    write_file(public, [b"new"])
    assert (public.stat().st_uid, public.stat().st_gid) == (NOBODY, NOBODY)
    os.chown(public, 0, 12345)
    public.chmod(0o664 if member else 0o666)
    before = os.getgroups()
    os.setgroups([12345] if member else [])
    os.setegid(NOBODY)
    try:
        with ordinary_user():
            write_file(public, [b"new"])
    finally:
        os.setegid(0)
        os.setgroups(before)
    found = (public.stat().st_uid, public.stat().st_gid, mode(public))
    assert found == ((NOBODY, 12345, 0o664) if member else (NOBODY, NOBODY, 0o666))


def test_links_stay_and_what_they_lead_to_changes(target: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    os.link(target, other)
    folder = tmp_path / "links"
    folder.mkdir()
    for name, leads_to in (("link", f"../{target.name}"), ("second", "link"), ("dangling", "../missing")):
        (folder / name).symlink_to(leads_to)
    write_file(folder / "second", [b"new"])
    write_file(folder / "dangling", [b"newer"])
    assert all(path.is_symlink() for path in folder.iterdir())
    assert listing(folder) == ["dangling", "link", "second"]
    assert (target.read_bytes(), (tmp_path / "missing").read_bytes()) == (b"new", b"newer")
    assert other.read_bytes() == OLD, "other hard links keep the old content"


@pytest.mark.parametrize("door", [with_numpy, with_torch])
def test_tensors_are_saved_over_the_file_that_they_map(door: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    plain = {"a": np.arange(100_000, dtype="<i4"), "first": np.zeros(5000)}
    with_numpy.save_file({"a": plain["a"]}, path)
    door.save_file({**door.load(with_numpy.save(plain)), **door.load_file(path, mode="mmap")}, path)
    found = read_official(path.read_bytes())
    assert {name: row[2] for name, row in found.items()} == {n: a.tobytes() for n, a in plain.items()}


# ---- killed writers ----

KILLED = """
import os, signal, sys
from safetensors_reference.writing.atomic import write_file
def chunks():
    yield bytes(3 << 20)
    print(os.listdir(os.path.dirname(sys.argv[1])), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
write_file(sys.argv[1], chunks())
"""


@pytest.mark.skipif(not atomic._NAMELESS, reason="this system has no files without a name")
@pytest.mark.parametrize("exists", [True, False])
def test_nothing_is_left_of_a_writer_that_was_killed(exists: bool, tmp_path: Path) -> None:
    path, before = tmp_path / "file", ["file"] * exists
    if exists:
        path.write_bytes(OLD)
    argv = [sys.executable, "-c", KILLED, str(path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, f"{before}\n"), done.stderr
    assert listing(tmp_path) == before
    assert not exists or path.read_bytes() == OLD


@pytest.mark.parametrize("how", ["nameless", "named", "no proc", "refused"])
@pytest.mark.parametrize(
    ("old", "new"), [(None, 0o640), (0o646, 0o646), (0o600, 0o600), (0o666, 0o666), (0o6755, 0o755)]
)
def test_every_way_to_make_the_file_gives_the_same_and_keeps_its_mode_but_not_its_set_id_bits(
    how: str, old: int | None, new: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "named":
        monkeypatch.setattr(atomic, "_NAMELESS", 0)
    elif how == "no proc":
        monkeypatch.setattr(atomic, "FDS", tmp_path / "nothing")
    elif how == "refused":
        # This kernel knows no such flags, as an old one does not know this flag.
        monkeypatch.setattr(atomic, "_NAMELESS", atomic._NAMELESS | os.O_CREAT | os.O_EXCL)
    path = tmp_path / ("f" * 255)
    if old is not None:
        path.write_bytes(OLD)
        path.chmod(old)
    before = os.umask(0o026)
    try:
        write_file(path, [b"new"])
    finally:
        assert os.umask(before) == 0o026
    assert (path.read_bytes(), mode(path), path.stat().st_nlink) == (b"new", new, 1)
    assert listing(tmp_path) == [path.name]


def test_a_file_that_appears_meanwhile_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "file"

    def chunks() -> Iterator[bytes]:
        path.write_bytes(b"somebody else's")
        yield b"new"

    write_file(path, chunks())
    assert path.read_bytes() == b"new"
    assert listing(tmp_path) == ["file"]


# ---- saving that fails: the old file stays, and nothing else remains ----


def failing(error: BaseException) -> Iterator[bytes]:
    yield bytes(3 * atomic.FLUSH_FROM)
    raise error


@pytest.mark.parametrize(
    "error", [LookupError(), MemoryError(), KeyboardInterrupt(), SystemExit(), WriteError("no")]
)
@pytest.mark.parametrize("exists", [True, False])
def test_an_exception_leaves_everything_as_it_was(error: BaseException, exists: bool, target: Path) -> None:
    if not exists:
        target.unlink()
    with pytest.raises(type(error)) as caught:
        write_file(target, failing(error))
    assert caught.value is error
    assert untouched(target) if exists else listing(target.parent) == []


@pytest.mark.parametrize("allowed", [0, 1, MAX_WRITE - 1, MAX_WRITE + 4096])
def test_a_limit_on_files(allowed: int, target: Path) -> None:
    _, most = limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (allowed, most))  # Python ignores the signal that goes with it
    try:
        with pytest.raises(NotSavedError, match=re.escape(str(target))) as caught:
            write_file(target, [bytes(MAX_WRITE), bytes(MAX_WRITE)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.errno == errno.EFBIG
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
    replace = Path.replace

    def fsync(fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            steps.append("directory")
            raise OSError(errno.EINVAL, "Invalid argument")  # which is no failure of the save
        steps.append(f"file of {os.fstat(fd).st_size}")

    def rename(path: Path, other: Path) -> Path:
        steps.append("rename")
        return replace(path, other)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", rename)
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
        *((name, str) for name in ("no/x", "file/x", "a\0b")),
    ],
)
def test_targets_that_cannot_be_files(name: str, make: Callable[[Path], object], tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(OLD)
    path = tmp_path / name
    make(path)
    before = listing(tmp_path)
    with pytest.raises(NotSavedError) as caught:
        write_file(path, [b"new"])
    assert str(path).replace("\0", "\\u0000") in str(caught.value)
    assert listing(tmp_path) == before
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


SCARCE = """
import os, resource, sys, numpy
from safetensors_reference.numpy import save_file
free = os.dup(0)
os.close(free)
resource.setrlimit(resource.RLIMIT_NOFILE, (free, free))
try:
    save_file({"w": numpy.ones(3)}, sys.argv[1])
except Exception as err:
    print(type(err).__name__, err.errno)
"""


def test_without_a_descriptor_left(target: Path) -> None:
    said = subprocess.check_output([sys.executable, "-c", SCARCE, str(target)], stdin=subprocess.DEVNULL)
    assert said.decode() == f"NotSavedError {errno.EMFILE}\n"
    assert untouched(target)
