"""``stc audit``: audits files on one machine or on a cluster and writes one row per file."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from ..arrays.buffers import cores
from ..files.names import Folder, SourceError, is_address
from ..files.walk import ProgressBar, find_folders
from ..main import INTERRUPTED
from ..text import plural, shown_name
from .engine import Dask, Engine, EngineError, Pool, run
from .results import (
    NOT_READ,
    JsonlResults,
    ParquetResults,
    ProcessedFiles,
    ResultsError,
    decode_key,
    open_results,
)
from .work import AuditOptions, make_batches

LOCAL_BATCH = 256
ROUNDS = 16
"""Number of remote files in a batch for each concurrent request.

Large batches spend a smaller share of their time waiting for the last file.
"""


class AuditCommand(click.Command):
    """The ``stc audit`` command, which also has the subcommand ``stc audit summary``."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if args[:1] == ["summary"]:
            from .summary import summary

            return summary.make_context(f"{info_name} summary", args[1:], parent, **extra)
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
    help="Also audit the paths and addresses listed in FILE, one per line; - means standard input.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="RESULTS",
    help="Append to RESULTS and skip files that already have a row there. If the name ends in .jsonl, "
    "RESULTS is a file of JSON lines; otherwise it is a folder of Parquet files (needs the fleet "
    "extra).",
)
@click.option(
    "--retry",
    is_flag=True,
    help="Retry files that were unreachable, changed during the audit, or killed a worker.",
)
@click.option(
    "--data",
    is_flag=True,
    help="Also read the data, to record the SHA-256 of each file and count bytes other than 0 and 1 in BOOL "
    "tensors.",
)
@click.option(
    "--alignment",
    type=click.IntRange(1, 1 << 40),
    metavar="N",
    help="Also count the tensors and bytes that are aligned to N bytes.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    metavar="N",
    help="Number of worker processes on this machine; with 1, the audit runs in the main process.  [default: "
    "all cores]",
)
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Run on the dask cluster whose scheduler has this address, for example tcp://10.0.0.1:8786.",
)
@click.option(
    "--at-once",
    type=click.IntRange(1, 10_000),
    default=64,
    show_default=True,
    help="Maximum number of concurrent requests, for all local processes together or for each worker of a "
    "cluster.",
)
@click.option(
    "--batch", type=click.IntRange(1, 100_000), metavar="N", help="Number of files per worker batch."
)
def audit(
    sources: tuple[str, ...],
    lists: tuple[str, ...],
    output: Path | None,
    retry: bool,
    data: bool,
    alignment: int | None,
    jobs: int | None,
    scheduler: str | None,
    at_once: int,
    batch: int | None,
) -> None:
    """Audit many files and write one row per file.

    \b
    stc audit models/ -o rows.jsonl
    stc audit hf://org/model s3://bucket/models -o rows.jsonl
    stc audit --list names.txt -o rows/ --scheduler tcp://10.0.0.1:8786
    stc audit summary rows.jsonl -o page.html

    SOURCE is a directory, a file, or an address that fsspec can open (https://, hf://, s3://, gs://, zip::
    ...). If it is a directory or bucket, every *.safetensors and *.safetensors.index*.json file below it is
    audited. An index is checked together with its shards and gets a separate row. Without --data, the audit
    reads only the length prefix and the header of each file, with at most two requests. Without -o, the rows
    are written to standard output.

    To resume an interrupted audit, run the same command again. Files whose address, size and ETag (or
    modification time) have not changed are skipped. A file that cannot be read is never reported as invalid.
    Its row says "missing", "refused", "unreachable", "changed", "no-ranges", "unreadable" or "kills-worker"
    instead.

    A row contains the verdict under each profile. Where the written rules leave a choice open, the
    "text" profile follows "hardened".

    'stc audit summary RESULTS' counts the rows by fault, writer, source and dtype.

    \b
    Exit status (existing rows of skipped files also count):
      0    every file and every model is valid
      1    at least one file or model is invalid, or valid only under some profiles
      2    at least one file could not be read, or the results could not be written
      130  interrupted (Ctrl-C); all written rows are complete, so run the command again to resume
    """
    if not sources and not lists:
        raise click.UsageError("no files to audit: give SOURCE or --list FILE")
    if scheduler is not None and jobs is not None:
        raise click.UsageError("--jobs and --scheduler cannot be used together")
    remote = bool(lists) or any(map(is_address, sources))
    jobs = min(jobs or cores(), at_once if remote else sys.maxsize)
    share = at_once if scheduler else max(1, at_once // jobs)
    options = AuditOptions(share, data, alignment)
    audit_run = _AuditRun(options, batch or (ROUNDS * share if remote else LOCAL_BATCH))
    try:
        # Report unusable sources before creating the results.
        folders = find_folders(sources, lists)
        if scheduler:
            audit_run.engine = dask = Dask(scheduler)
            click.echo(f"{dask.about}{dask.dashboard()}", err=True)
        elif jobs > 1:
            audit_run.engine = Pool(jobs)
        if lists or len(sources) > 1:
            audit_run.processed.seen = set()
        audit_run.work(folders, output, retry, () if remote else sources)
    except (ResultsError, SourceError, EngineError) as err:
        kept = " (the rows written so far are kept; run the command again to resume)"
        click.echo(f"{err}{kept if audit_run.counts else ''}", err=True)
        raise SystemExit(2) from err
    left = audit_run.processed.left_out
    if left:
        text = f"skipped because they already have a row: {final_line(left)}"
        click.echo(f"{shown_name(output)}: {text}", err=True)
    if left and not audit_run.counts and not audit_run.interrupted:
        click.echo("no other files", err=True)
    else:
        click.echo(final_line(audit_run.counts, interrupted=audit_run.interrupted), err=True)
    raise SystemExit(INTERRUPTED if audit_run.interrupted else status(audit_run.counts + left))


@dataclass
class _AuditRun:
    options: AuditOptions
    batch: int
    engine: Engine = field(default_factory=Engine)
    processed: ProcessedFiles = field(default_factory=ProcessedFiles)
    counts: Counter[str] = field(default_factory=Counter)
    interrupted: bool = False

    def work(self, folders: Iterable[Folder], output: Path | None, retry: bool, local: Sequence[str]) -> None:
        results = None
        try:
            if output is not None:
                results = open_results(output)
                results.load_processed(self.processed, retry)
            batches = make_batches(folders, self.batch, self.processed)
            with ProgressBar([] if len(self.processed) else local) as bar:
                for rows in run(batches, self.options, self.engine):
                    _write_rows(results, rows)
                    for row in map(decode_key, rows.splitlines()):
                        self.counts[f"{row.kind} {row.verdict}"] += 1
                        if row.kind == "model":
                            self.processed.mark_rejudged(row.address)
                    bar.advance(rows.count(b"\n"))
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            self.engine.close(at_once=self.interrupted or sys.exc_info()[0] is not None)
            if results is not None:
                results.close()
                if sys.exc_info()[0] is not None:
                    results.remove_if_empty()


def _write_rows(results: JsonlResults | ParquetResults | None, rows: bytes) -> None:
    if results is not None:
        results.add(rows)
    elif rows.isascii():
        click.echo(rows, nl=False)
    else:  # file names may contain bidirectional control characters
        for line in rows.splitlines():
            click.echo(json.dumps(json.loads(line), separators=(",", ":")))


def status(counts: Counter[str]) -> int:
    verdicts = {key.partition(" ")[2] for key in counts}
    if verdicts & set(NOT_READ):
        return 2
    return int(bool(verdicts - {"valid"}))


def final_line(counts: Counter[str], *, interrupted: bool = False) -> str:
    """Return the counts as one line, e.g. ``12 files: 11 valid, 1 missing; 1 model: 1 invalid``."""
    parts = []
    for kind in ("file", "model"):
        verdicts = {key.partition(" ")[2]: n for key, n in counts.items() if key.startswith(kind)}
        if verdicts or kind == "file":
            total = sum(verdicts.values())
            ranked = sorted(verdicts.items(), key=lambda pair: -pair[1])
            words = ", ".join(f"{number:,} {verdict}" for verdict, number in ranked)
            parts.append(f"{plural(total, kind)}{': ' if words else ''}{words}")
    return ("interrupted after " if interrupted else "") + "; ".join(parts)
