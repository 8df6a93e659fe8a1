"""Helpers of the harness's tests."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import click
import psutil
from click.testing import CliRunner, Result

from safetensors_conformance.implementations.selectors import Target
from safetensors_corpus import Case, Manifest, load_manifest

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
SUITE = REPOSITORY / "conformance"
STC = (sys.executable, "-c", "from safetensors_reference.main import main; main()")


def fake(name: str, module: str = "fakes") -> str:
    """Selector of a fake reader in Python, by its class and module."""
    return f"py:{HERE / module}.py:{name}"


device_loader = functools.partial(fake, module="device_fakes")
"""Selector of a fake loader onto a device."""


QUICK = f"py:{HERE / 'quick_reader.py'}:Reference"
"""Selector of a right reader that starts at once and calls itself reference."""


PROGRAM = HERE / "fake_program.py"


def stdio(how: str, *words: object, isolated: bool = False) -> str:
    """Selector of a program that speaks the protocol badly; ``isolated`` starts faster, without packages."""
    return " ".join(map(str, (f"cmd:{sys.executable}", "-IS" if isolated else "-P", PROGRAM, how, *words)))


def by_exit(how: str, *words: object, isolated: bool = False) -> str:
    """Selector of the program that says yes or no by its exit status."""
    return stdio("exit", how, *words, "{path}", isolated=isolated).replace("cmd:", "exit:", 1)


def invoke(command: click.Command, *arguments: str | Path) -> Result:
    """Call a command in this process, which ends by no exception."""
    result = CliRunner().invoke(command, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def call(command: click.Command, *arguments: str | Path) -> tuple[int, str]:
    """Call a command in this process; return its exit status and what it printed."""
    result = invoke(command, *arguments)
    return result.exit_code, result.output


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def all_end(*pids: int) -> bool:
    """Wait until no process is left, and kill those that go on; return whether there were none."""
    until = time.monotonic() + 5
    while any(map(is_running, pids)) and time.monotonic() < until:
        time.sleep(0.01)
    left = [pid for pid in pids if is_running(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return not left


def there(target: Target) -> bool:
    """True when everything that a known implementation needs is installed."""
    if target.kind == "node" and shutil.which("node") is None:
        return False
    if target.environment is not None:
        return target.environment.ready
    assert target.descriptor is not None
    assert target.entry is not None
    try:
        for requirement in target.descriptor.requirements(target.descriptor.version, target.entry):
            version(requirement.partition("==")[0])
    except PackageNotFoundError:
        return False
    return True


@functools.cache
def committed() -> Manifest:
    """Return the committed corpus, loaded once: that takes longer than most tests here."""
    return load_manifest()


def cases(*ids: str) -> list[Case]:
    """Return cases of the committed corpus by id."""
    return [committed().by_id[i] for i in ids]


def record_header(selector: str = "x") -> dict[str, Any]:
    """Return the header of a record without cases."""
    return {
        "record": 1,
        "suite": "1",
        "implementation": {"selector": selector, "name": "x", "version": "1"},
        "corpus": {"version": "1", "digest": "", "cases": 0},
        "profile": None,
    }


TRIGGER = "framing/one-tensor"
NEIGHBOURS = ("framing/no-bytes", "layout/hole-between-two")
