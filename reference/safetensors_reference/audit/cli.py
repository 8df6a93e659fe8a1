"""``stc audit``: one row for each of many files, on one machine or on many; and what the rows say."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
import msgspec

from ..rules.faults import shown_name
from .batches import make_batches
from .engine import Dask, EngineError, Pool, run
from .progress import AuditBar
from .results import ProcessedFiles, ResultsError, open_results
from .row import NOT_READ
from .sources import SourceError, find_folders, is_address
from .work import AuditOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .batches import Folder
    from .engine import Engine
    from .results import JsonlResults, ParquetResults

INTERRUPTED = 130
"""Exit status after Ctrl-C, as a shell gives it."""
LOCAL_BATCH = 256
"""Files in a batch where they are on this machine: a few hundredths of a second of work."""
ROUNDS = 16
"""Files in a batch of a store for each request that may be under way, so that few wait for the last one."""


class _RowVerdict(msgspec.Struct):
    address: str
    verdict: str
    kind: str = "file"


_verdict = msgspec.json.Decoder(_RowVerdict).decode


class AuditCommand(click.Command):
    """A command that has one other below it: ``stc audit summary``."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if args[:1] == ["summary"]:
            from .summary_cli import summary

            context: click.Context = summary.make_context(f"{info_name} summary", args[1:], parent, **extra)
            return context
        return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        return super().invoke(ctx) if ctx.command is self else ctx.command.invoke(ctx)


