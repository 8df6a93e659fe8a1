"""Progress bar of an audit, which shows files, rate and, once the total is known, the remaining time."""

from __future__ import annotations

import time
from threading import Thread
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from .walk import local_files

if TYPE_CHECKING:
    from collections.abc import Sequence

REFRESH = 0.2


class AuditBar:
    """Progress bar for a terminal on standard error.

    A thread counts the total number of files, but only for local directories.
    """

    def __init__(self, sources: Sequence[str], console: Console | None = None) -> None:
        console = console or Console(stderr=True)
        self._shown = console.is_terminal
        self._bar = Progress(
            TextColumn("{task.completed:,} files"),
            BarColumn(),
            TextColumn("{task.fields[rate]:,.0f}/s"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._bar.add_task("", total=None, rate=0.0)
        self._began = self._drawn = time.monotonic()
        self._sources = sources
        self._done = 0

    def __enter__(self) -> Self:
        if self._shown:
            self._bar.start()
            if self._sources:
                Thread(target=self._count, daemon=True).start()
        return self

    def _count(self) -> None:
        self._bar.update(self._task, total=local_files(self._sources))

    def advance(self, files: int) -> None:
        self._done += files
        now = time.monotonic()
        if self._shown and now - self._drawn >= REFRESH:
            self._drawn = now
            rate = self._done / (now - self._began)
            self._bar.update(self._task, completed=self._done, rate=rate, refresh=True)

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self._bar.stop()
