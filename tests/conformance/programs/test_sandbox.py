"""``--sandbox``, containers and variables: restrictions on tested programs, with unchanged verdicts."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
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
from safetensors_conformance.implementations.selectors import SelectorError, Target, resolve, resolve_named
from safetensors_conformance.outcome import StepResult
from safetensors_conformance.programs.launcher import Confinement, child_variables, installer_variables
from safetensors_conformance.programs.sandbox import (
    RUN_FOLDER_VARIABLE,
    Sandbox,
    SandboxError,
    ensure_run_folder,
)
from safetensors_conformance.run.session import Session
from safetensors_conformance.worker.worker import Limits, StartError, make_worker
from safetensors_corpus import Case, manifest
from safetensors_corpus.packed import temporary_folder
from safetensors_fuzz.cli import fuzz
from safetensors_fuzz.engines.atheris.loop import TargetConfig

from ..known_files import BYTES
from ..support import HERE, REPOSITORY, STC, TRIGGER, cases, committed

pytestmark = pytest.mark.usefixtures("loaded_once")

FAKES = HERE / "access_fakes.py"
BUDGET_FAKES = HERE / "budget_fakes.py"
NAMED = ("FAKE_CORPUS", "FAKE_HOME", "FAKE_PORT", "FAKE_VICTIM")
FILES = committed().root / "files"


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Undo what a sandbox changes in this process; each test creates its own."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", tempfile.gettempdir())
    monkeypatch.setenv(RUN_FOLDER_VARIABLE, "")
    monkeypatch.setattr(manifest, "_MADE", {})
    temporary_folder.cache_clear()
    for name in NAMED:
        monkeypatch.setenv(name, "")
    monkeypatch.chdir(REPOSITORY)
    yield
    temporary_folder.cache_clear()


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A home folder with a key in it."""
    folder = tmp_path / "home"
    (folder / ".ssh").mkdir(parents=True)
    (folder / ".ssh" / "id_ed25519").write_text("the key", encoding="ascii")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("FAKE_HOME", str(folder))
    monkeypatch.setenv("FAKE_CORPUS", str(FILES))
    return folder


@pytest.fixture
def boxed() -> Confinement:
    """A sandbox, where there can be one."""
    if sys.platform != "linux" or shutil.which("bwrap") is None:
        pytest.skip("there is no bubblewrap here")
    try:
        ensure_run_folder()
    except SandboxError as err:
        pytest.skip(str(err))
    return Confinement.of(NAMED, sandbox=True, net=False).with_shown(FILES)


def asked(selector: str, confinement: Confinement, case: Case | None = None) -> StepResult:
    """The answer of a reader about one file."""
    with Session(resolve(selector), Limits(10.0, 1 << 30, confinement)) as session:
        return session.judge(case or cases(TRIGGER)[0]).steps["read"].result


def said(name: str, confinement: Confinement) -> str:
    return asked(f"py:{FAKES}:{name}", confinement).message.removeprefix("ValueError: ")


def test_a_sandbox_keeps_readers_from_what_they_reach_without_it(home: Path, boxed: Confinement) -> None:
    wrote, planted = f"wrote to {home}", home / "planted"
    assert said("WritesToHome", boxed) == wrote  # into one of its own, gone by now
    assert not planted.exists()
    assert said("WritesToHome", Confinement(NAMED)) == wrote
    assert planted.exists()
    assert said("ReadsAKey", Confinement(NAMED)) == "the key"
    for name in ("ReadsAKey", "WritesToTheCorpus", "FillsItsOwnFolder"):
        assert said(name, boxed).startswith("could not: ")
    assert not list(FILES.rglob("planted"))


