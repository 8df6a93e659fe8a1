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

CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def shown(folder: Path, case: str) -> str:
    result = run("show", "-c", folder, case)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_stored_file_is_shown_as_bytes(folder: Path) -> None:
    out = shown(folder, "framing/plain")
    for text in (
        "framing/plain: The title of framing/plain [not markup].",
        "Why it matters.",
        "kind     read (steps: open, read)",
        "rules    FRM-01 (must): ",
        "level    must, importance high, smoke check",
        "needs    dtype-f32",
        "expects  accept",
        '"w" F32[2], 8 bytes',
        f"file     {folder / 'files/framing/plain.safetensors'}",
        "00000000  38 00 00 00 00 00 00 00  7b"[:34],
    ):
        assert text in out


def test_a_refusal_names_codes_report_and_bug(folder: Path) -> None:
    out = shown(folder, "layout/hole")
    assert "expects  reject (OFF_HOLE)" in out
    assert "         DAT-03 (must): " in out
    assert "source   https://example.org/1" in out
    assert "shows    FB-01 lib <2 o/r#1: A hole opens." in out


def test_a_choice_is_shown_with_options_demands_and_profiles(folder: Path) -> None:
    out = shown(folder, "metadata/null")
    assert "expects  choice metadata-null: __metadata__ set to null" in out
    assert re.search(r"  reject \(.*\): reject \(MET_NOT_MAP\)  \[profile text, profile hardened\]", out)
    assert re.search(r"  absent \(.*\): accept  \[profile official\]", out)
    assert "no tensors" in out


def test_a_slice_is_shown_as_the_question(folder: Path) -> None:
    out = shown(folder, "slice/part")
    assert 'asks     "w"[1, ..., 0:4:2]' in out
    assert '"w" U8[2], 2 bytes' in out


def test_a_write_is_shown_with_memory_tensors_and_target(folder: Path) -> None:
    out = shown(folder, "writer/link")
    assert "expects  accept; the file: keeps-link" in out
    assert "writes   to link: through a symbolic link to the input file" in out
    assert "limit  the system limits files to 100 bytes" in out
    assert 'memory "memory", 16 bytes:' in out
    assert 'tensor "a" U16[2,2] at byte 2 of "memory", strides [2, 4] bytes, big-endian' in out
    assert 'metadata {"k": "v"}' in out


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a\u202eb", '"a\\u202eb"'),
        (None, "null"),
        ({"parts": [{"hex": "eda080"}]}, r"(text of b'\xed\xa0\x80')"),
        ({"items": [[1, "x"], [{"parts": [{"text": "k"}]}, "y"]]}, '1: "x", (text of b\'k\'): "y"'),
        ({"k": {"parts": [{"repeat": {"text": "x"}, "count": 9}]}}, "{\"k\": (text of b'x' 9 times)}"),
    ],
)
def test_names_that_json_cannot_carry_are_described(value: object, text: str) -> None:
    assert spelled_text(value) == text


def test_an_index_is_shown_as_tree_and_text(folder: Path) -> None:
    out = shown(folder, "index/absolute")
    assert (
        f"directory {folder / 'files/index/absolute'}; file to open: model/model.safetensors.index.json"
        in out
    )
    assert re.search(r"  model/one\.safetensors +\d+ bytes\n", out)
    assert ", with @ROOT@ replaced by the directory's path" in out
    assert '"w":"@ROOT@/model/one.safetensors"' in out
    assert "\x07" not in out
    assert "\\u0007" in out


def test_an_index_that_is_no_text_is_shown_as_bytes(folder: Path) -> None:
    (folder / "files/index/absolute/model/model.safetensors.index.json").write_bytes(b"\xff\xfe{")
    assert "00000000  ff fe 7b" in shown(folder, "index/absolute")


def test_a_script_is_shown_step_by_step(folder: Path) -> None:
    steps = re.findall(r"^ +\d  (.*)$", shown(folder, "lifecycle/all"), re.MULTILINE)
    assert [step.split(" (")[0] for step in steps] == [
        "the reader opens the file",
        "another program truncates the file to 20 bytes",
        "another program writes 2 bytes",
        "another program renames another file over it: 100 bytes",
        "another program appends 1 bytes",
        "another program deletes the file",
        'the reader returns "w"',
        "the reader closes the file",
    ]
    assert steps[2].endswith("at byte 3")


