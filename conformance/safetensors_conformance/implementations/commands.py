"""Commands that fetch, install and build. When a command ends, all processes that it started are killed."""

from __future__ import annotations

import re
import shutil
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from safetensors_reference.rules.errors import PortableError
from safetensors_reports.text import listed, visible

from ..programs.limited_process import (
    Child,
    Deadline,
    DiedError,
    EndlessLineError,
    MemoryLimitError,
    TimeLimitError,
)

MAX_SECONDS = 3600.0
MAX_MEMORY = 64 << 30
"""Maximum memory in bytes for one command, so that a command cannot exhaust the machine's memory."""
KEPT_LINES = 1000
PACKAGES = {
    **{name: name for name in ("cargo", "clang", "cmake", "elixir", "g++", "gcc", "gfortran", "ghc", "git")},
    **{name: name for name in ("make", "meson", "mlton", "npm", "podman", "python3", "ruby", "rustc")},
    "docker": "docker.io",
    "dune": "ocaml-dune",
    "go": "golang-go",
    "java": "default-jre-headless",
    "javac": "default-jdk-headless",
    "mcs": "mono-mcs",
    "mix": "elixir",
    "mono": "mono-runtime",
    "mvn": "maven",
    "ninja": "ninja-build",
    "node": "nodejs",
    "ocamlfind": "ocaml-findlib",
    "Rscript": "r-base-core",
    "sbcl": "sbcl",
}
"""Maps a program to its Debian package."""


class InstallError(PortableError):
    """An environment cannot be created. The message gives the reason and the remedy."""


class CommandFailedError(InstallError):
    """A command ended with an error. ``lines`` are the last lines that it printed."""

    def __init__(self, what: str, lines: Sequence[str], end: DiedError) -> None:
        super().__init__(f"{what}: {last_words(lines) or end}")
        self.lines = lines


def missing_programs(programs: Sequence[str]) -> str:
    gone = [name for name in dict.fromkeys(programs) if shutil.which(name) is None]
    if not gone:
        return ""
    packages = [PACKAGES[name] for name in gone if name in PACKAGES]
    how = f"; on Debian: apt-get install {' '.join(packages)}" if packages else ""
    return f"{listed([visible(name) for name in gone], 20)} not found on this machine{how}"


def run(
    argv: Sequence[str],
    variables: Mapping[str, str],
    what: str,
    on_line: Callable[[str], None],
    *,
    folder: Path,
    merged: bool = False,
) -> list[str]:
    """Run a command in ``folder`` and return the last lines of its standard output.

    If ``merged``, the lines of standard error are included. The message of an InstallError begins with
    ``what``.
    """
    to = "2>&1" if merged else ""
    argv = ["/bin/sh", "-c", f'cd "$0" && exec "$@" </dev/null {to}', str(folder), *argv]
    lines: deque[str] = deque(maxlen=KEPT_LINES)
    deadline = Deadline(MAX_SECONDS)
    try:
        child = Child(argv, MAX_MEMORY, variables)
    except OSError as err:
        raise InstallError(f"{what}: {visible(str(err))}") from err
    try:
        while True:
            lines.append(child.read_line(deadline).decode("utf-8", "replace"))
            on_line(visible(lines[-1]))
    except DiedError as end:
        lines += child.partial_line.decode("utf-8", "replace").splitlines()
        if end.status == 0:
            return list(lines)
        raise CommandFailedError(what, [*lines, *child.drain_stderr().splitlines()], end) from end
    except TimeLimitError as err:
        raise InstallError(f"{what}: not finished after {MAX_SECONDS / 60:.0f} minutes") from err
    except MemoryLimitError as err:
        raise InstallError(f"{what}: {err}") from err
    except EndlessLineError as err:
        raise InstallError(f"{what}: the command printed an endless line") from err
    finally:
        child.wait_closed(0)


def last_words(lines: Sequence[str]) -> str:
    """Return the first line of a failed command that mentions an error, or the last line if none does."""
    errors = [line for line in lines if re.search(r"(?i)\b(err|error|fatal)\b", line)]
    said = (errors[:1] or [line for line in lines if line.strip()] or [""])[-1].strip()
    return visible(said, 300)
