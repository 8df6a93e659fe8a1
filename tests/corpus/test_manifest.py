"""Loading the corpus: typed values, and one clear error for all that can be wrong."""

from __future__ import annotations

import hashlib
import json
import os
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from safetensors_corpus import Manifest, ManifestError, load_manifest
from safetensors_corpus.author.index import IndexBuilder
from safetensors_corpus.document import CHECKSUM, SCHEMA_VERSION, CaseTable, sha256sum
from safetensors_corpus.manifest import LARGEST_IN_MEMORY, Input
from safetensors_corpus.packed import corpus_root

from .small import edit, run


def test_cases_are_loaded_as_they_stand_in_the_manifest(
    manifest: Manifest, raw: dict[str, Any], written: Path
) -> None:
    assert [c.id for c in manifest.cases] == [row["id"] for row in raw["cases"]]
    assert manifest.version == raw["corpus_version"]
    for case, row in zip(manifest.cases, raw["cases"], strict=True):
        assert case.kind == row["kind"]
        if "file" in (row["input"] or {}):
            assert case.path == written / row["input"]["file"]
            assert (case.sha256, case.size) == (row["input"]["sha256"], row["input"]["size"])
            assert len(case.read_input()) == case.size
        assert (case.title, case.level, list(case.rules)) == (row["title"], row["level"], row["rules"])
        assert case.area == case.id.split("/")[0]
        assert case.choice == row["expect"].get("choice")
        assert set(case.options) == set(row["expect"].get("options", {}))
    assert manifest.by_id[manifest.cases[3].id] is manifest.cases[3]


def test_a_folder_stands_for_the_manifest_in_it(written: Path, manifest: Manifest) -> None:
    assert load_manifest(written / "corpus.json").digest == manifest.digest
    assert len(manifest.digest) == 64


def test_the_corpus_of_this_package_is_found_without_a_path() -> None:
    assert load_manifest().root == corpus_root()
    assert len(load_manifest().cases) >= 150


def test_the_corpus_of_this_package_is_the_one_that_was_built() -> None:
    assert load_manifest().document.as_built, "run: stc corpus build"


def test_what_is_checked_and_what_was_built_have_the_same_cases(manifest: Manifest) -> None:
    trusted = CaseTable.of(manifest.document, trusted=True)
    assert trusted == CaseTable.of(manifest.document)
    assert len(trusted.cases) == len(manifest.cases)


@pytest.mark.parametrize(
    ("ours", "digest", "checked"),
    [(True, "its own", False), (True, "another", True), (True, "", True), (False, "its own", True)],
)
def test_only_our_own_corpus_as_it_was_built_goes_unchecked(
    folder: Path, monkeypatch: pytest.MonkeyPatch, ours: bool, digest: str, checked: bool
) -> None:
    manifest = folder / "corpus.json"
    edit(folder, lambda raw: raw["cases"][0].update(kind="song"))
    if digest:
        own = hashlib.sha256(manifest.read_bytes()).hexdigest()
        (folder / CHECKSUM).write_bytes(sha256sum(own if digest == "its own" else "0" * 64))
    if ours:
        monkeypatch.setattr("safetensors_corpus.manifest.corpus_root", lambda: folder)
    if checked:
        with pytest.raises(ManifestError, match="kind"):
            load_manifest(folder)
    else:
        assert load_manifest(folder).cases[0].kind == "song"


def small(
    manifest: Path, raw: dict[str, Any], change: Callable[[dict[str, Any]], object] = lambda _: None
) -> Path:
    """Write a manifest with one case, changed."""
    copy = json.loads(json.dumps({**raw, "cases": raw["cases"][:1]}))
    change(copy)
    manifest.write_text(json.dumps(copy))
    return manifest


