"""Work is counted, not timed: what the header, the fuzz loop and the start take may grow by a fifth, no more.

Calls of functions of this project are counted, and what these call that is written in C. Comprehensions and
the inside of libraries are left out, so that the numbers are the same on every machine. They say nothing of
a loop that became slower without a call. A change that makes one smaller, or needs more for a reason,
writes the new number here.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest
from click.testing import CliRunner

from benchmarks.files import header_of
from safetensors_fuzz.cli import fuzz
from safetensors_reference import explain, read_header

TOLERANCE = 1.2
OWN = "/safetensors_"
"""Part of the path of every file of the packages."""


def calls(work: Callable[[], object]) -> int:
    """Return how many functions of this project ``work`` calls, in all threads."""
    counted: list[None] = []  # appending is one step, also between threads

    def count(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        called = event == "c_call" or (event == "call" and not code.co_name.startswith("<"))
        if called and OWN in code.co_filename:
            counted.append(None)

    work()  # what is loaded or cached at first is no part of it
    threading.setprofile(count)
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return len(counted)


def in_budget(found: int, committed: int) -> bool:
    """Tell whether a count is the committed one, within the tolerance; far below, the number is old."""
    return committed / TOLERANCE <= found <= committed * TOLERANCE


def file_of(tensors: int) -> bytes:
    header = header_of(tensors, 8)
    return len(header).to_bytes(8, "little") + header + bytes(8 * tensors)


HEADER = {1: 45, 1_000: 1_052}
"""Tensors -> calls."""
EXPLAINED = {1: 601, 100: 37_800}


@pytest.mark.parametrize("tensors", HEADER)
def test_calls_of_reading_a_header(tensors: int) -> None:
    found = calls(lambda: read_header(file_of(tensors)))
    assert in_budget(found, HEADER[tensors]), found


@pytest.mark.parametrize("tensors", EXPLAINED)
def test_calls_of_explaining_a_header(tensors: int) -> None:
    found = calls(lambda: explain(file_of(tensors)))
    assert in_budget(found, EXPLAINED[tensors]), found


LOOP = 149_500
"""Calls for 150 inputs, one worker's start included."""


def test_calls_of_the_fuzz_loop(tmp_path: Path) -> None:
    number = iter(range(2))

    def run() -> None:
        out = str(tmp_path / str(next(number)))
        args = ["--impl", "reference", "--max-execs", "150", "--seed", "1", "--output", out]
        done = CliRunner().invoke(fuzz, args)
        assert done.exit_code == 0, done.output

    found = calls(run)
    assert in_budget(found, LOOP), found


START = {"--version": 2, "check": 33}
"""First argument of ``stc`` -> modules of this project that are loaded."""
UNWANTED = {"rich", "jinja2", "jsonschema", "platformdirs", "importlib.metadata", "tomllib", "numpy"}


@pytest.mark.parametrize("command", START)
def test_modules_of_a_start(command: str, tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(file_of(1))
    code = (
        "import sys, atexit\n"
        "atexit.register(lambda: print('modules', *sys.modules))\n"
        "from safetensors_reference.main import main\n"
        "main()\n"
    )
    argv = [sys.executable, "-c", code, command, *([str(path)] if command == "check" else [])]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split()[1:])
    own = sum(name.startswith("safetensors_") for name in loaded)
    assert in_budget(own, START[command]), own
    assert not loaded & UNWANTED
