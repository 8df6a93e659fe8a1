"""``python -m proof.mutation``: measure which faults in the strict reader the corpus detects."""

from __future__ import annotations

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn
from rich.table import Table

from safetensors_corpus import ManifestError

from . import result as results
from .engine import Outcome
from .mutants import Mutant
from .reader import DECIDING, reader_mutants


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--check",
    is_flag=True,
    help="Fail if the committed proof/mutation/mutants.json differs from this result.",
)
@click.option("--write", is_flag=True, help="Write the result to proof/mutation/mutants.json.")
@click.option(
    "--module",
    "modules",
    multiple=True,
    type=click.Choice(DECIDING),
    help="Run only mutants of this module. Can be given several times.",
)
@click.option(
    "--name",
    help="Run only this mutant. Show the change, and the case that detects it or the reason why none does.",
)
@click.option("--jobs", type=click.IntRange(1, 16), default=2, show_default=True, help="Parallel processes.")
def mutants(check: bool, write: bool, modules: tuple[str, ...], name: str | None, jobs: int) -> None:
    """Run the strict reader with each of several thousand one-token faults over the corpus.

    A fault is detected if any small case gets another verdict, other content or none of its fault codes, or
    if the reader crashes, hangs or exhausts memory. The score is the share of detected faults among those
    that a case file could reveal. Every undetected fault needs a reason in survivors.toml, which explains
    either why no case can detect it or which case is missing.

    A full run takes about twenty minutes on two cores.

    \b
    Exit status:
      0  every survivor has a reason, and every reason has a survivor (and the
         result is current, with --check)
      1  a survivor has no reason, a reason has no survivor, or the result is not current
      2  wrong usage

    \b
    Examples:
      python -m proof.mutation --write
      python -m proof.mutation --module header.explain
      python -m proof.mutation --name header.explain:check_layout:compare:2
    """
    if (check or write) and (modules or name):
        raise click.UsageError("--check and --write need all mutants; leave out --module and --name")
    chosen = reader_mutants(modules)
    if name is not None:
        chosen = [m for m in chosen if m.name == name]
        if not chosen:
            raise click.UsageError(
                f"there is no mutant {name!r}; the names are listed in proof/mutation/mutants.json"
            )
    try:
        reasons = results.load_reasons()
        committed = results.load_result()
        outcomes = _measure(chosen, committed.get("killers", {}), jobs)
    except (ManifestError, results.UnsoundError, ValueError) as err:
        raise click.ClickException(str(err)) from err
    if name is not None:
        _show(chosen[0], outcomes[name], reasons.get(name))
        return
    result = results.result_of(chosen, outcomes, reasons)
    _print(chosen, result)
    statuses = {n: o.status for n, o in outcomes.items()}
    wrong = results.problems(statuses, reasons, modules or None)
    text = results.render(result)
    path = results.result_path()
    if write:
        path.write_text(text, encoding="utf-8")
        click.echo(f"written: {path}")
    elif check and (not path.exists() or path.read_text(encoding="utf-8") != text):
        wrong.append(f"{path.name} is not current; run: python -m proof.mutation --write")
    for line in wrong:
        click.echo(line)
    raise SystemExit(1 if wrong else 0)


def _measure(chosen: list[Mutant], known: dict[str, str], jobs: int) -> dict[str, Outcome]:
    console = Console(stderr=True)
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # Disabled, because the run forks and would copy the locks of a redrawing thread in their current state.
    with Progress(
        *columns, console=console, auto_refresh=False, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("mutants", total=len(chosen))

        def tell(done: int) -> None:
            bar.update(task, completed=done, refresh=done % 10 == 0)

        return results.measure(chosen, known, jobs, tell)


def _print(chosen: list[Mutant], result: dict[str, object]) -> None:
    lines = {m.name: m.line for m in chosen}
    table = Table(box=None, pad_edge=False)
    for column in ("survivor", "line", "class", "before", "after"):
        table.add_column(column, overflow="fold")
    survivors = result["survivors"]
    assert isinstance(survivors, list)
    for row in survivors:
        name = row["name"]
        table.add_row(name, str(lines[name]), row["class"], row["before"], row["after"])
    Console().print(table, markup=False, highlight=False) if survivors else None
    classes = result["reasons"]
    assert isinstance(classes, dict)
    shown = ", ".join(f"{count} {kind}" for kind, count in classes.items() if count)
    click.echo(
        f"{result['mutants']} mutants: {result['killed']} killed, {len(survivors)} survived"
        + (f" ({shown})" if shown else "")
    )
    click.echo(
        f"score {result['score']:.2%}: share of killed mutants among those that a case file could reveal"
    )


def _show(mutant: Mutant, outcome: Outcome, reason: results.Reason | None) -> None:
    click.echo(f"reference/safetensors_reference/{mutant.module.replace('.', '/')}.py, line {mutant.line}")
    click.echo(f"- {mutant.before}\n+ {mutant.after}")
    if outcome.status == "killed":
        click.echo(f"killed by {outcome.probe} ({outcome.how}); see: stc corpus show {outcome.probe}")
    else:
        click.echo(outcome.status + (f": {reason.kind}: {reason.why}" if reason else " without a reason"))


if __name__ == "__main__":
    mutants(prog_name="python -m proof.mutation")
