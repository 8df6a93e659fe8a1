"""``python -m proof.broken``: show which broken implementation fails which cases."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from safetensors_corpus.cli.common import HELP
from safetensors_corpus.document import ManifestError
from safetensors_corpus.manifest import Manifest, load_manifest
from safetensors_corpus.packed import corpus_root
from safetensors_reports.text import plural

from .matrix import ENOUGH, FILE, Matrix, committed, compute, light_variants

WEAKEST = 20
"""Number of cases with only one failing variant that are listed without ``--all``."""


@click.command(context_settings=HELP)
@click.option("--check", is_flag=True, help="Recompute the matrix, and fail if the committed one differs.")
@click.option("--write", is_flag=True, help="Recompute and write the matrix.")
@click.option("--case", "case_id", metavar="ID", help="Show the variants that fail this case.")
@click.option("--variant", "name", metavar="NAME", help="Show the cases that this variant fails.")
@click.option("--rule", metavar="ID", help="Show the cases of this rule, and how many variants fail each.")
@click.option("--all", "everything", is_flag=True, help="List all variants and all weak cases.")
@click.option("--jobs", type=click.IntRange(1), help="Number of processes.  [default: one per core]")
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder with corpus.json and matrix.json.  [default: the project's corpus/]",
)
def matrix(
    check: bool,
    write: bool,
    case_id: str | None,
    name: str | None,
    rule: str | None,
    everything: bool,
    jobs: int | None,
    output: Path | None,
) -> None:
    """Show which cases detect which deliberately broken implementations.

    At least one broken implementation must fail each case, and every broken implementation must fail cases of
    at least three topics. The cases of a covering set have one topic. Without options, the command summarizes
    the committed matrix. It prints the totals, the cases that only a single variant fails, and the variants
    that fail cases of too few topics.

    \b
    Exit status: 0 everything is as required, 1 the matrix is outdated, no variant
    fails a case, or a variant fails no case or cases of too few topics.
    """
    root = output or corpus_root()
    path = FILE if output is None else output / FILE.name
    try:
        manifest = load_manifest(root)
    except ManifestError as err:
        raise click.ClickException(str(err)) from err
    if check or write:
        _renew(manifest, path, check=check, jobs=jobs, whole=output is None)
        return
    found = _committed(manifest, path)
    if case_id is not None:
        _show_case(found, case_id)
    elif name is not None:
        _show_variant(found, name)
    elif rule is not None:
        _show_rule(found, manifest, rule.upper())
    else:
        _sum_up(found, everything)
        _settle(found, whole=output is None)


def _renew(manifest: Manifest, path: Path, *, check: bool, jobs: int | None, whole: bool) -> None:
    with _progress(len(light_variants())) as done:
        found = compute(manifest, jobs=jobs or os.cpu_count() or 1, done=done)
    current = path.exists() and path.read_text(encoding="utf-8") == found.text()
    if check and not current:
        for line in _differences(found, manifest, path):
            click.echo(line)
        raise click.ClickException(f"{path} is not current; run: python -m proof.broken --write")
    if not current:
        path.write_text(found.text(), encoding="utf-8")
    _settle(found, whole=whole)
    word = "is current" if current else "written"
    click.echo(f"matrix {word}: {plural(len(found.rows), 'variant')}, {plural(len(found.cases), 'case')}")


def _settle(found: Matrix, *, whole: bool) -> None:
    """Exit with status 1 if a requirement is not met. Only the whole corpus has cases of enough topics."""
    for case in found.unproven:
        click.echo(f"no variant fails {case}")
    for name in found.harmless:
        click.echo(f"{name} fails no case")
    thin = found.thin if whole else {}
    for name, count in sorted(thin.items()):
        click.echo(f"{name} fails cases of {plural(count, 'topic')} instead of {ENOUGH}")
    if found.unproven or found.harmless or thin:
        raise SystemExit(1)


def _differences(found: Matrix, manifest: Manifest, path: Path) -> Iterator[str]:
    try:
        old = {row.name: set(row.fails) for row in committed(manifest, path).rows}
    except (OSError, ValueError) as err:
        yield f"{path.name}: {err}"
        return
    new = {row.name: set(row.fails) for row in found.rows}
    for name in sorted(old.keys() | new.keys()):
        if name not in old or name not in new:
            yield f"{name}: {'new' if name in new else 'gone'}"
        elif old[name] != new[name]:
            more, fewer = len(new[name] - old[name]), len(old[name] - new[name])
            yield f"{name}: fails {more} more cases and {fewer} fewer cases than committed"


def _committed(manifest: Manifest, path: Path) -> Matrix:
    try:
        return committed(manifest, path)
    except (OSError, ValueError, KeyError) as err:
        raise click.ClickException(f"{path}: {err}; run: python -m proof.broken --write") from err


def _show_case(found: Matrix, case_id: str) -> None:
    if case_id not in found.cases:
        raise click.ClickException(
            f"there is no case {case_id!r} in the matrix; find its id with: stc corpus list PART"
        )
    about = {row.name: row.about for row in found.rows}
    names = found.failed_by[case_id]
    table = _table("variant", "fault")
    for name in names:
        table.add_row(name, about[name])
    Console().print(table)
    click.echo(f"{len(names)} of {len(found.rows)} variants fail {case_id}")


def _show_variant(found: Matrix, name: str) -> None:
    rows = [row for row in found.rows if row.name in (name, f"reader/{name}")]
    if not rows:
        near = [row.name for row in found.rows if name in row.name][:5]
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        raise click.ClickException(f"no variant {name!r}{hint}")
    click.echo(f"{rows[0].name}: {rows[0].about}")
    for case in rows[0].fails:
        click.echo(f"  {case}")
    click.echo(plural(len(rows[0].fails), "case"))


def _show_rule(found: Matrix, manifest: Manifest, rule: str) -> None:
    cases = [case for case in manifest.cases if rule in case.rules]
    if not cases:
        raise click.ClickException(
            f"no case refers to the rule {rule!r}; find its id with: stc corpus list PART"
        )
    table = _table("case", "failed by", "title", right=(1,))
    for case in cases:
        number = str(len(found.failed_by[case.id])) if case.id in found.cases else "not run"
        table.add_row(case.id, number, Text(case.title))
    Console().print(table)
    names = {name for case in cases for name in found.failed_by.get(case.id, [])}
    click.echo(f"{len(cases)} cases of {rule}, failed by {len(names)} of {len(found.rows)} variants")


def _sum_up(found: Matrix, everything: bool) -> None:
    console = Console()
    cases = Counter(found.cases.values())
    totals = _table(
        "kind", "cases", "variants", "failures", "number of variants that fail a case", right=(1, 2, 3)
    )
    for kind, count in sorted(cases.items()):
        rows = [row for row in found.rows if row.kind == kind]
        each = sorted(len(found.failed_by[case]) for case, k in found.cases.items() if k == kind)
        spread = f"{each[0]} to {each[-1]}; half of the cases are failed by {each[len(each) // 2]} or more"
        totals.add_row(kind, f"{count:,}", f"{len(rows):,}", f"{sum(len(r.fails) for r in rows):,}", spread)
    console.print(totals)
    if everything:
        table = _table("variant", "fails", "fault", right=(1,))
        for row in found.rows:
            table.add_row(row.name, str(len(row.fails)), row.about)
        console.print(table)
    weak = [(case, names[0]) for case, names in found.failed_by.items() if len(names) == 1]
    table = _table("cases that only one variant fails", "variant")
    for case, name in weak if everything else weak[:WEAKEST]:
        table.add_row(case, name)
    if weak:
        console.print(table)
    if len(weak) > WEAKEST and not everything:
        click.echo(f"{len(weak) - WEAKEST} more with --all")
    if found.thin:
        table = _table(f"fails cases of fewer than {ENOUGH} topics", "topics", right=(1,))
        for name, topics in found.thin.items():
            table.add_row(name, str(topics))
        console.print(table)


def _table(*columns: str, right: tuple[int, ...] = ()) -> Table:
    table = Table(box=None, pad_edge=False)
    for place, column in enumerate(columns):
        table.add_column(column, overflow="fold", justify="right" if place in right else "left")
    return table


@contextmanager
def _progress(total: int) -> Iterator[Callable[[], object]]:
    columns = (TextColumn("broken implementations"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total)
        yield lambda: progress.advance(task)


if __name__ == "__main__":
    matrix(prog_name="python -m proof.broken")
