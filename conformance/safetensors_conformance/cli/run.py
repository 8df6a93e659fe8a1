"""``stc run``: run an implementation over the corpus, without pytest."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import click

from safetensors_corpus import Case
from safetensors_corpus.cli.common import UnusableError
from safetensors_reference.text import visible_lines

from ..implementations.selectors import Target
from ..run.baseline import BaselineError, check_baseline_option
from ..run.cases import GivenUpError, StoppedError
from ..run.interruption import Interruption
from ..run.results import ReportError, RunOptions, RunResults
from ..run.session import Assessment, CauseLimiter, RunSession, choice_rows
from ..run.turns import Turns
from ..verdict.judge import CaseVerdict
from ..verdict.message import explain_answer
from ..worker.worker import Limits
from .common import (
    cases_option,
    checked_device,
    corpus,
    corpus_option,
    existing_folder,
    grade_option,
    heavy_option,
    limit_options,
    max_hangs_option,
    select,
    targets,
    tracked,
)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--impl",
    "impls",
    multiple=True,
    metavar="SELECTOR",
    help="Implementation to run; repeat the option to compare several.  [default: reference]",
)
@cases_option
@grade_option
@click.option(
    "--baseline", type=click.Path(dir_okay=False, path_type=Path), help="File of expected failures (TOML)."
)
@click.option("--no-baseline", is_flag=True, help="Ignore baselines and show all failures.")
@click.option(
    "--report",
    type=click.Path(file_okay=False, path_type=Path),
    callback=existing_folder,
    help="Write run records and summary.md to this folder.",
)
@click.option(
    "--fail-on-should",
    is_flag=True,
    help="Also fail on recommendations that are not followed and on late rejections.",
)
@heavy_option
@click.option(
    "--device",
    metavar="NAME",
    callback=checked_device,
    help="Also load every plain file onto this device and copy it back: cpu or cuda:N.",
)
@click.option("--no-smoke", is_flag=True, help="Continue even if the most basic files fail.")
@corpus_option
@max_hangs_option
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Number of implementations to run at the same time, each in its own worker. An implementation that "
    "is retrying a hang does not count.",
)
@limit_options
@click.option("--full-failures", is_flag=True, help="Show every failure in full, and all likely causes.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the summary and why the run fails.")
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
    wanted = targets(impls or ("reference",))
    try:
        check_baseline_option(baseline, wanted, read=not no_baseline)
    except BaselineError as err:
        raise click.UsageError(str(err)) from err
    with Interruption() as interruption, contextlib.ExitStack() as stack:
        try:
            results = RunResults(manifest, report, strict=fail_on_should, full=full_failures)
        except ReportError as err:
            raise UnusableError(f"--report {err}") from err
        stack.callback(results.close)
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
            stop=interruption.stop,
        )
        for target in wanted:
            results.of(target)  # in the given order, regardless of which one finishes first

        turns = Turns(jobs)

        def one(target: Target) -> bool:
            try:
                session = RunSession(target, options)
            except StoppedError:
                return False
            with session:
                session.waiting = turns.given_up
                add, limiter = results.of(target).add, CauseLimiter(session, full=full_failures)
                failed = _run_one(
                    session,
                    add,
                    limiter,
                    chosen,
                    whole=not cases,
                    named=() if quiet else cases,
                    quiet=quiet,
                    shown=jobs == 1,
                )
            if not options.stop.is_set():
                results.of(target).finish(manifest)  # even if another one fails later
            return failed

        failed, unwritten = False, ""
        try:
            failed = _run_all(one, wanted, jobs, turns, options.stop)
        except ReportError as err:
            unwritten = str(err)
        try:
            results.finish()
        except ReportError as err:
            unwritten = unwritten or str(err)
        problems = any(one.problems for one in results.implementations.values())
        _print_results(results, unwritten, interruption.status)
        raise SystemExit(interruption.status or (2 if problems or unwritten else int(failed)))


def _print_results(results: RunResults, unwritten: str, interrupted: int | None) -> None:
    with contextlib.suppress(OSError) if interrupted else contextlib.nullcontext():
        for line in results.summary():
            click.echo(line)
        if interrupted:
            click.echo("interrupted: the results so far are above", err=True)
        if unwritten:
            click.echo(f"Error: the report cannot be written: {visible_lines(unwritten)}", err=True)


def _run_all(
    one: Callable[[Target], bool], wanted: Sequence[Target], jobs: int, turns: Turns, stop: threading.Event
) -> bool:
    """Run all implementations, ``jobs`` at a time, and return whether any failed.

    If one of them raises, stops the others and re-raises the exception.
    """

    def in_turn(target: Target) -> bool:
        with turns.one():
            return one(target)

    failed = False
    if jobs == 1:
        for target in wanted:
            failed |= in_turn(target)
        return failed
    # The worker processes do the work. The pool has one thread to wait for each of them, and as many again
    # for hangs that are being retried.
    with ThreadPoolExecutor(2 * jobs) as pool:
        try:
            for done in as_completed([pool.submit(in_turn, target) for target in wanted]):
                failed |= done.result()
        except BaseException:
            stop.set()
            raise
    return failed


def _run_one(
    session: RunSession,
    add: Callable[[Mapping[str, Any]], None],
    limiter: CauseLimiter,
    cases: Sequence[Case],
    *,
    whole: bool,
    named: Collection[str],
    quiet: bool,
    shown: bool,
) -> bool:
    """Run one implementation, print its failures, and return whether it failed. Raises ReportError.

    ``whole`` says that ``cases`` are all cases. ``named`` contains the case ids given by the user; their
    answers to choices are shown. ``shown`` is False if this progress bar would interfere with another one.
    """
    add({"header": session.header} if session.header else {})
    if session.stop.is_set():
        return False  # the signal that ended the run may have kept the session from starting
    if session.problem is not None:
        add({"problem": session.problem})
        return True
    failed = False
    # Stale entries and overdue reviews fail only full runs, because they are irrelevant to a few selected
    # cases.
    complaint = session.baseline_complaint() if whole else session.baseline_error
    if complaint is not None:
        click.echo(complaint)
        failed = True
    verdicts: list[CaseVerdict] = []
    wrong: list[Assessment] = []
    try:
        for verdict in tracked(session, cases, shown=shown):
            verdicts.append(verdict)
            for step in verdict.steps:
                assessment = session.assess(verdict, step)
                add({"result": assessment.row})
                if assessment.status == "failed":
                    wrong.append(assessment)
                _print_assessment(session, assessment, verdict.case, limiter, named=named, quiet=quiet)
    except GivenUpError as err:
        add({"problem": str(err)})  # results so far still count, including choices
    if quiet:  # the summary covers all other failures
        for line in session.contradiction_lines(wrong):
            click.echo(line)
    for row in choice_rows(verdicts, session.profile):
        add({"choice": row})
        # Contradictions between cases matter in full runs but not in runs of a few selected cases.
        said = session.choice_complaint(row) if whole else ""
        if said:
            failed = True
            click.echo(f"{said}\n")
    return failed or bool(wrong)


def _print_assessment(
    session: RunSession,
    found: Assessment,
    case: Case,
    limiter: CauseLimiter,
    *,
    named: Collection[str],
    quiet: bool,
) -> None:
    if found.status == "failed" and not quiet:
        text = limiter.message(found.row, found.text)
        click.echo(f"{text}\n" if "\n" in text else text)
    elif (
        found.status != "failed"
        and case.id in named
        and found.row["options"]
        and session.implementation is not None
    ):
        click.echo(f"{explain_answer(session.implementation, case, found.row)}\n")
