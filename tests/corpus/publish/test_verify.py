"""``stc corpus verify``: each kind of damage is one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from safetensors_corpus.manifest import corpus_root

from ..small import run, save, small_corpus

Raw = dict[str, Any]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    small_corpus(tmp_path)
    return tmp_path


def lines(folder: Path, *args: str) -> list[str]:
    """Return the problems found; no problems means exit status 0."""
    result = run("verify", folder, *args)
    out = result.stdout.splitlines()
    assert result.exit_code == (0 if "is intact" in out[-1] else 1)
    if result.exit_code:
        assert out[-1] == f"{folder}: {len(out) - 1} problems"
    return [" ".join(line.split()) for line in out[:-1]]


def change(folder: Path, how: Callable[[Raw], object]) -> None:
    raw = json.loads((folder / "corpus.json").read_text())
    how(raw)
    save(folder, raw)


def case(raw: Raw, case_id: str) -> Raw:
    found: Raw = next(c for c in raw["cases"] if c["id"] == case_id)
    return found


def test_an_intact_corpus_has_no_problems(folder: Path) -> None:
    assert lines(folder) == []
    assert "1 heavy recipes not made (--heavy makes them)" in run("verify", folder).stdout
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
        "missing schema/corpus.schema.json: the schema of the manifest is not there",
    ]
    (folder / "schema/corpus.schema.json").write_bytes(
        (corpus_root() / "schema/corpus.schema.json").read_bytes()
    )
    size = len(json.loads((folder / "corpus.json").read_text())["cases"][1]["input"]["sha256"])
    assert size == 64
    found = lines(folder)
    assert "different files/framing/plain.safetensors: SHA-256 is not the one of the manifest" in found
    assert any(
        line.startswith("different files/layout/hole.safetensors: 0 bytes, the manifest says ")
        for line in found
    )
    assert "missing files/slice/part.safetensors: not there" in found
    assert "missing files/index/absolute/model/one.safetensors: not there" in found
    assert "extra files/extra.bin: the manifest does not name it" in found
    assert "extra files/layout/hole.safetensors.part: the manifest does not name it" in found
    assert "extra recipes/extra: the manifest does not name it" in found
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
        (lambda r: r["cases"].append(r["cases"][0]), "schema corpus.json: case framing/plain stands twice"),
        (
            lambda r: r["cases"][0]["input"].update(file="../outside"),
            "schema corpus.json: case framing/plain names a file outside of the folder: '../outside'",
        ),
        (
            lambda r: case(r, "resource/header")["input"].update(size=109),
            "recipe resource/header: gives 108 instead of 109 bytes",
        ),
        (
            lambda r: case(r, "resource/header")["input"].update(size=7),
            "recipe resource/header: gives more than 7 bytes",
        ),
        (
            lambda r: case(r, "resource/header")["input"].update(sha256="0" * 64),
            "recipe resource/header: SHA-256 is not the one of the manifest",
        ),
    ],
)
def test_a_manifest_that_is_wrong_in_itself(folder: Path, how: Callable[[Raw], object], line: str) -> None:
    change(folder, how)
    assert any(found.startswith(line) for found in lines(folder)), lines(folder)


def test_a_heavy_recipe_is_checked_when_asked_for(folder: Path) -> None:
    change(folder, lambda r: case(r, "resource/sparse")["input"].update(sha256="0" * 64))
    assert lines(folder) == []
    assert lines(folder, "--heavy") == ["recipe resource/sparse: SHA-256 is not the one of the manifest"]


def test_names_that_differ_in_case_alone_are_reported(folder: Path) -> None:
    def how(raw: Raw) -> None:
        twin = json.loads(json.dumps(raw["cases"][0]))
        twin["id"] = "framing/twin"
        twin["input"]["file"] = "files/framing/Plain.safetensors"
        raw["cases"].append(twin)

    change(folder, how)
    assert any("differ in case alone" in line for line in lines(folder))


def test_many_schema_errors_are_cut(folder: Path) -> None:
    change(folder, lambda r: r.update(rules=[{}] * 100))
    found = lines(folder)
    assert len(found) == 21
    assert found[-1] == "schema corpus.json: more of the kind"


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


def test_the_built_corpus_is_intact(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it obeys its schema, ``test_build.py`` says."""
    monkeypatch.setattr(jsonschema.Draft202012Validator, "iter_errors", lambda *_: iter(()))
    assert lines(written) == []
