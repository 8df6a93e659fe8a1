"""Loading the corpus: typed values, and one clear error for all that can be wrong."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from safetensors_corpus import Case, Manifest, ManifestError, load_manifest
from safetensors_corpus.author.index import IndexBuilder
from safetensors_corpus.document import CHECKSUM, sha256sum
from safetensors_corpus.manifest import LARGEST_IN_MEMORY, Input

from .small import case_of, edit, run


def test_cases_are_loaded_from_the_manifest(manifest: Manifest, raw: dict[str, Any], written: Path) -> None:
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
    # Another path is checked, and our own is trusted.
    assert manifest.document.as_built, "run: stc corpus build"
    assert load_manifest(written / "corpus.json").cases == manifest.cases


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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        *((text, "not a usable manifest") for text in ("", "{", "null", "[]", '"x"', "garbage", "7")),
        *((text, "not a usable manifest") for text in ("\udcff\udcfe", "[" * 100_000)),
        ('{"schema_version": 1}', "not a usable manifest"),
        ('{"schema_version": 2, "cases": [], "cases": []}', "the key 'cases' appears twice"),
        *(
            (f'{{"schema_version": {version}}}', f"schema version {version} is not supported; this program")
            for version in ("0", "3", "[]")
        ),
    ],
)
def test_garbage_is_one_clear_error(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "corpus.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ManifestError, match=re.escape(words)):
        load_manifest(path)


def test_a_missing_manifest_says_how_to_build_it(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "corpus.json", tmp_path / "no" / "such"):
        with pytest.raises(ManifestError, match=r"No such file.*stc corpus build"):
            load_manifest(path)


@pytest.mark.parametrize(
    ("thing", "words"),
    [
        ("", "stc corpus build"),
        ("other", "differs from the manifest"),
        ("fifo", "not a regular file"),
        ("zeros", "not a regular file"),
        ("larger", "1,073,741,824 bytes"),
    ],
)
def test_what_replaces_a_corpus_file_is_not_read(
    folder: Path, tmp_path: Path, thing: str, words: str
) -> None:
    case = load_manifest(folder).by_id["framing/plain"]
    case.path.unlink()
    if thing == "other":
        case.path.write_bytes(b"other")
    elif thing == "fifo":
        os.mkfifo(case.path)
    elif thing == "zeros":
        case.path.symlink_to("/dev/zero")
    elif thing == "larger":
        case.path.touch()
        os.truncate(case.path, 1 << 30)
    tracemalloc.start()
    try:
        for use in (case.read_input, lambda: case.set_up(tmp_path)):
            with pytest.raises(ManifestError, match=words) as caught:
                use()
            assert case.id in str(caught.value)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


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


def test_inputs_that_cannot_be_had_say_so(manifest: Manifest) -> None:
    recipe = next(c for c in manifest.cases if c.input.recipe and not c.heavy)
    large = next(c for c in manifest.cases if c.size > LARGEST_IN_MEMORY)
    without = next(c for c in manifest.cases if c.kind == "write" and c.input == Input())
    with pytest.raises(ManifestError, match="does not produce the file of the manifest"):
        _ = replace(recipe, input=replace(recipe.input, sha256="0" * 64)).path
    with pytest.raises(ManifestError, match="too large for memory"):
        large.read_input()
    with pytest.raises(ManifestError, match="has no input file"):
        _ = without.path


def test_a_directory_is_set_up_with_its_place_in_templates(manifest: Manifest, tmp_path: Path) -> None:
    case = next(c for c in manifest.cases if any(f.template for f in c.input.files))
    index = case.set_up(tmp_path)
    assert index == tmp_path / case.input.entry
    assert str(tmp_path.resolve()) in index.read_text()
    for item in case.input.files:
        assert (tmp_path / item.path).exists()
        if not item.template:
            assert (tmp_path / item.path).stat().st_size == item.size


def test_inputs_are_absolute_wherever_the_corpus_was_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    case = load_manifest(Path("corpus.json")).by_id["framing/plain"]
    assert case.path.is_absolute()
    assert case.path.is_relative_to(folder)


def test_a_file_of_a_directory_may_be_a_recipe_which_is_checked(folder: Path, tmp_path: Path) -> None:
    built = IndexBuilder()
    built.shard("a.safetensors", "a")
    built.padded_index({"a": "a.safetensors"}, 200_000)
    stored, files = built.stored("index/absolute")
    assert not any(name.endswith("index.json") for name in files)
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)

    def load(**change: object) -> Case:
        stored["files"][-1]["recipe"][1].update(change)
        edit(folder, lambda raw: case_of(raw, "index/absolute").update(input=stored))
        return load_manifest(folder).by_id["index/absolute"]

    case = load()
    index = case.set_up(tmp_path / "work")
    assert index.stat().st_size == case.size == 200_000
    map_of_one = {"metadata": {"total_size": 8}, "weight_map": {"a": "a.safetensors"}}
    assert json.loads(index.read_bytes()) == map_of_one
    run("verify", folder, status=1)  # the files of the index that was there before are left
    assert re.search("199,9.* times", run("show", case.id, "-c", folder).stdout)
    with pytest.raises(ManifestError, match=r"input\.files\[1\]\.recipe that cannot be expanded"):
        load(count=1 << 60)
    with pytest.raises(ManifestError, match="does not produce the file of the manifest"):
        load(repeat={"text": "?"}, count=1).set_up(tmp_path / "work")
    assert f"recipe     {case.id}" in run("verify", folder).stdout
