"""``stc site build``: facts about programs, and errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from safetensors_conformance.cli import site as command
from safetensors_conformance.implementations.descriptor import descriptors


def build(*options: str) -> tuple[int, str]:
    result = CliRunner().invoke(command.site, ["build", *options])
    return result.exit_code, result.output


def test_every_descriptor_gives_facts() -> None:
    facts = {program.name: program for program in command.programs()}
    assert facts.keys() == descriptors().keys()
    assert facts["mlx"].kind == "returns tensors"


def test_without_the_generator_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(command, "find_spec", lambda _name: None)
    status, said = build("-o", str(tmp_path / "site"))
    assert (status, "[site]" in said) == (2, True)


def test_an_address_that_is_none_is_refused() -> None:
    status, said = build("--repository", "javascript:alert(1)")
    assert (status, "https://" in said) == (2, True)


def test_a_folder_of_something_else_is_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("myst_parser")
    monkeypatch.setattr(command, "load_data", lambda *_: None)
    (tmp_path / "mine").write_text("x")
    status, said = build("-o", str(tmp_path))
    assert (status, "choose another folder" in said) == (2, True)
    assert (tmp_path / "mine").read_text() == "x"
