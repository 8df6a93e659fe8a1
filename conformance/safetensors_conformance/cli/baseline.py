"""``stc baseline``: show, explain and rewrite the expected failures of an implementation."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from safetensors_corpus.cli.common import UnusableError
from safetensors_reference.rules.book import PROFILES

from ..run.baseline import BaselineError, check_baseline_option, load_baseline
from ..run.results import RunOptions, RunResults, baseline_path
from ..run.session import RunSession, choice_rows, result_row, result_rows
from ..verdict.message import explain_failure
from .common import corpus, grade_option, targets, tracked

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
    path = baseline_path(targets([selector])[0], file)
    try:
        loaded = load_baseline(path, version, profile)
    except BaselineError as err:
        raise click.ClickException(str(err)) from err
    table = Table(box=None, pad_edge=False)
    for column in ("case", "verdicts", "why", "issue", "review by"):
        table.add_column(column, overflow="fold")
    for entry in loaded.entries:
        verdicts = ", ".join(f"{s} {v}" for s, v in entry.steps.items())
        table.add_row(entry.case, verdicts, entry.why, entry.issue, str(entry.review_by or ""))
    Console(markup=False).print(table)
    click.echo(f"{len(loaded.entries)} entries in {path}")


@baseline.command()
@click.argument("selector")
@click.option("--case", "pattern", default="", help="Run only entries with this string in their case id.")
@grade_option
@FILE
def explain(selector: str, pattern: str, profile: str | None, file: Path | None) -> None:
    """Run the cases in the baseline of SELECTOR and show each failure.

    \b
    Exit status: 0 if every entry still fails as listed, 1 if some do not,
    2 if the implementation does not start.
    """
    manifest = corpus(None)
    target = targets([selector])[0]
    with RunSession(target, RunOptions(manifest, profile, baseline=file)) as session:
        if session.problem or session.baseline_error or session.implementation is None:
            raise click.ClickException(
                session.problem or session.baseline_error or "the implementation does not start"
            )
        entries = [e for e in session.baseline.entries if pattern in e.case]
        listed = [(case, session.baseline.find(case.id)) for case in manifest.cases]
        wanted = {case.id: entry for case, entry in listed if entry is not None and entry in entries}
        stale = 0
        for verdict in session.verdicts(manifest.by_id[case_id] for case_id in wanted):
            entry = wanted[verdict.case.id]
            for step, expected in entry.steps.items():
                if step not in verdict.steps:
                    continue
                got = verdict.steps[step].verdict
                stale += got != expected
                row = result_row(verdict, step, expected_failure=got == expected)
                click.echo(explain_failure(session.implementation, verdict.case, row, profile))
                note = "" if got == expected else f" (listed as {expected}, but the verdict is now {got})"
                click.echo(f"  why       {entry.why or 'no reason given'}{note}\n  issue     {entry.issue}\n")
    click.echo(f"{len(entries)} entries, {stale} steps no longer fail as listed")
    raise SystemExit(1 if stale else 0)


@baseline.command()
@click.argument("selector")
@grade_option
@FILE
def update(selector: str, profile: str | None, file: Path | None) -> None:
    """Run the whole corpus and rewrite the baseline of SELECTOR.

    The command removes entries that no longer fail, adds new failures, and keeps reasons, issues and
    comments. In a new file, all entries share the issue "unreported" and one review date.
    """
    manifest = corpus(None)
    target = targets([selector])[0]
    try:
        check_baseline_option(baseline_path(target, file), [target], read=False)
    except BaselineError as err:
        raise UnusableError(str(err)) from err
    results = RunResults(manifest, None)
    mine = results.of(target)
    with RunSession(target, RunOptions(manifest, profile, use_baseline=False)) as session:
        if session.problem is not None:
            raise click.ClickException(session.problem)
        mine.add({"header": session.header})
        verdicts = list(tracked(session, [case for case in manifest.cases if not case.heavy]))
        for row in (row for verdict in verdicts for row in result_rows(verdict)):
            mine.add({"result": row})
        for row in choice_rows(verdicts, profile):
            mine.add({"choice": row})
    results.finish()
    for line in results.update_baselines(file, profile):
        click.echo(line)
