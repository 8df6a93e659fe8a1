"""``stc corpus``: build the corpus, check that the committed files are current, list and show cases."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from safetensors_reference.hexview import hexview

from .manifest import Case, ManifestError, corpus_root, load_manifest


@click.group()
def corpus() -> None:
    """Build, check and look at the corpus of test files."""


class BrokenCaseError(click.ClickException):
    """A case contradicts the rules."""

    exit_code = 2


@corpus.command()
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
    from . import build as builder

    root = output or corpus_root()
    try:
        built = builder.build()
    except ValueError as err:
        raise BrokenCaseError(str(err)) from err
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
    written, removed = builder.write(built, root)
    click.echo(f"{built.cases} cases in {root}: {written} files written, {removed} removed")


@corpus.command("list")
@click.argument("pattern", default="")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
def list_cases(pattern: str, as_json: bool) -> None:
    """List cases whose id, rule or choice contains PATTERN."""
    cases = [c for c in _manifest() if _matches(c, pattern)]
    if as_json:
        for case in cases:
            click.echo(
                json.dumps({"id": case.id, "rules": case.rules, "choice": case.choice, "title": case.title})
            )
        return
    table = Table(box=None, pad_edge=False)
    for column in ("case", "rules", "expects", "title"):
        table.add_column(column, overflow="fold")
    for case in cases:
        table.add_row(case.id, " ".join(case.rules), expects(case), case.title)
    Console().print(table)
    click.echo(f"{len(cases)} cases")


@corpus.command()
@click.argument("case_id")
def show(case_id: str) -> None:
    """Show one case: purpose, rules, expectation and the bytes of its file."""
    cases = {c.id: c for c in _manifest()}
    case = cases.get(case_id)
    if case is None:
        raise click.ClickException(f"no case {case_id!r}; look it up with: stc corpus list PART-OF-THE-NAME")
    click.echo(f"{case.id}: {case.title}")
    if case.description:
        click.echo(case.description)
    click.echo(
        f"rules    {' '.join(case.rules)} ({case.level})\nexpects  {expects(case)}\nfile     {case.path}"
    )
    try:
        click.echo(hexview(case.read_input(), 0, 0, limit=512))
    except ManifestError as err:
        raise click.ClickException(str(err)) from err


def expects(case: Case) -> str:
    """Say in a few words what a case demands."""
    if case.expect is None:
        return f"choice {case.choice}"
    if case.expect.outcome == "accept":
        return "accept"
    return f"reject ({case.expect.codes[0]})"


def _matches(case: Case, pattern: str) -> bool:
    return any(pattern in text for text in (case.id, case.choice or "", *case.rules))


def _manifest() -> tuple[Case, ...]:
    try:
        return load_manifest().cases
    except ManifestError as err:
        raise click.ClickException(str(err)) from err
