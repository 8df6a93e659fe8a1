"""First step: check the inputs before anything is installed, and say what this job may do."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from common import NAME, Settings, annotate, event, output, step, stop

PROFILES = ("", "text", "official", "hardened")
FAIL_ON = ("failures", "should", "security", "never")


def text(name: str, *, lines: bool = False) -> str:
    """Return an input without blanks around it; a line break is refused unless ``lines``."""
    value = os.environ.get(f"STC_{name.upper().replace('-', '_')}", "").strip()
    if not lines and len(value.splitlines()) > 1:
        stop(f"input {name}: must be one line, got {value!r}")
    return value


@contextmanager
def usable(name: str) -> Iterator[None]:
    """End the step with an error when what an input names cannot be looked at."""
    try:
        yield
    except OSError as err:
        stop(f"input {name}: {err.strerror}")


def one_of(name: str, allowed: tuple[str, ...]) -> str:
    """Return an input that must be one of some words."""
    value = text(name)
    if value not in allowed:
        stop(f"input {name}: must be one of {', '.join(w for w in allowed if w)}, got {value!r}")
    return value


def number(name: str, least: float, most: float) -> float:
    """Return an input that must be a number within limits, both included."""
    value = text(name)
    try:
        found = float(value)
    except ValueError:
        found = math.nan
    if not least <= found <= most:
        stop(f"input {name}: must be a number from {least:g} to {most:g}, got {value!r}")
    return found


def existing(name: str) -> str:
    """Return an input that names a file, or nothing."""
    value = text(name)
    with usable(name):
        if value and not Path(value).is_file():
            stop(f"input {name}: there is no file {value!r} in {Path.cwd()}; is the repository checked out?")
    return value


def report_folder() -> str:
    """Return the folder of the report; one that holds something would mix two reports."""
    folder = Path(text("report") or "conformance-report").absolute()
    with usable("report"):
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            stop(f"input report: {folder} is there already and not an empty folder; give another one")
    return str(folder)


def settings() -> Settings:
    """Return the inputs, checked. Ends the step with an error for one that cannot be used."""
    name = text("name")
    if not NAME.fullmatch(name):
        stop(f"input name: letters, digits, blanks, dots, hyphens, at most 64 of them, got {name!r}")
    files = text("check", lines=True)
    if bool(text("implementation")) == bool(files):
        stop(
            "input implementation: is missing; a selector such as py:tests/adapter.py:Adapter, or give check"
            if not files
            else "inputs implementation and check: give one of them, in a job or step for each"
        )
    try:
        shlex.split(text("install", lines=True))
    except ValueError as err:
        stop(f"input install: {err}; it is split as a shell would do, but no shell runs")
    executions = number("fuzz-executions", 0, 1e9)
    if executions != int(executions):
        stop(f"input fuzz-executions: must be a whole number, got {text('fuzz-executions')!r}")
    # A folder of its own for each use of the action within a job.
    work = Path(os.environ["RUNNER_TEMP"], "safetensors-conformance", name.replace(" ", "-"))
    return Settings(
        work=str(work),
        report=report_folder(),
        name=name,
        implementation=text("implementation"),
        install=text("install", lines=True),
        profile=one_of("profile", PROFILES),
        baseline=existing("baseline"),
        triage=existing("triage"),
        fuzz_executions=0 if files else int(executions),
        fuzz_seconds=number("fuzz-seconds", 0.1, 21600),
        fuzz_steps=text("fuzz-steps"),
        fail_on=one_of("fail-on", FAIL_ON),
        check=files,
    )


def read_only() -> str:
    """Return why the token of this job can only read, or nothing when it may do what the workflow says."""
    if os.environ.get("GITHUB_EVENT_NAME") != "pull_request":
        return ""
    if os.environ.get("GITHUB_ACTOR") == "dependabot[bot]":
        return "a pull request of dependabot"
    match event():
        case {"pull_request": {"head": {"repo": {"full_name": head}}}}:
            own = head == os.environ.get("GITHUB_REPOSITORY")
        case _:
            own = False
    return "" if own else "a pull request from a fork"


def main() -> None:
    """Check, tell the later steps, and say what is left out and why."""
    made = settings()
    wants = {name: one_of(name, ("true", "false")) == "true" for name in ("upload-sarif", "comment")}
    why_not = read_only()
    for name, wanted in wants.items():
        if wanted and why_not:
            annotate("notice", f"{name}: left out, the token of {why_not} can only read")
            wants[name] = False
    if wants["comment"] and made.check:
        annotate("notice", "comment: left out, it is for implementations")
        wants["comment"] = False
    if wants["comment"] and os.environ.get("GITHUB_EVENT_NAME") != "pull_request":
        annotate("notice", "comment: left out, this job was not started by a pull request")
        wants["comment"] = False
    if os.environ.get("GITHUB_EVENT_NAME") == "pull_request_target":
        annotate(
            "warning", "pull_request_target gives strangers' code your token; run this action on pull_request"
        )
    Path(made.work).mkdir(parents=True, exist_ok=True)
    for old in Path(made.work).glob("*.status"):
        old.unlink()  # of an earlier job on a runner that keeps its folder
    made.save()
    output(
        work=made.work,
        report=made.report,
        name=made.name,
        files=str(bool(made.check)).lower(),
        fuzz=str(made.fuzz_executions > 0).lower(),
        sarif=str(wants["upload-sarif"]).lower(),
        comment=str(wants["comment"]).lower(),
    )


if __name__ == "__main__":
    step(main)
