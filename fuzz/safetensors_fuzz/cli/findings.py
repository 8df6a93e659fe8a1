"""The command ``stc fuzz replay``."""

from __future__ import annotations

from pathlib import Path

import click

from safetensors_conformance.cli.common import confinement_options
from safetensors_conformance.worker.confinement import Confinement
from safetensors_conformance.worker.worker import Limits
from safetensors_corpus.cli.common import UnusableError
from safetensors_reference import PROFILES, rule_book
from safetensors_reference.main import SecondsRange
from safetensors_reference.rules.book import TEXT_ANSWERS
from safetensors_reports.text import visible

from ..finding import REPLAYS
from ..findings.folder import FindingError, load
from ..findings.replay import exit_status
from ..findings.replay import replay as replay_finding
from ..findings.texts import reason


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--impl",
    "impls",
    multiple=True,
    metavar="SELECTOR",
    help="Implementation to run. Can be given several times.  [default: the known implementations in the "
    "finding]",
)
@click.option(
    "--times",
    type=click.IntRange(1, 100),
    default=REPLAYS,
    show_default=True,
    help="Number of attempts. Each one runs in a fresh process.",
)
@click.option("--profile", type=click.Choice(PROFILES), help=f"Profile of the reference: {TEXT_ANSWERS}.")
@click.option(
    "--time-limit",
    type=SecondsRange(),
    default=10.0,
    show_default=True,
    help="Time limit for each answer, in seconds.",
)
@confinement_options
def replay(
    folder: Path,
    impls: tuple[str, ...],
    times: int,
    profile: str | None,
    time_limit: float,
    confinement: Confinement,
) -> None:
    """Run the finding in FOLDER again, and report whether the answer is still wrong.

    A finding may come from an untrusted source, so it must not choose the programs to run. Without --impl,
    the command runs only those implementations in the finding that stc impl list shows. It runs programs and
    Python adapters (cmd:, exit:, py:) and versions that are not installed only if --impl names them. It
    prints the names of the implementations before it starts them.

    \b
    stc fuzz replay findings/off-hole-1a2b3c4d
    stc fuzz replay findings/off-hole-1a2b3c4d --impl mlx==0.31.1 --impl mlx
    Exit status: 0 now as expected, 1 still wrong, 2 cannot run.
    """
    try:
        finding = load(folder)
    except FindingError as err:
        raise UnusableError(visible(str(err), 600)) from err
    click.echo(f"{visible(finding.slug)} · {visible(finding.step, 40)} · {visible(finding.verdict, 80)}")
    for rule_id in finding.rules[:1]:
        rule = rule_book().rules.get(rule_id)
        click.echo(f"  rule      {rule_id}" + (f" ({rule.level}): {rule.statement}" if rule else ""))
    why = reason(finding)
    if why is not None:
        click.echo(f"  {'because' if finding.rules else 'rule':<9} {visible(why[1], 300)}")
    click.echo(f"  expected  {visible(finding.expected, 300)}")
    if not impls and not finding.got:
        raise UnusableError(f"{finding.slug} refers to no known implementation; give --impl SELECTOR")
    answers = replay_finding(
        finding,
        impls,
        times=times,
        limits=Limits(time_limit, confinement=confinement),
        profile=profile,
        say=lambda selector: click.echo(f"  runs      {visible(selector, 1000)}"),
    )
    for answer in answers:
        name = visible(answer.selector + (f" {answer.version}" if answer.version else ""))
        click.echo(f"  {name}: {answer.state.upper()}\n    got     {visible(answer.got, 300)}")
        before = finding.got.get(answer.selector)
        if before is not None:
            version = visible(finding.versions.get(answer.selector, ""))
            click.echo(f"    before  {visible(before, 300)}" + (f" ({version})" if version else ""))
    raise SystemExit(exit_status(answers))
