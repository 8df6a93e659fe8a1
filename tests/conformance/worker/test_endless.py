"""Programs that write endlessly: a case still ends within its time limit and a stated grace."""

from __future__ import annotations

import sys
import time

import pytest

from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.programs.process import STRETCH_FACTOR
from safetensors_conformance.worker.worker import Limits, make_worker

from ..support import TRIGGER, by_exit, cases, fake, stdio

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="signals and limits as on Linux")

SECONDS = 0.3
GRACE = 10.0
"""Seconds for ending what was late, on a busy machine."""


@pytest.mark.parametrize("what", ["lines", "bytes", "stderr", "slow-lines"])
@pytest.mark.parametrize("kind", ["cmd", "exit", "py"])
def test_output_without_end_ends_with_the_limit(kind: str, what: str) -> None:
    selector = {
        "cmd": stdio(what, isolated=True),
        "exit": by_exit(what, isolated=True),
        "py": fake(f"Endless{what.title().replace('-', '')}"),
    }[kind]
    worker = make_worker(resolve(selector), Limits(SECONDS, 256 << 20))
    try:
        worker.start()
        began = time.monotonic()
        result = worker.ask("read", str(cases(TRIGGER)[0].path))
        took = time.monotonic() - began
    finally:
        worker.close()
    assert result.outcome in ("hang", "harness-error", "exhausted"), result
    assert took < STRETCH_FACTOR * SECONDS + GRACE


def test_memory_is_watched_while_lines_come() -> None:
    worker = make_worker(resolve(stdio("hungry-lines", isolated=True)), Limits(30.0, 64 << 20))
    try:
        worker.start()
        began = time.monotonic()
        result = worker.ask("read", "any")
        took = time.monotonic() - began
    finally:
        worker.close()
    assert took < 20, "it was looked at only when it was late"
    assert (result.outcome, result.message) == ("exhausted", "used more than 64 MiB of memory; killed")
