"""``stc baseline``: look at the expected failures of an implementation."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from ..baseline import BaselineError, load_baseline
from ..book import baseline_path
from .common import targets


@click.group()
def baseline() -> None:
    """Look at expected failures. To rewrite them: pytest conformance --impl=NAME --update-baseline."""


@baseline.command()
@click.argument("selector")
@click.option("--version", default="", help="Only entries that hold for this version of the implementation.")
@click.option(
    "--profile", type=click.Choice(("text", "official", "hardened")), help="Entries of this profile."
)
@click.option("--file", type=click.Path(dir_okay=False, path_type=Path), help="Another baseline file.")
def show(selector: str, version: str, profile: str | None, file: Path | None) -> None:
    """Show the baseline of SELECTOR: case, verdicts, reason, issue and review date."""
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
    Console().print(table)
    click.echo(f"{len(loaded.entries)} entries in {path}")