@pytest.mark.parametrize(
    ("sandbox", "net", "got"),
    [(False, False, "connected"), (True, False, "could"), (True, True, "connected")],
)
def test_the_network_is_there_only_when_asked_for(
    monkeypatch: pytest.MonkeyPatch, boxed: Confinement, sandbox: bool, net: bool, got: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("FAKE_PORT", str(server.getsockname()[1]))
        limits = Confinement.of(NAMED, sandbox=sandbox, net=net).with_shown(FILES)
        assert said("Connects", limits).startswith(got)


def test_no_process_outside_is_seen_or_killed(boxed: Confinement, monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as victim:
        monkeypatch.setenv("FAKE_VICTIM", str(victim.pid))
        assert said("Kills", boxed) == "could not: ProcessLookupError"
        assert victim.poll() is None
        assert len(said("CountsProcesses", boxed).split()) == 2  # who leads the sandbox, and the reader
        assert len(said("CountsProcesses", Confinement(NAMED)).split()) > 3
        assert said("Kills", Confinement(NAMED)) == "killed"
        assert victim.wait(5) == -9


@pytest.mark.parametrize(
    ("how", "outcome", "words"),
    [
        ("SIGSEGV", "crash", "killed by SIGSEGV"),
        ("SIGKILL", "exhausted", "killed by SIGKILL"),
        ("3", "crash", "ended with exit status 3"),
        ("1", "reject", ""),
        ("0", "accept", ""),
    ],
)
def test_ends_are_told_as_without_a_sandbox(boxed: Confinement, how: str, outcome: str, words: str) -> None:
    for confinement in (boxed, Confinement()):
        result = asked(f"exit:{sys.executable} {FAKES} {how} {{path}}", confinement)
        assert (result.outcome, words in result.message) == (outcome, True)


def test_a_program_that_cannot_be_run_inside_has_refused_nothing(boxed: Confinement, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/no/such/interpreter\n", encoding="ascii")
    program.chmod(0o755)
    result = asked(f"exit:{program} {{path}}", boxed)
    assert result.outcome == "harness-error"
    assert "cannot be run" in result.message


@pytest.mark.parametrize(("name", "cost"), [("TakesMemory", "peak_bytes"), ("ReadsMuch", "read_bytes")])
def test_costs_are_those_of_the_program(boxed: Confinement, name: str, cost: str) -> None:
    case = replace(cases(TRIGGER)[0], budget={cost: 1 << 16})
    result = asked(f"py:{BUDGET_FAKES}:{name}", boxed, case)
    assert [excess.used >= BYTES * 0.9 for excess in result.over_budget] == [True]


SAMPLE_OF_EACH = 3
"""Cases of each kind that are run both ways."""


@pytest.mark.parametrize("selector", ["reference", "safetensors"])
def test_verdicts_are_the_same_inside(boxed: Confinement, selector: str) -> None:
    kinds: dict[str, list[Case]] = {}
    for case in committed().cases:
        if not case.heavy:
            kinds.setdefault(case.kind, []).append(case)
    chosen = [c for found in kinds.values() for c in found[:: max(len(found) // SAMPLE_OF_EACH, 1)]]
    told = []
    for confinement in (Confinement(), boxed):
        with Session(resolve(selector), Limits(30.0, confinement=confinement)) as session:
            who = session.start()
            usable = [case for case in chosen if who.steps_of(case)]
            session.plan(usable)
            verdicts = {case.id: session.judge(case) for case in usable}
        told.append({i: {s: v.verdict for s, v in found.steps.items()} for i, found in verdicts.items()})
    assert told[0] == told[1]
    assert len(told[0]) > 3 * SAMPLE_OF_EACH
    assert not any("harness-error" in steps.values() for steps in told[0].values())


def test_the_home_folder_is_not_shown_because_one_stands_in_it(
    monkeypatch: pytest.MonkeyPatch, home: Path, boxed: Confinement
) -> None:
    monkeypatch.chdir(home)
    result = asked(f"exit:{sys.executable} {FAKES} 0 {{path}}", boxed)
    assert result.outcome == "harness-error"
    assert f"{home} contains your home folder" in result.message


NO_BWRAP = "--sandbox needs bubblewrap (Linux), but the program bwrap was not found"
NOT_ALLOWED = "--sandbox: bwrap cannot create a sandbox here (bwrap: No permissions to create new namespace"


@pytest.mark.parametrize(
    ("text", "option", "words"),
    [
        (None, "--sandbox", NO_BWRAP),
        ("echo 'bwrap: No permissions to create new namespace' >&2\nexit 1", "--sandbox", NOT_ALLOWED),
        (None, "--sandbox-net", "give --sandbox, too"),
        (None, "--env=NO_SUCH_NAME", "--env NO_SUCH_NAME: this variable is not set; set it for this command"),
        (None, "--env=HF_TOKEN=secret", "--env 'HF_TOKEN': give only the name of a variable that is set, wi"),
        (None, "--env=", "--env '': give only the name of a variable"),
    ],
)
def test_with_an_option_that_cannot_work_nothing_is_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str | None, option: str, words: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    if text is not None:
        (tmp_path / "bwrap").write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "bwrap").chmod(0o755)
    result = CliRunner().invoke(run, ["--impl=reference", f"--case={TRIGGER}", option])
    assert (result.exit_code, words in result.output, "pass 1" in result.output) == (2, True, False)
    assert "secret" not in result.output


def test_the_commands_run_in_a_sandbox(boxed: Confinement, few_cases: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path), RUN_FOLDER_VARIABLE: ""}
    index = [*STC, "fuzz", f"--impl=py:{FAKES}:ReadsAKey", "--max-execs=40", "--sandbox"]
    suite = [sys.executable, "-m", "pytest", "conformance", "-q", "-k", "two-dtypes", "--sandbox"]
    suite += [f"--corpus={few_cases}"]
    for argv, status in ((suite, 0), (index, 1)):
        done = subprocess.run(argv, capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == status, done.stdout + done.stderr
    assert not list(tmp_path.iterdir())  # the folder of the run is gone


# Readers in container images: a fake podman runs a reader that sees only what is shown


STAND_IN = """#!{python}
import json, os, sys
with open({log!r}, "a") as log:
    log.write(json.dumps(sys.argv[1:]) + chr(10))
if sys.argv[1] != "run":
    raise SystemExit
shown = [w.partition("source=")[2].partition(",")[0] for w in sys.argv if w.startswith("--mount")]
whole = open
def guarded(path, *more):
    if not any(os.path.realpath(path).startswith(folder + "/") for folder in shown):
        os._exit(70)
    return whole(path, *more)
sys.argv = [{reader!r}]
code = compile(whole({reader!r}).read(), {reader!r}, "exec")
exec(code, {{"open": guarded, "__name__": "__main__"}})
"""


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The commands that the fake received, one JSON list per line."""
    program = tmp_path / "podman"
    reader = str(REPOSITORY / "docs" / "examples" / "stdio_reader.py")
    found = tmp_path / "log"
    program.write_text(
        STAND_IN.format(python=sys.executable, log=str(found), reader=reader), encoding="utf-8"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    return found


def test_an_image_is_asked_about_files_that_it_is_shown_and_has_no_more(log: Path) -> None:
    with Session(resolve("oci:example.org/reader --flag"), Limits()) as session:
        assert session.start().steps == ("open", "read")
        result = session.judge(cases(TRIGGER)[0]).steps["read"].result
        assert result.outcome == "accept", result.message
    first, *_, last = log.read_text(encoding="utf-8").splitlines()
    (name,) = {word for word in first.split('"') if word.startswith("--name=")}
    assert last == f'["rm", "--force", "{name.removeprefix("--name=")}"]'
    for option in ("--network=none", "--read-only", "--cap-drop=ALL", "--rm", "--interactive", "--memory="):
        assert option in first
    assert f"source={tempfile.gettempdir()},target={tempfile.gettempdir()},readonly" in first
    assert first.endswith('"example.org/reader", "--flag"]')


def test_files_of_the_corpus_are_shown_where_they_are_asked_about(log: Path) -> None:
    with closing(make_worker(resolve("oci:reader"), Limits().with_shown(FILES))) as worker:
        worker.start()
        assert worker.ask("read", str(cases(TRIGGER)[0].path)).outcome == "accept"
        assert worker.ask("read", str(HERE / "support.py")).outcome == "crash"  # the stand-in's way of no


def test_a_container_writes_nothing_and_has_no_sandbox_around_it(log: Path, tmp_path: Path) -> None:
    steps = ("open", "read", "write", "sharded", "remote")
    assert Target("oci:x", "oci", ("x",)).reachable(steps, Confinement()) == ("open", "read")
    worker = make_worker(resolve("oci:reader"), Limits(confinement=Confinement(sandbox=Sandbox(tmp_path))))
    with pytest.raises(StartError, match="leave out --sandbox"):
        worker.start()
    worker.close()


def test_images_of_documents_and_none_are_refused(
    log: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for selector in ("oci:", "oci:--privileged x", "oci:'open"):
        with pytest.raises(SelectorError):
            resolve(selector)
    with pytest.raises(SelectorError, match="a document may name"):
        resolve_named("oci:reader")
    assert not log.exists()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(SelectorError, match=r"podman, docker not found.*one of them is sufficient"):
        resolve("oci:reader")


# Environment of tested programs: listed variables, and no tokens


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
    assert {"PATH", "HOME"} <= set(given)
    assert given["PYTHONHASHSEED"] == "0"  # a reader that goes through a set answers alike in every run
    given = given_to(way[0], tmp_path / "named", *way[1:], "--env=HF_TOKEN", "--env=HTTPS_PROXY")
    assert set(given) & {*SECRETS, *FOR_AN_INDEX} == {"HF_TOKEN", "HTTPS_PROXY"}
    assert given["HF_TOKEN"] == "of the caller"


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
