"""A progress bar for terminals that shows the number of files, the rate and, if known, the time left."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING, Self

from .walk import local_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console
    from rich.progress import Progress

REFRESH = 0.1


class ProgressBar:
    """Progress bar on standard error. Results must be printed inside ``hidden``.

    A thread counts the files in the local directories among ``sources`` to determine the time left.
    """

    def __init__(self, sources: Sequence[str] = (), console: Console | None = None) -> None:
        self._sources, self._console = sources, console
        self._terminal = sys.stderr.isatty() if console is None else console.is_terminal
        self._bar: Progress | None = None
        self._done = 0
        self._total: int | None = None
        self._began = self._drawn = time.monotonic()

    def __enter__(self) -> Self:
        if self._terminal and self._sources:
            Thread(target=self._count, daemon=True).start()
        return self

    def _count(self) -> None:
        self._total = local_files(self._sources)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    @contextmanager
    def hidden(self, *, to_stderr: bool = False) -> Iterator[None]:
        if self._bar is None or not (to_stderr or sys.stdout.isatty()):
            yield
            return
        self._bar.stop()
        try:
            yield
        finally:
            sys.stdout.flush()
            self._bar.start()

    def advance(self, files: int = 1) -> None:
        """Count finished files. The bar does not appear before the second file is finished."""
        self._done += files
        now = time.monotonic()
        if not self._terminal or now - self._drawn < REFRESH:
            return
        if self._bar is None and self._done > 1:
            self._bar = _bar(self._console)
            self._bar.start()
        if self._bar is not None:
            self._drawn = now
            rate = self._done / (now - self._began)
            task = self._bar.task_ids[0]
            self._bar.update(task, total=self._total, completed=self._done, rate=rate, refresh=True)


def _bar(console: Console | None) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    # By default, rich redirects standard output to standard error, even if standard output is a file.
    bar = Progress(
        TextColumn("checked {task.completed:,} files"),
        BarColumn(),
        TextColumn("{task.fields[rate]:,.0f}/s"),
        TimeRemainingColumn(),
        console=console or Console(stderr=True),
        transient=True,
        auto_refresh=False,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    bar.add_task("", total=None, rate=0.0)
    return bar
