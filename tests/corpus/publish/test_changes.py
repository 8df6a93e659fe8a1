"""What changed between two versions: every kind of change, from every kind of source."""

from __future__ import annotations

import copy
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from safetensors_corpus.packed import corpus_root
from safetensors_corpus.publish.release import Changes, Version, compare, demand, release_files
from safetensors_corpus.templates import render

from ..small import case_of, run, save, small_corpus

Raw = dict[str, Any]
SCHEMA = json.loads((corpus_root() / "schema/changes.schema.json").read_text())


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Raw:
    return small_corpus(tmp_path_factory.mktemp("small"))


def change_lines(changes: Changes) -> list[str]:
    return render("changes.txt.jinja", changes=changes).split("\n")[:-1]


def changed(old: Raw, how: Callable[[Raw], object]) -> Changes:
    new = copy.deepcopy(old)
    how(new)
    changes = compare(Version(old, "0" * 64), Version(new, "1" * 64))
    jsonschema.validate(changes.to_json(), SCHEMA)
    return changes


def empty(changes: Changes, *but: str) -> None:
    """Check that nothing changed but the named tables."""
    none = compare(Version({**RAW, "cases": []}, "0" * 64), Version({**RAW, "cases": []}, "0" * 64)).to_json()
    for name, value in changes.to_json().items():
        if name not in ("old", "new", *but):
            assert value == none[name], name


RAW: Raw = {
    "corpus_version": "2026.11",
    "spec": {},
    "rules": [],
    "choices": [],
    "codes": {},
    "field_bugs": [],
}


def test_the_same_is_no_change(old: Raw) -> None:
    changes = changed(old, lambda _: None)
    assert not changes.any
    empty(changes)
    assert list(change_lines(changes))[1:] == ["no differences"]


def test_order_of_cases_is_no_change(old: Raw) -> None:
    assert not changed(old, lambda r: r["cases"].reverse()).any


def test_without_an_old_version_everything_is_added(old: Raw) -> None:
    changes = compare(None, Version(old, "1" * 64))
    jsonschema.validate(changes.to_json(), SCHEMA)
    assert changes.old is None
    assert changes.added == [c["id"] for c in old["cases"]]
    assert changes.rules.added == [r["id"] for r in old["rules"]]
    assert changes.about == []


def test_added_and_removed_cases(old: Raw) -> None:
    def how(raw: Raw) -> None:
        raw["cases"].append({**raw["cases"][0], "id": "framing/new"})
        raw["cases"].pop(1)

    changes = changed(old, how)
    assert (changes.added, changes.removed) == (["framing/new"], ["layout/hole"])
    empty(changes, "added", "removed")
    assert {"added       framing/new", "REMOVED     layout/hole"} <= set(change_lines(changes))


@pytest.mark.parametrize("status", ["withdrawn", "superseded"])
def test_a_case_that_is_run_no_more(old: Raw, status: str) -> None:
    changes = changed(old, lambda r: case_of(r, "layout/hole").update(status=status))
    assert changes.status == {"layout/hole": {"old": "active", "new": status}}
    empty(changes, "status")
    assert f"{status:<11} layout/hole (was active)" in list(change_lines(changes))


def test_another_verdict_is_shown_apart(old: Raw) -> None:
    accept = old["cases"][0]["expect"]
    changes = changed(old, lambda r: case_of(r, "layout/hole").update(expect=accept))
    assert changes.verdict == {"layout/hole": {"old": "reject", "new": "accept"}}
    assert changes.changed == {"layout/hole": ["expect.codes", "expect.content", "expect.outcome"]}
    empty(changes, "verdict", "changed")
    assert "verdict     layout/hole: reject -> accept" in list(change_lines(changes))


def test_a_case_that_becomes_a_choice(old: Raw) -> None:
    choice = case_of(old, "metadata/null")["expect"]
    changes = changed(old, lambda r: case_of(r, "framing/plain").update(expect=choice))
    new = "choice metadata-null (absent: accept, reject: reject)"
    assert changes.verdict["framing/plain"] == {"old": "accept", "new": new}
    assert demand(case_of(old, "metadata/null")) == new


@pytest.mark.parametrize(
    ("case_id", "how"),
    [
        ("framing/plain", lambda c: c["input"].update(sha256="a" * 64)),
        ("framing/plain", lambda c: c["input"].update(size=1)),
        ("index/absolute", lambda c: c["input"]["files"][0].update(sha256="a" * 64)),
        ("index/absolute", lambda c: c["input"]["files"].pop()),
        ("index/absolute", lambda c: c["input"].update(open=c["input"]["files"][1]["path"])),
        ("resource/header", lambda c: c["input"].update(sha256="a" * 64)),
        ("resource/sparse", lambda c: c["input"]["recipe"].reverse()),
        ("framing/plain", lambda c: c.update(input=None)),
    ],
)
def test_other_bytes_are_shown_apart(old: Raw, case_id: str, how: Callable[[Raw], object]) -> None:
    changes = changed(old, lambda r: how(case_of(r, case_id)))
    assert changes.input == [case_id]
    assert f"bytes       {case_id}" in list(change_lines(changes))
    assert all(f.startswith("input") for f in changes.changed.get(case_id, []))


def test_another_spelling_of_the_same_bytes_is_no_change_of_bytes(old: Raw) -> None:
    def how(raw: Raw) -> None:
        recipe = case_of(raw, "resource/header")["input"]["recipe"]
        recipe[0] = {"text": bytes.fromhex(recipe[0]["hex"]).decode()}
        case_of(raw, "framing/plain")["input"]["file"] = "files/elsewhere"

    changes = changed(old, how)
    assert changes.input == []
    assert changes.changed == {"framing/plain": ["input.file"], "resource/header": ["input.recipe"]}


