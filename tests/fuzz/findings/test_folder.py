"""Findings on disk: written whole, read back the same, refused with the place of what is wrong."""

from __future__ import annotations

import ast
import json
import os
import re
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from safetensors_fuzz.finding import (
    DOCUMENT,
    DRAWING,
    ENTRY,
    Finding,
    FindingError,
    blamed_selector,
    load,
    name_of_test,
    write,
)
from safetensors_reference import rule_book

from ..samples import ACCEPTS_ALL, hole, of_builder, two_tensors

INDEX = "model.safetensors.index.json"
TEXT = st.text(st.characters(), max_size=12)  # lone surrogates included
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
PART = st.text("abcXYZ019_-é", min_size=1, max_size=8)
PATHS = st.lists(PART, min_size=1, max_size=2).map("/".join)


# No file is where another has a folder.
FILES = st.dictionaries(PATHS, st.binary(max_size=80), max_size=3).filter(
    lambda files: not any(other.startswith(path + "/") for path in files for other in files)
)
FINDINGS = st.builds(
    Finding,
    step=st.sampled_from(["open", "read", "slice", "write", "index", "prove"]),
    verdict=st.sampled_from(["wrong-accept", "unsafe"]),
    signature=TEXT,
    rules=st.lists(st.sampled_from(sorted(rule_book().rules)), max_size=3).map(tuple),
    codes=st.lists(st.sampled_from(sorted(rule_book().codes)), max_size=3, unique=True).map(tuple),
    expected=TEXT,
    got=st.dictionaries(TEXT, TEXT, max_size=3),
    versions=st.dictionaries(TEXT, TEXT, max_size=3),
    files=FILES | st.binary(max_size=300).map(lambda data: {ENTRY: data}),
    entry=st.just(ENTRY) | PATHS,
    action=st.none() | st.dictionaries(TEXT, VALUES, max_size=3),
    expectation=st.dictionaries(TEXT, VALUES, max_size=3),
    where=st.none() | st.tuples(st.integers(0, 99), st.integers(0, 99)),
    engine=TEXT,
    seed=st.integers(),
    execs=st.integers(0, 10**12),
    size_found=st.integers(0, 10**6),
    replays=st.integers(0, 3),
)


@settings(max_examples=60, deadline=None)
@given(FINDINGS)
def test_what_is_written_is_read_back_and_its_test_is_python(finding: Finding) -> None:
    with tempfile.TemporaryDirectory() as root:
        place = write(finding, Path(root))
        assert load(place) == finding
        assert place.name == finding.slug
        test = (place / name_of_test(finding)).read_text(encoding="utf-8")
        names = {n.targets[0].id: n.value for n in ast.parse(test).body if isinstance(n, ast.Assign)}  # type: ignore[attr-defined]
        assert ast.literal_eval(names["EXPECTATION"]) == finding.expectation
        assert ast.literal_eval(names["ACTION"]) == finding.action
        assert ast.literal_eval(names["IMPLEMENTATION"]) == blamed_selector(finding)
        readme = (place / "README.md").read_text(encoding="utf-8")
        assert len(readme.splitlines()) <= 25
        assert all("elative path" in text for text in (test, readme))