def test_readers_are_shown_with_what_they_take(folder: Path) -> None:
    out = shown(folder, "concurrent/all")
    assert "readers  3 threads at the same time, 2 times, which share one open file" in out
    assert [line.strip() for line in out.splitlines() if re.match("  (before|takes|after) ", line)] == [
        'before "w"',
        'takes  "w", "w"',
        'takes  "w"',
        'takes  "x\\u0007", which are not in the file',
        'after  "w"',
    ]


def test_a_step_of_a_later_version_is_shown_all_the_same() -> None:
    assert step_text({"step": "sync", "how": 1}) == 'sync {"how": 1}'
    assert step_text({"step": "sync"}) == "sync"


def test_a_recipe_is_shown_in_parts_with_budget_and_how_to_make_it(folder: Path) -> None:
    out = shown(folder, "resource/header")
    assert "input    108 bytes, not stored" in out
    assert "for i = 5 .. 7" in out
    assert "budget   5 seconds, peak bytes 1,048,576" in out
    assert "make   stc corpus copy DIR resource/header --recipes\n" in out
    assert "without the zero bytes" not in out


def test_a_large_recipe_with_holes_says_so(folder: Path) -> None:
    out = shown(folder, "resource/sparse")
    assert "(8 GiB), not stored" in out
    assert "8,589,934,592 zero bytes" in out
    assert "--recipes --large" in out
    assert "SHA-256 without the zero bytes " in out
    assert "1 tensors" in out


def test_no_control_character_reaches_the_terminal(folder: Path) -> None:
    for case in load_manifest(folder).cases:
        assert not CONTROL.search(shown(folder, case.id)), case.id


def test_a_long_file_is_cut(folder: Path, tmp_path: Path) -> None:
    case = load_manifest(folder).by_id["framing/plain"]
    assert case.size < SHOWN
    assert "more bytes" not in shown(folder, case.id)


def test_as_json_the_row_of_the_manifest(folder: Path) -> None:
    raw = read_document(folder).raw
    for case in raw["cases"]:
        assert json.loads(run("show", "-c", folder, case["id"], "--json").stdout) == case


def test_an_unknown_case_is_answered_with_similar_ones(folder: Path) -> None:
    result = run("show", "-c", folder, "layout/hol")
    assert result.exit_code == 1
    assert "no case 'layout/hol'; did you mean layout/hole?" in result.stderr
    assert "did you mean writer/link?" in run("show", "-c", folder, "writer/lnik").stderr
    assert "stc corpus list" in run("show", "-c", folder, "zzzzzz").stderr


def test_a_withdrawn_case_is_named_as_such(folder: Path) -> None:
    result = run("show", "-c", folder, "metadata/withdrawn")
    assert result.exit_code == 1
    assert "was withdrawn" in result.stderr


def test_a_changed_or_missing_file_is_an_error_message(folder: Path) -> None:
    path = folder / "files/framing/plain.safetensors"
    path.write_bytes(b"other")
    result = run("show", "-c", folder, "framing/plain")
    assert result.exit_code == 1
    assert f"{path} differs from the manifest" in result.stderr
    path.unlink()
    assert str(path) in run("show", "-c", folder, "framing/plain").stderr
    (folder / "files/index/absolute/model/model.safetensors.index.json").unlink()
    assert "index.json: No such file" in run("show", "-c", folder, "index/absolute").stderr


def test_every_case_of_the_real_corpus_can_be_shown(manifest: Manifest, raw: dict[str, Any]) -> None:
    for case in manifest.cases:
        text = "\n".join(case_lines(case, raw))
        assert case.title in text
        assert not CONTROL.search(text.replace(case.title, "").replace(case.description, "")), case.id


def listed(folder: Path, *args: str) -> list[str]:
    lines = run("list", "-c", folder, "--json", *args).stdout.splitlines()
    return [json.loads(line)["id"] for line in lines]


