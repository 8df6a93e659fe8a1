"""``python -m tools.covering``: what it keeps, what it refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from safetensors_cases.surroundings import sets
from safetensors_cases.surroundings.model import Model, Property, Topic, excludes
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


def test_joint_properties_meet_in_every_way_around_some_fault(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = {name: Property(name, {f"{name}0": "", f"{name}1": name}) for name in "abc"}
    apart = [excludes("they are the same", a="a1", b="b1", c="c1")]
    fault = Topic("fault", lambda _row, _file: None, "FRM-01", "FRM_TOO_SHORT")
    topics = {"whole": replace(fault, codes=""), "one": fault, "two": replace(fault, only={"a": ("a0",)})}
    for place in (module, sets):
        monkeypatch.setattr(place, "MODELS", (Model("m", properties, apart, topics, joint=("a", "b", "c")),))
    # These rows contain all pairs, but not all triples.
    pairs = ["usual", "a1-b1", "a1-c1", "b1-c1"]
    known = [*(f"one {row}" for row in pairs), *(f"two {row}" for row in ("usual", "b1", "c1", "b1-c1"))]
    (folder / "covering.txt").write_text(
        "".join(f"{line}\n" for line in ["whole a1", *known]), encoding="ascii"
    )
    assert run("--check")[0] == 1
    assert run()[0] == 0
    lines = (folder / "covering.txt").read_text(encoding="ascii").splitlines()
    assert [line for line in lines if not line.startswith("whole")] == [*known[:4], "one a1", *known[4:]]
    assert run("--check")[0] == 0


@pytest.mark.parametrize("text", ["nothing usual\n", "comma-more ü\n", "comma-more usual-usual\n"])
def test_a_file_that_cannot_be_read_is_an_error_and_stays(folder: Path, text: str) -> None:
    (folder / "covering.txt").write_text(text, encoding="utf-8")
    status, said = run()
    assert status == 1
    assert said.strip().startswith("Error: ")
    assert (folder / "covering.txt").read_text(encoding="utf-8") == text
