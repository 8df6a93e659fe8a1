"""Code that all steps of the action share: settings, results, log and outputs.

It uses only the standard library, because the first step runs before anything is installed.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import signal
import stat
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]
"""Path of the suite's checkout, which contains this action."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}")
"""Valid names. A name becomes part of a file name, an HTML comment and the category of an upload."""
LARGEST_JSON = 256 << 20
"""Maximum number of bytes to read from a JSON document."""
NOT_STARTED = 127
"""Exit status for a program that cannot be started, as in a shell."""


@dataclass(frozen=True)
class Settings:
    """The checked inputs of the action, and the folders that its steps share.

    Attributes:
        work: folder for the virtual environment, logs and results, outside the repository.
        report: absolute path of the report folder. Its folder ``runs`` contains run records, and ``findings``
            contains the findings of the fuzzer.
        fail_on: ``failures``, ``should``, ``security`` or ``never``.
        check: files to check, one per line; if it is set, no implementation is tested.

    The other attributes are inputs with the same names.
    """

    work: str
    report: str
    name: str
    implementation: str
    install: str
    profile: str
    baseline: str
    triage: str
    fuzz_executions: int
    fuzz_seconds: float
    fuzz_steps: str
    fail_on: str
    check: str = ""

    @property
    def runs(self) -> Path:
        return Path(self.report, "runs")

    @property
    def findings(self) -> Path:
        return Path(self.report, "findings")

    def program(self, name: str) -> str:
        """Return the path of a program in the virtual environment."""
        return str(Path(self.work, "venv", "bin", name))

    def save(self) -> None:
        """Write the settings for later steps."""
        Path(self.work, "settings.json").write_text(json.dumps(asdict(self)), encoding="utf-8")


def checked_name(name: str) -> str:
    """Return the input ``name``. Stops the step with an error if it is invalid."""
    if not NAME.fullmatch(name):
        stop(
            "input name: must consist of at most 64 letters, digits, spaces, dots, underscores and hyphens, "
            f"got {name!r}"
        )
    return name


def load_settings() -> Settings:
    """Return the settings that the first step wrote."""
    return Settings(**read_json(Path(os.environ["STC_WORK"], "settings.json")))


def keep_status(settings: Settings, step: str, status: int) -> None:
    """Save the exit status of a step for the last step, which decides the outcome."""
    Path(settings.work, f"{step}.status").write_text(str(status), encoding="utf-8")


def kept_status(settings: Settings, step: str) -> int | None:
    """Return the exit status of an earlier step, or None if the step was not completed."""
    path = Path(settings.work, f"{step}.status")
    return int(path.read_text(encoding="utf-8")) if path.exists() else None


def run(settings: Settings, step: str, argv: list[str]) -> int:
    """Run a program, show its output, and save the output in the work folder. Returns the exit status."""
    # The runner must not interpret the output of a reader, or an input, as a command.
    token = secrets.token_hex(16)
    out = sys.stdout.buffer
    out.write(f"::stop-commands::{token}\n$ {shlex.join(argv)}\n".encode(errors="backslashreplace"))
    out.flush()
    try:
        with Path(settings.work, f"{step}.log").open("wb") as log:
            status = _run(argv, lambda data: (log.write(data), out.write(data), out.flush()))
    finally:
        out.write(f"\n::{token}::\n".encode())
        out.flush()
    keep_status(settings, step, status)
    return status


def _run(argv: list[str], show: Callable[[bytes], object]) -> int:
    try:
        # The child has its own process group, so Ctrl-C does not reach it directly. Only this process
        # interrupts it.
        child = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, process_group=0)
    except OSError as err:  # the environment is missing, or an input is too long for a command line
        show(f"{argv[0]}: cannot be started: {err.strerror}\n".encode())
        return NOT_STARTED
    with child:
        assert child.stdout is not None
        while True:
            try:
                # Do not read by line, because the last output before a hang is the most important.
                data = os.read(child.stdout.fileno(), 65536)
                if not data:
                    break
                show(data)
            except KeyboardInterrupt:
                # The program still finishes writing its records, so keep reading its output.
                child.send_signal(signal.SIGINT)
        return child.wait()


def annotate(level: str, text: str) -> None:
    """Print an ``error``, ``warning`` or ``notice`` that the runner shows with the job."""
    codes = {"%": "%25", "\r": "%0D", "\n": "%0A"}
    text = "".join(codes.get(char, char if char.isprintable() else "") for char in text)
    print(f"::{level} title=safetensors conformance::{text}", flush=True)


def stop(text: str) -> NoReturn:
    """Stop the step with an error."""
    annotate("error", text)
    raise SystemExit(1)


def step(main: Callable[[], None]) -> None:
    """Run a step. An I/O error stops it with a message instead of a traceback."""
    try:
        main()
    except (OSError, ValueError) as err:
        stop(f"{type(err).__name__}: {err}")


def output(**values: str) -> None:
    """Set outputs of the step."""
    with Path(os.environ["GITHUB_OUTPUT"]).open("a", encoding="utf-8") as file:
        for name, value in values.items():
            if "\n" in value or "\r" in value:
                raise ValueError(f"output {name}: a line break would set other outputs")
            file.write(f"{name}={value}\n")


def summary(text: str) -> None:
    """Add Markdown to the summary of the job."""
    with Path(os.environ["GITHUB_STEP_SUMMARY"]).open("a", encoding="utf-8") as file:
        file.write(text + "\n")


def read_regular(path: Path, limit: int) -> bytes:
    """Return the first bytes of a file. Raises OSError.

    A tested package may be able to write the file. A link could expose another file, such as
    ``/proc/self/environ`` with the token, and a pipe would block, so both are errors.
    """
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(f"{path} is not a regular file")
        return file.read(limit)


def read_json(path: Path) -> dict[str, Any]:
    """Return a JSON object from a file. Raises OSError and ValueError."""
    try:
        document = json.loads(read_regular(path, LARGEST_JSON))
    except (ValueError, RecursionError) as err:
        raise ValueError(f"{path} is not JSON: {err}") from err
    if not isinstance(document, dict):
        raise ValueError(f"{path} does not contain a JSON object")
    return document


def event() -> dict[str, Any]:
    """Return the event that started the job, as GitHub describes it. Raises OSError and ValueError."""
    path = os.environ.get("GITHUB_EVENT_PATH")
    return read_json(Path(path)) if path else {}
