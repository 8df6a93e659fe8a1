"""``stc audit``: what it prints, its exit status, and its errors in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from safetensors_reference.audit.cli import audit
from safetensors_reference.main import main

from .support import BROKEN, MODEL, VALID, read_row, stc_audit, write_tree


@pytest.mark.parametrize(
    ("files", "rows", "status", "said"),
    [
        ({"a.safetensors": VALID}, 1, 0, "1 file: 1 valid\n"),
        ({"a.safetensors": VALID, "\u202eé.safetensors": BROKEN}, 2, 1, "2 files: 1 valid, 1 invalid\n"),
        (dict(MODEL), 3, 0, "2 files: 2 valid; 1 model: 1 valid\n"),
        ({"a.txt": b""}, 1, 2, "1 file: 1 unreadable\n"),
    ],
)
def test_rows_go_to_standard_output_and_counts_to_standard_error(
    tmp_path: Path, files: dict[str, bytes], rows: int, status: int, said: str
) -> None:
    run = stc_audit(write_tree(tmp_path, files))
    assert (run.exit_code, run.stderr, run.stdout_bytes.isascii()) == (status, said, True)
    found = {read_row(line).address for line in run.stdout_bytes.splitlines()}
    assert len(found) == rows
    assert status == 2 or found == {f"{tmp_path}/{name}" for name in files}


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
