"""``stc examples``: what there is, copied with its mode, never over something else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from safetensors_conformance.cli.examples import copy_examples, examples

from ..support import REPOSITORY


def run(*args: str) -> tuple[int, str]:
    result = CliRunner().invoke(copy_examples, args)
    return result.exit_code, result.output


def test_all_of_the_documents_are_there() -> None:
    there = {path.name for path in (REPOSITORY / "docs" / "examples").iterdir() if path.is_file()}
    assert there <= set(examples())
    assert run() == (0, "".join(f"{name}\n" for name in examples()))


def test_one_is_copied_and_nothing_is_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("exit_check.sh") == (0, "exit_check.sh\n")
    source = REPOSITORY / "docs" / "examples" / "exit_check.sh"
    copied = tmp_path / "exit_check.sh"
    assert copied.read_bytes() == source.read_bytes()
    assert os.access(copied, os.X_OK) == os.access(source, os.X_OK)
    assert run("-o", "new/folder", "mylib.py") == (0, "new/folder/mylib.py\n")
    copied.write_text("mine")
    status, out = run("exit_check.sh")
    assert (status, "is there and different" in out, copied.read_text()) == (1, True, "mine")
    status, out = run("stdio_reader.cc")
    assert (status, "did you mean stdio_reader.c" in out) == (2, True)
