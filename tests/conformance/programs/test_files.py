"""Temporary folders are removed whatever a program left in them, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest

from safetensors_conformance.programs import files


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    folder = tmp_path / "victim"
    folder.mkdir()
    (folder / "kept").touch()
    folder.chmod(0o755)
    return folder


def test_deep_folders_links_and_missing_permissions_are_removed(tmp_path: Path, victim: Path) -> None:
    folder = tmp_path / "folder"
    deep = folder
    for _ in range(300):
        deep = deep / "d"
    deep.mkdir(parents=True)
    (deep / "file").write_bytes(b"x")
    (folder / "link").symlink_to(victim)
    (folder / "d" / "up").symlink_to("..")
    (folder / "locked" / "inner").mkdir(parents=True)
    (folder / "locked").chmod(0)
    files.remove(folder)
    assert not folder.exists()
    assert (victim / "kept").exists()


def test_a_folder_that_became_a_link_or_a_file_is_removed(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "link").symlink_to(victim)
    (tmp_path / "file").touch()
    for name in ("link", "file", "missing"):
        files.remove(tmp_path / name)
    assert sorted(tmp_path.iterdir()) == [victim]
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
