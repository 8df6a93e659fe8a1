"""Text output of ``stc check``."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from ..files.names import is_remote
from ..header.layout import draw_layout
from ..model.index import IndexNote
from ..rules.book import rule_book
from ..rules.faults import render_path, shown_name
from ..source import UnreadableError, open_source
from ..text import hexview, printable, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager

    from ..rules.faults import Fault
    from ..source import Source
    from .result import CheckResult, ModelResult, Status

STATUSES: tuple[Status, ...] = ("valid", "invalid", "unreadable")

MAX_NOTES = 3

PrintLine = Callable[[str], object]


def print_line(text: str) -> None:
    color = False if os.environ.get("NO_COLOR") else True if os.environ.get("FORCE_COLOR") else None
    click.echo(text, color=color)


def _code(code: str) -> str:
    return click.style(code, fg="red", bold=True)


def unreadable_line(result: CheckResult) -> str:
    return f"{shorten(printable(result.error or ''), 1000)} ({result.code})"


def print_result(write: PrintLine, result: CheckResult, limit: int | None) -> None:
    name = shown_name(result.name)
    for fault in result.tolerated:
        text = f"{printable(fault.message)} ({fault.rule}, tolerated by profile {result.profile})"
        write(f"{name}: note: {text}")
    _print_notes(write, name, result.notes)
    if result.faults:
        _print_faults(write, result, limit)
    else:
        write(f"{name}: {_valid(result)}")


def _print_notes(write: PrintLine, name: str, notes: Iterable[IndexNote]) -> None:
    counts: Counter[str] = Counter()
    for note in notes:
        counts[note.rule] += 1
        if counts[note.rule] <= MAX_NOTES:
            write(f"{name}: note: {printable(note.message)} ({note.rule})")
    for rule, count in counts.items():
        if count > MAX_NOTES:
            write(f"{name}: note: … and {count - MAX_NOTES:,} more of this kind ({rule})")


def unread_model_line(result: ModelResult) -> str:
    unread = result.judgement.unread
    file, why = next(iter(unread.items()))
    more = f", and {len(unread) - 1:,} more files" if len(unread) > 1 else ""
    text = f"{result.name}: cannot tell whether the model is whole: {file}: {why}{more}"
    return f"{shorten(printable(text), 1000)} (IO_ERROR)"


def print_model(write: PrintLine, result: ModelResult, limit: int | None) -> None:
    name, judged = shown_name(result.name), result.judgement
    _print_notes(write, name, [f.issue for f in result.model_only if isinstance(f.issue, IndexNote)])
    if result.status == "valid":
        size = f"{judged.tensors or 0:,} tensors in {plural(len(judged.shards), 'file')}"
        write(f"{name}: whole model, {size}, {judged.data_size or 0:,} bytes of data")
        return
    own = [f for f in result.model_only if f.kind == "fault"]
    inner = len(judged.of("fault")) - len(own)
    above = " (all listed above with their files)" if inner and not own else ""
    if inner and own:
        above = f" ({inner:,} of them listed above with their files)"
    count = plural(len(own) + inner, "fault")
    write(click.style(f"{name}: model is not whole: {count}{above}", bold=True))
    for finding in own[:limit]:
        rule = rule_book().rules[finding.issue.rule]
        write(f"  {_code(finding.code or '')}  {printable(finding.issue.message)}")
        write(f"    rule   {rule.id} ({rule.level}): {rule.statement}")
        path = "" if finding.field is None else f"  {finding.field}"
        write(f"    where  {shown_name(finding.file)}{path}")
    if limit is not None and len(own) > limit:
        write(f"  … and {len(own) - limit:,} more; --all prints them")
    if not judged.complete:
        write("  the model has more faults than are listed here")


def print_brief_model(write: PrintLine, result: ModelResult) -> None:
    codes = _codes(result.codes)
    count = plural(result.codes.total(), "fault")
    write(f"{shown_name(result.name)}: model is not whole: {count}: {codes}")


def plural(count: int, word: str) -> str:
    return f"{count:,} {word}{'s' * (count != 1)}"


def _valid(result: CheckResult) -> str:
    shards = "" if result.index is None else f" in {len(result.index.shards):,} shards"
    text = f"valid, {result.tensors:,} tensors{shards}, {result.data_size:,} bytes of data"
    stats = result.alignment
    # Unaligned data is legal (OFF-11) but usually unwanted, so it is mentioned only where it occurs.
    return text if stats is None or not stats.unaligned else f"{text}; {stats}"


def print_brief(write: PrintLine, result: CheckResult) -> None:
    codes = _codes(Counter(fault.code for fault in result.faults))
    write(f"{shown_name(result.name)}: {plural(len(result.faults), 'fault')}: {codes}")


def _codes(counts: Counter[str]) -> str:
    return ", ".join(code if n == 1 else f"{code} ×{n:,}" for code, n in counts.items())


def _print_faults(write: PrintLine, result: CheckResult, limit: int | None) -> None:
    faults = result.faults
    write(click.style(f"{shown_name(result.name)}: {plural(len(faults), 'fault')}", bold=True))
    for fault in faults[:limit]:
        _print_fault(write, result.name, fault)
    if limit is not None and len(faults) > limit:
        write(f"  … and {len(faults) - limit:,} more; --all prints them")
    if not result.complete:
        memory = faults[-1].code == "LIM_MEMORY"
        why = "not enough memory" if memory else "the file has too many faults"
        write(f"  the reader stopped here: {why}")
    seen = result.explanation
    if seen is not None and seen.ranges and seen.data_start is not None:
        drawing = draw_layout(seen.ranges, seen.size - seen.data_start)
        write(f"  data  {drawing}")


def _print_fault(write: PrintLine, name: str, fault: Fault) -> None:
    rule = rule_book().rules[fault.rule]
    where = f"file {fault.start:#x}..{max(fault.end - 1, fault.start):#x}"
    path = f"  {render_path(fault.path)}" if fault.path is not None else ""
    write(f"  {_code(fault.code)}  {printable(fault.message)}")
    write(f"    rule   {rule.id} ({rule.level}): {rule.statement}")
    write(f"    where  {where}{path}")
    if fault.choice is not None:
        write(f"    choice {fault.choice}: readers differ here (try stc check --profile official)")
    for line in _bytes_around(name, fault).splitlines():
        write(f"    {line}")


def _bytes_around(name: str, fault: Fault) -> str:
    try:
        with _open(name) as source:
            base = max(fault.start - 16, 0) // 16 * 16
            data = source.read(base, max(min(source.size, fault.end + 16, base + 96) - base, 0))
    except UnreadableError:
        return ""
    return hexview(data, fault.start, fault.end, base=base, limit=80)


def _open(name: str) -> AbstractContextManager[Source]:
    if not is_remote(name):
        return open_source(name)
    from ..files.stores import open_remote

    return nullcontext(open_remote(name))


def final_line(
    counts: Counter[Status], models: Counter[Status] | None = None, *, interrupted: bool = False
) -> str:
    """Return the counts of files and models, e.g. ``12 files: 10 valid, 1 invalid, 1 unreadable``."""
    files = f"{'interrupted after ' if interrupted else ''}{counts.total():,} files"
    text = f"{files}: " + ", ".join(f"{counts[status]:,} {status}" for status in STATUSES)
    if not models:
        return text
    words = zip(STATUSES, ("whole", "not whole", "unknown"), strict=True)
    counts_of_models = ", ".join(f"{models[status]:,} {word}" for status, word in words)
    return f"{text}; {plural(models.total(), 'model')}: {counts_of_models}"
