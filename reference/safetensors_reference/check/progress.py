"""The progress bar of ``stc check``: on standard error, and only where somebody watches."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from collections.abc import Iterator

REFRESH = 0.1
"""Seconds between two drawings of the bar."""


class ProgressBar:
    """A bar over ``total`` files. On anything but a terminal, and for a single file, it does nothing.

    Results go to standard output while the bar stands on standard error. Where both are the same terminal,
    the bar has to step aside for them: ``hidden()``.
    """

    def __init__(self, total: int, console: Console | None = None) -> None:
        console = console or Console(stderr=True)
        self.enabled = console.is_terminal and total > 1
        # rich would otherwise lead standard output to standard error, also when that goes to a file.
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
            disable=not self.enabled,
        )
        self._task = self._bar.add_task("checking", total=total)
        self._drawn = time.monotonic()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    @contextmanager
    def hidden(self, *, to_stderr: bool = False) -> Iterator[None]:
        """Take the bar away while a result is printed, to standard output unless ``to_stderr``."""
        if not self.enabled or not (to_stderr or sys.stdout.isatty()):
            yield
            return
        self._bar.stop()
        try:
            yield
        finally:
            sys.stdout.flush()
            self._bar.start()

    def advance(self) -> None:
        """Count one file as done."""
        self._bar.advance(self._task)
        if self.enabled and time.monotonic() - self._drawn > REFRESH:
            self._drawn = time.monotonic()
            self._bar.refresh()
