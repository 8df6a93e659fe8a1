"""Turns of runs: never more at work than allowed, and waiting for a hang blocks no other run."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from safetensors_conformance.cli.run import given_up


@pytest.mark.parametrize("number", [1, 2, 3])
def test_as_many_are_at_work_as_there_are_turns_and_never_more(number: int) -> None:
    turns, lock, at_work, most = threading.BoundedSemaphore(number), threading.Lock(), 0, 0
    meeting = threading.Barrier(number, timeout=10)  # passed by so many at work at the same time

    def works(change: int) -> None:
        nonlocal at_work, most
        with lock:
            at_work += change
            most = max(most, at_work)

    def run(_: int) -> None:
        with turns:
            works(1)
            meeting.wait()
            works(-1)
            with pytest.raises(ValueError, match="while waiting"), given_up(turns):
                raise ValueError("while waiting")
            works(1)
            works(-1)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(run, range(12)))
    assert most == number
    assert [turns.acquire(blocking=False) for _ in range(number + 1)] == [True] * number + [False]
