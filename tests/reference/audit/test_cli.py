"""``stc audit``: what it prints, its exit status, and its errors in one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from safetensors_reference.audit.cli import audit
from safetensors_reference.main import main

from .support import BROKEN, MODEL, VALID, read_row, stc_audit, write_tree


@pytest.mark.parametrize(
    ("files", "status", "said"),
    [
        ({"a.safetensors": VALID}, 0, "1 file: 1 valid\n"),
        ({"a.safetensors": VALID, "b.safetensors": BROKEN}, 1, "2 files: 1 valid, 1 invalid\n"),
        (dict(MODEL), 0, "2 files: 2 valid; 1 model: 1 valid\n"),
        ({"a.txt": b""}, 2, "1 file: 1 unreadable\n"),
    ],
)
def test_rows_go_to_standard_output_and_counts_to_standard_error(
    tmp_path: Path, files: dict[str, bytes], status: int, said: str
) -> None:
    run = stc_audit(write_tree(tmp_path, files))
    assert (run.exit_code, run.stderr) == (status, said)
    assert (
        len([read_row(line) for line in run.stdout_bytes.splitlines()])
        == sum(int(word) for word in said.replace(";", "").split() if word.isdecimal()) // 2
    )


def test_standard_output_is_ascii_whatever_the_names_hold(tmp_path: Path) -> None:
    write_tree(tmp_path, {"\u202eé.safetensors": VALID})
    run = stc_audit(tmp_path)
    assert run.stdout_bytes.isascii()
    assert read_row(run.stdout_bytes).address == f"{tmp_path}/\u202eé.safetensors"


def test_help_names_everything() -> None:
    for arguments, words in (
        (["audit", "-h"], ("stc audit models/ -o rows.jsonl", "--scheduler", "Exit status", "summary")),
        (["audit", "summary", "-h"], ("stc audit summary", "RESULTS")),
    ):
        run = CliRunner().invoke(main, arguments)
        assert run.exit_code == 0
        assert all(word in run.output for word in words)
    assert "Usage: main audit summary" in run.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "no files to audit: give SOURCE or --list FILE"),
        (("x", "--jobs", "2", "--scheduler", "tcp://a:1"), "--jobs and --scheduler cannot be used together"),
    ],
)
def test_a_wrong_call_is_told(arguments: tuple[str, ...], said: str) -> None:
    run = CliRunner().invoke(audit, arguments)
    assert run.exit_code == 2
    assert said in run.stderr


@pytest.mark.parametrize(
    "arguments", [("nope://bucket",), ("--list", "/no/list"), ("x", "-o", "/no/rows.jsonl")]
)
def test_what_cannot_be_used_is_one_line(arguments: tuple[str, ...]) -> None:
    pytest.importorskip("fsspec")
    run = stc_audit(*arguments)
    assert (run.exit_code, run.stdout, run.stderr.count("\n")) == (2, "", 1)


def test_a_list_from_standard_input(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.safetensors": VALID})
    (tmp_path / "list").write_text(f"{tmp_path}/a.safetensors\n")
    code = "from safetensors_reference.audit.cli import audit; audit(['--list', '-', '--jobs', '1'])"
    with (tmp_path / "list").open() as names:
        run = subprocess.run(
            [sys.executable, "-c", code], stdin=names, capture_output=True, text=True, check=False
        )
    assert (run.returncode, run.stderr) == (0, "1 file: 1 valid\n")