def test_withdrawn_cases_are_not_run(tmp_path: Path, raw: dict[str, Any]) -> None:
    path = tmp_path / "corpus.json"
    assert len(load_manifest(small(path, raw)).cases) == 1
    for status in ("withdrawn", "superseded"):
        loaded = load_manifest(small(path, raw, lambda m, s=status: m["cases"][0].update(status=s)))  # type: ignore[misc]
        assert loaded.cases == ()


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"x"',
        b"\xff\xfe",
        b"garbage",
        b"7",
        b"[" * 100_000,
        b'{"schema_version": 1}',
    ],
)
def test_garbage_is_one_clear_error(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "corpus.json"
    path.write_bytes(text)
    with pytest.raises(ManifestError, match="not a usable manifest"):
        load_manifest(path)


def test_a_key_that_appears_twice_is_one_clear_error(tmp_path: Path, raw: dict[str, Any]) -> None:
    (tmp_path / "corpus.json").write_text(json.dumps(raw)[:-1] + ', "cases": []}', encoding="utf-8")
    with pytest.raises(ManifestError, match="the key 'cases' appears twice"):
        load_manifest(tmp_path)


def test_a_truncated_manifest_is_one_clear_error(tmp_path: Path, written: Path) -> None:
    path = tmp_path / "corpus.json"
    whole = (written / "corpus.json").read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ManifestError, match="not a usable manifest"):
        load_manifest(path)


@pytest.mark.parametrize("version", [0, SCHEMA_VERSION + 1, "1", None])
def test_another_schema_version_is_named(tmp_path: Path, raw: dict[str, Any], version: object) -> None:
    path = small(tmp_path / "corpus.json", raw, lambda m: m.update(schema_version=version))
    with pytest.raises(
        ManifestError, match=f"schema version {version} is not supported; this program reads {SCHEMA_VERSION}"
    ):
        load_manifest(path)


def test_a_missing_manifest_says_how_to_build_it(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "corpus.json", tmp_path / "no" / "such"):
        with pytest.raises(ManifestError, match=r"No such file.*stc corpus build"):
            load_manifest(path)


def test_a_changed_corpus_file_is_noticed(tmp_path: Path, raw: dict[str, Any]) -> None:
    (case,) = load_manifest(small(tmp_path / "corpus.json", raw)).cases
    case.path.parent.mkdir(parents=True)
    for data in (b"", b"other"):
        case.path.write_bytes(data)
        with pytest.raises(ManifestError, match=r"differs from the manifest.*stc corpus build"):
            case.read_input()


def test_a_missing_corpus_file_is_noticed(tmp_path: Path, raw: dict[str, Any]) -> None:
    (case,) = load_manifest(small(tmp_path / "corpus.json", raw)).cases
    with pytest.raises(ManifestError, match=f"{case.id}.*stc corpus build"):
        case.read_input()


def test_a_recipe_is_made_when_its_file_is_asked_for_and_removed_again(manifest: Manifest) -> None:
    case = next(c for c in manifest.cases if c.input.recipe and not c.heavy)
    path = case.path
    assert path.stat().st_size == case.size
    assert case.path == path  # made once
    assert len(case.read_input()) == case.size
    case.discard()
    assert not path.exists()
    assert case.path.stat().st_size == case.size
    case.discard()


def test_a_recipe_that_gives_another_file_is_noticed(manifest: Manifest) -> None:
    case = next(c for c in manifest.cases if c.input.recipe and not c.heavy)
    other = replace(case, input=replace(case.input, sha256="0" * 64))
    with pytest.raises(ManifestError, match="does not produce the file of the manifest"):
        _ = other.path


def test_an_input_too_large_for_memory_is_refused(manifest: Manifest) -> None:
    case = next(c for c in manifest.cases if c.size > LARGEST_IN_MEMORY)
    with pytest.raises(ManifestError, match="too large for memory"):
        case.read_input()


def test_a_case_without_input_says_so(manifest: Manifest) -> None:
    case = next(c for c in manifest.cases if c.kind == "write" and c.input == Input())
    with pytest.raises(ManifestError, match="has no input file"):
        _ = case.path


