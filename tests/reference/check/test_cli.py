"""``stc check`` as people and programs meet it."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from safetensors_reference.check.cli import MAX_FAULTS, check
from safetensors_reference.main import main
from safetensors_reference.rules.book import PROFILES, TEXT_ANSWERS, rule_book

from ..support import ABCD, W, entry, make

VALID = make(f'{{"w":{W}}}', ABCD)
TWO = make(f'{{"w":{W},"w":{W}}}', ABCD + b"!!!!")
"""A file with two faults."""


def run(*args: str | Path) -> Result:
    result = CliRunner().invoke(check, [str(a) for a in args], env={"NO_COLOR": "1"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def write(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


@pytest.fixture
def valid(tmp_path: Path) -> Path:
    return write(tmp_path, "valid.safetensors", VALID)


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    return write(tmp_path, "broken.safetensors", TWO)


def test_a_log_is_never_written_over_a_model(valid: Path) -> None:
    before = valid.read_bytes()
    result = run(valid, "--sarif", valid)
    assert result.exit_code == 2
    assert "would overwrite a model file" in result.output
    assert valid.read_bytes() == before


def test_exit_status_is_0_for_valid_1_for_invalid_2_for_unreadable(
    valid: Path, broken: Path, tmp_path: Path
) -> None:
    missing = tmp_path / "missing"
    assert run(valid).exit_code == 0
    assert run(valid, valid).exit_code == 0
    assert run(broken).exit_code == 1
    assert run(broken, valid).exit_code == 1
    assert run(missing).exit_code == 2
    assert run(missing, broken, valid).exit_code == 2
    assert run(broken, missing).exit_code == 2


@pytest.mark.parametrize("args", [(), ("--profile", "nobody", "x"), ("--no-such-option", "x")])
def test_a_wrong_call_is_explained(args: tuple[str, ...]) -> None:
    result = run(*args)
    assert result.exit_code == 2
    assert "Usage:" in result.output


def test_a_valid_file_is_one_line(valid: Path) -> None:
    result = run(valid)
    assert re.fullmatch(rf"{re.escape(str(valid))}: valid, 1 tensors?, 4 bytes of data.*\n", result.stdout)
    assert result.stderr == ""


def test_every_fault_is_shown_with_its_code_rule_place_and_bytes(broken: Path) -> None:
    out = run(broken).stdout
    assert f"{broken}: 2 faults" in out
    again, end = TWO.rindex(b'"w"'), len(TWO)
    for part in ("HDR_DUP_KEY", "HDR-09 (must)", f"file {again:#x}..{again + 2:#x}  $['w']"):
        assert part in out
    for part in ("OFF_TRAILING", "OFF-08 (must)", f"file {end - 4:#x}..{end - 1:#x}"):
        assert part in out
    assert '0 |"w": U8[4]| 4 |trailing: 4 bytes| 8 = end of file' in out


def test_the_bytes_marked_are_the_bytes_of_the_fault(broken: Path) -> None:
    lines = run(broken).stdout.splitlines()
    marked = []
    for row, marks in itertools.pairwise(lines):
        if "^^" in marks:
            marked += [int(row[m.start() : m.start() + 2], 16) for m in re.finditer(r"\^\^", marks)]
    assert bytes(marked) == b'"w"' + b"!!!!"


def test_a_fault_of_a_choice_names_it_and_a_tolerated_one_is_noted(tmp_path: Path) -> None:
    path = write(tmp_path, "a", make(f' {{"w":{W}}}', ABCD))
    refused = run(path)
    assert refused.exit_code == 1
    assert "choice leading-whitespace" in refused.stdout
    tolerated = run("--profile", "official", path)
    assert tolerated.exit_code == 0
    assert "note:" in tolerated.stdout
    assert "HDR-02" in tolerated.stdout
    assert "valid" in tolerated.stdout


def test_many_faults_are_cut_unless_all_are_asked_for(tmp_path: Path) -> None:
    assert MAX_FAULTS == 20
    header = "{" + ",".join(f'"t{i}":null' for i in range(25)) + "}"
    path = write(tmp_path, "many", make(header))
    cut = run(path).stdout
    assert "25 faults" in cut
    assert cut.count("ENT_NOT_OBJECT") == 20
    assert "5 more; --all" in cut
    everything = run("--all", path).stdout
    assert everything.count("ENT_NOT_OBJECT") == 25
    assert "--all" not in everything


def test_exactly_the_limit_is_not_called_cut(tmp_path: Path) -> None:
    path = write(tmp_path, "many", make("{" + ",".join(f'"t{i}":null' for i in range(MAX_FAULTS)) + "}"))
    assert "--all" not in run(path).stdout


def lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_json_is_one_object_per_file_and_holds_every_fault(valid: Path, broken: Path, tmp_path: Path) -> None:
    result = run("--json", valid, broken, tmp_path / "missing")
    assert result.exit_code == 2
    good, bad, missing = lines(result)
    expected = {
        "file": str(valid),
        "readable": True,
        "valid": True,
        "profile": "hardened",
        "size": len(VALID),
        "tensors": 1,
        "faults": [],
        "tolerated": [],
    }
    assert {key: good[key] for key in expected} == expected
    assert (bad["valid"], bad["tensors"], bad["file"]) == (False, None, str(broken))
    again = TWO.rindex(b'"w"')
    places = [{k: f[k] for k in ("code", "rule", "start", "end", "path")} for f in bad["faults"]]
    assert places == [
        {"code": "HDR_DUP_KEY", "rule": "HDR-09", "start": again, "end": again + 3, "path": "$['w']"},
        {"code": "OFF_TRAILING", "rule": "OFF-08", "start": len(TWO) - 4, "end": len(TWO), "path": None},
    ]
    assert (missing["readable"], missing["code"]) == (False, "IO_ERROR")
    assert "valid" not in missing


def test_json_is_never_cut(tmp_path: Path) -> None:
    path = write(tmp_path, "many", make("{" + ",".join(f'"t{i}":null' for i in range(25)) + "}"))
    assert len(lines(run("--json", path))[0]["faults"]) == 25


@pytest.mark.parametrize("profile", ["text", "official", "hardened"])
def test_json_says_whose_answer_was_taken(tmp_path: Path, profile: str) -> None:
    path = write(tmp_path, "a", make(f'{{"__metadata__":null,"w":{W}}}', ABCD))
    (result,) = lines(run("--json", "--profile", profile, path))
    assert result["profile"] == profile
    assert result["valid"] is (profile == "official")
    assert [f["choice"] for f in result["faults" if profile != "official" else "tolerated"]] == [
        "metadata-null"
    ]


def test_the_help_says_how_text_answers_where_the_text_is_silent(tmp_path: Path) -> None:
    choice = rule_book().choices["unknown-entry-fields"]
    assert (choice.positions["text"], choice.positions["hardened"]) == (None, "reject")
    path = write(tmp_path, "a", make(f'{{"w":{W[:-1]},"x":1}}}}', ABCD))
    assert [run("--profile", profile, path).exit_code for profile in PROFILES] == [1, 0, 1]
    assert TEXT_ANSWERS in " ".join(run("--help").stdout.split())


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


def shown(name: str) -> str:
    """The name as it may stand in a terminal: JSON escapes for all that is not plainly printable."""
    return json.dumps(name)[1:-1]


def harmless(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n"))


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_tensor_names_neither_break_nor_inject(tmp_path: Path, name: str) -> None:
    key = json.dumps(name)
    path = write(tmp_path, "a", make(f"{{{key}:{entry('U8', '[5]')},{key}:{entry('U8', '[5]')}}}", ABCD))
    result = run(path)
    assert result.exit_code == 1
    assert harmless(result.stdout)
    assert f'"{shown(name)}" appears again' in result.stdout
    assert f'|"{shown(name)[:24]}' in result.stdout, "in the drawing"
    assert not any(line.startswith("valid") for line in result.stdout.splitlines())
    (parsed,) = lines(run("--json", path))
    assert any(f'"{shown(name)}" appears again' in f["message"] for f in parsed["faults"])


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_harmless_in_notes(tmp_path: Path, name: str) -> None:
    key = json.dumps(name)
    path = write(tmp_path, "a", make(f"{{{key}:{W},{key}:{W}}}", ABCD))
    result = run("--profile", "official", path)
    assert result.exit_code == 0
    assert harmless(result.stdout)
    assert f'"{shown(name)}" appears again' in result.stdout


@pytest.mark.parametrize("name", [n for n in HOSTILE if "/" not in n])
@pytest.mark.parametrize("data", [VALID, TWO], ids=["valid", "broken"])
def test_hostile_file_names_neither_break_nor_inject(tmp_path: Path, name: str, data: bytes) -> None:
    path = write(tmp_path, name, data)
    result = run(path)
    assert result.exit_code == (0 if data == VALID else 1)
    assert harmless(result.stdout)
    assert f"/{shown(name)}: " in result.stdout
    assert lines(run("--json", path))[0]["file"] == str(path)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_of_missing_files_neither_break_nor_inject(tmp_path: Path, name: str) -> None:
    result = run(tmp_path / name)
    assert result.exit_code == 2
    assert harmless(result.stderr)
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith(f"{shown(str(tmp_path / name))}: ")
    assert "IO_ERROR" in result.stderr
    assert lines(run("--json", tmp_path / name))[0]["file"] == str(tmp_path / name)


def test_a_file_name_that_is_not_utf8_is_shown_escaped(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff.safetensors"
    try:
        Path(os.fsdecode(path)).write_bytes(TWO)
    except OSError:
        pytest.skip("this file system takes only Unicode names")
    result = run(os.fsdecode(path))
    assert result.exit_code == 1
    assert "\\udcff.safetensors: 2 faults" in result.stdout


@pytest.mark.parametrize(
    "text", [b'"\\\x1b[31m"', b'"\\\n"', b"\x1b", b'{"\x1b]0;x\x07":1}', b"\xe2\x80\xae"]
)
def test_hostile_bytes_outside_names_are_shown_harmlessly(tmp_path: Path, text: bytes) -> None:
    result = run(write(tmp_path, "a", make(b'{"k":' + text)))
    assert result.exit_code == 1
    assert harmless(result.stdout)


def test_a_huge_name_does_not_flood_the_terminal(tmp_path: Path) -> None:
    name = "n" * 1_000_000
    path = write(tmp_path, "a", make(f'{{"{name}":{W},"{name}":{W}}}', ABCD))
    assert len(run(path).stdout) < 3000


def test_a_long_line_is_not_wrapped(tmp_path: Path) -> None:
    """A program that greps the output must find each fact on one line, whatever the terminal's width."""
    path = write(tmp_path, "n" * 200, VALID)
    result = CliRunner().invoke(check, [str(path)], env={"COLUMNS": "40", "NO_COLOR": "1"})
    assert result.stdout.count("\n") == 1


def test_stc_offers_the_command_and_does_not_wait_for_a_fifo(valid: Path, tmp_path: Path) -> None:
    """The installed program, in a process of its own so that waiting fails this test and does not hang it."""
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


def test_stc_lists_its_commands_and_refuses_unknown_ones() -> None:
    runner = CliRunner()
    listed = runner.invoke(main, ["--help"])
    assert listed.exit_code == 0
    for command in ("check", "corpus", "fuzz", "run"):
        assert re.search(rf"^\s+{command}\b", listed.output, re.MULTILINE)
    unknown = runner.invoke(main, ["no-such-command"])
    assert unknown.exit_code == 2
    assert "No such command" in unknown.output
