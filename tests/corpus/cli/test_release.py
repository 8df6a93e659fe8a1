"""``stc corpus release``: what it says, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from safetensors_corpus.publish import build as build_module
from safetensors_corpus.publish.build import Built

from ..small import run, small_corpus


@pytest.fixture
def root(tmp_path: Path) -> Path:
    small_corpus(tmp_path / "corpus")
    return tmp_path / "corpus"


@pytest.fixture
def current(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The small corpus, taken for what the case functions give."""
    names = [
        "corpus.json",
        *(p.relative_to(root).as_posix() for p in (root / "files").rglob("*") if p.is_file()),
    ]
    built = Built({name: (root / name).read_bytes() for name in names}, 10)
    monkeypatch.setattr(build_module, "build", lambda: built)
    return root


def test_the_command_makes_a_release_and_says_what_is_in_it(current: Path, tmp_path: Path) -> None:
    dist = tmp_path / "new" / "dist"
    result = run("release", "-c", current, dist)
    assert result.exit_code == 0, result.output
    assert "first release: 10 cases added" in result.stdout
    assert sorted(p.name for p in dist.iterdir())[:3] == ["SHA256SUMS", "changes.json", "corpus.json"]
    assert "holds this release already" in run("release", "-c", current, dist).stdout
    archive = next(dist.glob("*.tar"))
    later = run("release", "-c", current, tmp_path / "later", "--since", archive)
    assert later.exit_code == 0
    assert "0 cases added" in later.stdout


def test_a_corpus_that_is_not_current_is_refused(current: Path, tmp_path: Path) -> None:
    (current / "files/framing/plain.safetensors").write_bytes(b"")
    result = run("release", "-c", current, tmp_path / "dist")
    assert result.exit_code == 1
    assert "1 files are not current (different files/framing/plain.safetensors" in result.stderr
    assert not (tmp_path / "dist").exists()


def test_a_missing_licence_is_refused(current: Path, tmp_path: Path) -> None:
    (current / "LICENSE").unlink()
    result = run("release", "-c", current, tmp_path / "dist")
    assert result.exit_code == 1
    assert "there is no LICENSE" in result.stderr


def test_a_folder_in_use_is_refused(current: Path, tmp_path: Path) -> None:
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "mine").write_text("mine")
    assert run("release", "-c", current, tmp_path / "dist").exit_code == 1
    assert [p.name for p in (tmp_path / "dist").iterdir()] == ["mine"]


@pytest.mark.parametrize("old", ["missing.tar", "corpus/LICENSE"])
def test_an_old_release_that_cannot_be_read_is_exit_status_2(current: Path, tmp_path: Path, old: str) -> None:
    result = run("release", "-c", current, tmp_path / "dist", "--since", tmp_path / old)
    assert result.exit_code == 2
    assert str(tmp_path / old) in result.stderr


@pytest.mark.parametrize("name", ["file", "link", "/dev/null"])
def test_what_is_no_folder_is_refused_by_its_name_and_left_alone(
    current: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to("file")
    before = sorted(tmp_path.iterdir())
    result = run("release", "-c", current, tmp_path / name)
    assert result.exit_code == 2
    assert str(tmp_path / name) in result.stderr
    assert "Not a directory" in result.stderr or "is a file" in result.stderr
    assert (tmp_path / "file").read_text() == "mine"
    assert sorted(tmp_path.iterdir()) == before


def test_a_place_that_cannot_be_written_is_exit_status_2(current: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = run("release", "-c", current, tmp_path / "file" / "dist")
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ")
