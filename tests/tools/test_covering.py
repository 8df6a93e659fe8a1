"""``python -m tools.covering``: what it keeps, what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from safetensors_cases.surroundings import sets
from tools import covering as module

TOKENS = tuple(model for model in sets.MODELS if model.name == "tokens")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder that the command writes into; it has one small model."""
    for place in (module, sets):
        monkeypatch.setattr(place, "FILE", tmp_path / "covering.txt")
        monkeypatch.setattr(place, "MODELS", TOKENS)
    monkeypatch.setattr(module, "PAGE", tmp_path / "covering.md")
    return tmp_path


def run(*args: str) -> tuple[int, str]:
    result = CliRunner().invoke(module.covering, list(args))
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.output


def test_rows_are_found_and_those_that_are_there_stay(folder: Path) -> None:
    file, mine = folder / "covering.txt", "comma-more entry-atend-tabs-lasttensor-mlast-longpad"
    file.write_text(f"{mine}\n", encoding="ascii")
    assert run("--check")[0] == 1
    assert file.read_text(encoding="ascii") == f"{mine}\n"
    status, said = run()
    assert status == 0
    assert "0 of" not in said
    written = file.read_text(encoding="ascii")
    assert written.splitlines()[0] == mine
    assert run("--check")[0] == 0
    assert run()[0] == 0
    assert file.read_text(encoding="ascii") == written


@pytest.mark.parametrize("text", ["nothing usual\n", "comma-more ü\n", "comma-more usual-usual\n"])
def test_a_file_that_cannot_be_read_is_an_error_and_stays(folder: Path, text: str) -> None:
    (folder / "covering.txt").write_text(text, encoding="utf-8")
    status, said = run()
    assert status == 1
    assert said.strip().startswith("Error: ")
    assert (folder / "covering.txt").read_text(encoding="utf-8") == text
