"""Handling of the signals that end a run: Ctrl-C, SIGTERM and SIGHUP. Results so far are kept."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Self

import psutil

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruption:
    """Handles these signals during a ``with`` block in the main thread.

    The first signal sets ``stop`` and kills the tested programs. It raises no exception, so no line of a
    record is cut off. A second signal ends this process immediately.
    """

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.status: int | None = None
        self._before: list[tuple[signal.Signals, object]] = []

    def __enter__(self) -> Self:
        self._before = _replaced(SIGNALS, self._handle)
        return self

    def __exit__(self, *exc: object) -> None:
        _restore(self._before)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        again, self.status = self.status is not None, 128 + number
        self.stop.set()
        end_children()
        if again:
            atexit._run_exitfuncs()  # noqa: SLF001 - temporary folders are removed there
            os._exit(self.status)


@contextlib.contextmanager
def ending_as_interrupted() -> Iterator[None]:
    """Make SIGTERM and SIGHUP raise KeyboardInterrupt in the main thread, like Ctrl-C."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = _replaced(SIGNALS[1:], interrupt)
    try:
        yield
    finally:
        _restore(before)


def end_children() -> None:
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                child.kill()


def _replaced(numbers: tuple[signal.Signals, ...], handler: object) -> list[tuple[signal.Signals, object]]:
    if threading.current_thread() is not threading.main_thread():
        return []
    numbers = tuple(n for n in numbers if signal.getsignal(n) not in (signal.SIG_IGN, None))
    return [(number, signal.signal(number, handler)) for number in numbers]  # type: ignore[arg-type]


def _restore(before: list[tuple[signal.Signals, object]]) -> None:
    for number, handler in before:
        signal.signal(number, handler)  # type: ignore[arg-type]
