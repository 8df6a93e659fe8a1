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
    every = all_cases()
    saved = [case for case in every if case.kind in ("index", "write")]
    topics = {case.title.partition(" (")[0]: case for case in every if case.source["kind"] == "covering"}
    some = {case.id: case for case in (*every[::50], *saved[::4], *topics.values())}
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
    new = tmp_path / "new"
    assert len(built.files) > 30
    assert run("build", "--check", "-o", new, status=1).stdout.count("missing ") == len(built.files)
    run("build", "-o", new, status=0, out=f"{len(built.files)} files written, 0 removed")
    assert {p.relative_to(new).as_posix() for p in new.rglob("*") if p.is_file()} == set(built.files)
    run("build", "-o", new, status=0, out="0 files written, 0 removed")
    before = {p: p.stat().st_mtime_ns for p in new.rglob("*")}
    run("build", "--check", "-o", new, status=0, out=f"corpus is up to date: {built.cases} cases")
    assert {p: p.stat().st_mtime_ns for p in new.rglob("*")} == before


def test_check_reports_an_altered_a_missing_and_an_extra_file_each(folder: Path) -> None:
    files = sorted(folder.glob("files/**/*.safetensors"))
    files[0].write_bytes(files[0].read_bytes() + b"!")
    files[1].unlink()
    (folder / "files" / "extra.bin").write_bytes(b"")
    out = "out of date: 3 files; run: stc corpus build"
    result = run("build", "--check", "-o", folder, status=1, out=out)
    lines = {tuple(line.split()) for line in result.stdout.splitlines()[:-1]}
    assert lines == {
        ("different", files[0].relative_to(folder).as_posix()),
        ("missing", files[1].relative_to(folder).as_posix()),
        ("stale", "files/extra.bin"),
    }
    assert not files[1].exists(), "--check writes nothing"
    run("build", "-o", folder, status=0, out="2 files written, 1 removed")
    run("build", "--check", "-o", folder, status=0)
    for damage in ("", "garbage"):
        (folder / "corpus.json").write_text(damage)
        run("build", "--check", "-o", folder, status=1, out="different  corpus.json")
    (folder / "corpus.json").unlink()
    run("build", "--check", "-o", folder, status=1, out="missing    corpus.json")


def test_ids_disappear_only_when_that_is_asked_for(folder: Path) -> None:
    path = folder / "corpus.json"
    manifest = json.loads(path.read_text())
    manifest["cases"].append({**manifest["cases"][0], "id": "framing/published-long-ago"})
    path.write_text(json.dumps(manifest))
    before = path.read_bytes()
    result = run("build", "-o", folder, err="framing/published-long-ago")
    assert result.exit_code != 0
    assert "permanent" in result.stderr
    assert path.read_bytes() == before
    run("build", "--allow-removal", "-o", folder, status=0)
    assert "published-long-ago" not in path.read_text()


def test_a_wrong_case_or_folder_is_an_error_message(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse() -> BuiltCorpus:
        raise ValueError("case framing/x: unknown choice")

    monkeypatch.setattr(build_module, "build", refuse)
    run("build", "--help", out="2 a case contradicts the rules")
    run("build", "-o", tmp_path, status=2, err="case framing/x: unknown choice")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    (tmp_path / "files").write_text("in the way")
    run("build", "-o", tmp_path, status=2, err=str(tmp_path / "files"))
