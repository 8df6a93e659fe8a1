"""``stc fuzz``: mutate corpus files and look for crashes and disagreement."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn

from safetensors_conformance.cli.common import corpus, targets
from safetensors_conformance.worker import Limits, StartError

from .loop import Tally
from .loop import fuzz as run_loop


@click.command()
@click.option(
    "--impl",
    "impls",
    multiple=True,
    metavar="SELECTOR",
    help="Implementation; give two to compare them.  [default: reference]",
)
@click.option(
    "--max-execs",
    type=click.IntRange(1),
    default=10_000,
    show_default=True,
    help="Stop after so many inputs.",
)
@click.option("--time", "seconds", type=click.FloatRange(0.1), help="Stop after so many seconds.")
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed gives the same inputs.")
@click.option("-o", "--output", type=click.Path(file_okay=False, path_type=Path), help="Folder for findings.")
@click.option(
    "--time-limit", type=click.FloatRange(0.001), default=10.0, show_default=True, help="Seconds per input."
)
def fuzz(
    impls: tuple[str, ...],
    max_execs: int,
    seconds: float | None,
    seed: int,
    output: Path | None,
    time_limit: float,
) -> None:
    """Mutate corpus files, run them through each implementation, keep what crashes or disagrees.

    The reference takes the official profile, so that known deviations of the official library stay quiet.

    \b
    stc fuzz --impl reference --impl safetensors --max-execs 5000 -o findings
    Exit status: 0 nothing found, 1 findings, 2 an implementation does not start.
    """
    manifest = corpus(None)
    bases = [
        c.read_input() for c in manifest.reading if c.expect is not None and c.expect.outcome == "accept"
    ]
    tally = Tally()
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"))
    try:
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
            task = progress.add_task("starting", total=None)

            def show(now: Tally) -> None:
                rate = now.execs / now.seconds if now.seconds else 0
                progress.update(
                    task, description=f"{now.execs:,} inputs, {rate:,.0f}/s, {len(now.findings)} findings"
                )

            run_loop(
                targets(impls or ("reference",)),
                bases,
                seed=seed,
                max_execs=max_execs,
                seconds=seconds,
                limits=Limits(time_limit),
                folder=output,
                progress=show,
                tally=tally,
            )
    except StartError as err:
        click.echo(str(err), err=True)
        raise SystemExit(2) from err
    except KeyboardInterrupt:
        click.echo("interrupted; findings so far:", err=True)
    rate = tally.execs / tally.seconds if tally.seconds else 0
    click.echo(f"{tally.execs:,} inputs in {tally.seconds:.1f} s ({rate:,.0f}/s), seed {seed}")
    for vector, count in tally.outcomes.most_common():
        click.echo(f"  {count:>8,}  {vector}")
    click.echo(f"{len(tally.findings)} findings")
    for signature, finding in tally.findings.items():
        click.echo(f"  {finding['sha256'][:12]}  {signature}")
    raise SystemExit(1 if tally.findings else 0)
