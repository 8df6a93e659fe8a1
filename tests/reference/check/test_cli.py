"""``stc check`` as people and programs meet it."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import pytest

from safetensors_reference import explain
from safetensors_reference.check.cli import MAX_FAULTS
from safetensors_reference.rules.book import PROFILES, TEXT_ANSWERS, rule_book

from ..support import ABCD, W, make
from .support import BROKEN, INDEX, VALID, harmless, load_log, results, row, rows, run


def write(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


@pytest.fixture
def valid(tmp_path: Path) -> Path:
    return write(tmp_path, "valid.safetensors", VALID)


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    return write(tmp_path, "broken.safetensors", BROKEN)


def test_a_file_of_no_bytes_and_one_of_long_names_are_shown_in_few_lines(tmp_path: Path) -> None:
    assert run(write(tmp_path, "empty", b"")).stdout.endswith("    where  file 0x0 (no bytes)\n")
    name = "n" * 1_000_000
    assert len(run(write(tmp_path, "a", make(f'{{"{name}":{W},"{name}":{W}}}', ABCD))).stdout) < 3000


def test_every_fault_is_shown_with_its_code_rule_place_and_bytes(broken: Path) -> None:
    out = run(broken).stdout
    assert f"{broken}: 2 faults" in out
    again, end = BROKEN.rindex(b'"w"'), len(BROKEN)
    for part in ("HDR_DUP_KEY", "HDR-09 (must)", f"file {again:#x}..{again + 2:#x}  $['w']"):
        assert part in out
    for part in ("OFF_TRAILING", "OFF-08 (must)", f"file {end - 4:#x}..{end - 1:#x}"):
        assert part in out
    assert '0 |"w": U8[4]| 4 |trailing: 4 bytes| 8 = end of file' in out
    marked = []
    for line, marks in itertools.pairwise(out.splitlines()):
        if "^^" in marks:
            marked += [int(line[m.start() : m.start() + 2], 16) for m in re.finditer(r"\^\^", marks)]
    assert bytes(marked) == b'"w"' + b"!!!!"


def test_a_fault_of_a_choice_names_it_and_a_tolerated_one_is_noted(tmp_path: Path) -> None:
    for name in "ab":
        write(tmp_path, f"{name}.safetensors", make(f' {{"w":{W}}}', ABCD))
    write(tmp_path, INDEX, b'{"metadata":{},"weight_map":{"w":"a.safetensors"}}')
    refused = run(tmp_path)
    assert (refused.exit_code, "choice leading-whitespace" in refused.stdout) == (1, True)
    tolerated = run("--profile", "official", tmp_path)
    assert tolerated.exit_code == 0
    assert tolerated.stdout.count(" (HDR-02, tolerated by profile official)") == 3
    assert f"{tmp_path}/{INDEX}: valid" in tolerated.stdout
    assert run("-q", "--profile", "official", tmp_path).stdout == ""


@pytest.mark.parametrize(("count", "printed"), [(MAX_FAULTS, 20), (25, 20)])
def test_many_faults_are_cut_except_with_all_and_in_json(tmp_path: Path, count: int, printed: int) -> None:
    path = write(tmp_path, "many", make("{" + ",".join(f'"t{i}":null' for i in range(count)) + "}"))
    cut, everything = run(path).stdout, run("--all", path).stdout
    assert f"{count} faults" in cut
    assert cut.count("ENT_NOT_OBJECT") == printed
    assert (f"{count - printed} more; --all" in cut) == ("--all" in cut) == (count > printed)
    assert everything.count("ENT_NOT_OBJECT") == count
    assert "--all" not in everything
    assert len(row(path)["faults"]) == count


def test_json_is_one_object_per_file_and_holds_every_fault(valid: Path, broken: Path, tmp_path: Path) -> None:
    result = run("--json", valid, broken, tmp_path / "missing")
    assert result.exit_code == 2
    good, bad, missing = rows(result)
    values = ("file", "readable", "valid", "profile", "size", "tensors", "faults", "tolerated")
    assert [good[key] for key in values] == [str(valid), True, True, "hardened", len(VALID), 1, [], []]
    assert (bad["valid"], bad["tensors"], bad["file"]) == (False, None, str(broken))
    assert bad["faults"] == [fault.to_dict() for fault in explain(BROKEN).faults]
    length = int.from_bytes(BROKEN[:8], "little")
    assert (bad["header_length"], bad["data_size"], bad["alignment"]) == (length, 8, None)
    short = row(write(tmp_path, "short", b"1234"))
    assert [short[key] for key in ("size", "header_length", "data_size")] == [4, None, None]
    assert missing == {
        "file": str(tmp_path / "missing"),
        "kind": "file",
        "readable": False,
        "code": "IO_ERROR",
        "message": f"{tmp_path}/missing: No such file or directory",
    }


def test_the_help_says_how_text_answers_where_the_text_is_silent(tmp_path: Path) -> None:
    choice = rule_book().choices["unknown-entry-fields"]
    assert (choice.positions["text"], choice.positions["hardened"]) == (None, "reject")
    path = write(tmp_path, "a", make(f'{{"w":{W[:-1]},"x":1}}}}', ABCD))
    told = [row("--profile", profile, path) for profile in PROFILES]
    assert [(t["profile"], t["valid"]) for t in told] == [*zip(PROFILES, (False, True, False), strict=True)]
    assert all([f["choice"] for f in t["faults"] + t["tolerated"]] == [choice.id] for t in told)
    help_text = run("--help").stdout
    assert TEXT_ANSWERS in " ".join(help_text.split())
    lines = [line.split() for line in help_text.splitlines()]
    assert [line[0] for line in lines if line and line[0].isdigit()] == ["0", "1", "2", "130"]


HOSTILE = [
    "[red]x[/red]",
    "[a](https://b)",
    "[link=https://example.org]x[/link]",
    "a\nvalid.safetensors: valid",
    "a\r\x1b[2Jb",
    "\x1b]0;title\x07",
    "\u202egnp.exe",
    "\x9b31m",
    "\x7f",
    "{0}%s%n",
]
"""Names that end a line, move the cursor, turn the text around, or mean something to a renderer."""


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_neither_break_nor_inject(tmp_path: Path, name: str) -> None:
    key, shown = json.dumps(name), json.dumps(name)[1:-1]
    log, again = tmp_path / "log", f'"{shown}" appears again'
    path = write(tmp_path, "a", make(f"{{{key}:{W},{key}:{W}}}", ABCD))
    result, noted = run("--sarif", log, path), run("--profile", "official", path)
    assert (result.exit_code, noted.exit_code) == (1, 0)
    assert f'|"{shown[:24]}' in result.stdout, "in the drawing"
    messages = [fault["message"] for fault in row(path)["faults"]]
    assert [again in text for text in (result.stdout, noted.stdout, messages[0])] == [True] * 3
    text = results(load_log(log))[0]["message"]["text"]
    assert (text.isprintable(), "](" in text.replace("\\](", "")) == (True, False)
    missing = tmp_path / "no" / name
    absent = run(missing)
    assert (absent.exit_code, absent.stderr.count("\n")) == (2, 1)
    assert absent.stderr.startswith(f"{json.dumps(str(missing))[1:-1]}: ")
    assert row(missing)["file"] == str(missing)
    outputs = [result.output, noted.output, absent.output]
    if "/" not in name:
        folder = tmp_path / f"dir{name}"
        folder.mkdir()
        path = write(folder, f"{name}.safetensors", BROKEN)
        assert row(path)["file"] == str(path)
        (folder / "b.safetensors").symlink_to("missing")
        write(folder, INDEX, json.dumps({"weight_map": {name: name}}).encode())
        for options in ([], ["-q"]):
            result = run(*options, folder, tmp_path / f"none-{name}*")
            assert result.exit_code == 2
            assert f"/{shown}.safetensors: 2 faults" in result.stdout
            assert f"dir{shown}/b.safetensors: " in result.stderr
            assert f"none-{shown}*: no file matches" in result.stderr
            outputs.append(result.output)
        path.write_bytes(VALID)
        outputs.append(run(path).output)
        assert f"/{shown}.safetensors: valid" in outputs[-1]
    assert all(map(harmless, outputs))
    assert not any(line.startswith("valid") for output in outputs for line in output.splitlines())
