"""``stc corpus build``."""

from __future__ import annotations

from pathlib import Path

import click

from ..manifest import corpus_root
from ..publish import build as builder
from .common import UnusableError


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--check", is_flag=True, help="Write nothing; fail when a committed file is not current.")
@click.option(
    "--allow-removal", is_flag=True, help="Let case ids disappear (only before they are published)."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to build into.  [default: the project's corpus/]",
)
def build(check: bool, allow_removal: bool, output: Path | None) -> None:
    """Write the case files and corpus.json, byte-identical on every run.

    \b
    Exit status: 0 built or current, 1 not current (with --check), 2 a case contradicts the rules.
    """
    root = output or corpus_root()
    try:
        built = builder.build()
    except ValueError as err:
        raise UnusableError(str(err)) from err
    if check:
        lines = builder.differences(built, root)
        for line in lines:
            click.echo(line)
        if lines:
            click.echo(f"{len(lines)} files are not current; run: stc corpus build")
            raise SystemExit(1)
        click.echo(f"corpus is current: {built.cases} cases, {len(built.files)} files")
        return
    lost = builder.lost_ids(built, root)
    if lost and not allow_removal:
        names = ", ".join(lost[:5]) + (" …" if len(lost) > 5 else "")
        raise click.ClickException(
            f"{len(lost)} case ids would disappear ({names}); ids are permanent, withdraw the case instead"
        )
    try:
        written, removed = builder.write(built, root)
    except OSError as err:
        raise UnusableError(f"{err.filename or root}: {err.strerror or err}") from err
    click.echo(f"{built.cases} cases in {root}: {written} files written, {removed} removed")
