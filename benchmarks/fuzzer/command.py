"""``python -m benchmarks fuzzer``: measures the engines on readers with planted bugs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from proof.held_out import PARTS
from safetensors_reference.main import UnusableError

from .measure import (
    ENGINES,
    LIMITS,
    SETS,
    EngineName,
    SetName,
    as_rows,
    planted,
    run_bench,
    summary,
)

MUTANTS = "mutants"
GATES = {"easy": 1.0, "held-out": 0.85, MUTANTS: 0.9}
"""Smallest share of each set that the default engine must detect with ``--gate``."""
COLUMNS = (
    "engine",
    "seed",
    "bugs",
    "reached",
    "triggered",
    "detected",
    "median_execs",
    "worst_execs",
    "seconds",
)


@click.command()
@click.option(
    "--set",
    "name",
    type=click.Choice((*SETS, MUTANTS)),
    default="easy",
    show_default=True,
    help="Set of planted bugs.",
)
@click.option(
    "--part", type=click.Choice(tuple(PARTS)), help="Part of the held-out set.  [default: all parts]"
)
@click.option(
    "--engine",
    "engines",
    multiple=True,
    type=click.Choice(ENGINES),
    help="Engine to measure. Can be given several times.  [default: outcome]",
)
@click.option(
    "--seeds", default="1", show_default=True, metavar="N,N,...", help="Seeds. There is one run for each."
)
@click.option(
    "--max-execs",
    type=click.IntRange(1),
    help="Maximum number of inputs per bug.  [default: 5,000 easy, 200,000 held-out]",
)
@click.option("--jobs", "-j", type=click.IntRange(1, 64), default=2, show_default=True, help="Processes.")
@click.option(
    "--json",
    "json_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write all results to this file.",
)
@click.option("--gate", is_flag=True, help="Exit with 1 if the detected share is below the required share.")
def fuzzer(
    name: str,
    part: str | None,
    engines: tuple[str, ...],
    seeds: str,
    max_execs: int | None,
    jobs: int,
    json_path: Path | None,
    gate: bool,
) -> None:
    """Measure how many planted bugs the engines reach, trigger and detect, and after how many inputs.

    \b
    easy      for each rule that the strict reader can report, a reader that does not check it
    held-out  readers whose bug shows only under a condition; their authors do not know the
              grammar, and the authors of the grammar do not read them
    mutants   the strict reader with a fault in one token each, run on the inputs that the engine keeps

    \b
    python -m benchmarks fuzzer --set easy --seeds 1,2,3
    python -m benchmarks fuzzer --set held-out --engine outcome --engine no-feedback --engine bytes
    Exit status: 0 measured, 1 below the required share, 2 wrong usage.
    """
    try:
        numbers = [int(text) for text in seeds.split(",")]
    except ValueError as err:
        raise click.BadParameter(f"{seeds!r} is not a list of numbers", param_hint="--seeds") from err
    if part and name != "held-out":
        raise click.UsageError("--part selects readers of --set held-out; omit --part or add --set held-out")
    if json_path is not None:
        _make_writable(json_path)
    if name == MUTANTS:
        if engines:
            raise click.UsageError("--set mutants uses the inputs of the default engine; omit --engine")
        result: dict[str, Any] = _mutants(max_execs or 20_000, numbers[0], jobs)
        share = result["score"]
    else:
        chosen = cast("tuple[EngineName, ...]", engines or ("outcome",))
        result = _planted(cast("SetName", name), part, chosen, numbers, max_execs, jobs)
        main = [row for row in result["summary"] if row["engine"] == chosen[0]]
        share = min((row["detected"] / row["bugs"] for row in main), default=0.0)
    if json_path is not None:
        try:
            json_path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        except OSError as err:
            raise UnusableError(f"--json {json_path}: {err.strerror or err}") from err
    if gate and share < GATES[name]:
        click.echo(
            f"below the required share: {100 * share:.1f} % of the set instead of {100 * GATES[name]:.0f} %"
        )
        raise SystemExit(1)


def _make_writable(path: Path) -> None:
    """Check that the results can be written before the run starts. Raises UnusableError."""
    try:
        path.open("ab").close()
    except OSError as err:
        raise UnusableError(f"--json {path}: {err.strerror or err}; give a file that can be written") from err


def _planted(
    name: SetName,
    part: str | None,
    engines: Sequence[EngineName],
    seeds: Sequence[int],
    most: int | None,
    jobs: int,
) -> dict[str, Any]:
    limit = most or LIMITS[name]
    total = len(planted(name, part)) * len(engines) * len(seeds)
    with _bar() as bar:
        task = bar.add_task(f"{name} set", total=total)
        outcomes = run_bench(
            name, engines, seeds, part=part, most=limit, jobs=jobs, progress=lambda _: bar.advance(task)
        )
    rows = summary(outcomes)
    of = f", {part} part" if part else ""
    click.echo(f"{name} set{of}, at most {limit:,} inputs per bug")
    click.echo(table(rows))
    if len(outcomes) < total:
        click.echo(f"interrupted: {len(outcomes)} of {total} measured", err=True)
    return {"set": name, "part": part, "max_execs": limit, "summary": rows, "outcomes": as_rows(outcomes)}


def _mutants(execs: int, seed: int, jobs: int) -> dict[str, Any]:
    from . import mutants

    inputs = mutants.probes(execs, seed)
    with _bar() as bar:
        task = bar.add_task("mutants", total=None)
        result = mutants.measure(inputs, jobs, lambda done: bar.update(task, completed=done))
    click.echo(
        f"{result['mutants']:,} mutants on {result['inputs']:,} inputs kept from {execs:,}: "
        f"{result['killed']:,} detected, {len(result['missed'])} missed, {result['equivalent']} that no "
        "file can reveal"
    )
    click.echo(
        f"score {100 * result['score']:.1f} %: share of detected mutants among those that a file can reveal"
    )
    return {"set": MUTANTS, "execs": execs, "seed": seed, **result}


def _bar() -> Progress:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # The refresh thread is disabled because mutants are forked, and a fork would copy its locks in their
    # current state.
    return Progress(
        *columns, console=console, transient=True, auto_refresh=False, disable=not console.is_terminal
    )


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return rows as a Markdown table, which is also readable in a terminal."""
    cells = [[str(c).replace("_", " ") for c in COLUMNS]]
    cells += [
        [f"{row[c]:,}" if isinstance(row[c], (int, float)) else str(row[c]) for c in COLUMNS] for row in rows
    ]
    widths = [max(len(line[at]) for line in cells) for at in range(len(COLUMNS))]
    lines = [
        "| " + " | ".join(c.rjust(w) for c, w in zip(line, widths, strict=True)) + " |" for line in cells
    ]
    rule = "|" + "|".join("-" * (w + 1) + ":" for w in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])
