"""What changed between two versions: every kind of change, from every kind of source."""

from __future__ import annotations

import copy
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from safetensors_corpus.packed import corpus_root
from safetensors_corpus.publish.release import Version, compare, release_files
from safetensors_corpus.templates import render

from ..small import case_of, edit, run, small_corpus

Raw = dict[str, Any]
SCHEMA = json.loads((corpus_root() / "schema/changes.schema.json").read_text())


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Raw:
    return small_corpus(tmp_path_factory.mktemp("small"))


def changed(old: Raw, how: Callable[[Raw], object]) -> tuple[dict[str, Any], str]:
    """Return what changed, without empty tables and versions, and how it is told."""
    new = copy.deepcopy(old)
    how(new)
    changes = compare(Version(old, "0" * 64), Version(new, "1" * 64))
    found = changes.to_json()
    jsonschema.validate(found, SCHEMA)
    same = compare(Version(old, "0" * 64), Version(old, "1" * 64)).to_json()
    found = {name: value for name, value in found.items() if name != "new" and value != same[name]}
    assert changes.any == bool(found)
    return found, render("changes.txt.jinja", changes=changes)


def test_the_same_in_another_order_is_no_change(old: Raw) -> None:
    found, text = changed(old, lambda r: r["cases"].reverse())
    assert found == {}
    assert text.splitlines()[1:] == ["no differences"]


CHOICE = {"choice": "x", "options": {"b": {"outcome": "reject"}, "a": {"outcome": "accept"}}}


@pytest.mark.parametrize(
    ("change", "found", "line"),
    [
        ({"status": "withdrawn"}, {"status": {"old": "active", "new": "withdrawn"}}, "withdrawn   ID (was"),
        ({"status": "superseded"}, {"status": {"old": "active", "new": "superseded"}}, "superseded  ID"),
        (
            {"expect": {"outcome": "accept"}},
            {"verdict": {"old": "reject", "new": "accept"}, "changed": ["expect.codes", "expect.outcome"]},
            "verdict     ID: reject -> accept",
        ),
        (
            {"expect": CHOICE},
            {
                "verdict": {"old": "reject", "new": "choice x (a: accept, b: reject)"},
                "changed": ["expect.choice", "expect.codes", "expect.options", "expect.outcome"],
            },
            "verdict     ID: reject -> choice x (a: accept, b: reject)",
        ),
        ({"title": "x"}, {"changed": ["title"]}, "ID"),
        ({"rules": ["OFF-08"], "level": "should"}, {"changed": ["level", "rules"]}, "ID"),
        ({"expect": {"outcome": "reject", "codes": []}}, {"changed": ["expect.codes"]}, "ID"),
        ({"budget": {"seconds": 1}}, {"changed": ["budget"]}, "ID"),
        ({"source": {"kind": "report"}}, {"changed": ["source.issue"]}, "ID"),
    ],
)
def test_each_kind_of_change_is_shown_apart(old: Raw, change: Raw, found: Raw, line: str) -> None:
    fields, text = changed(old, lambda r: case_of(r, "layout/hole").update(change))
    assert fields == {name: {"layout/hole": value} for name, value in found.items()}
    assert line.replace("ID", "layout/hole") in text


@pytest.mark.parametrize(
    ("case_id", "how"),
    [
        ("framing/plain", lambda c: c["input"].update(sha256="a" * 64)),
        ("framing/plain", lambda c: c["input"].update(size=1)),
        ("framing/plain", lambda c: c.update(input=None)),
        ("index/absolute", lambda c: c["input"]["files"][0].update(sha256="a" * 64)),
        ("index/absolute", lambda c: c["input"]["files"].pop()),
        ("index/absolute", lambda c: c["input"].update(open=c["input"]["files"][1]["path"])),
        ("resource/header", lambda c: c["input"].update(sha256="a" * 64)),
        ("resource/sparse", lambda c: c["input"]["recipe"].reverse()),
    ],
)
def test_other_bytes_are_shown_apart(old: Raw, case_id: str, how: Callable[[Raw], object]) -> None:
    found, text = changed(old, lambda r: how(case_of(r, case_id)))
    assert found.pop("input") == [case_id]
    assert f"bytes       {case_id}" in text.splitlines()
    assert all(f.startswith("input") for f in found.pop("changed", {}).get(case_id, []))
    assert found == {}


