"""Limit how many runs are active at the same time. While a run waits for a hang, another can run instead."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Turns:
    """A semaphore that gives resuming threads priority over new ones."""

    def __init__(self, number: int) -> None:
        self._free = number
        self._coming_back = 0
        self._changed = threading.Condition()

    @contextmanager
    def one(self) -> Iterator[None]:
        self._take(back=False)
        try:
            yield
        finally:
            self._give()

    @contextmanager
    def given_up(self) -> Iterator[None]:
        """Release this thread's turn for the duration of the block."""
        self._give()
        try:
            yield
        finally:
            self._take(back=True)

    def _take(self, *, back: bool) -> None:
        with self._changed:
            self._coming_back += back
            self._changed.wait_for(lambda: self._free and (back or not self._coming_back))
            self._coming_back -= back
            self._free -= 1
            self._changed.notify_all()

    def _give(self) -> None:
        with self._changed:
            self._free += 1
            self._changed.notify_all()
