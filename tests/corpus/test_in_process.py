"""Lifecycle scripts change only the file of the case, whatever a program puts in its place."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from safetensors_corpus import ManifestError, load_manifest
from safetensors_corpus.in_process import run_case

LIGHT = [case for case in load_manifest().cases if not case.heavy]
SCRIPTS = [(case, case.action["script"]) for case in LIGHT if case.kind == "lifecycle" and case.action]
CASES = {
    step: next(case for case, script in SCRIPTS if [row["step"] for row in script][1:2] == [step])
    for step in ("truncate", "rewrite", "replace")
}


def by_link(path: Path, victim: Path) -> None:
    path.unlink()
    path.symlink_to(victim)


def by_hard_link(path: Path, victim: Path) -> None:
    path.unlink()
    os.link(victim, path)


def of_the_folder(path: Path, victim: Path) -> None:
    path.parent.rename(path.parent.with_name("moved"))
    path.parent.symlink_to(victim.parent)


class Replacing:
    """Replaces its input when it opens the file."""

    def __init__(self, replace: Callable[[Path, Path], None], victim: Path) -> None:
        self._replace, self._victim = replace, victim

    def hold(self, path: Path) -> Any:
        self._replace(path, self._victim.with_name(path.name))
        return self

    def tensor(self, name: str) -> Any:
        return name, "U8", [0], b""

    def close(self) -> None:
        pass


@pytest.mark.parametrize("step", CASES)
@pytest.mark.parametrize("replace", [by_link, by_hard_link, of_the_folder])
def test_a_replaced_input_leads_to_no_other_file(
    replace: Callable[[Path, Path], None], step: str, tmp_path: Path
) -> None:
    victims, folder = tmp_path / "victims", tmp_path / "case"
    victims.mkdir()
    folder.mkdir()
    for name in ("file.safetensors", CASES[step].path.name):
        (victims / name).write_bytes(b"somebody else's")
    answer = run_case(CASES[step], Replacing(replace, victims / "file.safetensors"), folder)
    assert {path.read_bytes() for path in victims.iterdir()} == {b"somebody else's"}
    if step != "replace" and replace is not of_the_folder:
        assert (answer.outcome, "replaced its input" in answer.message) == ("harness-error", True)


def test_a_reader_that_is_stopped_while_it_opens_a_file_hangs(tmp_path: Path) -> None:
    def stop(path: Path, victim: Path) -> None:
        raise TimeoutError("stopped")

    answer = run_case(CASES["truncate"], Replacing(stop, tmp_path), tmp_path)
    assert (answer.outcome, answer.message) == ("hang", "stopped")


@pytest.mark.parametrize("kind", ["recipe", "file"])
def test_an_input_is_not_written_through_a_link(kind: str, tmp_path: Path) -> None:
    case = next(case for case in LIGHT if getattr(case.input, kind))
    (tmp_path / "victim").write_bytes(b"somebody else's")
    (tmp_path / "file.safetensors").symlink_to("victim")
    with pytest.raises((OSError, ManifestError)):
        case.set_up(tmp_path)
    assert (tmp_path / "victim").read_bytes() == b"somebody else's"
