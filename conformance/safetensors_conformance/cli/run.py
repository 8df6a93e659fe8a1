"""``stc run``: an implementation over the corpus, without pytest."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from safetensors_corpus import Case
from safetensors_reference.cli_seconds import SecondsRange
from safetensors_reference.rules import PROFILES, rule_book

from ..book import Book
from ..confinement import Confinement
from ..judge import CaseVerdict, judge_choice
from ..repeats import Repeats
from ..run_options import RunOptions
from ..selectors import Target
from ..subject import Subject
from ..worker import Limits
from .common import checked_device, confined, corpus, corpus_shown, made_folder, select, targets


@click.command()
@click.option(
    "--impl",
    "impls",
    multiple=True,
    metavar="SELECTOR",
    help="Implementation; give several to compare.  [default: reference]",
)
@click.option(
    "--case",
    "cases",
    multiple=True,
    metavar="ID",
    help="Only this case; a glob such as 'layout/*' works too.",
)
@click.option("--profile", type=click.Choice(PROFILES), help="Grade disputed cases by this profile.")
@click.option("--baseline", type=click.Path(dir_okay=False, path_type=Path), help="Expected failures (TOML).")
@click.option("--no-baseline", is_flag=True, help="Ignore every baseline and show all failures.")
@click.option(
    "--report",
    type=click.Path(file_okay=False, path_type=Path),
    callback=made_folder,
    help="Write run records and summary.md here.",
)
@click.option("--fail-on-should", is_flag=True, help="Missed recommendations and late rejections fail too.")
@click.option("--heavy", is_flag=True, help="Also the cases with inputs of up to 100 MB, or a sparse TiB.")
@click.option(
    "--device",
    metavar="NAME",
    callback=checked_device,
    help="Also load every plain file onto this device and back: cpu or cuda:N.",
)
@click.option("--no-smoke", is_flag=True, help="Run on although the most basic files already fail.")
@click.option("--corpus", "corpus_path", type=click.Path(path_type=Path), help="Another corpus.")
@click.option("--time-limit", type=SecondsRange(), default=10.0, show_default=True, help="Seconds per step.")
@click.option("--memory-limit", type=click.IntRange(1), default=2048, show_default=True, help="MiB per step.")
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Implementations at the same time, each in a worker of its own.",
)
@confined
@click.option("--full-failures", is_flag=True, help="Show every failure in full, and all likely causes.")
@click.option("-q", "--quiet", is_flag=True, help="Only the summary, not each failure.")
def run(
    impls: tuple[str, ...],
    cases: tuple[str, ...],
    profile: str | None,
    baseline: Path | None,
    no_baseline: bool,
    report: Path | None,
    fail_on_should: bool,
    heavy: bool,
    device: str | None,
    no_smoke: bool,
    corpus_path: Path | None,
    time_limit: float,
    memory_limit: int,
    jobs: int,
    full_failures: bool,
    quiet: bool,
    confinement: Confinement,
) -> None:
    """Run an implementation over the corpus and judge what it does.

    \b
    SELECTOR is one of
      reference, safetensors, ...   a built-in name (stc impl list)
      py:package.module:object      a Python adapter (or a path to a .py file)
      cmd:program args              a program that speaks the worker protocol
      exit:program {path}           a program that exits 0 to accept, 1 to refuse

    \b
    Exit status: 0 nothing unexpected, 1 failures, 2 something could not be run.
    """
    manifest = corpus(corpus_path)
    chosen = select(manifest, cases, heavy=heavy)
    wanted = targets(impls or ("reference",))
    if baseline is not None and len(wanted) > 1:
        raise click.UsageError("--baseline belongs to one implementation; give one --impl with it")
    limits = Limits(time_limit, memory_limit << 20, corpus_shown(confinement, manifest))
    options = RunOptions(
        manifest,
        profile,
        limits,
        baseline,
        not no_baseline,
        smoke=not no_smoke,
        strict=fail_on_should,
        heavy=heavy,
        device=device,
    )
    book = Book(manifest, report, strict=fail_on_should, full=full_failures)
    for target in wanted:
        book.page(target)  # in the order asked for, whoever is done first
    stop = threading.Event()

    def one(target: Target) -> bool:
        subject = Subject(target, options)
        try:
            page, repeats = book.page(target), Repeats(subject, full=full_failures)
            return _run_one(
                subject, page.add, repeats, chosen, stop, whole=not cases, quiet=quiet, shown=jobs == 1
            )
        finally:
            subject.close()

    failed, interrupted = _run_all(one, wanted, jobs, stop)
    book.finish()
    for line in book.summary():
        click.echo(line)
    if interrupted:
        click.echo("interrupted: the results so far stand above", err=True)
        raise SystemExit(130)
    problems = any(page.problems for page in book.pages.values())
    raise SystemExit(2 if problems else int(failed))


def _run_all(
    one: Callable[[Target], bool], wanted: Sequence[Target], jobs: int, stop: threading.Event
) -> tuple[bool, bool]:
    """Run all implementations, ``jobs`` at a time. Returns whether any failed, and whether it was stopped."""
    failed = False
    try:
        if jobs == 1:
            for target in wanted:
                failed |= one(target)
            return failed, False
        # The work is done by the workers, which are processes; a thread waits for each.
        with ThreadPoolExecutor(jobs) as pool:
            futures = {pool.submit(one, target): target for target in wanted}
            try:
                for done in as_completed(futures):
                    failed |= done.result()
            except KeyboardInterrupt:
                stop.set()
                pool.shutdown(cancel_futures=True)
                raise
    except KeyboardInterrupt:
        return failed, True
    return failed, False


def _run_one(
    subject: Subject,
    add: Callable[[Mapping[str, Any]], None],
    repeats: Repeats,
    cases: Sequence[Case],
    stop: threading.Event,
    *,
    whole: bool,
    quiet: bool,
    shown: bool,
) -> bool:
    """Run one implementation; print each failure. Returns True when anything failed.

    ``stop`` ends it before the next case; ``shown`` is False where another progress bar would be in the way.
    """
    add({"header": subject.header} if subject.header else {})
    if subject.problem is not None:
        add({"problem": subject.problem})
        return True
    failed = False
    complaint = subject.baseline_complaint() if whole else subject.baseline_error
    if complaint is not None:
        click.echo(complaint)
        failed = True
    verdicts: list[CaseVerdict] = []
    subject.session.plan(c for c in cases if subject.steps(c))
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    hidden = not (shown and console.is_terminal)
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        for case in progress.track(cases, description=subject.target.selector):
            if stop.is_set():
                break
            if not subject.steps(case):
                continue
            verdict = subject.session.judge(case)
            verdicts.append(verdict)
            for step in verdict.steps:
                assessment = subject.assess(verdict, step)
                add({"result": assessment.row})
                if assessment.status == "failed":
                    failed = True
                    if not quiet:
                        text = repeats.told(assessment.row, assessment.text)
                        click.echo(f"{text}\n" if "\n" in text else text)
    for row in _choices(verdicts, subject.options.profile):
        add({"choice": row})
        if row["verdict"] == "choice-inconsistent" and whole:
            failed = True
            click.echo(
                f"{subject.target.selector} · {row['choice']}: CHOICE-INCONSISTENT\n  {row['detail']}\n"
            )
    return failed


def _choices(verdicts: Sequence[CaseVerdict], profile: str | None) -> list[dict[str, str]]:
    """Judge every choice that the profile leaves open over the cases that were run."""
    rows = []
    for choice in rule_book().choices.values():
        mine = [v for v in verdicts if v.case.choice == choice.id]
        if mine and choice.expected(profile) is None:
            verdict, detail = judge_choice(choice.id, mine)
            rows.append({"choice": choice.id, "verdict": verdict, "detail": detail})
    return rows
