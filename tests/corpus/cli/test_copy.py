"""``stc corpus copy``: what arrives, what is refused, and what a stop leaves behind."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from safetensors_corpus import recipe
from safetensors_corpus.cli import copy as cli_copy
from safetensors_corpus.document import FILES, path_fault
from safetensors_corpus.manifest import load_manifest
from safetensors_corpus.publish import copy as copying
from safetensors_corpus.publish.copy import CopyError, make_plan, perform

from ..small import run, save, small_corpus


@pytest.fixture
def source(tmp_path: Path) -> Path:
    small_corpus(tmp_path / "source")
    return tmp_path / "source"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "vendor" / "corpus"


def tree(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_copy_is_the_corpus_with_a_readme(source: Path, target: Path) -> None:
    result = run("copy", "-c", source, target)
    assert result.exit_code == 0
    assert f"{target}: 9 cases of corpus" in result.stdout
    expected = {k: v for k, v in tree(source).items() if k != "LICENSE"}
    found = tree(target)
    readme = found.pop("README.txt").decode()
    assert found == expected
    assert "10 cases, complete" in readme
    assert "stc corpus verify" in readme
    assert run("verify", target).exit_code == 0
    assert len(load_manifest(target).cases) == 9


def test_a_pattern_takes_only_its_cases_and_their_files(source: Path, target: Path) -> None:
    assert run("copy", "-c", source, target, "IDX-04").exit_code == 0
    assert [c.id for c in load_manifest(target).cases] == ["index/absolute"]
    assert {name.split("/")[1] for name in tree(target) if name.startswith("files/")} == {"index"}
    assert "1 cases, a selection from 10" in (target / "README.txt").read_text()
    assert run("verify", target).exit_code == 0
    whole, part = (json.loads((f / "corpus.json").read_text()) for f in (source, target))
    assert {**whole, "cases": None} == {**part, "cases": None}


def test_a_pattern_without_cases_is_refused(source: Path, target: Path) -> None:
    result = run("copy", "-c", source, target, "no-such")
    assert result.exit_code == 2
    assert "no case matches 'no-such'" in result.stderr
    assert not target.exists()


def test_recipes_are_made_except_the_large_ones(source: Path, target: Path) -> None:
    result = run("copy", "-c", source, target, "--recipes")
    assert result.exit_code == 0
    assert "1 recipe files of 108 bytes" in result.stdout
    assert "not made, above 256 MiB (--large makes them): resource/sparse" in result.stdout
    case = load_manifest(source).by_id["resource/header"]
    assert (target / "recipes/resource/header.safetensors").read_bytes() == recipe.expand(case.input.recipe)
    assert not (target / "recipes/resource/sparse.safetensors").exists()


def test_large_recipes_are_made_when_asked_for_and_stay_sparse(source: Path, target: Path) -> None:
    result = run("copy", "-c", source, target, "sparse", "--recipes", "--large")
    assert result.exit_code == 0
    made = target / "recipes/resource/sparse.safetensors"
    assert made.stat().st_size > 1 << 33
    assert made.stat().st_blocks * 512 < 1 << 20
    assert run("verify", target).exit_code == 0
    with made.open("r+b") as file:
        file.truncate(made.stat().st_size - 1)
    assert "different  recipes/resource/sparse.safetensors" in run("verify", target).stdout


def test_large_without_recipes_is_a_usage_error(source: Path, target: Path) -> None:
    assert run("copy", "-c", source, target, "--large").exit_code == 2


def test_a_folder_that_is_not_empty_is_refused_and_left_alone(source: Path, target: Path) -> None:
    target.mkdir(parents=True)
    (target / "mine.txt").write_text("mine")
    result = run("copy", "-c", source, target)
    assert result.exit_code == 1
    assert f"{target} is not empty" in result.stderr
    assert tree(target) == {"mine.txt": b"mine"}
    assert run("copy", "-c", source, target, "--force").exit_code == 0
    assert tree(target)["mine.txt"] == b"mine"


def test_a_newer_copy_replaces_the_older_one_whole(source: Path, target: Path) -> None:
    run("copy", "-c", source, target, "--recipes")
    (target / "files" / "mine.bin").write_bytes(b"mine")
    raw = json.loads((source / "corpus.json").read_text())
    raw["cases"] = [c for c in raw["cases"] if c["id"] not in ("layout/hole", "resource/header")]
    save(source, raw)
    assert run("copy", "-c", source, target, "--force").exit_code == 0
    names = set(tree(target))
    assert "files/layout/hole.safetensors" not in names
    assert "recipes/resource/header.safetensors" not in names
    assert "files/mine.bin" in names, "what the older copy did not name is not ours to remove"


def test_files_of_recipes_stay_as_long_as_their_recipe_does(source: Path, target: Path) -> None:
    run("copy", "-c", source, target, "--recipes")
    made = target / "recipes/resource/header.safetensors"
    run("copy", "-c", source, target, "--force")
    assert made.exists()
    raw = json.loads((source / "corpus.json").read_text())
    case = next(c for c in raw["cases"] if c["id"] == "resource/header")
    case["input"]["recipe"].append({"text": "more"})
    case["input"] |= {"sha256": recipe.digest(case["input"]["recipe"]), "size": case["input"]["size"] + 4}
    save(source, raw)
    run("copy", "-c", source, target, "--force")
    assert not made.exists()
    assert run("verify", target).exit_code == 0


@pytest.mark.parametrize("folder", [".", ".."])
def test_the_corpus_is_not_copied_over_itself(source: Path, folder: str) -> None:
    before = tree(source)
    result = run("copy", "-c", source, source / folder, "--force")
    assert result.exit_code == 2
    assert tree(source) == before


def test_a_damaged_source_is_refused_before_the_manifest_is_written(source: Path, target: Path) -> None:
    (source / "files/layout/hole.safetensors").write_bytes(b"x")
    result = run("copy", "-c", source, target)
    assert result.exit_code == 2
    assert "hole.safetensors is not the file of the manifest" in result.stderr
    assert not (target / "corpus.json").exists()
    assert not list(target.rglob("*.part"))


def test_a_missing_source_file_is_an_error_message(source: Path, target: Path) -> None:
    (source / "files/layout/hole.safetensors").unlink()
    result = run("copy", "-c", source, target)
    assert result.exit_code == 2
    assert "hole.safetensors: No such file" in result.stderr


def test_a_wrong_recipe_is_refused(source: Path, target: Path) -> None:
    raw = json.loads((source / "corpus.json").read_text())
    case = next(c for c in raw["cases"] if c["id"] == "resource/header")
    case["input"]["recipe"].append({"text": "more"})
    save(source, raw)
    result = run("copy", "-c", source, target, "--recipes")
    assert result.exit_code == 2
    assert "the recipe of resource/header does not give the file of the manifest" in result.stderr
    assert not list(target.rglob("*.part"))


@pytest.mark.parametrize("name", ["../outside", "/etc/x", "files/../../x", "C:/x", "files\\..\\x", "a//b"])
def test_a_manifest_that_names_files_outside_is_refused(source: Path, target: Path, name: str) -> None:
    assert path_fault(name, FILES) is not None
    raw = json.loads((source / "corpus.json").read_text())
    raw["cases"][0]["input"]["file"] = name
    save(source, raw)
    with pytest.raises(CopyError, match="outside"):
        make_plan(source)
    assert run("copy", "-c", source, target).exit_code == 2
    assert not target.exists()


def test_a_target_that_is_a_file_is_a_usage_error(source: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert run("copy", "-c", source, tmp_path / "file").exit_code == 2
    result = run("copy", "-c", source, tmp_path / "file" / "below")
    assert result.exit_code == 2
    assert "Not a directory" in result.stderr


def stop_at(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Press Ctrl-C when ``name`` is about to be written."""
    store, make = copying._store, copying._make

    def stopping_store(path: Path, data: bytes) -> None:
        if path.name == name:
            raise KeyboardInterrupt
        store(path, data)

    def stopping_make(case: dict[str, Any], path: Path) -> None:
        if path.name == name:
            raise KeyboardInterrupt
        make(case, path)

    monkeypatch.setattr(copying, "_store", stopping_store)
    monkeypatch.setattr(copying, "_make", stopping_make)


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("hole.safetensors", "{all_but_one} of {all} files are missing, corpus.json among them"),
        ("corpus.json", "2 of {all} files are missing, corpus.json among them"),
        ("header.safetensors", "the corpus is complete, 1 recipe files are missing"),
    ],
)
def test_a_stop_says_what_is_missing_and_force_goes_on(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch, name: str, state: str
) -> None:
    with monkeypatch.context() as patch:
        stop_at(patch, name)
        result = run("copy", "-c", source, target, "--recipes")
    assert result.exit_code == 1
    files = make_plan(source, recipes=True).steps
    assert f"stopped: {state.format(all=files, all_but_one=files - 1)}" in result.stderr
    assert (target / "corpus.json").exists() == ("complete" in state)
    assert run("copy", "-c", source, target, "--recipes", "--force").exit_code == 0
    assert run("verify", target).exit_code == 0
    assert (target / "recipes/resource/header.safetensors").exists()


