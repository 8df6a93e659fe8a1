"""``stc corpus verify``."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from ..document import ManifestError
from ..manifest import corpus_root
from ..publish.verify import problems, read_manifest
from .common import UnusableError


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.option("--heavy", is_flag=True, help="Also make and digest the recipes of heavy cases (slow).")
def verify(folder: Path | None, heavy: bool) -> None:
    """Check a copy of the corpus: digests, missing and extra files.

    DIR is a folder with corpus.json, by default the corpus of this program. The manifest is held against its
    schema, and every file against size and SHA-256. Recipes are made in memory and
    digested; files in recipes/ are compared with their recipe.

    \b
    Exit status: 0 intact, 1 problems (one line each), 2 there is no usable corpus.json.
    """
    root = folder or corpus_root()
    try:
        raw = read_manifest(root)
    except ManifestError as err:
        raise UnusableError(str(err)) from err
    cases = raw.get("cases")
    total = len(cases) if isinstance(cases, list) else 0
    columns = (TextColumn("verifying"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        found = list(
            problems(
                root,
                raw,
                heavy=heavy,
                tick=lambda case: bar.update(task, advance=1, description=case[-50:]),
            )
        )
    for problem in found:
        click.echo(problem)
    if found:
        click.echo(f"{root}: {len(found)} problems")
        raise SystemExit(1)
    left = 0 if heavy else sum(case["heavy"] and case["status"] == "active" for case in raw["cases"])
    note = f"; {left} heavy recipes not made (--heavy makes them)" if left else ""
    click.echo(f"{root}: corpus {raw['corpus_version']} is intact, {total} cases{note}")
