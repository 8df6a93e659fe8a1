"""Ctrl-C held back: when it is raised, when not, and that the old handler comes back."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from safetensors_reference.device.ranks.consensus import InterruptGate


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    """Whatever happens, the handler is the same afterwards."""
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def test_the_first_one_waits_for_the_next_attempt_and_a_second_one_is_raised_anywhere() -> None:
    done: list[int] = []

    def work() -> None:
        interrupt()
        done.append(3)

    with InterruptGate() as gate:
        interrupt()
        assert isinstance(gate.attempt(done.append, 1), KeyboardInterrupt)
        assert gate.attempt(done.append, 2) is None
        assert isinstance(gate.attempt(int, "x"), ValueError), "other errors are returned"
        assert not gate.second_interrupt
        assert isinstance(gate.attempt(work), KeyboardInterrupt), "at once"
        with pytest.raises(KeyboardInterrupt):
            interrupt()
        assert gate.second_interrupt
        assert gate.attempt(int) is None
    assert done == [2]


@pytest.mark.parametrize(("names", "error"), [({"x": 1}, KeyboardInterrupt), ({}, KeyError)])
def test_one_that_is_still_held_comes_at_the_end_unless_there_is_an_error(
    names: dict[str, int], error: type[BaseException]
) -> None:
    passed = []
    with pytest.raises(error), InterruptGate():  # noqa: PT012 - the interrupt waits
        interrupt()
        passed.append(1)
        passed.append(names["x"])
    assert passed == [1, *names.values()]


def test_the_handler_of_the_program_is_called() -> None:
    calls: list[int] = []
    old = signal.signal(signal.SIGINT, lambda number, _frame: calls.append(number))
    try:
        with InterruptGate() as gate:
            interrupt()
            assert not calls
            assert gate.attempt(int) is None
            assert calls == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, old)


def test_another_thread_changes_no_handler() -> None:
    def work() -> tuple[object, object]:
        with InterruptGate() as gate:
            return signal.getsignal(signal.SIGINT), gate.attempt(int)

    with ThreadPoolExecutor() as pool:
        assert pool.submit(work).result() == (signal.default_int_handler, None)