def test_the_folder_holds_input_description_drawing_test_and_words(tmp_path: Path) -> None:
    place = write(hole(), tmp_path / "new" / "findings")
    names = {ENTRY, DOCUMENT, DRAWING, "README.md", name_of_test(hole())}
    assert {p.name for p in place.iterdir()} == names
    assert (place / ENTRY).read_bytes() == hole().files[ENTRY]
    title = ET.fromstring((place / DRAWING).read_text())[0].text
    assert title == "Byte layout of input.safetensors: 132 bytes, 1 fault"
    rule = rule_book().rules["OFF-07"]
    readme = (place / "README.md").read_text()
    assert all(w in readme for w in (rule.statement, "reject (OFF_HOLE)", "CWE-1288", "stc fuzz replay"))
    document = json.loads((place / DOCUMENT).read_bytes())
    schema = json.loads((files("safetensors_fuzz") / "schemas" / "finding.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(schema).validate(document)
    assert document["schema"] == 1
    row = {"id": "OFF-07", "level": rule.level, "title": rule.title, "statement": rule.statement}
    assert document["rules"] == [row]
    assert [w["id"] for w in document["cwe"]] == [1288, 436]
    assert document["size"] == {"found": 4000, "now": 132}
    assert document["reproduce"] == f"stc fuzz replay {hole().slug} --impl {ACCEPTS_ALL}"


def test_writing_twice_gives_the_same_bytes_and_keeps_files_of_others(tmp_path: Path) -> None:
    place = write(hole(), tmp_path)
    first = {p.name: p.read_bytes() for p in place.iterdir()}
    (place / "notes.txt").write_text("mine")
    (place / ENTRY).write_bytes(b"spoilt")
    assert write(hole(), tmp_path) == place
    assert {p.name: p.read_bytes() for p in place.iterdir()} == {**first, "notes.txt": b"mine"}
    assert [p.name for p in tmp_path.iterdir()] == [place.name]


def test_a_failing_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Path] = []
    real = Path.write_bytes

    def full(self: Path, data: bytes) -> int:
        written.append(self)
        if len(written) == 3:
            raise OSError("no space left")
        return real(self, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="no space"):
        write(hole(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_way_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / hole().slug).write_text("mine")
    with pytest.raises(FindingError, match="a file with that name exists"):
        write(hole(), tmp_path)
    assert [p.read_text() for p in tmp_path.iterdir()] == ["mine"]


def test_findings_of_one_input_do_not_take_each_others_place(tmp_path: Path) -> None:
    other = replace(
        hole(), signature="OFF_HOLE: accept other; reject reference [OFF-07]", got={"other": "accept"}
    )
    places = {write(hole(), tmp_path), write(other, tmp_path), write(other, tmp_path)}
    assert len(places) == 2
    assert {next(iter(load(place).got)) for place in places} == {ACCEPTS_ALL, "other"}


SHARDS = {INDEX: b"{}", "one.safetensors": two_tensors().render(), "sub/two.safetensors": b"short"}


@pytest.mark.parametrize(
    ("changes", "drawn"),
    [
        ({"step": "write", "files": {}, "action": {"do": "write"}}, ""),
        ({"step": "index", "files": SHARDS, "entry": INDEX}, "sub/two.safetensors: 5 bytes, 1 fault"),
    ],
    ids=["no file", "several files"],
)
def test_the_faulty_file_is_drawn(tmp_path: Path, changes: dict[str, Any], drawn: str) -> None:
    finding = replace(hole(), **changes)
    place = write(finding, tmp_path)
    assert load(place) == finding
    assert (place / DRAWING).exists() == (DRAWING in (place / "README.md").read_text()) == bool(drawn)
    if drawn:
        assert drawn in (place / DRAWING).read_text()
        assert (place / "input" / "sub" / "two.safetensors").read_bytes() == b"short"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rules": ("OFF-99",)}, "unknown rule 'OFF-99'"),
        ({"action": {"index": (1, 2)}}, "JSON would change its action"),
        ({"expectation": {"x": b"bytes"}}, "JSON cannot represent it"),
        ({"expectation": {"x": float("nan")}}, "JSON cannot represent it"),
        ({"codes": ("../OFF",)}, "slug"),
        ({"execs": -1}, "execs"),
        *(
            ({"files": {path: b"x"}}, "not a path inside")
            for path in ("../x", "/x", "a/../../x", "", ".", "a//b", "a/", ".hidden", "a\0b")
        ),
    ],
)
def test_what_cannot_be_told_is_refused_before_anything_is_written(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(FindingError, match=re.escape(words)):
        write(replace(hole(), **changes), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "No such file or directory; give the folder of a finding"),
        *((text, "not JSON") for text in (b"", b"{", b"\xff", b"[" * 100_000, b'{"a": [1], "a": []}')),
        ({"schema": 2}, "schema: must be 1, not 2"),
        ({"verdict": "terrible"}, "verdict: must be"),
        ({"expectation": {"agree": "yes"}}, "if expectation.agree is present, it must be true"),
        ({"rules": [{"id": "x"}]}, "rules[0]"),
        ({"got": {"a": 1}}, "got[...]: must be a string, not a whole number"),
        ({"replays": -1}, "replays: must be a whole number >= 0, not -1"),
        ({"size": {"found": 0}}, "size: has no 'now'"),
    ],
)
def test_a_broken_description_is_refused_by_key(tmp_path: Path, text: Any, words: str) -> None:
    document = write(hole(), tmp_path) / DOCUMENT
    if isinstance(text, dict):
        text = json.dumps({**json.loads(document.read_bytes()), **text}).encode()
    document.unlink()
    if text is not None:
        document.write_bytes(text)
    with pytest.raises(FindingError, match=re.escape(words)) as caught:
        load(document.parent)
    assert str(document) in str(caught.value)


