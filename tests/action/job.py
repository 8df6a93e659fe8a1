"""A job that uses the action, without the service: every ``run:`` step is executed as the runner would do it.

Steps that use another action are only written down, with what they were given. The step that installs is
left out; its command is tested by itself.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples"
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
LENIENT = "py:adapter/mylib_adapter.py:Adapter"
READER = """
import json


def load(path):
    with open(path, "rb") as file:
        data = file.read()
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), data[8 + length :]
"""
"""As careless as the example in docs, but it takes no memory for what is not there, which depends on load."""
TOKEN = "token-of-the-job"  # nothing is kept secret by a test


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
"""Any JSON, also what Python takes for it."""


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import a script of the action under its own name, for the time of a test."""
    spec = importlib.util.spec_from_file_location(name, ROOT / ".github" / "action" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


def pull_request(head: str = "me/mylib", number: int = 7) -> dict[str, Any]:
    return {"pull_request": {"number": number, "head": {"repo": {"full_name": head}}}}


def commands_in(log: str) -> list[str]:
    """Return the lines of a log that the runner takes for commands, each stretch without them must end."""
    found, token = [], ""
    for line in log.splitlines():
        if token:
            token = "" if line == f"::{token}::" else token
        elif line.startswith("::stop-commands::"):
            token = line.removeprefix("::stop-commands::")
            assert len(token) == 32
        elif line.startswith("::"):
            found.append(line)
    assert not token
    return found


@dataclass
class Job:
    """One job in a folder of its own; ``run`` takes the inputs that differ from their defaults."""

    folder: Path
    event_name: str = "push"
    event: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    outcomes: dict[str, str] = field(default_factory=dict)
    """Outcomes of the steps that are not executed, by id; success without one."""
    interrupt: str = ""
    """Id of the step that is interrupted once there are some results, as when a job is cancelled."""
    corpus: Path | None = None
    """Run in place of the whole corpus, which is what users of the action get."""

    def __post_init__(self) -> None:
        self.repository = self.folder / "repository"
        self.outputs: dict[str, dict[str, str]] = {}
        self.outcome: dict[str, str] = {}
        self.used: dict[str, dict[str, str]] = {}
        self.log = ""
        self.ok = True
        if not self.repository.exists():
            (self.repository / "adapter").mkdir(parents=True)
            adapter = (EXAMPLES / "mylib_adapter.py").read_bytes()
            (self.repository / "adapter" / "mylib_adapter.py").write_bytes(adapter)
            (self.repository / "adapter" / "mylib.py").write_text(READER)
            subprocess.run(["git", "init", "-q", str(self.repository)], check=True)
        (self.folder / "event.json").write_text(json.dumps(self.event))

    @property
    def report(self) -> Path:
        return self.repository / "conformance-report"

    @property
    def summary(self) -> str:
        path = self.folder / "summary.md"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def annotations(self, level: str) -> list[str]:
        return re.findall(rf"^::{level} title=safetensors conformance::(.*)$", self.log, re.MULTILINE)

    def run(self, *, until: str = "", **inputs: str) -> Job:
        """Run all steps in order; ``inputs`` are written with low lines for hyphens.

        ``until`` is the id of the last step, where the others do not matter.
        """
        given = {key.replace("_", "-"): value for key, value in inputs.items()}
        assert given.keys() <= ACTION["inputs"].keys()
        self.inputs = {
            name: str(about.get("default", "")) for name, about in ACTION["inputs"].items()
        } | given
        for step in STEPS:
            key = step.get("id", step["name"])
            if not self.wanted(step):
                self.outcome[key] = "skipped"
                continue
            if "uses" in step:
                with_ = {k: self._filled(str(v)) for k, v in step["with"].items()}
                self.used[step["uses"].partition("@")[0]] = with_
                self.outcome[key] = self.outcomes.get(key, "success")
            elif key == "install":
                self._environment(Path(self.outputs["check"]["work"]))
                self.outcome[key] = "success"
            else:
                self.execute(step, key)
            self.ok &= self.outcome[key] == "success" or bool(step.get("continue-on-error"))
            if key == until:
                break
        return self

    def step(self, key: str) -> None:
        """Run one step of this job, also one that it has run before, and keep only what that says."""
        self.log = ""
        self.execute(next(step for step in STEPS if key in (step.get("id"), step["name"])), key)

    def decide(self, fail_on: str) -> str:
        """Run the last step again with another ``fail-on``, and return its result."""
        path = Path(self.outputs["check"]["work"], "settings.json")
        path.write_text(json.dumps({**json.loads(path.read_bytes()), "fail_on": fail_on}))
        self.step("outcome")
        assert (self.outcome["outcome"] == "success") == (self.outputs["outcome"]["result"] == "passed")
        return self.outputs["outcome"]["result"]

    def _environment(self, work: Path) -> None:
        """Stand in for the installed environment: the one that the tests run in, with the job's corpus."""
        folder = work / "venv" / "bin"
        folder.mkdir(parents=True, exist_ok=True)
        # ``stc run`` gets one more argument.
        more = f'if [ "$1" = run ]; then set -- "$@" {shlex.quote(f"--corpus={self.corpus}")}; fi\n'
        for name, program, first in (
            ("python", sys.executable, ""),
            ("stc", str(Path(sys.executable).parent / "stc"), more if self.corpus else ""),
        ):
            (folder / name).write_text(f'#!/bin/sh\n{first}exec {shlex.quote(program)} "$@"\n')
            (folder / name).chmod(0o755)

    def execute(self, step: dict[str, Any], key: str) -> None:
        assert step["shell"] == "bash"
        script, out = self.folder / "step.sh", self.folder / "output.txt"
        script.write_text(step["run"])
        out.write_text("")
        env = {
            # What a step sees: little of the machine, and the service's own variables.
            **{k: os.environ[k] for k in ("PATH", "HOME", "TMPDIR", "LANG") if k in os.environ},
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_ACTOR": "me",
            "GITHUB_API_URL": "http://127.0.0.1:9",
            "GITHUB_EVENT_NAME": self.event_name,
            "GITHUB_EVENT_PATH": str(self.folder / "event.json"),
            "GITHUB_OUTPUT": str(out),
            "GITHUB_REPOSITORY": "me/mylib",
            "GITHUB_RUN_ID": "42",
            "GITHUB_SERVER_URL": "https://forge.example",
            "GITHUB_STEP_SUMMARY": str(self.folder / "summary.md"),
            "GITHUB_WORKSPACE": str(self.repository),
            "RUNNER_TEMP": str(self.folder / "temp"),
            **self.env,
            **{k: self._filled(v) for k, v in step.get("env", {}).items()},
        }
        # As the runner starts a step with "shell: bash".
        line = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
        pipe, merged = subprocess.PIPE, subprocess.STDOUT
        with subprocess.Popen(line, cwd=self.repository, env=env, stdout=pipe, stderr=merged) as child:
            if key == self.interrupt:
                self._wait_for_results()
                child.send_signal(signal.SIGINT)
            said, _ = child.communicate(timeout=300)
        self.log += said.decode(errors="replace")
        self.outcome[key] = "success" if child.returncode == 0 else "failure"
        if key == self.interrupt:
            self.outcome[key] = "cancelled"
        rows = (row.partition("=") for row in out.read_text().splitlines())
        self.outputs[key] = {name: value for name, _, value in rows}

    def _wait_for_results(self) -> None:
        """Wait until the run record holds some rows."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if any(len(p.read_bytes().splitlines()) > 8 for p in self.report.glob("runs/*.jsonl")):
                return
            time.sleep(0.05)
        raise AssertionError("the run wrote no results")

    def _value(self, name: str) -> str:
        """Return what one name of an expression stands for."""
        if name == "github.token":
            return TOKEN
        if name.startswith("inputs."):
            return self.inputs[name.removeprefix("inputs.")]
        parts = name.split(".")
        assert parts[0] == "steps", name
        assert any(step.get("id") == parts[1] for step in STEPS), f"{name}: no step has this id"
        if parts[2] == "outcome":
            return self.outcome.get(parts[1], "")
        return self.outputs.get(parts[1], {}).get(parts[3], "")

    def _filled(self, text: str) -> str:
        return re.sub(r"\$\{\{ ([a-z0-9._-]+) \}\}", lambda m: self._value(m[1]), text)

    def wanted(self, step: dict[str, Any]) -> bool:
        """Decide an ``if:``; without ``always()`` a step is left out after a failure, as the service does."""
        parts = step.get("if", "success()").split(" && ")
        if "always()" not in parts and not self.ok:
            return False
        for part in parts:
            if part in ("always()", "success()"):
                continue
            match = re.fullmatch(r"([a-z0-9._-]+) (==|!=) '([^']*)'", part)
            assert match is not None, f"an expression that this test does not know: {part}"
            if (self._value(match[1]) == match[3]) != (match[2] == "=="):
                return False
        return True
