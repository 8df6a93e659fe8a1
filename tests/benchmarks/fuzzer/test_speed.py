"""The measure of the fuzzer's speed: whose processor time it counts."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.fuzzer.speed import Speed, used

_BUSY = """
import time
end = time.process_time() + 0.3
while time.process_time() < end:
    pass
print(flush=True)
input()
"""
_PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {_BUSY!r}])"


def test_grandchildren_that_live_are_counted() -> None:
    before = used()
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert used() - before >= 0.25
        child.communicate(b"\n")


def test_figures_are_turned_into_rates_and_a_ratio() -> None:
    speed = Speed(bare=150.0, loop=300.0, judged=200.0, atheris=160.0)
    assert speed.ratio == 2.0
    assert Speed.per_second(speed.judged) == 5000
