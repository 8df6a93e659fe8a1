"""``stc check`` as people and programs meet it."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from safetensors_reference import explain
from safetensors_reference.check.cli import MAX_FAULTS
from safetensors_reference.rules.book import PROFILES, TEXT_ANSWERS, rule_book

from ..support import ABCD, W, entry, make
from .support import BROKEN, VALID, harmless, row, rows, run


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


@pytest.mark.parametrize(
    ("names", "status"),
    [("v", 0), ("vv", 0), ("b", 1), ("bv", 1), ("m", 2), ("mbv", 2), ("bm", 2)],
)
def test_exit_status_is_0_for_valid_1_for_invalid_2_for_unreadable(
    valid: Path, broken: Path, names: str, status: int
) -> None:
    files = {"v": valid, "b": broken, "m": valid.with_name("missing")}
    assert run(*(files[name] for name in names)).exit_code == status


def test_a_valid_file_is_one_line_that_is_not_wrapped(tmp_path: Path) -> None:
    """A program that greps the output must find each fact on one line, whatever the width of the terminal."""
    path = write(tmp_path, "n" * 200, VALID)
    result = run(path, env={"COLUMNS": "40"})
    assert re.fullmatch(rf"{re.escape(str(path))}: valid, 1 tensor, 4 bytes of data.*\n", result.stdout)
    assert result.stderr == ""


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
    refused = run(tmp_path)
    assert refused.exit_code == 1
    assert "choice leading-whitespace" in refused.stdout
    tolerated = run("--profile", "official", tmp_path)
    assert tolerated.exit_code == 0
    assert tolerated.stdout.count("note:") == tolerated.stdout.count("HDR-02") == 2
    assert "valid" in tolerated.stdout
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
    "[/]",
    "[link=https://example.org]x[/link]",
    ":smile:",
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
    five = entry("U8", "[5]")
    path = write(tmp_path, "a", make(f"{{{key}:{five},{key}:{five}}}", ABCD))
    result = run(path)
    assert result.exit_code == 1
    assert f'"{shown}" appears again' in result.stdout
    assert f'|"{shown[:24]}' in result.stdout, "in the drawing"
    assert any(f'"{shown}" appears again' in fault["message"] for fault in row(path)["faults"])
    noted = run("--profile", "official", write(tmp_path, "a", make(f"{{{key}:{W},{key}:{W}}}", ABCD)))
    assert (noted.exit_code, f'"{shown}" appears again' in noted.stdout) == (0, True)
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


def test_a_file_name_that_is_not_utf8_is_shown_escaped(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff.safetensors"
    try:
        Path(os.fsdecode(path)).write_bytes(BROKEN)
    except OSError:
        pytest.skip("this file system takes only Unicode names")
    result = run(os.fsdecode(path))
    assert result.exit_code == 1
    assert "\\udcff.safetensors: 2 faults" in result.stdout
    for text in (b'"\\\x1b[31m"', b'"\\\n"', b"\x1b", b'{"\x1b]0;x\x07":1}', b"\xe2\x80\xae"):
        assert harmless(run(write(tmp_path, "a", make(b'{"k":' + text))).stdout)


def test_stc_offers_the_command_and_does_not_wait_for_a_fifo(valid: Path, tmp_path: Path) -> None:
    """The installed program runs in a process of its own, so waiting fails this test and does not hang it."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    done = subprocess.run(
        [sys.executable, "-c", "from safetensors_reference.main import main; main()", "check", fifo, valid],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "not a regular file (IO_ERROR)" in done.stderr
    assert done.stdout.startswith(f"{valid}: valid, 1 tensor")
