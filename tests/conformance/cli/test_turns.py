"""Turns of runs: never more at work than allowed, and waiting for a hang blocks no other run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from safetensors_conformance.cli.run import Turns

SECONDS = 10


def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_as_many_are_at_work_as_there_are_turns_and_never_more(number: int) -> None:
    turns, lock, at_work, most = Turns(number), threading.Lock(), 0, 0
    meeting = threading.Barrier(number, timeout=SECONDS)  # passed by so many at work at the same time

    def works(change: int) -> None:
        nonlocal at_work, most
        with lock:
            at_work += change
            most = max(most, at_work)

    def run(_: int) -> None:
        with turns.one():
            works(1)
            meeting.wait()
            works(-1)
            with turns.given_up():
                time.sleep(0.001)
            works(1)
            time.sleep(0.001)
            works(-1)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(run, range(12)))
    assert most == number
    assert turns._free == number


def test_who_comes_back_goes_before_who_begins() -> None:
    turns, order = Turns(1), []
    first_waits, second_works, second_ends = threading.Event(), threading.Event(), threading.Event()
    hang_over = threading.Event()

    def first() -> None:
        with turns.one():
            with turns.given_up():
                first_waits.set()
                assert hang_over.wait(SECONDS)
            order.append("first again")

    def second() -> None:
        assert first_waits.wait(SECONDS)
        with turns.one():
            second_works.set()
            assert second_ends.wait(SECONDS)

    def third() -> None:
        assert second_works.wait(SECONDS)
        with turns.one():
            order.append("third")

    with ThreadPoolExecutor(3) as pool:
        done = [pool.submit(one) for one in (first, second, third)]
        assert second_works.wait(SECONDS)  # in the turn that the first has given up
        until(lambda: len(turns._changed._waiters) == 1)  # type: ignore[attr-defined] # the third
        hang_over.set()
        until(lambda: turns._coming_back)
        second_ends.set()
        for one in done:
            one.result()
    assert order == ["first again", "third"]


def test_what_is_raised_while_a_turn_is_given_up_leaves_as_many_turns() -> None:
    turns = Turns(1)

    def fails() -> None:
        with turns.one(), turns.given_up():
            raise ValueError("of the work")

    with pytest.raises(ValueError, match="of the work"):
        fails()
    with turns.one():
        assert turns._free == 0
    assert turns._free == 1
