"""``stc examples``: lists examples, and copies them with their mode, without overwriting files."""

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
    status, out = run()
    assert (status, [line.split()[0] for line in out.splitlines()]) == (0, list(examples()))


def test_a_language_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("safetensors_conformance.cli.examples.FOLDERS", (tmp_path / "shims", tmp_path / "no"))
    for name in ("go/shim.go", "go/example/main.go", "_cache/x", "one.py"):
        (tmp_path / "shims" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "shims" / name).write_text(name)
    assert run() == (0, "go      go/example/main.go go/shim.go\none.py\n")
    out = tmp_path / "out"
    assert run("go", "-o", str(out)) == (0, f"{out}/go/example/main.go\n{out}/go/shim.go\n")
    (out / "go" / "shim.go").write_text("mine")
    (out / "go" / "example" / "main.go").unlink()
    assert run("go", "-o", str(out))[0] == 1
    assert not (out / "go" / "example" / "main.go").exists()


def test_one_is_copied_and_nothing_is_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("exit_check.sh") == (0, "exit_check.sh\n")
    source, copied = REPOSITORY / "docs" / "examples" / "exit_check.sh", tmp_path / "exit_check.sh"
    assert copied.read_bytes() == source.read_bytes()
    assert os.access(copied, os.X_OK) == os.access(source, os.X_OK)
    assert run("-o", "new/folder", "mylib.py") == (0, "new/folder/mylib.py\n")
    copied.write_text("mine")
    for name, says in (("exit_check.sh", "exists and differs"), ("stdio_reader.cc", "mean stdio_reader.c")):
        status, out = run(name)
        assert (status, says in out, copied.read_text()) == (1 if "sh" in name else 2, True, "mine")