def test_another_spelling_of_the_same_bytes_is_no_change_of_bytes(old: Raw) -> None:
    def how(raw: Raw) -> None:
        recipe = case_of(raw, "resource/header")["input"]["recipe"]
        recipe[0] = {"text": bytes.fromhex(recipe[0]["hex"]).decode()}
        case_of(raw, "framing/plain")["input"]["file"] = "files/elsewhere"

    fields = {"framing/plain": ["input.file"], "resource/header": ["input.recipe"]}
    assert changed(old, how)[0] == {"changed": fields}


def test_rules_choices_codes_and_bugs(old: Raw) -> None:
    def how(raw: Raw) -> None:
        raw["cases"].append({**raw["cases"][0], "id": "framing/new"})
        raw["cases"].pop(1)
        raw["rules"][0]["statement"] = "Other."
        raw["rules"].pop(1)
        raw["choices"][0]["positions"]["official"] = None
        raw["choices"].append({**raw["choices"][0], "id": "new-choice"})
        raw["codes"] |= {"OFF_HOLE": "Another text.", "NEW_CODE": "New."}
        raw["field_bugs"] = []
        raw["spec"] = {**raw["spec"], "revision": "x"}
        raw["corpus_version"] = "2027.01"

    def table(added: list[str], removed: list[str], **names: list[str]) -> Raw:
        return {"added": added, "removed": removed, "changed": names}

    (first, second), choice = (rule["id"] for rule in old["rules"][:2]), old["choices"][0]["id"]
    found, text = changed(old, how)
    assert found == {
        "about": ["corpus_version", "spec"],
        "added": ["framing/new"],
        "removed": ["layout/hole"],
        "rules": table([], [second], **{first: ["statement"]}),
        "choices": table(["new-choice"], [], **{choice: ["positions.official"]}),
        "codes": table(["NEW_CODE"], [], OFF_HOLE=["text"]),
        "field_bugs": table([], ["FB-01"]),
    }
    words = ("rule changed ", "rule removed ", "choice added ", "code added ", "field bug removed", "2027.01")
    for part in (*words, "specification changed", "added       framing/new", "REMOVED     layout/hole"):
        assert part in text


# --- the command -----------------------------------------------------------------------------------------


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Two versions: the second has one case more."""
    for name in ("old", "new"):
        small_corpus(tmp_path / name)
    edit(tmp_path / "new", lambda r: r["cases"].append({**r["cases"][0], "id": "framing/new"}))
    return tmp_path / "old", tmp_path / "new"


def test_folder_manifest_and_archive_are_the_same_thing(folders: tuple[Path, Path], tmp_path: Path) -> None:
    old, new = folders
    release = release_files(old, b"licence", None)
    archive = tmp_path / "old.tar"
    archive.write_bytes(next(data for name, data in release.items() if name.endswith(".tar")))
    sources = (old, old / "corpus.json", archive)
    for source in sources:
        run("diff", source, old, status=0)
    (output,) = {run("diff", source, new, status=1).stdout for source in sources}
    assert "1 added, 0 removed" in output


def test_as_json_it_is_what_a_release_publishes(folders: tuple[Path, Path]) -> None:
    found = json.loads(run("diff", *folders, "--json", status=1).stdout)
    jsonschema.validate(found, SCHEMA)
    assert found["added"] == ["framing/new"]
    run("diff", *reversed(folders), status=1, err="1 case ids were removed; ids are permanent")


def archive(name: str, size: int) -> bytes:
    """Return an archive that declares one member, and has 1,500 bytes of it."""
    info = tarfile.TarInfo(name)
    info.size = size
    return info.tobuf(tarfile.USTAR_FORMAT) + bytes(1500)


BROKEN: dict[str, bytes | None] = {
    **{text[:50]: text.encode() for text in ("", "[1]", "{}", "[" * 100_000, '{"schema_version": 2}')},
    **{cases: f'{{"schema_version": 1, "cases": {cases}}}'.encode() for cases in ("7", '[{"id": "a"}]')},
    "archive without": archive("other", 0),
    "archive cut": archive("c/corpus.json", 100_000),
    "archive huge": archive("c/corpus.json", 1 << 32),
    "missing": None,
    "empty folder": None,
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_cannot_be_used_is_exit_status_2(folders: tuple[Path, Path], tmp_path: Path, what: str) -> None:
    path, content = tmp_path / "broken", BROKEN[what]
    if content is not None:
        path.write_bytes(content)
    elif what == "empty folder":
        path.mkdir()
    for args in ((path, folders[0]), (folders[0], path)):
        assert run("diff", *args, status=2, err=str(path)).stderr.count("\n") == 1
