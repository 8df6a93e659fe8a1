"""``stc impl``: removing environments, and names without any."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from safetensors_conformance.cli.impl import impl
from safetensors_conformance.implementations.descriptor import descriptors
from safetensors_conformance.implementations.selectors import resolve

from ..support import fake


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("STC_CACHE", str(tmp_path))
    return tmp_path


def clean(name: str) -> tuple[int, str]:
    result = CliRunner().invoke(impl, ["clean", name])
    return result.exit_code, result.output


@pytest.mark.parametrize("name", ["reference", fake("Good"), "cmd:sh"])
def test_what_runs_in_no_environment_of_its_own_cannot_be_cleaned(name: str) -> None:
    status, out = clean(name)
    assert (status, "has no environment of its own" in out, "removed" in out) == (2, True, False)


def test_an_environment_is_removed_and_its_absence_told(cache: Path) -> None:
    env = resolve("safetensors==9.9").environment
    assert env is not None
    env.folder.mkdir()
    assert clean("safetensors==9.9") == (0, f"removed {env.folder.name}\n")
    assert list(cache.iterdir()) == []
    assert clean("safetensors==9.9") == (0, f"nothing to remove: {env.folder.name} does not exist\n")


def test_the_list_has_one_line_for_each_and_fits_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    piped = CliRunner().invoke(impl, ["list"]).output.splitlines()
    entries = [d.selector(e) for d in descriptors().values() for e in d.entries]
    assert [line.split()[0] for line in piped] == ["--impl", *entries, str(len(descriptors()))]
    assert next(line for line in piped if line.startswith("candle ")).endswith("save_safetensors")
    monkeypatch.setattr("safetensors_conformance.cli.impl.width_of_terminal", lambda: 80)
    *narrow, _ = CliRunner().invoke(impl, ["list"]).output.splitlines()
    assert [line.split()[0] for line in narrow] == ["--impl", *entries]
    assert max(map(len, narrow)) <= 80


@pytest.mark.parametrize(("name", "how"), [("tgi", "py:PROGRAM:CLASS"), ("csafetensors", "cmd:PROGRAM")])
def test_what_is_built_by_hand_is_brought_as_its_language_takes(name: str, how: str) -> None:
    told = CliRunner().invoke(impl, ["info", name])
    assert f"then give: --impl {name}={how}\n" in told.output
