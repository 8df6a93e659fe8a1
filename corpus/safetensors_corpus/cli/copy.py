"""``stc corpus copy``."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from ..document import MANIFEST, ManifestError
from ..manifest import load_manifest
from ..publish.copy import CopyError, Plan, make_plan, perform
from .common import UnusableError, byte_count, folder_option, matches


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.argument("pattern", default="")
@click.option("--recipes", is_flag=True, help="Also make the files that are described by recipes.")
@click.option("--large", is_flag=True, help="With --recipes: those above 256 MiB too (holes stay sparse).")
@click.option("--force", is_flag=True, help="Go on in a folder that is not empty; other files stay.")
@folder_option
def copy(folder: Path, pattern: str, recipes: bool, large: bool, force: bool, root: Path | None) -> None:
    """Copy the corpus into a folder, to vendor it.

    DIR gets corpus.json, its schema and the files. PATTERN takes only the cases whose id, rule or choice
    contains it; corpus.json then lists only those. A copy that was stopped goes on with --force.

    \b
    Exit status: 0 copied, 1 DIR is not empty or the copy was stopped, 2 it cannot be made.
    """
    if large and not recipes:
        raise click.UsageError("--large says which recipe files to make; give --recipes too")
    try:
        manifest = load_manifest(root)
    except ManifestError as err:
        raise UnusableError(str(err)) from err
    target = folder.resolve()
    if target == manifest.root.resolve() or target in manifest.root.resolve().parents:
        raise click.UsageError(f"{folder} holds the corpus that is to be copied")
    try:
        if folder.exists() and any(folder.iterdir()) and not force:
            raise click.ClickException(f"{folder} is not empty; empty it, or go on there with --force")
    except OSError as err:
        raise UnusableError(f"{folder}: {err.strerror or err}") from err
    chosen = {c.id for c in manifest.cases if matches(c, pattern)} if pattern else None
    if chosen is not None and not chosen:
        raise UnusableError(f"no case matches {pattern!r}")
    try:
        plan = make_plan(manifest.root, chosen, recipes=recipes, large=large)
        _perform(plan, folder)
    except CopyError as err:
        raise UnusableError(str(err)) from err
    files = f"{len(plan.stored)} files" + (_made(plan) if recipes else "")
    cases = len(manifest.cases) if chosen is None else len(chosen)
    click.echo(f"{folder}: {cases} cases of corpus {manifest.version}, {files}; see README.txt there")
    if plan.left_out:
        click.echo(f"not made, above 256 MiB (--large makes them): {', '.join(plan.left_out)}")


def _made(plan: Plan) -> str:
    total = sum(case["input"]["size"] for case in plan.made)
    return f", {len(plan.made)} recipe files of {byte_count(total)}"


def _perform(plan: Plan, folder: Path) -> None:
    """Copy with a progress bar on standard error. Ctrl-C ends in one line that says what is missing."""
    done: list[str] = []
    columns = (TextColumn("copying"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    try:
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("", total=plan.steps)

            def tick(name: str) -> None:
                done.append(name)
                bar.update(task, advance=1, description=name[-50:])

            perform(plan, folder, tick)
    except KeyboardInterrupt:
        missing = plan.steps - len(done)
        if MANIFEST in done:
            state = f"the corpus is complete, {missing} recipe files are missing"
        else:
            state = f"{missing} of {plan.steps} files are missing, corpus.json among them"
        raise click.ClickException(f"stopped: {state}; run the command again with --force") from None
