"""``stc corpus show`` and ``list``: every kind of case as people see it."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from safetensors_corpus.cli.common import expectation_text
from safetensors_corpus.cli.look import list_lines
from safetensors_corpus.document import read_document
from safetensors_corpus.manifest import Manifest, load_manifest
from safetensors_corpus.publish.show import SHOWN, case_lines, spelled_text, step_text

from ..small import run

TEXT = Path(__file__).with_name("shown.txt")
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def shown(folder: Path, case: str) -> str:
    return run("show", "-c", folder, case, status=0).stdout


def test_every_kind_of_case_is_shown(folder: Path) -> None:
    """Compare the output with ``shown.txt``, which WRITE_SHOWN=1 writes."""
    ids = load_manifest(folder).by_id
    text = "\n".join(shown(folder, case) for case in ids).replace(str(folder), "CORPUS")
    if "WRITE_SHOWN" in os.environ:
        TEXT.write_text(text, encoding="utf-8")
    assert text == TEXT.read_text(encoding="utf-8")
    assert not CONTROL.search(text)


def test_names_that_json_cannot_carry_are_described() -> None:
    for value, text in (
        ("a\u202eb", '"a\\u202eb"'),
        (None, "null"),
        ({"parts": [{"hex": "eda080"}]}, r"(text of b'\xed\xa0\x80')"),
        ({"items": [[1, "x"], [{"parts": [{"text": "k"}]}, "y"]]}, '1: "x", (text of b\'k\'): "y"'),
        ({"k": {"parts": [{"repeat": {"text": "x"}, "count": 9}]}}, "{\"k\": (text of b'x' 9 times)}"),
    ):
        assert spelled_text(value) == text
    # A step of a later version is shown all the same.
    assert step_text({"step": "sync", "how": 1}) == 'sync {"how": 1}'


def test_an_index_that_is_no_text_is_shown_as_bytes(folder: Path) -> None:
    (folder / "files/index/absolute/model/model.safetensors.index.json").write_bytes(b"\xff\xfe{")
    assert "00000000  ff fe 7b" in shown(folder, "index/absolute")


def test_as_json_the_row_of_the_manifest(folder: Path) -> None:
    raw = read_document(folder).raw
    for case in raw["cases"]:
        assert json.loads(run("show", "-c", folder, case["id"], "--json").stdout) == case


def test_an_unknown_case_is_answered_with_similar_ones(folder: Path) -> None:
    words = "no case 'layout/hol'; did you mean layout/hole?"
    run("show", "-c", folder, "layout/hol", status=1, err=words)
    run("show", "-c", folder, "writer/lnik", err="did you mean writer/link?")
    run("show", "-c", folder, "zzzzzz", err="stc corpus list")
    run("show", "-c", folder, "metadata/withdrawn", status=1, err="was withdrawn")


def test_a_changed_or_missing_file_is_an_error_message(folder: Path) -> None:
    path = folder / "files/framing/plain.safetensors"
    path.write_bytes(b"other")
    run("show", "-c", folder, "framing/plain", status=1, err=f"{path} differs from the manifest")
    path.unlink()
    run("show", "-c", folder, "framing/plain", err=str(path))
    (folder / "files/index/absolute/model/model.safetensors.index.json").unlink()
    run("show", "-c", folder, "index/absolute", err="index.json: No such file")


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.nightly)])
def test_every_real_case_can_be_shown(manifest: Manifest, raw: dict[str, Any], step: int) -> None:
    for case in manifest.cases[::step]:
        text = "\n".join(case_lines(case, raw))
        assert case.title in text
        if case.input.file is not None and not case.input.files:
            assert ("\n          … " in text) == (case.size > SHOWN), case.id
        assert not CONTROL.search(text.replace(case.title, "").replace(case.description, "")), case.id


def test_conditions_of_the_list_hold_together_and_a_mistyped_name_is_no_empty_list(folder: Path) -> None:
    for args, found in {
        "": 10,
        "metadata": 1,
        "--kind resource": 2,
        "--area resource": 2,
        "--area data": 0,
        "--rule DAT-03": 1,
        "DAT-03": 1,
        "metadata-null": 1,
        "no-such-thing": 0,
        "--rule API-16": 0,
        "--choice metadata-null": 1,
        "--level should": 2,
        "--heavy": 1,
        "--no-heavy": 9,
        "--no-heavy --kind resource LIM": 1,
    }.items():
        rows = run("list", "-c", folder, "--json", *args.split()).stdout.splitlines()
        assert len({json.loads(row)["id"] for row in rows}) == found, args
        said = run("list", "-c", folder, *args.split()).stdout
        assert said.endswith(f"{found} case{'s' * (found != 1)}\n"), args
    for args, message in {
        "--rule OFF-70": "no rule 'OFF-70'; did you mean OFF-",
        "--choice metadata": "did you mean ",
        "--area headers": "no area 'headers'; did you mean header",
        "--kind reads": "'reads' is not one of",
    }.items():
        run("list", "-c", folder, *args.split(), status=2, err=message)


def test_the_list_shows_what_is_expected_and_cuts_titles_on_a_narrow_terminal(folder: Path) -> None:
    cases = list(load_manifest(folder).cases)
    for case, line in zip(cases, run("list", "-c", folder).stdout.splitlines()[:-1], strict=True):
        for part in (f"{case.id} ", expectation_text(case), " ".join(case.rules), case.title):
            assert part in line
    narrow = list(list_lines(cases, 85))
    assert max(map(len, narrow)) <= 85
    assert "…" in narrow[0]
    assert "title" not in "".join(list_lines(cases, 60))
