"""Temporary folders are removed whatever a program left in them, and nothing else is."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from safetensors_conformance.programs import files, launcher
from safetensors_conformance.programs.files import Copies, scratch_folder

from ..support import TRIGGER, committed


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder that nothing may change."""
    folder = tmp_path / "victim"
    folder.mkdir()
    (folder / "kept").touch()
    folder.chmod(0o755)
    return folder


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def fill(folder: Path, victim: Path) -> None:
    """Leave links, and a folder that nobody may enter."""
    (folder / "link").symlink_to(victim)
    (folder / "d").mkdir()
    (folder / "d" / "up").symlink_to("..")
    (folder / "locked" / "inner").mkdir(parents=True)
    (folder / "locked").chmod(0)


def nest(folder: Path, _victim: Path) -> None:
    at = os.open(folder, os.O_RDONLY)
    for _ in range(1100):  # more than Python recurses
        os.mkdir("d", dir_fd=at)
        deeper = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = deeper
    os.close(os.open("file", os.O_CREAT, dir_fd=at))
    os.close(at)


def replace_by(put: Callable[[Path, Path], object]) -> Callable[[Path, Path], None]:
    def spoil(folder: Path, victim: Path) -> None:
        folder.rmdir()
        put(folder, victim)

    return spoil


SPOILED = {
    "filled": fill,
    "deep": nest,
    "deleted": replace_by(lambda *_: None),
    "link": replace_by(lambda folder, victim: folder.symlink_to(victim)),
    "pipe": replace_by(lambda folder, _: os.mkfifo(folder)),
}


@pytest.mark.parametrize("how", SPOILED)
def test_a_spoiled_folder_is_removed_and_nothing_else(how: str, temporary: Path, victim: Path) -> None:
    with scratch_folder("test") as folder:
        SPOILED[how](folder, victim)
    assert not list(temporary.iterdir())
    assert (victim / "kept").exists()


def test_a_link_that_takes_the_place_of_a_subfolder_meanwhile_is_not_followed(
    tmp_path: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    make_removable = files._make_removable

    def swap(name: str, descriptor: int) -> None:
        make_removable(name, descriptor)
        (folder / name).rmdir()
        (folder / name).symlink_to(victim)

    monkeypatch.setattr(files, "_make_removable", swap)
    files.remove(folder)
    assert not folder.exists()
    assert (victim / "kept").exists()
    assert victim.stat().st_mode & 0o777 == 0o755


def by_folder(folder: Path, _victim: Path) -> None:
    folder.mkdir()
    (folder / "somebody's").touch()


@pytest.mark.parametrize(
    ("put", "left"),
    [(None, []), (by_folder, ["somebody's"]), (lambda folder, victim: folder.symlink_to(victim), [])],
)
def test_the_folder_of_copies_goes_and_what_took_its_place_stays(
    put: Callable[[Path, Path], None] | None, left: list[str], temporary: Path, victim: Path
) -> None:
    copies = Copies()
    folder = Path(copies.path(committed().by_id[TRIGGER])).parent
    if put is not None:
        folder.rename(victim.parent / "moved")
        put(folder, victim)
    copies.close()
    assert [path.name for path in temporary.glob("*/*")] == left
    assert len(list(temporary.iterdir())) == len(left)
    assert (victim / "kept").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /dev/shm")
def test_small_files_are_in_memory_where_nothing_speaks_against_it(monkeypatch: pytest.MonkeyPatch) -> None:
    free = SimpleNamespace(f_bavail=1 << 20, f_frsize=4096)
    works = {"open": lambda *_: os.dup(0), "statvfs": lambda _: free}
    cases: tuple[tuple[str, dict[str, Any], str | None], ...] = (
        ("/tmp", {}, launcher.MEMORY_FOLDER),
        ("/var/tmp", {}, None),
        ("/tmp", {"open": Mock(side_effect=OSError(errno.EINVAL, "no direct access"))}, None),
        ("/tmp", {"statvfs": lambda _: SimpleNamespace(f_bavail=63 << 8, f_frsize=4096)}, None),
    )
    for chosen, changed, used in cases:
        monkeypatch.setattr(tempfile, "tempdir", chosen)
        for name, call in {**works, **changed}.items():
            monkeypatch.setattr(os, name, call)
        assert launcher.folder_in_memory() == used, (chosen, changed)


def test_only_copies_of_heavy_inputs_are_on_a_disk(
    temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = tmp_path / "memory"
    memory.mkdir()
    monkeypatch.setattr(files, "folder_in_memory", lambda: str(memory))
    case = committed().by_id[TRIGGER]
    copies = Copies()
    small, large = (Path(copies.path(one)) for one in (case, replace(case, id="large", heavy=True)))
    assert (small.parents[1], large.parents[1]) == (memory, temporary)
    assert small.read_bytes() == large.read_bytes() == case.read_input()
    said = copies.without_own_path(f"{small} and {large}")
    assert said == "file.safetensors and file.safetensors"
    copies.close()
    assert not [*memory.iterdir(), *temporary.iterdir()]
