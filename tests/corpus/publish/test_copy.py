"""``stc corpus copy`` and ``verify``: what arrives, is refused or left behind; each damage is one line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from safetensors_corpus import recipe
from safetensors_corpus.cli import maintain
from safetensors_corpus.manifest import load_manifest
from safetensors_corpus.packed import corpus_root
from safetensors_corpus.publish import copy as copying
from safetensors_corpus.publish.copy import execute, plan_copy

from ..small import case_of, edit, run, save

Raw = dict[str, Any]


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "vendor" / "corpus"


def tree(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_copy_is_the_corpus_with_a_readme(folder: Path, target: Path) -> None:
    result = run("copy", "-c", folder, target)
    assert result.exit_code == 0
    assert f"{target}: 10 cases of corpus" in result.stdout
    expected = {k: v for k, v in tree(folder).items() if k != "LICENSE"}
    found = tree(target)
    readme = found.pop("README.txt").decode()
    assert found == expected
    assert "11 cases, complete" in readme
    assert "stc corpus verify" in readme
    assert run("verify", target).exit_code == 0
    assert len(load_manifest(target).cases) == 10


def test_a_pattern_takes_only_its_cases_and_their_files(folder: Path, target: Path) -> None:
    assert run("copy", "-c", folder, target, "IDX-04").exit_code == 0
    assert [c.id for c in load_manifest(target).cases] == ["index/absolute"]
    assert {name.split("/")[1] for name in tree(target) if name.startswith("files/")} == {"index"}
    assert "1 case, a selection from 11" in (target / "README.txt").read_text()
    assert run("verify", target).exit_code == 0
    whole, part = (json.loads((f / "corpus.json").read_text()) for f in (folder, target))
    assert {**whole, "cases": None} == {**part, "cases": None}


def test_a_pattern_without_cases_is_refused(folder: Path, target: Path) -> None:
    result = run("copy", "-c", folder, target, "no-such")
    assert result.exit_code == 2
    assert "no case matches 'no-such'" in result.stderr
    assert not target.exists()


def test_recipes_are_made_except_the_large_ones(folder: Path, target: Path) -> None:
    result = run("copy", "-c", folder, target, "--recipes")
    assert result.exit_code == 0
    assert "1 recipe file of 108 bytes" in result.stdout
    assert "skipped because they are above 256 MiB (use --large): resource/sparse" in result.stdout
    case = load_manifest(folder).by_id["resource/header"]
    assert (target / "recipes/resource/header.safetensors").read_bytes() == recipe.expand(case.input.recipe)
    assert not (target / "recipes/resource/sparse.safetensors").exists()


def test_large_recipes_are_made_when_asked_for_and_stay_sparse(folder: Path, target: Path) -> None:
    result = run("copy", "-c", folder, target, "sparse", "--recipes", "--large")
    assert result.exit_code == 0
    made = target / "recipes/resource/sparse.safetensors"
    assert made.stat().st_size > 1 << 33
    assert made.stat().st_blocks * 512 < 1 << 20
    assert run("verify", target).exit_code == 0
    with made.open("r+b") as file:
        file.truncate(made.stat().st_size - 1)
    assert "different  recipes/resource/sparse.safetensors" in run("verify", target).stdout


def test_large_without_recipes_is_a_usage_error(folder: Path, target: Path) -> None:
    assert run("copy", "-c", folder, target, "--large").exit_code == 2


def test_a_folder_that_is_not_empty_is_refused_and_left_alone(folder: Path, target: Path) -> None:
    target.mkdir(parents=True)
    (target / "mine.txt").write_text("mine")
    result = run("copy", "-c", folder, target)
    assert result.exit_code == 1
    assert f"{target} is not empty" in result.stderr
    assert tree(target) == {"mine.txt": b"mine"}
    assert run("copy", "-c", folder, target, "--force").exit_code == 0
    assert tree(target)["mine.txt"] == b"mine"


def test_a_newer_copy_replaces_the_older_one_whole(folder: Path, target: Path) -> None:
    run("copy", "-c", folder, target, "--recipes")
    (target / "files" / "mine.bin").write_bytes(b"mine")
    raw = json.loads((folder / "corpus.json").read_text())
    raw["cases"] = [c for c in raw["cases"] if c["id"] not in ("layout/hole", "resource/header")]
    save(folder, raw)
    assert run("copy", "-c", folder, target, "--force").exit_code == 0
    names = set(tree(target))
    assert "files/layout/hole.safetensors" not in names
    assert "recipes/resource/header.safetensors" not in names
    assert "files/mine.bin" in names, "what the older copy did not name is not ours to remove"


def test_files_of_recipes_stay_as_long_as_their_recipe_does(folder: Path, target: Path) -> None:
    run("copy", "-c", folder, target, "--recipes")
    made = target / "recipes/resource/header.safetensors"
    run("copy", "-c", folder, target, "--force")
    assert made.exists()
    raw = json.loads((folder / "corpus.json").read_text())
    case = next(c for c in raw["cases"] if c["id"] == "resource/header")
    case["input"]["recipe"].append({"text": "more"})
    case["input"] |= {"sha256": recipe.digest(case["input"]["recipe"]), "size": case["input"]["size"] + 4}
    save(folder, raw)
    run("copy", "-c", folder, target, "--force")
    assert not made.exists()
    assert run("verify", target).exit_code == 0


@pytest.mark.parametrize("place", [".", ".."])
def test_the_corpus_is_not_copied_over_itself(folder: Path, place: str) -> None:
    before = tree(folder)
    result = run("copy", "-c", folder, folder / place, "--force")
    assert result.exit_code == 2
    assert tree(folder) == before


def test_a_damaged_source_is_refused_before_the_manifest_is_written(folder: Path, target: Path) -> None:
    (folder / "files/layout/hole.safetensors").write_bytes(b"x")
    result = run("copy", "-c", folder, target)
    assert result.exit_code == 2
    assert "hole.safetensors differs from the manifest" in result.stderr
    assert not (target / "corpus.json").exists()
    assert not list(target.rglob("*.part"))


def test_a_missing_source_file_is_an_error_message(folder: Path, target: Path) -> None:
    (folder / "files/layout/hole.safetensors").unlink()
    result = run("copy", "-c", folder, target)
    assert result.exit_code == 2
    assert "hole.safetensors: No such file" in result.stderr


def test_a_wrong_recipe_is_refused(folder: Path, target: Path) -> None:
    raw = json.loads((folder / "corpus.json").read_text())
    case = next(c for c in raw["cases"] if c["id"] == "resource/header")
    case["input"]["recipe"].append({"text": "more"})
    save(folder, raw)
    result = run("copy", "-c", folder, target, "--recipes")
    assert result.exit_code == 2
    assert "the recipe of resource/header does not produce the file of the manifest" in result.stderr
    assert not list(target.rglob("*.part"))


def test_a_target_that_is_a_file_is_a_usage_error(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert run("copy", "-c", folder, tmp_path / "file").exit_code == 2
    result = run("copy", "-c", folder, tmp_path / "file" / "below")
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
        ("hole.safetensors", "{all_but_one} of {all} files are missing, including corpus.json"),
        ("corpus.json", "2 of {all} files are missing, including corpus.json"),
        ("header.safetensors", "the corpus is complete except for 1 recipe file"),
    ],
)
def test_a_stop_says_what_is_missing_and_force_goes_on(
    folder: Path, target: Path, monkeypatch: pytest.MonkeyPatch, name: str, state: str
) -> None:
    with monkeypatch.context() as patch:
        stop_at(patch, name)
        result = run("copy", "-c", folder, target, "--recipes")
    assert result.exit_code == 1
    files = plan_copy(folder, recipes=True).steps
    assert f"stopped: {state.format(all=files, all_but_one=files - 1)}" in result.stderr
    assert (target / "corpus.json").exists() == ("complete" in state)
    assert run("copy", "-c", folder, target, "--recipes", "--force").exit_code == 0
    assert run("verify", target).exit_code == 0
    assert (target / "recipes/resource/header.safetensors").exists()


def test_what_is_there_already_is_not_written_again(folder: Path, target: Path) -> None:
    run("copy", "-c", folder, target, "--recipes")
    before = {p: p.stat().st_mtime_ns for p in target.rglob("*") if p.is_file()}
    assert run("copy", "-c", folder, target, "--recipes", "--force").exit_code == 0
    assert {p: p.stat().st_mtime_ns for p in target.rglob("*") if p.is_file()} == before


def test_a_copy_over_another_version_has_no_manifest_until_it_is_done(
    folder: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("copy", "-c", folder, target)
    raw = json.loads((folder / "corpus.json").read_text())
    raw["cases"][0]["title"] = "Another title."
    save(folder, raw)
    stop_at(monkeypatch, "plain.safetensors")
    assert "including corpus.json" in run("copy", "-c", folder, target, "--force").stderr
    assert not (target / "corpus.json").exists()


def test_every_file_is_ticked_once(folder: Path, target: Path) -> None:
    plan = plan_copy(folder, recipes=True)
    ticked: list[str] = []
    execute(plan, target, ticked.append)
    assert len(ticked) == len(set(ticked)) == plan.steps
    assert set(ticked) == set(tree(target))


def test_a_garbled_older_manifest_does_not_stop_a_copy(folder: Path, target: Path) -> None:
    shutil.copytree(folder, target)
    (target / "corpus.json").write_text('{"cases": [7]}')
    assert run("copy", "-c", folder, target, "--force").exit_code == 0
    assert run("verify", target).exit_code == 0
    assert maintain.copy.help


def lines(folder: Path, *args: str) -> list[str]:
    """Return the problems found; no problems means exit status 0."""
    result = run("verify", folder, *args)
    out = result.stdout.splitlines()
    assert result.exit_code == (0 if "is intact" in out[-1] else 1)
    if result.exit_code:
        assert out[-1] == f"{folder}: {len(out) - 1} problem{'s' * (len(out) != 2)}"
    return [" ".join(line.split()) for line in out[:-1]]


def test_an_intact_corpus_has_no_problems(folder: Path) -> None:
    assert lines(folder) == []
    assert "1 heavy recipe not checked (use --heavy)" in run("verify", folder).stdout
    assert lines(folder, "--heavy") == []
    assert "heavy recipes" not in run("verify", folder, "--heavy").stdout


def test_each_damage_is_one_line(folder: Path) -> None:
    plain = folder / "files/framing/plain.safetensors"
    plain.write_bytes(plain.read_bytes()[:-1] + b"!")
    hole = folder / "files/layout/hole.safetensors"
    hole.write_bytes(b"")
    (folder / "files/slice/part.safetensors").unlink()
    (folder / "files/index/absolute/model/one.safetensors").unlink()
    (folder / "files/extra.bin").write_bytes(b"")
    (folder / "files/layout/hole.safetensors.part").write_bytes(b"")
    (folder / "recipes").mkdir()
    (folder / "recipes/extra").write_bytes(b"")
    (folder / "schema/corpus.schema.json").unlink()
    assert lines(folder) == [
        "missing schema/corpus.schema.json: the schema of the manifest does not exist",
    ]
    (folder / "schema/corpus.schema.json").write_bytes(
        (corpus_root() / "schema/corpus.schema.json").read_bytes()
    )
    size = len(json.loads((folder / "corpus.json").read_text())["cases"][1]["input"]["sha256"])
    assert size == 64
    found = lines(folder)
    assert "different files/framing/plain.safetensors: SHA-256 differs from the manifest" in found
    assert any(
        line.startswith("different files/layout/hole.safetensors: it has 0 bytes, but the manifest says ")
        for line in found
    )
    assert "missing files/slice/part.safetensors: does not exist" in found
    assert "missing files/index/absolute/model/one.safetensors: does not exist" in found
    assert "extra files/extra.bin: it is not listed in the manifest" in found
    assert "extra files/layout/hole.safetensors.part: it is not listed in the manifest" in found
    assert "extra recipes/extra: it is not listed in the manifest" in found
    assert len(found) == 7


def test_files_of_withdrawn_cases_may_be_gone_but_are_not_extra(folder: Path) -> None:
    (folder / "files/metadata/withdrawn.safetensors").unlink()
    assert lines(folder) == []


@pytest.mark.parametrize(
    ("how", "line"),
    [
        (
            lambda r: r["cases"][0].pop("title"),
            "schema corpus.json: $.cases[0]: 'title' is a required property",
        ),
        (lambda r: r.update(extra=1), "schema corpus.json: $: Additional properties"),
        (lambda r: r.update(cases=7), "schema corpus.json: $.cases: 7 is not of type 'array'"),
        (lambda r: r["cases"].append(r["cases"][0]), "schema corpus.json: case framing/plain appears twice"),
        (
            lambda r: r["cases"][0]["input"].update(file="../outside"),
            "schema corpus.json: case framing/plain names a file outside the folder: '../outside'",
        ),
        (
            lambda r: case_of(r, "resource/header")["input"].update(size=109),
            "recipe resource/header: produces 108 instead of 109 bytes",
        ),
        (
            lambda r: case_of(r, "resource/header")["input"].update(size=7),
            "recipe resource/header: produces more than 7 bytes",
        ),
        (
            lambda r: case_of(r, "resource/header")["input"].update(sha256="0" * 64),
            "recipe resource/header: SHA-256 differs from the manifest",
        ),
    ],
)
def test_a_manifest_that_is_wrong_in_itself(folder: Path, how: Callable[[Raw], object], line: str) -> None:
    edit(folder, how)
    assert any(found.startswith(line) for found in lines(folder)), lines(folder)


def test_a_heavy_recipe_is_checked_when_asked_for(folder: Path) -> None:
    edit(folder, lambda r: case_of(r, "resource/sparse")["input"].update(sha256="0" * 64))
    assert lines(folder) == []
    assert lines(folder, "--heavy") == ["recipe resource/sparse: SHA-256 differs from the manifest"]


def test_names_that_differ_in_case_alone_are_reported(folder: Path) -> None:
    def how(raw: Raw) -> None:
        twin = json.loads(json.dumps(raw["cases"][0]))
        twin["id"] = "framing/twin"
        twin["input"]["file"] = "files/framing/Plain.safetensors"
        raw["cases"].append(twin)

    edit(folder, how)
    assert any("differ only in case" in line for line in lines(folder))


def test_many_schema_errors_are_cut(folder: Path) -> None:
    edit(folder, lambda r: r.update(rules=[{}] * 100))
    found = lines(folder)
    assert len(found) == 21
    assert found[-1] == "schema corpus.json: more errors of this kind"


@pytest.mark.parametrize("content", ["", "[]", '{"type": 7}'])
def test_a_schema_that_is_none(folder: Path, content: str) -> None:
    (folder / "schema/corpus.schema.json").write_text(content)
    assert lines(folder)[0].startswith("schema schema/corpus.schema.json: not a JSON Schema")


@pytest.mark.parametrize("content", [None, "", "[]", "[" * 100_000, '{"schema_version": 3}', "\udcff"])
def test_no_usable_manifest_is_exit_status_2(folder: Path, content: str | None) -> None:
    path = folder / "corpus.json"
    path.unlink()
    if content is not None:
        path.write_bytes(content.encode("utf-8", "surrogateescape"))
    result = run("verify", folder)
    assert result.exit_code == 2
    assert str(path) in result.stderr
    assert result.stderr.count("\n") == 1
