"""Turns: so many runs are at work at a time; one that only waits for a hang lets another begin meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Turns:
    """A number of turns for threads. Who comes back to work goes before who begins."""

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
        """Let somebody else have the turn that this thread holds, and wait for one afterwards."""
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
