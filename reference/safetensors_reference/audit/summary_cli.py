"""``stc audit summary``: what the rows of an audit say, as tables and as a page."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from ..writing.atomic import NotSavedError
from ..writing.report import write_report
from .results import ResultsError
from .summary import as_page, as_text, summarize


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("results", type=click.Path(path_type=Path), metavar="RESULTS")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="PAGE",
    help="Write a page of HTML to PAGE instead of tables to standard output.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def summary(results: Path, output: Path | None, as_json: bool) -> None:
    """Count the rows that 'stc audit -o RESULTS' wrote.

    \b
    stc audit summary rows.jsonl
    stc audit summary rows/ -o page.html

    Tables count files by verdict, fault, writer, source and dtype, and name the largest files, the rarest
    faults, writers and dtypes, and what the audit cost. Of a file that was looked at several times the last
    row counts. Needs the extra fleet.

    \b
    Exit status: 0; 2 the results cannot be read, or the page cannot be written.
    """
    try:
        found = summarize(results)
        if output is not None:
            write_report(output, as_page(found))
    except (ResultsError, NotSavedError) as err:
        click.echo(str(err), err=True)
        raise SystemExit(2) from err
    if as_json:
        click.echo(msgspec.json.encode(found))
    elif output is None:
        click.echo(as_text(found), nl=False)