@click.command(cls=AuditCommand, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("sources", nargs=-1, metavar="SOURCE...")
@click.option(
    "--list",
    "lists",
    multiple=True,
    metavar="FILE",
    help="Also take the paths and addresses in FILE, one a line; - is standard input.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="RESULTS",
    help="Append to RESULTS and leave out what it holds already: JSON lines for a name that ends in .jsonl, "
    "else a folder of Parquet files (needs the extra fleet).",
)
@click.option(
    "--retry", is_flag=True, help="Look again at files that were unreachable, changed or killed a worker."
)
@click.option(
    "--data", is_flag=True, help="Read the data too: SHA-256 of each file, odd bytes in BOOL tensors."
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    metavar="N",
    help="Processes on this machine; 1 is a loop without any.  [default: all cores]",
)
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Work on the cluster of this dask scheduler, such as tcp://10.0.0.1:8786.",
)
@click.option(
    "--at-once",
    type=click.IntRange(1, 10_000),
    default=64,
    show_default=True,
    help="Requests under way at a time: of all processes here together, of each worker on a cluster.",
)
@click.option(
    "--batch", type=click.IntRange(1, 100_000), metavar="N", help="Files that a worker is handed at a time."
)
def audit(
    sources: tuple[str, ...],
    lists: tuple[str, ...],
    output: Path | None,
    retry: bool,
    data: bool,
    jobs: int | None,
    scheduler: str | None,
    at_once: int,
    batch: int | None,
) -> None:
    """Look at many files and write one row about each.

    \b
    stc audit models/ -o rows.jsonl
    stc audit hf://org/model s3://bucket/models -o rows.jsonl
    stc audit --list names.txt -o rows/ --scheduler tcp://10.0.0.1:8786
    stc audit summary rows.jsonl -o page.html

    SOURCE is a directory, a file, or an address that fsspec opens (https://, hf://, s3://, gs://, zip:: ...).
    A directory or a bucket stands for every *.safetensors and *.safetensors.index*.json below it; an index is
    judged with its shards and has a row of its own. Only length prefix and header are read, by at most two
    requests, unless --data asks for more. Without -o the rows go to standard output.

    The same command goes on where it was interrupted or killed: a file with the same address, size and ETag
    (or time of change) is not looked at again. A file that cannot be had is never called invalid: its row
    says "missing", "refused", "unreachable", "changed", "no-ranges", "unreadable" or "kills-worker".

    A row has the answer under each profile; "text" answers as "hardened" does where the written rules leave a
    choice open.

    'stc audit summary RESULTS' counts rows by fault, writer, source and dtype.

    \b
    Exit status, about files that are left out as well, by their rows in RESULTS:
      0    every file and every model is valid
      1    at least one is invalid, or valid under some profiles only
      2    at least one could not be looked at, or the results cannot be written
      130  interrupted (Ctrl-C); what is written is complete and the same command goes on
    """
    if not sources and not lists:
        raise click.UsageError("names no file: give SOURCE or --list FILE")
    if scheduler is not None and jobs is not None:
        raise click.UsageError("--jobs and --scheduler exclude each other")
    remote = bool(lists) or any(map(is_address, sources))
    jobs = min(jobs or cores(), at_once if remote else sys.maxsize)
    share = at_once if scheduler else max(1, at_once // jobs)
    audit_run = _AuditRun(AuditOptions(share, data), batch or (ROUNDS * share if remote else LOCAL_BATCH))
    try:
        # What cannot be used at all is said before there are results.
        folders = find_folders(sources, lists)
        if scheduler:
            audit_run.engine = dask = Dask(scheduler)
            click.echo(f"{dask.about}{dask.dashboard()}", err=True)
        elif jobs > 1:
            audit_run.engine = Pool(jobs)
        if lists or len(sources) > 1:
            audit_run.done.met = set()
        audit_run.work(folders, output, retry, () if remote else sources)
    except (ResultsError, SourceError, EngineError) as err:
        _exit_with_error(str(err), audit_run.counts)
    left = audit_run.done.left_out
    if left:
        click.echo(f"{shown_name(output)}: left out, with a row already: {final_line(left)}", err=True)
    click.echo(final_line(audit_run.counts, interrupted=audit_run.interrupted), err=True)
    raise SystemExit(INTERRUPTED if audit_run.interrupted else status(audit_run.counts + left))


@dataclass
class _AuditRun:
    """One audit, and what came of it so far.

    Attributes:
        plan: how files are looked at.
        batch: files in a batch.
        engine: where that is done; None for a loop.
        done: the files that have a row already.
        counts: how often each verdict was found, such as ``file valid``.
        interrupted: whether Ctrl-C ended it.
    """

    options: AuditOptions
    batch: int
    engine: Engine | None = None
    done: ProcessedFiles = field(default_factory=ProcessedFiles)
    counts: Counter[str] = field(default_factory=Counter)
    interrupted: bool = False

    def work(self, folders: Iterable[Folder], output: Path | None, retry: bool, local: Sequence[str]) -> None:
        """Write a row for each file that has none. Raises ResultsError, SourceError, EngineError."""
        results = None
        try:
            if output is not None:
                results = open_results(output)
                results.known(self.done, retry)
            batches = make_batches(folders, self.batch, self.done)
            with AuditBar([] if len(self.done) else local) as bar:
                for rows in run(batches, self.options, self.engine):
                    _write_rows(results, rows)
                    self._count(rows)
                    bar.advance(rows.count(b"\n"))
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            if self.engine is not None:
                self.engine.close(at_once=self.interrupted or sys.exc_info()[0] is not None)
            if results is not None:
                results.close()
                if sys.exc_info()[0] is not None:
                    results.remove_if_empty()

    def _count(self, rows: bytes) -> None:
        for row in map(_verdict, rows.splitlines()):
            self.counts[f"{row.kind} {row.verdict}"] += 1
            if row.kind == "model":
                self.done.mark_rejudged(row.address)


def _write_rows(results: JsonlResults | ParquetResults | None, rows: bytes) -> None:
    if results is not None:
        results.add(rows)
    elif rows.isascii():
        click.echo(rows, nl=False)
    else:  # what turns text around on a terminal stands in names of files too
        for line in rows.splitlines():
            click.echo(json.dumps(json.loads(line), separators=(",", ":")))


def _exit_with_error(text: str, counts: Counter[str]) -> NoReturn:
    click.echo(f"{text}{' (what is written stays; the same command goes on)' if counts else ''}", err=True)
    raise SystemExit(2)


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def status(counts: Counter[str]) -> int:
    verdicts = {key.partition(" ")[2] for key in counts}
    if verdicts & set(NOT_READ):
        return 2
    return int(bool(verdicts - {"valid"}))


def final_line(counts: Counter[str], *, interrupted: bool = False) -> str:
    """Say how the files ended, e.g. ``12 files: 11 valid, 1 missing; 1 model: 1 invalid``."""
    parts = []
    for kind in ("file", "model"):
        found = {key.partition(" ")[2]: n for key, n in counts.items() if key.startswith(kind)}
        if found or kind == "file":
            total = sum(found.values())
            words = ", ".join(
                f"{n:,} {verdict}" for verdict, n in sorted(found.items(), key=lambda kv: -kv[1])
            )
            parts.append(f"{total:,} {kind}{'s' * (total != 1)}{': ' if words else ''}{words}")
    return ("interrupted after " if interrupted else "") + "; ".join(parts)
