"""``stc fuzz replay`` and ``stc fuzz promote``: ask again for a finding."""

from __future__ import annotations

from pathlib import Path

import click

from safetensors_conformance.cli.common import confined
from safetensors_conformance.implementations.selectors import runs_program
from safetensors_conformance.worker.confinement import Confinement
from safetensors_conformance.worker.worker import Limits
from safetensors_corpus.cli.common import UnusableError
from safetensors_reference import PROFILES, rule_book
from safetensors_reference.main import SecondsRange
from safetensors_reference.rules.book import TEXT_ANSWERS
from safetensors_reports.text import visible

from ..after.promote import Checkout, NothingNewError, PromotionError
from ..after.promote import promote as add
from ..after.replay import Answer, exit_status
from ..after.replay import replay as ask_again
from ..findings.finding import REPLAYS, Finding
from ..findings.folder import FindingError, load
from ..findings.texts import reason


def loaded(folder: Path) -> Finding:
    """Load a finding. Raises UnusableError."""
    try:
        return load(folder)
    except FindingError as err:
        raise UnusableError(visible(str(err), 600)) from err


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--impl",
    "impls",
    multiple=True,
    metavar="SELECTOR",
    help="Ask this implementation; may be repeated.  [default: the known ones that it was found with]",
)
@click.option(
    "--times",
    type=click.IntRange(1, 100),
    default=REPLAYS,
    show_default=True,
    help="How often, in fresh processes.",
)
@click.option(
    "--profile", type=click.Choice(PROFILES), help=f"Whose options the reference takes; {TEXT_ANSWERS}."
)
@click.option(
    "--time-limit", type=SecondsRange(), default=10.0, show_default=True, help="Seconds per answer."
)
@confined
def replay(
    folder: Path,
    impls: tuple[str, ...],
    times: int,
    profile: str | None,
    time_limit: float,
    confinement: Confinement,
) -> None:
    """Ask again for the finding in FOLDER, and say whether the answer is still wrong.

    A finding may come from anybody, so it never says what is run: without --impl only known
    implementations (stc impl list) that it names are asked. A program or a Python adapter
    (cmd:, exit:, py:) and a version that is not installed are taken from --impl alone. Who
    will be asked is printed first.

    \b
    stc fuzz replay findings/off-hole-1a2b3c4d
    stc fuzz replay findings/off-hole-1a2b3c4d --impl mlx==0.31.1 --impl mlx
    Exit status: 0 as expected now, 1 still wrong, 2 cannot be run.
    """
    finding = loaded(folder)
    click.echo(f"{visible(finding.slug)} · {visible(finding.step, 40)} · {visible(finding.verdict, 80)}")
    for rule_id in finding.rules[:1]:
        rule = rule_book().rules.get(rule_id)
        click.echo(f"  rule      {rule_id}" + (f" ({rule.level}): {rule.statement}" if rule else ""))
    why = reason(finding)
    if why is not None:
        click.echo(f"  {'because' if finding.rules else 'rule':<9} {visible(why[1], 300)}")
    click.echo(f"  expected  {visible(finding.expected, 300)}")
    if not impls and not finding.got:
        raise UnusableError(f"{finding.slug} does not say whom it was found with; give --impl SELECTOR")
    answers = ask_again(
        finding,
        impls,
        times=times,
        limits=Limits(time_limit, confinement=confinement),
        profile=profile,
        say=_say_who_is_asked,
    )
    for answer in answers:
        for line in _lines(finding, answer):
            click.echo(line)
    raise SystemExit(exit_status(answers))


def _say_who_is_asked(selector: str) -> None:
    """Print one line before anything is run, so that it can be stopped."""
    click.echo(f"  {'runs' if runs_program(selector) else 'asks':<9} {visible(selector, 1000)}")


def _lines(finding: Finding, answer: Answer) -> list[str]:
    who = visible(answer.selector + (f" {answer.version}" if answer.version else ""))
    lines = [f"  {who}: {answer.state.upper()}", f"    got     {visible(answer.got, 300)}"]
    before = finding.got.get(answer.selector)
    if before is not None:
        version = finding.versions.get(answer.selector, "")
        lines.append(f"    before  {visible(before, 300)}" + (f" ({visible(version)})" if version else ""))
    return lines


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
            click.echo(
                "It kills mutants that survived: python -m tools.mutation --write, and remove their reasons"
            )
