"""Environments: created once, continued after an interruption, with clear errors for missing packages."""

from __future__ import annotations

import json
import shlex
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from safetensors_conformance.implementations import environment as module
from safetensors_conformance.implementations.commands import InstallError
from safetensors_conformance.implementations.descriptor import descriptors
from safetensors_conformance.implementations.environment import MARKER, Environment, make, prepare, remove

REAL = module._run
Installer = Callable[[str], list[list[str]]]


@pytest.fixture
def env(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Environment:
    """An environment whose packages no index needs to have."""
    monkeypatch.setenv("STC_CACHE", str(tmp_path / "cache"))
    descriptor = descriptors()["safetensors"]
    return replace(module.environment(descriptor, descriptor.entries[0], "9.9"), requires=())


@pytest.fixture
def install_with(monkeypatch: pytest.MonkeyPatch) -> Installer:
    """Return a function that replaces the installer by a shell script and returns its commands."""

    def replaced(script: str) -> list[list[str]]:
        commands: list[list[str]] = []

        def run(command: list[str], env: Environment, on_line: Callable[[str], None]) -> None:
            commands.append(command)
            if "venv" in command:
                env.python.parent.mkdir(parents=True)
                env.python.touch()
            else:
                REAL(["/bin/sh", "-c", script], env, on_line)

        monkeypatch.setattr(module, "_run", run)
        return commands

    return replaced


def test_an_environment_is_made_once_for_its_requirements(install_with: Installer, env: Environment) -> None:
    commands = install_with("echo done")
    assert not env.ready
    for _ in range(2):
        make(env)
        assert env.ready
        assert len(commands) == 2
    assert json.loads((env.folder / MARKER).read_text())["version"] == "9.9"
    assert not replace(env, requires=("something-else",)).ready
    remove(env)
    assert not env.ready


def test_no_module_of_the_current_folder_is_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.chdir(tmp_path)
    Path("selectors.py").write_text("raise SystemExit('ran a module of the current folder')")
    for command in module.installer_commands(tmp_path / "env", tmp_path / "env" / "bin" / "python"):
        module_of = command[: command.index("-m") + 2]
        done = subprocess.run([*module_of, "--help"], capture_output=True, text=True, check=False)
        assert "ran a module" not in done.stdout + done.stderr
        assert done.returncode == 0


SETTINGS = {
    "": True,
    ":env:.disable-pip-version-check='1'\nglobal.default-timeout='9'\n": True,
    ":env:.no-index='1'\n": False,
    "global.extra-index-url='https://example.org'\n": False,
    "user.constraint='/etc/constraints.txt'\n": False,
    "install.find-links='/wheels'\n": False,
    ":env:.cert='/etc/cert.pem'\n": False,
}


@pytest.mark.parametrize("settings", SETTINGS)
def test_uv_installs_unless_pip_has_sources(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings: str
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert module._SETTINGS.search(module._pip_settings())
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(module, "_pip_settings", lambda: settings)
    folder = tmp_path / "cache" / "env"
    # Settings of uv in the current folder must not choose what is installed.
    begin = ["/bin/uv", f"--directory={folder.parent}"] if SETTINGS[settings] else [sys.executable, "-P"]
    for command in module.installer_commands(folder, folder / "bin" / "python"):
        assert command[:2] == begin


def test_an_interrupted_installation_continues(install_with: Installer, env: Environment) -> None:
    install_with("echo ERROR: connection lost; exit 1")
    with pytest.raises(InstallError, match=r"safetensors 9\.9 cannot be installed: ERROR: connection lost"):
        make(env)
    assert not env.ready
    (env.folder / "downloaded").touch()
    install_with("echo ERROR: No matching distribution found for helper; exit 1")
    with pytest.raises(InstallError, match="is not available"):
        make(env)
    commands = install_with("")
    make(env)
    assert env.ready
    assert (env.folder / "downloaded").exists()
    assert all("venv" not in command for command in commands)


@pytest.mark.parametrize(
    "words",
    [
        "ERROR: No matching distribution found for safetensors==9.9",
        "npm error code ETARGET",
        "npm error 404 E404 not found",
        "error: No solution\n  cause: Because there is no version of x==9 and",
        "error: No solution\n  cause: Because x was not found in the package registry",
    ],
)
def test_a_version_that_is_not_there_leaves_nothing(
    install_with: Installer, env: Environment, words: str
) -> None:
    install_with(f"echo {shlex.quote(words)} >&2; exit 1")
    with pytest.raises(InstallError) as caught:
        make(env)
    says = "safetensors 9.9 is not available: there is no such version for this platform and interpreter ("
    assert str(caught.value).startswith(says + words.rsplit("\n", maxsplit=1)[-1].strip())
    assert not env.folder.exists()


def test_what_cannot_be_made_is_one_error(
    monkeypatch: pytest.MonkeyPatch, env: Environment, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InstallError, match="STC_CACHE"):
        make(replace(env, folder=tmp_path / "file" / "env"))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(InstallError, match=r"needs Node\.js"):
        make(replace(env, descriptor=descriptors()["jax-js"]))


@pytest.mark.parametrize("before", [None, 0o755, 0o777])
def test_only_the_user_may_enter_the_folder_of_environments(
    monkeypatch: pytest.MonkeyPatch, install_with: Installer, env: Environment, before: int | None
) -> None:
    install_with("echo done")
    if before is not None:
        make(env)  # the folder of a complete environment is checked as well
        env.folder.parent.chmod(before)
    make(env)
    assert stat.S_IMODE(env.folder.parent.stat().st_mode) == 0o700
    monkeypatch.setattr("os.getuid", lambda: env.folder.stat().st_uid + 1)
    with pytest.raises(InstallError, match=r"belongs to another user .* STC_CACHE to a folder that you own"):
        prepare(env)
