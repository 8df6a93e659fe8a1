"""Run the commands of the project as a user would, in the root of the checkout."""

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
"""Time limit in seconds for one command."""

_LINES = 3


class FailedError(Exception):
    """An item could not be computed, so there is nothing to record or compare."""


def run(*command: str, statuses: Collection[int] = (0,)) -> subprocess.CompletedProcess[str]:
    """Run a command of this environment. Raises FailedError if it exits with an unexpected status."""
    program = beside(command[0])
    shown = " ".join(command)
    variables = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb", "LC_ALL": "C.UTF-8"}
    variables.pop("STC_IMPLEMENTATIONS", None)  # this variable would add the user's own implementations
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
        raise FailedError(f"{shown}: not finished after {LONGEST} s") from None
    if done.returncode not in statuses:
        said = " / ".join((done.stderr.strip() or done.stdout.strip()).splitlines()[-_LINES:])
        raise FailedError(f"{shown}: exit status {done.returncode}: {said}")
    return done


def stc(*words: str, statuses: Collection[int] = (0,)) -> subprocess.CompletedProcess[str]:
    return run("stc", *words, statuses=statuses)


def beside(name: str) -> str:
    """Return the program with this name from the directory of this interpreter, or else from ``PATH``."""
    if name == "python":
        return sys.executable
    folder = Path(sys.executable).parent
    found = shutil.which(name, path=f"{folder}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        raise FailedError(f"{name}: there is no such program")
    return found


def json_lines(text: str) -> list[dict[str, Any]]:
    """Parse lines of JSON. Raises FailedError if there are none, because the command reported nothing."""
    rows = [json.loads(line) for line in text.splitlines() if line.strip()]
    if not rows:
        raise FailedError("the output contains no lines of JSON")
    return rows


def packages() -> list[str]:
    """Return the names of the released packages."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    folders = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    return [Path(folder).name for folder in folders]


def foreign() -> str:
    """Return the location of the installed packages if it is not this checkout, and otherwise None."""
    program = (
        "import sys; from importlib.util import find_spec as f; [print(f(n).origin) for n in sys.argv[1:]]"
    )
    try:
        places = run("python", "-P", "-c", program, *packages()).stdout.splitlines()
    except FailedError as err:
        return str(err)
    return next((place for place in places if not Path(place).resolve().is_relative_to(ROOT)), "")


def commit() -> str:
    """Return the checked-out commit, with a mark if files have been changed since."""
    try:
        head = run("git", "rev-parse", "HEAD").stdout.strip()
        changed = run("git", "status", "--porcelain", "--untracked-files=no").stdout.strip()
    except FailedError:
        return "unknown"
    return f"{head}, changed" if changed else head
