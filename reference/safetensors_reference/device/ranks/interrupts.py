"""Ctrl-C held back where a rank that dropped out would leave the others in the middle of something.

A first Ctrl-C is raised only while files are read; elsewhere it waits until the others can be told. A second
one is raised at once.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self


class Gate:
    """Stands in for the handler of SIGINT while it is entered in the main thread, the only one that gets it.

    Attributes:
        insisted: whether a second Ctrl-C was raised.
    """

    def __init__(self) -> None:
        self.insisted = False
        self._old: Callable[[int, FrameType | None], Any] | None = None
        self._came = False
        self._held = False
        self._open = False

    def __enter__(self) -> Self:
        self.insisted = self._came = self._held = self._open = False
        if threading.current_thread() is threading.main_thread():
            old = signal.getsignal(signal.SIGINT)
            if callable(old):
                self._old = old
                signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        old, self._old = self._old, None
        if old is not None:
            signal.signal(signal.SIGINT, old)
            if self._held and error is None:
                old(signal.SIGINT, None)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        first, self._came = not self._came, True
        if first and not self._open:
            self._held = True
            return
        self.insisted = not first
        self._open = self._held = False
        if self._old is not None:
            self._old(number, frame)

    def attempt(self, do: Callable[..., object], *args: object) -> BaseException | None:
        """Call ``do``, in which Ctrl-C is raised, and return what it raises, for the others to be told first.

        A Ctrl-C held back before comes instead of the call.
        """
        try:
            self._open = True
            if self._held and self._old is not None:
                self._held = False
                self._old(signal.SIGINT, None)
            do(*args)
        except BaseException as err:
            return err
        finally:
            self._open = False
        return None

    def held(self) -> BaseException | None:
        """Return the Ctrl-C that is held back, if any."""
        return self.attempt(int) if self._held else None
