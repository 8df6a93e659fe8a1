"""Running what a user runs: the commands of the project, in the root of the checkout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection

ROOT = Path(__file__).resolve().parents[1]
LONGEST = 3600
"""Seconds that one command may take."""

_LINES = 3


class FailedError(Exception):
    """An item could not be made, so nothing is known about it."""


def run(*command: str, statuses: Collection[int] = (0,)) -> subprocess.CompletedProcess[str]:
    """Run a command of this environment. Raises FailedError when it ends with another status."""
    program = beside(command[0])
    shown = " ".join(command)
    variables = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb", "LC_ALL": "C.UTF-8"}
    variables.pop("STC_IMPLEMENTATIONS", None)  # readers of whoever runs this
    try:
        done = subprocess.run(
            [program, *command[1:]],
            cwd=ROOT,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=LONGEST,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise FailedError(f"{shown}: not done after {LONGEST} s") from None
    if done.returncode not in statuses:
        said = " / ".join((done.stderr.strip() or done.stdout.strip()).splitlines()[-_LINES:])
        raise FailedError(f"{shown}: exit status {done.returncode}: {said}")
    return done


def stc(*words: str, statuses: Collection[int] = (0,)) -> subprocess.CompletedProcess[str]:
    return run("stc", *words, statuses=statuses)


def beside(name: str) -> str:
    """Return the program of this name beside this interpreter, or else on the path."""
    if name == "python":
        return sys.executable
    folder = Path(sys.executable).parent
    found = shutil.which(name, path=f"{folder}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        raise FailedError(f"{name}: no such program")
    return found


def json_lines(text: str) -> list[dict[str, Any]]:
    """Raises FailedError for no lines at all: what should have printed them was not asked about anything."""
    rows = [json.loads(line) for line in text.splitlines() if line.strip()]
    if not rows:
        raise FailedError("no lines of JSON")
    return rows


def packages() -> list[str]:
    """Return the names of the packages that ship."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    folders = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    return [Path(folder).name for folder in folders]


def foreign() -> str:
    """Return where the installed packages lie when that is not this checkout, nothing otherwise."""
    program = (
        "import sys; from importlib.util import find_spec as f; [print(f(n).origin) for n in sys.argv[1:]]"
    )
    try:
        places = run("python", "-P", "-c", program, *packages()).stdout.splitlines()
    except FailedError as err:
        return str(err)
    return next((place for place in places if not Path(place).resolve().is_relative_to(ROOT)), "")


def commit() -> str:
    """Return the commit that is checked out, with a mark when files differ from it."""
    try:
        head = run("git", "rev-parse", "HEAD").stdout.strip()
        changed = run("git", "status", "--porcelain", "--untracked-files=no").stdout.strip()
    except FailedError:
        return "unknown"
    return f"{head}, changed" if changed else head
