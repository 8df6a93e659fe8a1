"""``stc corpus build``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from safetensors_corpus.author.case import all_cases
from safetensors_corpus.publish import build as build_module
from safetensors_corpus.publish.build import BuiltCorpus, write

from ..small import run


@pytest.fixture(scope="module", autouse=True)
def built() -> Iterator[BuiltCorpus]:
    """A corpus of some cases of every kind, built once for all of these tests."""
    saved = [case for case in all_cases() if case.kind in ("index", "write")]
    topics = {
        case.title.partition(" (")[0]: case for case in all_cases() if case.source["kind"] == "covering"
    }
    some = {case.id: case for case in (*all_cases()[::50], *saved[::4], *topics.values())}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build_module, "all_cases", lambda: list(some.values()))
        once = build_module.build()
        patch.setattr(build_module, "build", lambda: once)
        yield once


@pytest.fixture
def folder(built: BuiltCorpus, tmp_path: Path) -> Path:
    """The built corpus in a folder that a test may change."""
    write(built, tmp_path / "corpus")
    return tmp_path / "corpus"


def test_building_into_an_empty_folder_writes_everything_once(tmp_path: Path, built: BuiltCorpus) -> None:
    assert len(built.files) > 30
    first = run("build", "-o", tmp_path / "new")
    assert first.exit_code == 0
    assert f"{len(built.files)} files written, 0 removed" in first.stdout
    assert {
        p.relative_to(tmp_path / "new").as_posix() for p in (tmp_path / "new").rglob("*") if p.is_file()
    } == set(built.files)
    assert "0 files written, 0 removed" in run("build", "-o", tmp_path / "new").stdout
    assert run("build", "--check", "-o", tmp_path / "new").exit_code == 0


def test_check_passes_on_a_current_corpus_and_writes_nothing(folder: Path, built: BuiltCorpus) -> None:
    before = {p: p.stat().st_mtime_ns for p in folder.rglob("*")}
    result = run("build", "--check", "-o", folder)
    assert result.exit_code == 0
    assert f"corpus is up to date: {built.cases} cases" in result.stdout
    assert {p: p.stat().st_mtime_ns for p in folder.rglob("*")} == before


def test_check_reports_an_altered_a_missing_and_an_extra_file_each(folder: Path) -> None:
    files = sorted(folder.glob("files/**/*.safetensors"))
    files[0].write_bytes(files[0].read_bytes() + b"!")
    files[1].unlink()
    (folder / "files" / "extra.bin").write_bytes(b"")
    result = run("build", "--check", "-o", folder)
    assert result.exit_code == 1
    lines = {tuple(line.split()) for line in result.stdout.splitlines()[:-1]}
    assert lines == {
        ("different", files[0].relative_to(folder).as_posix()),
        ("missing", files[1].relative_to(folder).as_posix()),
        ("stale", "files/extra.bin"),
    }
    assert "out of date: 3 files; run: stc corpus build" in result.stdout
    assert not files[1].exists(), "--check writes nothing"


@pytest.mark.parametrize("damage", ["", "garbage", None])
def test_check_reports_a_damaged_manifest(folder: Path, damage: str | None) -> None:
    path = folder / "corpus.json"
    path.unlink() if damage is None else path.write_text(damage)
    result = run("build", "--check", "-o", folder)
    assert result.exit_code == 1
    assert "corpus.json" in result.stdout


def test_check_on_a_folder_that_does_not_exist_reports_every_file(tmp_path: Path, built: BuiltCorpus) -> None:
    result = run("build", "--check", "-o", tmp_path / "none")
    assert result.exit_code == 1
    assert result.stdout.count("missing ") == len(built.files)


def test_building_repairs_what_check_reports(folder: Path) -> None:
    victim = next(iter(sorted(folder.glob("files/**/*.safetensors"))))
    victim.write_bytes(b"")
    (folder / "files" / "extra.bin").write_bytes(b"")
    result = run("build", "-o", folder)
    assert "1 file written, 1 removed" in result.stdout
    assert run("build", "--check", "-o", folder).exit_code == 0


def add_case(folder: Path, case_id: str) -> None:
    path = folder / "corpus.json"
    manifest = json.loads(path.read_text())
    manifest["cases"].append({**manifest["cases"][0], "id": case_id})
    path.write_text(json.dumps(manifest))


def test_ids_that_would_disappear_are_refused_and_nothing_is_written(folder: Path) -> None:
    add_case(folder, "framing/published-long-ago")
    before = (folder / "corpus.json").read_bytes()
    result = run("build", "-o", folder)
    assert result.exit_code != 0
    assert "framing/published-long-ago" in result.stderr
    assert "permanent" in result.stderr
    assert (folder / "corpus.json").read_bytes() == before


def test_ids_may_disappear_when_that_is_asked_for(folder: Path) -> None:
    add_case(folder, "framing/never-published")
    assert run("build", "--allow-removal", "-o", folder).exit_code == 0
    assert "never-published" not in (folder / "corpus.json").read_text()


def test_a_case_that_contradicts_the_rules_is_an_error_message(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse() -> BuiltCorpus:
        raise ValueError("case framing/x: unknown choice")

    monkeypatch.setattr(build_module, "build", refuse)
    assert "2 a case contradicts the rules" in run("build", "--help").stdout
    result = run("build", "-o", tmp_path)
    assert result.exit_code == 2
    assert "case framing/x: unknown choice" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_an_error_message(tmp_path: Path) -> None:
    (tmp_path / "files").write_text("in the way")
    result = run("build", "-o", tmp_path)
    assert result.exit_code == 2
    assert str(tmp_path / "files") in result.stderr