@pytest.mark.parametrize(
    ("how", "fields"),
    [
        (lambda c: c.update(title="x"), ["title"]),
        (lambda c: c.update(rules=["OFF-08"], level="should"), ["level", "rules"]),
        (lambda c: c["expect"].update(codes=["OFF_OVERLAP"]), ["expect.codes"]),
        (lambda c: c.update(budget={"seconds": 1}), ["budget"]),
        (lambda c: c["source"].pop("issue"), ["source.issue"]),
    ],
)
def test_changed_fields_are_named(old: Raw, how: Callable[[Raw], object], fields: list[str]) -> None:
    changes = changed(old, lambda r: how(case_of(r, "layout/hole")))
    assert changes.changed == {"layout/hole": fields}
    empty(changes, "changed")


def test_rules_choices_codes_and_bugs(old: Raw) -> None:
    def how(raw: Raw) -> None:
        raw["rules"][0]["statement"] = "Other."
        raw["rules"].pop(1)
        raw["choices"][0]["positions"]["official"] = None
        raw["choices"].append({**raw["choices"][0], "id": "new-choice"})
        raw["codes"]["OFF_HOLE"] = "Another text."
        raw["codes"]["NEW_CODE"] = "New."
        raw["field_bugs"] = []
        raw["spec"] = {**raw["spec"], "revision": "x"}
        raw["corpus_version"] = "2027.01"

    changes = changed(old, how)
    assert changes.rules.changed == {old["rules"][0]["id"]: ["statement"]}
    assert changes.rules.removed == [old["rules"][1]["id"]]
    assert changes.choices.changed == {old["choices"][0]["id"]: ["positions.official"]}
    assert changes.choices.added == ["new-choice"]
    assert (changes.codes.changed, changes.codes.added) == ({"OFF_HOLE": ["text"]}, ["NEW_CODE"])
    assert changes.field_bugs.removed == ["FB-01"]
    assert changes.about == ["corpus_version", "spec"]
    empty(changes, "rules", "choices", "codes", "field_bugs", "about")
    text = "\n".join(change_lines(changes))
    for part in (
        "rule changed ",
        "rule removed ",
        "choice added ",
        "code added ",
        "field bug removed",
        "2027.01",
    ):
        assert part in text
    assert "specification changed" in text


# --- the command -----------------------------------------------------------------------------------------


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Two versions: the second has one case more."""
    small_corpus(tmp_path / "old")
    raw = small_corpus(tmp_path / "new")
    raw["cases"].append({**raw["cases"][0], "id": "framing/new"})
    save(tmp_path / "new", raw)
    return tmp_path / "old", tmp_path / "new"


def test_folder_manifest_and_archive_are_the_same_thing(folders: tuple[Path, Path], tmp_path: Path) -> None:
    old, new = folders
    release = release_files(old, b"licence", None)
    archive = tmp_path / "old.tar"
    archive.write_bytes(next(data for name, data in release.items() if name.endswith(".tar")))
    outputs = set()
    for source in (old, old / "corpus.json", archive):
        assert run("diff", source, old).exit_code == 0
        result = run("diff", source, new)
        assert result.exit_code == 1
        outputs.add(result.stdout)
    assert len(outputs) == 1
    assert "1 added, 0 removed" in outputs.pop()


def test_as_json_it_is_what_a_release_publishes(folders: tuple[Path, Path]) -> None:
    result = run("diff", *folders, "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    jsonschema.validate(found, SCHEMA)
    assert found["added"] == ["framing/new"]


def test_a_removed_id_is_an_error(folders: tuple[Path, Path]) -> None:
    old, new = folders
    result = run("diff", new, old)
    assert result.exit_code == 1
    assert "1 case ids were removed; ids are permanent" in result.stderr
    assert "REMOVED     framing/new" in result.stdout


def broken(tmp_path: Path, what: str) -> Path:
    path = tmp_path / "broken"
    if what == "missing":
        return path
    if what == "empty-folder":
        path.mkdir()
    elif what == "archive-without":
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
            tar.addfile(tarfile.TarInfo("other"), io.BytesIO())
    elif what == "archive-cut":
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
            info = tarfile.TarInfo("c/corpus.json")
            info.size = 100_000
            tar.addfile(info, io.BytesIO(b" " * 100_000))
        path.write_bytes(path.read_bytes()[:2000])
    elif what == "archive-huge":
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
            info = tarfile.TarInfo("corpus.json")
            info.size = 1 << 32
            tar.fileobj.write(info.tobuf(tarfile.USTAR_FORMAT))
    else:
        path.write_text(what)
    return path


@pytest.mark.parametrize(
    "what",
    [
        "missing",
        "empty-folder",
        "archive-without",
        "archive-cut",
        "archive-huge",
        "",
        "[1]",
        "{}",
        "[" * 100_000,
        '{"schema_version": 2}',
        '{"schema_version": 1, "cases": 7}',
        '{"schema_version": 1, "cases": [{"id": "a"}]}',
    ],
)
def test_what_cannot_be_used_is_exit_status_2(folders: tuple[Path, Path], tmp_path: Path, what: str) -> None:
    path = broken(tmp_path, what)
    for args in ((path, folders[0]), (folders[0], path)):
        result = run("diff", *args)
        assert result.exit_code == 2
        assert str(path) in result.stderr
        assert result.stderr.count("\n") == 1
