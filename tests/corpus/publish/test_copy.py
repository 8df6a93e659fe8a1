"""``stc corpus copy`` and ``verify``: what arrives, is refused or left behind; each damage is one line."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from safetensors_corpus import recipe
from safetensors_corpus.manifest import load_manifest
from safetensors_corpus.packed import corpus_root
from safetensors_corpus.publish import copy as copying
from safetensors_corpus.publish.copy import execute, plan_copy

from ..small import case_of, edit, run, tree

Raw = dict[str, Any]


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "vendor" / "corpus"


def test_a_copy_is_the_corpus_with_a_readme(folder: Path, target: Path) -> None:
    run("copy", "-c", folder, target, status=0, out=f"{target}: 10 cases of corpus")
    expected = {k: v for k, v in tree(folder).items() if k != "LICENSE"}
    found = tree(target)
    readme = found.pop("README.txt").decode()
    assert found == expected
    assert "11 cases, complete" in readme
    assert "stc corpus verify" in readme
    run("verify", target, status=0)
    assert len(load_manifest(target).cases) == 10


def test_a_pattern_takes_only_its_cases_and_their_files(folder: Path, target: Path) -> None:
    run("copy", "-c", folder, target, "IDX-04", status=0)
    assert [c.id for c in load_manifest(target).cases] == ["index/absolute"]
    assert {name.split("/")[1] for name in tree(target) if name.startswith("files/")} == {"index"}
    assert "1 case, a selection from 11" in (target / "README.txt").read_text()
    run("verify", target, status=0)
    whole, part = (json.loads((f / "corpus.json").read_text()) for f in (folder, target))
    assert {**whole, "cases": None} == {**part, "cases": None}


def test_a_folder_that_is_not_empty_is_refused_and_left_alone(folder: Path, target: Path) -> None:
    target.mkdir(parents=True)
    mine = {"mine.txt": b"mine", "corpus.json": b'{"cases": [7]}'}  # a garbled manifest stops no copy
    for name, content in mine.items():
        (target / name).write_bytes(content)
    run("copy", "-c", folder, target, status=1, err=f"{target} is not empty")
    assert tree(target) == mine
    run("copy", "-c", folder, target, "--force", status=0)
    assert tree(target).pop("mine.txt") == b"mine"
    run("verify", target, status=0)


def test_recipes_are_made_and_the_large_ones_when_asked_for(folder: Path, target: Path) -> None:
    skipped = "skipped because they are above 256 MiB (use --large): resource/sparse"
    assert "1 recipe file of 108 bytes" in run("copy", "-c", folder, target, "--recipes", out=skipped).stdout
    case = load_manifest(folder).by_id["resource/header"]
    assert (target / "recipes/resource/header.safetensors").read_bytes() == recipe.expand(case.input.recipe)
    made = target / "recipes/resource/sparse.safetensors"
    assert not made.exists()
    run("copy", "-c", folder, target, "sparse", "--recipes", "--large", "--force", status=0)
    assert made.stat().st_size > 1 << 33
    assert made.stat().st_blocks * 512 < 1 << 20
    run("verify", target, status=0)
    os.truncate(made, made.stat().st_size - 1)
    run("verify", target, out="different  recipes/resource/sparse.safetensors")


def test_a_newer_copy_replaces_the_older_one_whole(folder: Path, target: Path) -> None:
    plan, ticked = plan_copy(folder, recipes=True), list[str]()
    execute(plan, target, ticked.append)
    assert len(ticked) == len(set(ticked)) == plan.steps
    assert set(ticked) == set(tree(target))
    before = {p: p.stat().st_mtime_ns for p in target.rglob("*") if p.is_file()}
    run("copy", "-c", folder, target, "--recipes", "--force", status=0)
    assert {p: p.stat().st_mtime_ns for p in target.rglob("*") if p.is_file()} == before
    made = target / "recipes/resource/header.safetensors"
    run("copy", "-c", folder, target, "--force")
    assert made.exists(), "its recipe is still the same"
    (target / "files" / "mine.bin").write_bytes(b"mine")
    (target / "README.txt.part").symlink_to(folder / "LICENSE")  # left by another program

    def change(raw: Raw) -> None:
        raw["cases"] = [c for c in raw["cases"] if c["id"] != "layout/hole"]
        given = case_of(raw, "resource/header")["input"]
        given["recipe"].append({"text": "more"})
        given |= {"sha256": recipe.digest(given["recipe"]), "size": given["size"] + 4}

    edit(folder, change)
    run("copy", "-c", folder, target, "--force", status=0)
    assert "10 cases, complete" in (target / "README.txt").read_text()
    assert "10 cases" not in (folder / "LICENSE").read_text()
    assert not made.exists()
    assert not (target / "files/layout/hole.safetensors").exists()
    assert (target / "files/mine.bin").exists(), "what the older copy did not name is not ours to remove"


HOLE = "files/layout/hole.safetensors"


def longer(folder: Path) -> None:
    edit(folder, lambda raw: case_of(raw, "resource/header")["input"]["recipe"].append({"text": "more"}))


@pytest.mark.parametrize(
    ("change", "args", "words"),
    [
        *(
            (Path.exists, args, words)
            for args, words in (
                (["TARGET", "no-such"], "no case matches 'no-such'"),
                (["TARGET", "--large"], "--large requires --recipes"),
                ([".", "--force"], "contains the corpus that would be copied"),
                (["..", "--force"], "contains the corpus that would be copied"),
                (["LICENSE"], "is a file"),
                (["LICENSE/below"], "Not a directory"),
            )
        ),
        (lambda f: (f / HOLE).write_bytes(b"x"), ["TARGET"], "hole.safetensors differs from the manifest"),
        (lambda f: (f / HOLE).unlink(), ["TARGET"], "hole.safetensors: No such file"),
        (longer, ["TARGET", "--recipes"], "the recipe of resource/header does not produce the file"),
    ],
)
def test_what_cannot_be_copied_is_exit_status_2(
    folder: Path, target: Path, change: Callable[[Path], object], args: list[str], words: str
) -> None:
    change(folder)
    before = tree(folder)
    place, *options = args
    run("copy", "-c", folder, target if place == "TARGET" else folder / place, *options, status=2, err=words)
    assert tree(folder) == before
    assert not list(target.rglob("*.part"))
    assert change is longer or not (target / "corpus.json").exists()


def stop_at(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Press Ctrl-C when ``name`` is about to be written."""

    def stopping(write: Callable[..., None]) -> Callable[..., None]:
        def wrapped(*given: Any) -> None:
            if any(isinstance(value, Path) and value.name == name for value in given):
                raise KeyboardInterrupt
            write(*given)

        return wrapped

    for function in ("_store", "_make"):
        monkeypatch.setattr(copying, function, stopping(getattr(copying, function)))


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
        result = run("copy", "-c", folder, target, "--recipes", status=1)
    files = plan_copy(folder, recipes=True).steps
    assert f"stopped: {state.format(all=files, all_but_one=files - 1)}" in result.stderr
    assert (target / "corpus.json").exists() == ("complete" in state)
    run("copy", "-c", folder, target, "--recipes", "--force", status=0)
    run("verify", target, status=0)
    assert (target / "recipes/resource/header.safetensors").exists()


