"""``stc baseline``: show, explain and rewrite the expected failures of an implementation."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from safetensors_reference.main import UnusableError
from safetensors_reference.rules.book import PROFILES
from safetensors_reports.known_failures import Baseline, KnownError, load_baseline
from safetensors_reports.text import plural

from ..case_verdict import explain_failure, result_row, result_rows
from ..run.driver import ImplementationRun, Run, RunOptions
from .common import corpus, reported_as, shared_option, targets, tracked

FILE = click.option("--file", type=click.Path(dir_okay=False, path_type=Path), help="Use this baseline file.")


@click.group()
def baseline() -> None:
    """Show, explain and rewrite expected failures."""


@baseline.command()
@click.argument("selector")
@click.option(
    "--version", default="", help="Show only entries that apply to this version of the implementation."
)
@click.option("--profile", type=click.Choice(PROFILES), help="Show the entries for this profile.")
@FILE
def show(selector: str, version: str, profile: str | None, file: Path | None) -> None:
    """Show each entry in the baseline of SELECTOR, with its case, verdicts, reason, issue and review date."""
    target = targets([selector])[0]
    path = file or target.baseline
    with reported_as(UnusableError, KnownError):
        loaded = load_baseline(path, version, profile)
    table = Table(box=None, pad_edge=False)
    for column in ("case", "verdicts", "why", "issue", "review by"):
        table.add_column(column, overflow="fold")
    for entry in loaded.entries:
        verdicts = ", ".join(f"{s} {v}" for s, v in entry.steps.items())
        table.add_row(entry.case, verdicts, entry.why, entry.issue, str(entry.review_by or ""))
    Console(markup=False).print(table)
    click.echo(f"{plural(len(loaded.entries), 'entry', 'entries')} in {path}")


@baseline.command()
@click.argument("selector")
@click.option("--case", "pattern", default="", help="Run only entries whose case id contains this string.")
@shared_option("--profile")
@FILE
def explain(selector: str, pattern: str, profile: str | None, file: Path | None) -> None:
    """Run the cases in the baseline of SELECTOR and show each failure.

    \b
    Exit status: 0 if every entry still fails as listed, 1 if some do not,
    2 if the implementation does not start.
    """
    manifest = corpus(None)
    target = targets([selector])[0]
    with closing(ImplementationRun(target, RunOptions(manifest, profile, baseline=file))) as run:
        if run.problem or run.baseline_error or run.implementation is None:
            raise UnusableError(run.problem or run.baseline_error or "the implementation does not start")
        known = run.baseline or Baseline(file or target.baseline)
        entries = [e for e in known.entries if pattern in e.case]
        listed = [(case, known.find(case.id)) for case in manifest.cases]
        wanted = {case.id: entry for case, entry in listed if entry is not None and entry in entries}
        stale = 0
        for verdict in run.verdicts(manifest.by_id[case_id] for case_id in wanted):
            entry = wanted[verdict.case.id]
            for step, expected in entry.steps.items():
                if step not in verdict.steps:
                    continue
                got = verdict.steps[step].verdict
                stale += got != expected
                row = result_row(verdict, step, expected_failure=got == expected)
                click.echo(explain_failure(run.implementation, verdict.case, row, profile))
                note = "" if got == expected else f" (listed as {expected}, but the verdict is now {got})"
                click.echo(f"  why       {entry.why or 'no reason given'}{note}\n  issue     {entry.issue}\n")
    click.echo(f"{plural(len(entries), 'entry', 'entries')}; steps that no longer fail as listed: {stale}")
    raise SystemExit(1 if stale else 0)


@baseline.command()
@click.argument("selector")
@shared_option("--profile")
@FILE
def update(selector: str, profile: str | None, file: Path | None) -> None:
    """Run the whole corpus and rewrite the baseline of SELECTOR.

    The command removes entries that no longer fail, adds new failures, and keeps reasons, issues and
    comments. In a new file, all entries share the issue "unreported" and one review date.
    """
    manifest = corpus(None)
    target = targets([selector])[0]
    path = file or target.baseline
    with reported_as(UnusableError, KnownError):
        driver = Run([target], RunOptions(manifest, profile, baseline=path, use_baseline=False))
    mine = driver.results_of(target.selector)
    with closing(driver.implementation(target.selector)) as run:
        if run.problem is not None:
            raise UnusableError(run.problem)
        mine.add({"header": run.header})
        cases = [verdict.case for verdict in tracked(run, driver.cases())]
        for row in (row for case in cases for row in result_rows(run.judge(case))):
            mine.add({"result": row})
        for choice in run.choices(cases):
            mine.add({"choice": run.choice_row(choice, cases)})
    driver.finish()
    with reported_as(UnusableError, KnownError):
        lines = driver.update_baselines(file, profile)
    for line in lines:
        click.echo(line)
