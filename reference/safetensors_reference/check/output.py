"""Output of ``stc check`` for people: what is printed about a file, and the progress bar."""

from __future__ import annotations

import sys
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from ..header.layout import draw_layout
from ..hexview import hexview
from ..rules.book import rule_book
from ..rules.faults import quote, render_path
from ..source import UnreadableError, open_source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..rules.faults import Fault
    from .result import CheckResult, Status

STATUSES: tuple[Status, ...] = ("valid", "invalid", "unreadable")

MAX_NOTES = 3
"""Notes of one kind that are printed; a cache of the Hub has one for each shard."""
REFRESH = 0.1
"""Seconds between two drawings of the bar."""


def shown_name(name: str) -> str:
    """Return a file name as it may stand in a terminal: bounded, and escaped when not plainly printable."""
    return quote(name, 500)[1:-1]


def printable(text: str) -> str:
    """Escape what would move the cursor or turn the text around; the rest stays as it is."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def unreadable_line(result: CheckResult) -> str:
    """Say in one line why a file could not be read."""
    return f"{quote(result.error or '', 1000)[1:-1]} ({result.code})"


def print_result(console: Console, result: CheckResult, limit: int | None) -> None:
    """Print everything about a readable file; at most ``limit`` faults (None: all)."""
    name = shown_name(result.name)
    for fault in result.tolerated:
        text = f"{printable(fault.message)} ({fault.rule}, tolerated by profile {result.profile})"
        console.print(f"{name}: note: {text}")
    said: Counter[str] = Counter()
    for note in result.notes:
        said[note.rule] += 1
        if said[note.rule] <= MAX_NOTES:
            console.print(f"{name}: note: {printable(note.message)} ({note.rule})")
    for rule, count in said.items():
        if count > MAX_NOTES:
            console.print(f"{name}: note: … and {count - MAX_NOTES:,} more of this kind ({rule})")
    if result.faults:
        _print_faults(console, result, limit)
    else:
        console.print(f"{name}: {_valid(result)}")


def _valid(result: CheckResult) -> str:
    shards = "" if result.index is None else f" in {len(result.index.shards):,} shards"
    text = f"valid, {result.tensors:,} tensors{shards}, {result.data_size:,} bytes of data"
    stats = result.alignment
    # Unaligned data is legal (OFF-11) and usually unwanted, so it is said where it happens and only there.
    return text if stats is None or not stats.unaligned else f"{text}; {stats}"


def print_brief(console: Console, result: CheckResult) -> None:
    """Print one line for a file with faults: how many, and which codes."""
    counts = Counter(fault.code for fault in result.faults)
    codes = ", ".join(code if n == 1 else f"{code} ×{n:,}" for code, n in counts.items())
    console.print(f"{shown_name(result.name)}: {_number(result.faults)}: {codes}")


def _number(faults: list[Fault]) -> str:
    return f"{len(faults):,} fault{'s' * (len(faults) != 1)}"


def _print_faults(console: Console, result: CheckResult, limit: int | None) -> None:
    faults = result.faults
    console.print(Text(f"{shown_name(result.name)}: {_number(faults)}", style="bold"))
    for fault in faults[:limit]:
        _print_fault(console, result.name, fault)
    if limit is not None and len(faults) > limit:
        console.print(f"  … and {len(faults) - limit:,} more; --all prints them")
    if not result.complete:
        memory = faults[-1].code == "LIM_MEMORY"
        why = "there is not enough memory" if memory else "the file has too many faults"
        console.print(f"  reading stopped here: {why}")
    seen = result.explanation
    if seen is not None and seen.ranges and seen.data_start is not None:
        drawing = draw_layout(seen.ranges, seen.size - seen.data_start)
        console.print(f"  data  {drawing}")


def _print_fault(console: Console, name: str, fault: Fault) -> None:
    rule = rule_book().rules[fault.rule]
    where = f"file {fault.start:#x}..{max(fault.end - 1, fault.start):#x}"
    path = f"  {render_path(fault.path)}" if fault.path is not None else ""
    console.print(Text.assemble("  ", (fault.code, "bold red"), f"  {printable(fault.message)}"))
    console.print(f"    rule   {rule.id} ({rule.level}): {rule.statement}")
    console.print(f"    where  {where}{path}")
    if fault.choice is not None:
        console.print(f"    choice {fault.choice}: readers differ here (stc check --profile official)")
    for line in _bytes_around(name, fault).splitlines():
        console.print(f"    {line}")


def _bytes_around(name: str, fault: Fault) -> str:
    """Show the bytes of a fault with some context; nothing when the file cannot be read any more."""
    try:
        with open_source(name) as source:
            base = max(fault.start - 16, 0) // 16 * 16
            data = source.read(base, max(min(source.size, fault.end + 16, base + 96) - base, 0))
    except UnreadableError:
        return ""
    return hexview(data, fault.start, fault.end, base=base, limit=80)


def final_line(statuses: Iterable[Status], total: int | None = None) -> str:
    """Count the results, e.g. ``12 files: 10 valid, 1 invalid, 1 unreadable``.

    ``total`` is the number of files asked for when the run was interrupted before the end.
    """
    counts = Counter(statuses)
    done = counts.total()
    files = f"{done:,} files" if total is None else f"interrupted after {done:,} of {total:,} files"
    return f"{files}: " + ", ".join(f"{counts[status]:,} {status}" for status in STATUSES)


class ProgressBar:
    """A bar over ``total`` files on standard error. Off a terminal, and for a single file, it does nothing.

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
