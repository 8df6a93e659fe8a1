"""``stc audit summary``: shows the rows of an audit as tables or as an HTML page."""

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
    help="Write an HTML page to PAGE instead of printing tables.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the counts as one JSON object.")
def summary(results: Path, output: Path | None, as_json: bool) -> None:
    """Count the rows that 'stc audit -o RESULTS' wrote.

    \b
    stc audit summary rows.jsonl
    stc audit summary rows/ -o page.html

    The tables count files by verdict, fault, writer, source and dtype. They also show the largest files, the
    rarest faults, writers and dtypes, and the cost of the audit. If a file has several rows, only the last
    one counts. This command needs the extra fleet.

    \b
    Exit status:
      0    the summary is complete
      2    the results could not be read, or the page could not be written
    """
    try:
        result = summarize(results)
        if output is not None:
            write_report(output, as_page(result))
    except (ResultsError, NotSavedError) as err:
        click.echo(str(err), err=True)
        raise SystemExit(2) from err
    if as_json:
        click.echo(msgspec.json.encode(result))
    elif output is None:
        click.echo(as_text(result), nl=False)