@pytest.mark.parametrize(
    ("args", "found"),
    [
        ([], 10),
        (["metadata"], 1),
        (["--kind", "resource"], 2),
        (["--area", "resource"], 2),
        (["--area", "data"], 0),
        (["--rule", "DAT-03"], 1),
        (["--rule", "API-16"], 0),
        (["--choice", "metadata-null"], 1),
        (["--level", "should"], 2),
        (["--heavy"], 1),
        (["--no-heavy"], 9),
        (["--no-heavy", "--kind", "resource", "LIM"], 1),
    ],
)
def test_conditions_of_the_list_hold_together(folder: Path, args: list[str], found: int) -> None:
    assert len(listed(folder, *args)) == found
    assert run("list", "-c", folder, *args).stdout.endswith(f"{found} cases\n")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--rule", "OFF-70"], "no rule 'OFF-70'; did you mean OFF-"),
        (["--choice", "metadata"], "did you mean "),
        (["--area", "headers"], "no area 'headers'; did you mean header"),
        (["--kind", "reads"], "'reads' is not one of"),
    ],
)
def test_a_mistyped_name_is_no_empty_list(folder: Path, args: list[str], message: str) -> None:
    result = run("list", "-c", folder, *args)
    assert result.exit_code == 2
    assert message in result.stderr


def test_on_a_narrow_terminal_titles_are_cut_and_then_left_out(folder: Path) -> None:
    cases = list(load_manifest(folder).cases)
    wide = list(list_lines(cases, None))
    assert all(case.title in line for case, line in zip(cases, wide, strict=True))
    narrow = list(list_lines(cases, 85))
    assert max(map(len, narrow)) <= 85
    assert "…" in narrow[0]
    assert "title" not in "".join(list_lines(cases, 60))


@pytest.mark.parametrize("command", [("list",), ("show", "framing/plain"), ("stats",)])
@pytest.mark.parametrize("content", [None, "garbage", "[]", '{"schema_version": 9}'])
def test_an_unusable_corpus_is_one_line(tmp_path: Path, command: tuple[str, ...], content: Any) -> None:
    if content is not None:
        (tmp_path / "corpus.json").write_text(content)
    result = run(command[0], "-c", tmp_path, *command[1:])
    assert result.exit_code == 1
    assert result.stderr.count(os.linesep) == 1
    assert str(tmp_path) in result.stderr


def test_list_shows_every_case_with_what_it_expects(manifest: Manifest, written: Path) -> None:
    out = run("list", "-c", written).stdout.splitlines()
    assert out[-1] == f"{len(manifest.cases)} cases"
    for case, line in zip(manifest.cases, out[:-1], strict=True):
        for part in (f"{case.id} ", expectation_text(case), " ".join(case.rules), case.title.splitlines()[0]):
            assert part in line


@pytest.fixture(scope="module")
def few(raw: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """The manifest with the cases about framing and metadata."""
    folder = tmp_path_factory.mktemp("few")
    cases = [row for row in raw["cases"] if row["id"].startswith(("framing/", "metadata/"))]
    (folder / "corpus.json").write_text(json.dumps({**raw, "cases": cases}))
    return load_manifest(folder)


@pytest.mark.parametrize("pattern", ["framing/", "FRM-03", "metadata-null", "no-such-thing"])
def test_list_finds_by_id_rule_and_choice(few: Manifest, pattern: str) -> None:
    found = [json.loads(line) for line in run("list", "-c", few.root, "--json", pattern).stdout.splitlines()]
    assert [row["id"] for row in found] == [
        c.id
        for c in few.cases
        if pattern in c.id or pattern in (c.choice or "") or pattern in " ".join(c.rules)
    ]
    assert (found == []) == (pattern == "no-such-thing")


def test_expectations_in_a_few_words(manifest: Manifest) -> None:
    assert expectation_text(manifest.by_id["framing/one-tensor"]) == "accept"
    assert expectation_text(manifest.by_id["framing/no-bytes"]) == "reject (FRM_TOO_SHORT)"
    assert (
        next(expectation_text(c) for c in manifest.cases if c.choice == "metadata-null")
        == "choice metadata-null"
    )
