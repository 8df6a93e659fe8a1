"""``stc audit``: what it prints, its exit status, and its errors in one line."""

from __future__ import annotations

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


def test_the_summary_has_its_own_help() -> None:
    run = CliRunner().invoke(main, ["audit", "summary", "-h"])
    assert run.exit_code == 0
    assert "Usage: main audit summary" in run.output
    assert "RESULTS" in run.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no files to audit: give SOURCE or --list FILE"),
        (["x", "--jobs", "2", "--scheduler", "tcp://a:1"], "--jobs and --scheduler cannot be used together"),
        (["nope://bucket"], "nope://bucket: "),
        (["--list", "/no/list"], "/no/list: No such file or directory"),
        (["x", "-o", "/no/rows.jsonl"], "/no/rows.jsonl: not written: No such file or directory"),
    ],
)
def test_what_cannot_be_used_is_told(arguments: list[str], said: str) -> None:
    pytest.importorskip("fsspec")
    run = CliRunner().invoke(audit, arguments)
    assert (run.exit_code, run.stdout) == (2, "")
    assert said in run.stderr
    assert run.stderr.startswith("Usage:") or run.stderr.count("\n") == 1