def test_a_copy_over_another_version_has_no_manifest_until_it_is_done(
    folder: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("copy", "-c", folder, target)
    edit(folder, lambda raw: raw["cases"][0].update(title="Another title."))
    stop_at(monkeypatch, "plain.safetensors")
    run("copy", "-c", folder, target, "--force", err="including corpus.json")
    assert not (target / "corpus.json").exists()


def lines(folder: Path, *args: str) -> list[str]:
    """Return the problems found; no problems means exit status 0."""
    result = run("verify", folder, *args)
    out = result.stdout.splitlines()
    assert result.exit_code == (0 if "is intact" in out[-1] else 1)
    if result.exit_code:
        assert out[-1] == f"{folder}: {len(out) - 1} problem{'s' * (len(out) != 2)}"
    return [" ".join(line.split()) for line in out[:-1]]


def test_an_intact_corpus_has_no_problems(folder: Path) -> None:
    assert lines(folder) == lines(folder, "--heavy") == []
    run("verify", folder, out="1 heavy recipe not checked (use --heavy)")
    assert "heavy recipes" not in run("verify", folder, "--heavy").stdout
    edit(folder, lambda r: case_of(r, "resource/sparse")["input"].update(sha256="0" * 64))
    assert lines(folder) == []
    assert lines(folder, "--heavy") == ["recipe resource/sparse: SHA-256 differs from the manifest"]


def test_each_damage_is_one_line(folder: Path) -> None:
    plain = folder / "files/framing/plain.safetensors"
    plain.write_bytes(plain.read_bytes()[:-1] + b"!")
    gone = ("slice/part", "metadata/withdrawn", "index/absolute/model/one")
    for path in (*(f"files/{name}.safetensors" for name in gone), "schema/corpus.schema.json"):
        (folder / path).unlink()
    (folder / "recipes").mkdir()
    for path in (HOLE, f"{HOLE}.part", "files/extra.bin", "recipes/extra"):
        (folder / path).write_bytes(b"")
    assert lines(folder) == ["missing schema/corpus.schema.json: the schema of the manifest does not exist"]
    shutil.copy(corpus_root() / "schema/corpus.schema.json", folder / "schema")
    size = load_manifest(folder).by_id["layout/hole"].size
    assert sorted(lines(folder)) == [
        "different files/framing/plain.safetensors: SHA-256 differs from the manifest",
        f"different files/layout/hole.safetensors: it has 0 bytes, but the manifest says {size}",
        "extra files/extra.bin: it is not listed in the manifest",
        "extra files/layout/hole.safetensors.part: it is not listed in the manifest",
        "extra recipes/extra: it is not listed in the manifest",
        "missing files/index/absolute/model/one.safetensors: does not exist",
        "missing files/slice/part.safetensors: does not exist",
    ]


def twin(raw: Raw) -> None:
    """Add a case whose file differs from that of another case only in the case of its name."""
    case = raw["cases"][0]
    given = {**case["input"], "file": "files/framing/Plain.safetensors"}
    raw["cases"].append({**case, "id": "framing/twin", "input": given})


def header_with(**changes: Any) -> Callable[[Raw], object]:
    return lambda raw: case_of(raw, "resource/header")["input"].update(changes)


SCHEMA, RECIPE = "schema corpus.json: ", "recipe resource/header: "


@pytest.mark.parametrize(
    ("how", "line"),
    [
        (lambda r: r["cases"][0].pop("title"), SCHEMA + "$.cases[0]: 'title' is a required property"),
        (lambda r: r.update(extra=1), SCHEMA + "$: Additional properties"),
        (lambda r: r.update(cases=7), SCHEMA + "$.cases: 7 is not of type 'array'"),
        (lambda r: r.update(rules=[{}] * 100), SCHEMA + "more errors of this kind"),
        (lambda r: r["cases"].append(r["cases"][0]), SCHEMA + "case framing/plain appears twice"),
        (
            lambda r: r["cases"][0]["input"].update(file="../outside"),
            SCHEMA + "case framing/plain names a file outside the folder: '../outside'",
        ),
        (twin, SCHEMA + "files/framing/Plain.safetensors and "),
        (header_with(size=109), RECIPE + "produces 108 instead of 109 bytes"),
        (header_with(size=7), RECIPE + "produces more than 7 bytes"),
        (header_with(sha256="0" * 64), RECIPE + "SHA-256 differs from the manifest"),
    ],
)
def test_a_manifest_that_is_wrong_in_itself_or_about_a_recipe(
    folder: Path, how: Callable[[Raw], object], line: str
) -> None:
    edit(folder, how)
    found = lines(folder)
    assert any(each.startswith(line) for each in found), found
    assert len(found) == (21 if "more errors" in line else 1 + (how is twin))


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
    assert run("verify", folder, status=2, err=str(path)).stderr.count("\n") == 1