def test_what_is_there_already_is_not_written_again(source: Path, target: Path) -> None:
    run("copy", "-c", source, target, "--recipes")
    before = {p: p.stat().st_mtime_ns for p in target.rglob("*") if p.is_file()}
    assert run("copy", "-c", source, target, "--recipes", "--force").exit_code == 0
    assert {p: p.stat().st_mtime_ns for p in target.rglob("*") if p.is_file()} == before


def test_a_copy_over_another_version_has_no_manifest_until_it_is_done(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("copy", "-c", source, target)
    raw = json.loads((source / "corpus.json").read_text())
    raw["cases"][0]["title"] = "Another title."
    save(source, raw)
    stop_at(monkeypatch, "plain.safetensors")
    assert "corpus.json among them" in run("copy", "-c", source, target, "--force").stderr
    assert not (target / "corpus.json").exists()


def test_every_file_is_ticked_once(source: Path, target: Path) -> None:
    plan = make_plan(source, recipes=True)
    ticked: list[str] = []
    perform(plan, target, ticked.append)
    assert len(ticked) == len(set(ticked)) == plan.steps
    assert set(ticked) == set(tree(target))


def test_a_garbled_older_manifest_does_not_stop_a_copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target)
    (target / "corpus.json").write_text('{"cases": [7]}')
    assert run("copy", "-c", source, target, "--force").exit_code == 0
    assert run("verify", target).exit_code == 0
    assert cli_copy.copy.help
