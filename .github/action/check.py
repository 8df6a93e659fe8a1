"""First step: check the inputs before anything is installed, and decide which later steps run."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from common import Settings, annotate, checked_name, event, output, step, stop

PROFILES = ("", "text", "official", "hardened")
FAIL_ON = ("failures", "should", "security", "never")


def text(name: str, *, lines: bool = False) -> str:
    """Return an input without surrounding whitespace. Line breaks are an error unless ``lines`` is set."""
    value = os.environ.get(f"STC_{name.upper().replace('-', '_')}", "").strip()
    if not lines and len(value.splitlines()) > 1:
        stop(f"input {name}: must be one line, got {value!r}")
    return value


@contextmanager
def usable(name: str) -> Iterator[None]:
    """Stop the step with an error if the path in an input cannot be accessed."""
    try:
        yield
    except OSError as err:
        stop(f"input {name}: {err.strerror}")


def one_of(name: str, allowed: tuple[str, ...]) -> str:
    """Return an input that must be one of the allowed words."""
    value = text(name)
    if value not in allowed:
        stop(f"input {name}: must be one of {', '.join(w for w in allowed if w)}, got {value!r}")
    return value


def number(name: str, least: float, most: float) -> float:
    """Return an input that must be a number between two limits, inclusive."""
    value = text(name)
    try:
        found = float(value)
    except ValueError:
        found = math.nan
    if not least <= found <= most:
        stop(f"input {name}: must be a number from {least:g} to {most:g}, got {value!r}")
    return found


def existing(name: str) -> str:
    """Return an input that must be empty or the path of a file."""
    value = text(name)
    with usable(name):
        if value and not Path(value).is_file():
            stop(f"input {name}: there is no file {value!r} in {Path.cwd()}; is the repository checked out?")
    return value


def report_folder() -> str:
    """Return the report folder. It must be empty, because old files would become part of the new report."""
    folder = Path(text("report") or "conformance-report").absolute()
    with usable("report"):
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            stop(f"input report: {folder} exists and is not an empty folder; give another folder")
    return str(folder)


def settings() -> Settings:
    """Return the checked inputs. Stops the step with an error if an input is invalid."""
    name = checked_name(text("name"))
    files = text("check", lines=True)
    if bool(text("implementation")) == bool(files):
        stop(
            (
                "input implementation: missing; give a selector such as py:tests/adapter.py:Adapter, or the "
                "input check"
            )
            if not files
            else (
                "inputs implementation and check: give only one of them, and use a separate job or step for "
                "the other"
            )
        )
    try:
        shlex.split(text("install", lines=True))
    except ValueError as err:
        stop(f"input install: {err}; the input is split like a shell command, but no shell runs")
    executions = number("fuzz-executions", 0, 1e9)
    if executions != int(executions):
        stop(f"input fuzz-executions: must be a whole number, got {text('fuzz-executions')!r}")
    # Each use of the action within a job has its own folder.
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
    """Return the reason why this job's token has only read access, or an empty string if it can write."""
    if os.environ.get("GITHUB_EVENT_NAME") != "pull_request":
        return ""
    if os.environ.get("GITHUB_ACTOR") == "dependabot[bot]":
        return "a pull request from Dependabot"
    match event():
        case {"pull_request": {"head": {"repo": {"full_name": head}}}}:
            own = head == os.environ.get("GITHUB_REPOSITORY")
        case _:
            own = False
    return "" if own else "a pull request from a fork"


def main() -> None:
    """Check the inputs, set the outputs for later steps, and report which steps are skipped and why."""
    made = settings()
    wants = {name: one_of(name, ("true", "false")) == "true" for name in ("upload-sarif", "comment")}
    why_not = read_only()
    for name, wanted in wants.items():
        if wanted and why_not:
            annotate("notice", f"{name}: skipped, because the token of {why_not} has only read access")
            wants[name] = False
    if wants["comment"] and made.check:
        annotate("notice", "comment: skipped, because it is available only for implementations")
        wants["comment"] = False
    if wants["comment"] and os.environ.get("GITHUB_EVENT_NAME") != "pull_request":
        annotate("notice", "comment: skipped, because this job was not started by a pull request")
        wants["comment"] = False
    if os.environ.get("GITHUB_EVENT_NAME") == "pull_request_target":
        annotate(
            "warning",
            "pull_request_target gives the token to untrusted code; run this action on pull_request",
        )
    Path(made.work).mkdir(parents=True, exist_ok=True)
    for old in Path(made.work).glob("*.status"):
        old.unlink()  # left by an earlier job on a runner that keeps its temporary folder
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