def test_a_directory_is_set_up_with_its_own_place_in_the_templates(
    manifest: Manifest, tmp_path: Path
) -> None:
    case = next(c for c in manifest.cases if any(f.template for f in c.input.files))
    index = case.set_up(tmp_path)
    assert index == tmp_path / case.input.entry
    assert str(tmp_path.resolve()) in index.read_text()
    for item in case.input.files:
        assert (tmp_path / item.path).exists()
        if not item.template:
            assert (tmp_path / item.path).stat().st_size == item.size


def test_the_reading_cases_are_single_files_and_light(manifest: Manifest) -> None:
    assert len(manifest.reading) > 1000
    for case in manifest.reading:
        assert case.kind == "read"
        assert not case.heavy
        assert case.size < 1 << 20


@pytest.mark.parametrize("thing", ["fifo", "zeros", "larger"])
def test_what_stands_in_place_of_a_corpus_file_is_neither_waited_for_nor_read(
    tmp_path: Path, raw: dict[str, Any], thing: str
) -> None:
    (case,) = load_manifest(small(tmp_path / "corpus.json", raw)).cases
    case.path.parent.mkdir(parents=True)
    if thing == "fifo":
        os.mkfifo(case.path)
    elif thing == "zeros":
        case.path.symlink_to("/dev/zero")
    else:
        with case.path.open("wb") as file:
            file.truncate(1 << 30)
    tracemalloc.start()
    try:
        with pytest.raises(ManifestError, match=r"not a regular file|1,073,741,824 bytes"):
            case.read_input()
        with pytest.raises(ManifestError, match=case.id):
            case.set_up(tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_inputs_are_absolute_wherever_the_corpus_was_found(
    tmp_path: Path, raw: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    small(tmp_path / "corpus.json", raw)
    monkeypatch.chdir(tmp_path)
    (case,) = load_manifest(Path("corpus.json")).cases
    assert case.path.is_absolute()
    assert case.path.is_relative_to(tmp_path)


def recipe_in_directory(raw: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Give the index case an index that is made and not stored; return its row."""
    case = next(c for c in raw["cases"] if c["kind"] == "index")
    built = IndexBuilder()
    built.shard("a.safetensors", "a")
    built.padded_index({"a": "a.safetensors"}, 200_000)
    case["input"], files = built.stored(case["id"])
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    assert not any(name.endswith("index.json") for name in files)
    assert isinstance(case, dict)
    return case


def test_a_file_of_a_directory_may_be_a_recipe(folder: Path, tmp_path: Path) -> None:
    edit(folder, lambda raw: recipe_in_directory(raw, folder))
    (case,) = (c for c in load_manifest(folder).cases if c.kind == "index")
    index = case.set_up(tmp_path / "work")
    assert index.stat().st_size == case.size == 200_000
    assert json.loads(index.read_bytes()) == {
        "metadata": {"total_size": 8},
        "weight_map": {"a": "a.safetensors"},
    }
    assert run("verify", folder).exit_code == 1  # the files of the index that was there before are left
    shown = run("show", case.id, "-c", folder).stdout
    assert "199,9" in shown
    assert "times" in shown


def test_a_recipe_in_a_directory_that_gives_another_file_is_noticed(folder: Path, tmp_path: Path) -> None:
    def change(raw: dict[str, Any]) -> None:
        recipe_in_directory(raw, folder)["input"]["files"][-1]["recipe"][0]["text"] = "?" * 30

    edit(folder, change)
    (case,) = (c for c in load_manifest(folder).cases if c.kind == "index")
    with pytest.raises(ManifestError, match="does not produce the file of the manifest"):
        case.set_up(tmp_path / "work")
    assert f"recipe     {case.id}" in run("verify", folder).stdout


def test_a_recipe_in_a_directory_is_bounded(folder: Path) -> None:
    def change(raw: dict[str, Any]) -> None:
        recipe_in_directory(raw, folder)["input"]["files"][-1]["recipe"][1]["count"] = 1 << 60

    edit(folder, change)
    with pytest.raises(ManifestError, match=r"input\.files\[1\]\.recipe that cannot be expanded"):
        load_manifest(folder)
