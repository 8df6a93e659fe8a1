"""``stc fuzz promote``: make a finding a case of the corpus."""

from __future__ import annotations

from pathlib import Path

import click

from safetensors_corpus.cli.common import UnusableError
from safetensors_reports.text import visible

from ..after.entry import PromotionError
from ..after.promote import Checkout, NothingNewError
from ..after.promote import promote as add
from .replay import loaded


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--id", "case_id", metavar="AREA/SLUG", help="Id of the case, for ever.  [default: made up]")
@click.option("--title", help="What is special about the file, in one sentence.")
@click.option("--issue", metavar="URL", help="Public report of the bug that it was found by.")
@click.option("--dry-run", is_flag=True, help="Only say what would be added, and what is new about it.")
@click.option(
    "--corpus",
    "folder_of_corpus",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    hidden=True,
    help="The corpus/ of another checkout.",
)
def promote(
    folder: Path,
    case_id: str | None,
    title: str | None,
    issue: str | None,
    dry_run: bool,
    folder_of_corpus: Path | None,
) -> None:
    """Make the finding in FOLDER a case of the corpus, with where it is from.

    What adds nothing is refused: bytes that are a case already, an answer that the format leaves open, and a
    file that neither notices a fault of the strict reader that no case notices, nor fails a set of broken
    readers that no case of the same fault code fails. It takes some seconds to find out.

    \b
    stc fuzz promote findings/off-hole-1a2b3c4d --id layout/hole-behind-empty --title "A hole follows ..."
    Exit status: 0 added, 1 refused because it adds nothing, 2 cannot be promoted.
    """
    finding = loaded(folder)
    try:
        checkout = Checkout.here() if folder_of_corpus is None else Checkout.at(folder_of_corpus)
        made = add(finding, checkout, case_id=case_id, title=title, issue=issue, dry_run=dry_run)
    except NothingNewError as err:
        click.echo(f"not promoted: {visible(str(err), 600)}")
        raise SystemExit(1) from err
    except (PromotionError, OSError, ValueError) as err:
        raise UnusableError(f"not promoted: {visible(str(err), 600)}") from err
    for line in made.news.lines:
        click.echo(visible(line, 600))
    click.echo(f"{'would add' if dry_run else 'added'} {made.row['id']} to {checkout.found}:")
    for line in made.text.split("\n"):
        click.echo(visible(line, len(line)))
    if not dry_run:
        click.echo("Read it, correct title and rules, then: stc corpus build, and stc corpus matrix --write")
        if made.news.mutants:
            click.echo("It kills mutants that survived: stc corpus mutants --write, and remove their reasons")
