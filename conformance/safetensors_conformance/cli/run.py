"""``stc run``: run an implementation over the corpus, without pytest."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click

from safetensors_corpus import Case
from safetensors_reference.main import UnusableError
from safetensors_reference.text import visible_lines
from safetensors_reports.known_failures import KnownError

from ..case_verdict import CaseVerdict, explain_answer
from ..programs.launcher import Interruption
from ..run.driver import Assessment, ImplementationRun, ReportError, Run, RunOptions
from ..run.session import GivenUpError, StoppedError
from ..worker.worker import Limits
from .common import (
    cases_option,
    checked_device,
    corpus,
    corpus_option,
    existing_folder,
    limit_options,
    select,
    shared_option,
    targets,
    tracked,
)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@shared_option("--impl", "impls")
@cases_option
@shared_option("--profile")
@shared_option("--baseline", type=click.Path(dir_okay=False, path_type=Path))
@shared_option("--no-baseline")
@shared_option("--report", type=click.Path(file_okay=False, path_type=Path), callback=existing_folder)
@shared_option("--fail-on-should")
@shared_option("--heavy")
@shared_option("--device", callback=checked_device)
@shared_option("--no-smoke")
@corpus_option
@shared_option("--max-hangs")
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Number of implementations to run at the same time, each in its own worker. Implementations that "
    "are repeating an input after a hang are not counted.",
)
@limit_options
@shared_option("--full-failures")
@click.option("-q", "--quiet", is_flag=True, help="Print only the summary and the reasons the run failed.")
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
    max_hangs: int,
    jobs: int,
    full_failures: bool,
    quiet: bool,
    limits: Limits,
) -> None:
    """Run an implementation over the corpus and judge its answers.

    \b
    SELECTOR is one of
      reference, safetensors, ...   a built-in name (stc impl list)
      py:package.module:object      a Python adapter (or a path to a .py file)
      cmd:program args              a program that speaks the worker protocol
      exit:program {path}           a program that exits 0 to accept, 1 to reject
      exit:program {path} {folder}  a program that exports tensors to files
      oci:image args                a container image with such a program (podman, docker)
      NAME==VERSION, NAME@COMMIT    another release or commit of a built-in
      NAME=cmd:program args         a built-in that you built yourself

    \b
    Exit status: 0 if there were no unexpected failures, 1 if there were failures,
    2 if an implementation could not run or the report could not be written.
    Ctrl-C, SIGTERM and SIGHUP end a run cleanly and keep the results so far (130, 143
    and 129). A second signal ends the run immediately.
    """
    manifest = corpus(corpus_path)
    chosen = select(manifest, cases, heavy=heavy)
    with Interruption() as interruption, contextlib.ExitStack() as stack:
        options = RunOptions(
            manifest,
            profile,
            limits.with_shown(manifest.root / "files"),
            baseline,
            not no_baseline,
            smoke=not no_smoke,
            strict=fail_on_should,
            heavy=heavy,
            device=device,
            max_hangs=max_hangs,
            report=report,
            full_failures=full_failures,
            stop=interruption.stop,
        )
        try:
            driver = Run(targets(impls or ("reference",)), options)
            driver.lock_report()
            stack.callback(driver.close)
        except KnownError as err:
            raise click.UsageError(str(err)) from err
        except ReportError as err:
            raise UnusableError(f"--report {err}") from err
        printer = _Printer(whole=not cases, named=() if quiet else cases, quiet=quiet, bar=jobs == 1)
        failed = False
        try:
            failed = _run_all(driver, chosen, printer, jobs)
        except ReportError as err:
            driver.unwritten = str(err)
        driver.finish()
        _print_results(driver, interruption.status)
        unusable = driver.has_problems or driver.unwritten
        raise SystemExit(interruption.status or (2 if unusable else int(failed)))


def _print_results(driver: Run, interrupted: int | None) -> None:
    with contextlib.suppress(OSError) if interrupted else contextlib.nullcontext():
        for line in driver.summary():
            click.echo(line)
        if interrupted:
            click.echo("interrupted: the results so far are above", err=True)
        if driver.unwritten:
            click.echo(f"Error: the report cannot be written: {visible_lines(driver.unwritten)}", err=True)


def _run_all(driver: Run, cases: Sequence[Case], printer: _Printer, jobs: int) -> bool:
    """Run all implementations, ``jobs`` at a time, and return whether any of them failed."""
    turns, stop = threading.Semaphore(jobs), driver.options.stop
    for selector in driver.targets:
        driver.results_of(selector)  # in the given order, regardless of which one finishes first

    def one(selector: str) -> bool:
        with turns:
            try:
                run = driver.implementation(selector)
            except StoppedError:
                return False
            with contextlib.closing(run):
                run.waiting = partial(given_up, turns)
                failed = _run_one(driver, run, cases, printer)
            if not stop.is_set():
                driver.results_of(selector).finish(driver.options.manifest)  # even if another one fails later
            return failed

    if jobs == 1:
        return max([one(selector) for selector in driver.targets])  # the list ensures that all of them run
    # Each running worker needs a thread, and as many more threads may be waiting to retry hangs.
    failed = False
    with ThreadPoolExecutor(2 * jobs) as pool:
        try:
            for done in as_completed([pool.submit(one, selector) for selector in driver.targets]):
                failed |= done.result()
        except BaseException:
            stop.set()
            raise
    return failed


def _run_one(driver: Run, run: ImplementationRun, cases: Sequence[Case], printer: _Printer) -> bool:
    """Run one implementation, print its failures, and return whether it failed. Raises ReportError."""
    add = driver.results_of(run.target.selector).add
    add({"header": run.header} if run.header else {})
    if driver.options.stop.is_set():
        return False  # the signal that ended the run may have kept the session from starting
    if run.problem is not None:
        add({"problem": run.problem})
        return True
    # A few selected cases do not show whether the whole baseline is stale, overdue or contradicted.
    complaint = run.baseline_complaint() if printer.whole else run.baseline_error
    failed = printer.complaint(complaint or "")
    verdicts: list[CaseVerdict] = []
    wrong: list[Assessment] = []
    try:
        for verdict in tracked(run, cases, shown=printer.bar):
            verdicts.append(verdict)
            for step in verdict.steps:
                assessment = run.assess(verdict, step)
                add({"result": assessment.row})
                if assessment.status == "failed":
                    wrong.append(assessment)
                printer.assessment(run, assessment, verdict.case)
    except GivenUpError as err:
        add({"problem": str(err)})  # results so far still count, including choices
    if printer.quiet:  # the summary names only causes of several failing cases
        for line in run.contradiction_lines(wrong):
            click.echo(line)
        plain = [one for one in wrong if not one.contradicts_baseline]
        if len({one.row["case"] for one in plain}) == 1:
            for one in plain:
                click.echo(f"{run.failure_text(one)}\n")
    ran = [verdict.case for verdict in verdicts]
    for choice in run.choices(ran):
        row = run.choice_row(choice, ran)
        add({"choice": row})
        said = run.choice_complaint(row) if printer.whole else ""
        failed |= printer.complaint(f"{said}\n" if said else "")
    return failed or bool(wrong)


@dataclass(frozen=True)
class _Printer:
    """Prints failures and, for open choices in ``named`` cases, the implementation's answer.

    ``whole`` is true if all cases run.
    """

    whole: bool
    named: Collection[str]
    quiet: bool
    bar: bool

    def complaint(self, text: str) -> bool:
        if text:
            click.echo(text)
        return bool(text)

    def assessment(self, run: ImplementationRun, assessment: Assessment, case: Case) -> None:
        row = assessment.row
        if assessment.status == "failed":
            if not self.quiet:
                text = run.failure_text(assessment)
                click.echo(f"{text}\n" if "\n" in text else text)
        elif case.id in self.named and row["options"] and run.implementation is not None:
            click.echo(f"{explain_answer(run.implementation, case, row)}\n")


@contextlib.contextmanager
def given_up(turns: threading.Semaphore) -> Iterator[None]:
    """Release this thread's turn for the duration of the block."""
    turns.release()
    try:
        yield
    finally:
        turns.acquire()
