"""Environment of tested programs: listed variables, and no tokens."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks.device import client
from safetensors_conformance.cli.check_protocol import check_protocol_command
from safetensors_conformance.cli.run import run
from safetensors_conformance.implementations import environment as installing
from safetensors_conformance.implementations.descriptor import descriptors
from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.programs.launcher import Confinement, child_variables, installer_variables
from safetensors_conformance.run.session import CaseRunner, Session
from safetensors_conformance.worker.worker import Limits
from safetensors_fuzz.cli import fuzz
from safetensors_fuzz.engines.atheris.loop import TargetConfig

from ..support import HERE, TRIGGER, cases

pytestmark = pytest.mark.usefixtures("loaded_once")

FAKES = HERE / "access_fakes.py"
SECRETS = (
    *("GITHUB_TOKEN", "ACTIONS_RUNTIME_TOKEN", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "NPM_TOKEN"),
    *("PYPI_TOKEN", "TWINE_PASSWORD", "SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR"),
    *("KUBECONFIG", "DOCKER_CONFIG", "GPG_AGENT_INFO", "PYTHON_KEYRING_BACKEND", "ANY_OTHER_NAME"),
)
FOR_AN_INDEX = ("PIP_INDEX_URL", "npm_config_registry", "HTTPS_PROXY", "https_proxy")
"""Variables that an installer needs, and where the password of a private index may stand."""


@pytest.fixture(autouse=True)
def _callers_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*SECRETS, *FOR_AN_INDEX):
        monkeypatch.setenv(name, "of the caller")


def given_to(how: str, note: Path, *command: str) -> dict[str, str]:
    """Run a command on a program that notes its variables, ``cmd`` or ``exit``; return them."""
    selector = f"{how}:{sys.executable} {FAKES} {note}" + (" {path}" if how == "exit" else "")
    commands: dict[str, Any] = {"run": run, "check-protocol": check_protocol_command, "fuzz": fuzz}
    CliRunner().invoke(commands[command[0]], [f"--impl={selector}", *command[1:]])
    found: dict[str, str] = json.loads(note.read_text(encoding="utf-8"))
    return found


WAYS = [
    ("cmd", "run", f"--case={TRIGGER}", "--no-smoke"),
    ("exit", "run", f"--case={TRIGGER}", "--no-smoke"),
    ("cmd", "check-protocol"),
    ("cmd", "fuzz", "--max-execs=1"),
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(way[:2]))
def test_a_tested_program_gets_no_token_but_a_named_variable(tmp_path: Path, way: tuple[str, ...]) -> None:
    given = given_to(way[0], tmp_path / "none", *way[1:])
    assert not {*SECRETS, *FOR_AN_INDEX} & set(given)
    assert {"PATH", "HOME", "PYTHONHASHSEED"} <= set(given)
    given = given_to(way[0], tmp_path / "named", *way[1:], "--env=HF_TOKEN", "--env=HTTPS_PROXY")
    assert set(given) & {*SECRETS, *FOR_AN_INDEX} == {"HF_TOKEN", "HTTPS_PROXY"}
    assert given["HF_TOKEN"] == "of the caller"


@pytest.mark.parametrize(("named", "got"), [((), set()), (("HF_TOKEN",), {"HF_TOKEN"})])
def test_an_adapter_gets_the_same(named: tuple[str, ...], got: set[str]) -> None:
    limits = Limits(confinement=Confinement(named))
    with Session(CaseRunner(resolve(f"py:{FAKES}:TellsVariables"), limits)) as session:
        told = session.judge(cases(TRIGGER)[0]).steps["read"].result.message.split()
    assert "PATH" in told
    assert set(told) & {*SECRETS, *FOR_AN_INDEX} == got


def test_an_installed_package_gets_an_index_and_no_token(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("STC_CACHE", str(tmp_path))
    descriptor = descriptors()["safetensors"]
    env = replace(installing.environment(descriptor, descriptor.entries[0], "9.9"), requires=())
    note = tmp_path / "note"
    installing._run([sys.executable, str(FAKES), str(note)], env, print)
    given = json.loads(note.read_text(encoding="utf-8"))
    assert not set(SECRETS) & set(given)
    assert set(FOR_AN_INDEX) <= set(given)
    assert set(installer_variables()) >= set(child_variables()) - {"PYTHONHASHSEED"}


def test_loaders_of_the_bench_get_the_same_and_their_own_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Mapping[str, str]] = []

    def start(argv: list[str], *, env: Mapping[str, str], **options: Any) -> subprocess.Popen[str]:
        given.append(env)
        return real([sys.executable, "-c", ""], env=env, **options)

    real: Callable[..., subprocess.Popen[str]] = subprocess.Popen
    monkeypatch.setattr("subprocess.Popen", start)
    monkeypatch.setenv("INSTANTTENSOR_BACKEND", "URING")
    warm = {"INSTANTTENSOR_BACKEND": "BUFFERED", "FASTSAFETENSORS_ODIRECT": "0"}
    client.Client("reference", "cpu", None, (), 5.0, warm, ("HF_TOKEN",)).close()
    assert set(given[0]) & {*SECRETS, *FOR_AN_INDEX} == {"HF_TOKEN"}
    assert given[0]["INSTANTTENSOR_BACKEND"] == "URING"  # as the caller set it
    assert given[0]["FASTSAFETENSORS_ODIRECT"] == "0"


def test_a_target_that_imports_what_it_tests_gets_the_same() -> None:
    made = TargetConfig(("reference",), ("read",), env=("HF_TOKEN",)).environment()
    assert set(made) & {*SECRETS, *FOR_AN_INDEX} == {"HF_TOKEN"}
    assert made["STC_FUZZ_ENV"] == "HF_TOKEN"  # for the workers that it starts itself


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("NO_SUCH_NAME", "NO_SUCH_NAME: this variable is not set; set it for this command"),
        ("HF_TOKEN=secret", "'HF_TOKEN': give only the name of a variable that is set, without a value"),
        ("", "'': give only the name of a variable"),
    ],
)
def test_a_name_that_lets_nothing_through_is_an_error(given: str, words: str) -> None:
    result = CliRunner().invoke(run, ["--impl=reference", "--env", given])
    assert result.exit_code == 2
    assert f"--env {words}" in result.output
    assert "secret" not in result.output
