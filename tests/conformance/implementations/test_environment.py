"""Environments: created once, continued after an interruption, with clear errors for missing packages."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from safetensors_conformance.implementations import environment as module
from safetensors_conformance.implementations.descriptor import descriptors
from safetensors_conformance.implementations.environment import (
    MARKER,
    Environment,
    InstallError,
    environment,
    make,
    prepare,
    remove,
)
from safetensors_conformance.implementations.selectors import resolve

REAL = module._run


@pytest.fixture
def env(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Environment:
    """An environment that installs nothing over the network: a package made here."""
    monkeypatch.setenv("STC_CACHE", str(tmp_path / "cache"))
    descriptor = descriptors()["safetensors"]
    return replace(environment(descriptor, descriptor.entries[0], "9.9"), requires=())


def install_with(monkeypatch: pytest.MonkeyPatch, program: str) -> list[list[str]]:
    """Use a Python program as the installer; returns the commands that were run."""
    commands: list[list[str]] = []

    def run(command: list[str], env: Environment, say: object) -> None:
        commands.append(command)
        if "venv" in command:
            env.python.parent.mkdir(parents=True)
            env.python.touch()
        else:
            REAL([sys.executable, "-c", program], env, lambda line: said.append(line))

    said: list[str] = []
    monkeypatch.setattr(module, "_run", run)
    return commands


def test_an_environment_is_made_once(monkeypatch: pytest.MonkeyPatch, env: Environment) -> None:
    commands = install_with(monkeypatch, "print('done')")
    assert not env.ready
    make(env)
    assert env.ready
    assert len(commands) == 2
    make(env)
    assert len(commands) == 2
    assert json.loads((env.folder / MARKER).read_text())["version"] == "9.9"
    remove(env)
    assert not env.ready


def test_no_module_of_the_current_folder_is_run(
    monkeypatch: pytest.MonkeyPatch, env: Environment, tmp_path: Path
) -> None:
    commands = install_with(monkeypatch, "print('done')")
    make(env)
    monkeypatch.chdir(tmp_path)
    Path("selectors.py").write_text("raise SystemExit('ran a module of the current folder')")
    for command in commands:
        module_of = command[: command.index("-m") + 2]
        done = subprocess.run([*module_of, "--help"], capture_output=True, text=True, check=False)
        assert "ran a module" not in done.stdout + done.stderr
        assert done.returncode == 0


def test_other_requirements_make_it_incomplete(monkeypatch: pytest.MonkeyPatch, env: Environment) -> None:
    install_with(monkeypatch, "")
    make(env)
    assert not replace(env, requires=("something-else",)).ready


def test_an_interrupted_installation_is_taken_up_again(
    monkeypatch: pytest.MonkeyPatch, env: Environment
) -> None:
    commands = install_with(monkeypatch, "raise SystemExit('ERROR: connection lost')")
    with pytest.raises(InstallError, match=r"safetensors 9\.9 cannot be installed: ERROR: connection lost"):
        make(env)
    assert not env.ready
    commands = install_with(monkeypatch, "")
    make(env)
    assert env.ready
    assert all("venv" not in command for command in commands)  # the interpreter was there already


@pytest.mark.parametrize(
    "words",
    [
        "ERROR: No matching distribution found for safetensors==9.9",
        "npm error code ETARGET",
        "npm error 404 E404 not found",
    ],
)
def test_a_package_that_does_not_exist_is_told_from_a_failure(
    monkeypatch: pytest.MonkeyPatch, env: Environment, words: str
) -> None:
    install_with(monkeypatch, f"print({words!r}); raise SystemExit(1)")
    with pytest.raises(InstallError, match=r"safetensors 9\.9 is not available: there is no such version"):
        make(env)
    assert not env.folder.exists()


def test_what_an_interrupted_installation_left_stays(
    monkeypatch: pytest.MonkeyPatch, env: Environment
) -> None:
    install_with(monkeypatch, "raise SystemExit('ERROR: connection lost')")
    with pytest.raises(InstallError):
        make(env)
    (env.folder / "downloaded").touch()
    install_with(monkeypatch, "raise SystemExit('ERROR: No matching distribution found for helper')")
    with pytest.raises(InstallError, match="is not available"):
        make(env)
    assert (env.folder / "downloaded").exists()


def test_a_folder_that_cannot_be_written_is_one_clear_error(
    monkeypatch: pytest.MonkeyPatch, env: Environment, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    other = replace(env, folder=tmp_path / "file" / "env")
    with pytest.raises(InstallError, match="STC_CACHE"):
        make(other)


def test_npm_packages_need_npm(monkeypatch: pytest.MonkeyPatch, env: Environment) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(InstallError, match=r"needs Node\.js"):
        make(replace(env, descriptor=descriptors()["jax-js"]))


@pytest.mark.parametrize("before", [None, 0o755, 0o777, 0o700])
def test_only_the_user_may_enter_the_folder_of_environments(
    monkeypatch: pytest.MonkeyPatch, env: Environment, before: int | None
) -> None:
    install_with(monkeypatch, "print('done')")
    folder = env.folder.parent
    if before is not None:
        make(env)  # an environment that is ready is looked at as well
        folder.chmod(before)
    make(env)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_an_environment_in_a_folder_of_somebody_else_is_not_run(
    monkeypatch: pytest.MonkeyPatch, env: Environment
) -> None:
    install_with(monkeypatch, "print('done')")
    make(env)
    monkeypatch.setattr("os.getuid", lambda: env.folder.stat().st_uid + 1)
    target = replace(resolve("safetensors==9.9"), environment=env)
    with pytest.raises(InstallError, match=r"belongs to another user .* STC_CACHE to a folder that you own"):
        prepare(target.environment)