def stored(name: str) -> Callable[[Path], object]:
    """Return a function that makes a description name another file for the input."""

    def change(place: Path) -> None:
        raw = json.loads((place / DOCUMENT).read_bytes())
        raw["files"][0]["stored"] = name
        (place / DOCUMENT).write_text(json.dumps(raw))

    return change


def fifo(name: str) -> Callable[[Path], object]:
    def change(place: Path) -> None:
        (place / name).unlink()
        os.mkfifo(place / name)

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda place: (place / ENTRY).unlink(), r"input\.safetensors: No such file"),
        (lambda place: (place / ENTRY).write_bytes(b"other"), "does not match finding"),
        (lambda place: os.truncate(place / ENTRY, 1 << 40), "1,099,511,627,776 bytes, more than"),
        (stored("../secret"), "is outside the folder"),
        (stored("/etc/hostname"), "is outside the folder"),
        (stored("link"), "is outside the folder"),
        (stored("a\0b"), "null"),
        (stored("loop"), "loop"),
        (fifo(DOCUMENT), r"finding\.json.*not a regular file"),
        (fifo(ENTRY), r"input\.safetensors.*not a regular file"),
    ],
)
def test_an_input_other_than_described_is_refused(
    tmp_path: Path, change: Callable[[Path], object], words: str
) -> None:
    place = write(hole(), tmp_path)
    (tmp_path / "secret").write_bytes(b"secret")
    (place / "link").symlink_to(tmp_path / "secret")
    (place / "loop").symlink_to("loop")
    change(place)
    with pytest.raises(FindingError, match=words):
        load(place)


@pytest.mark.parametrize(
    ("finding", "got", "blamed"),
    [
        (hole(), {"reference": "reject: a hole", "other": "reject", "lib": "accept, 2 tensors"}, "lib"),
        (
            of_builder(two_tensors(), ("API-19",)),
            {"reference": "accept, 2 tensors", "lib": "accept, but tensor a is missing"},
            "lib",
        ),
        (hole(), {}, ""),
    ],
)
def test_the_wrong_one_of_several_is_blamed(finding: Finding, got: dict[str, str], blamed: str) -> None:
    assert blamed_selector(replace(finding, got=got)) == blamed


def test_large_inputs_are_read_from_beside_the_test(tmp_path: Path) -> None:
    for size, words in (
        (4, "bytes.fromhex"), (600, "base64.b64decode"), (5000, '(HERE / "input.safetensors").read_bytes()')
    ):  # fmt: skip
        finding = replace(hole(), files={ENTRY: hole().files[ENTRY] + bytes(size)})
        text = (write(finding, tmp_path) / name_of_test(finding)).read_text()
        assert words in text
        assert all(len(line) <= 120 for line in text.splitlines())
