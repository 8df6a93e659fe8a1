"""``stc corpus diff``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click

from ..document import ManifestError
from ..publish.changes import Changes, TableChanges, compare, read_version
from .common import UnusableError


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="The changes.json of a release.")
def diff(old: Path, new: Path, as_json: bool) -> None:
    """Say what changed between two versions of the corpus.

    OLD and NEW are each a corpus.json, a folder with one, or the archive of a release. A case whose bytes
    or verdict changed is shown apart from one whose text changed. Ids are permanent: a removed one is an
    error, a case that is no longer wanted is withdrawn.

    \b
    Exit status: 0 the same, 1 different, 2 one of them cannot be used.
    """
    try:
        changes = compare(read_version(old), read_version(new))
    except ManifestError as err:
        raise UnusableError(str(err)) from err
    if as_json:
        click.echo(json.dumps(changes.to_json(), indent=1))
    else:
        for line in lines(changes):
            click.echo(line)
    if changes.removed:
        click.echo(
            f"Error: {len(changes.removed)} case ids were removed; ids are permanent, withdraw instead",
            err=True,
        )
    raise SystemExit(1 if changes.any else 0)


def lines(changes: Changes) -> Iterator[str]:
    """Give the changes for people, one per line."""
    old = changes.old["corpus_version"] if changes.old else "nothing"
    yield f"corpus {old} -> {changes.new['corpus_version']}"
    if not changes.any:
        yield "no differences"
        return
    for name in changes.removed:
        yield f"REMOVED     {name}"
    for name, status in changes.status.items():
        yield f"{status['new']:<11} {name} (was {status['old']})"
    for name, verdict in changes.verdict.items():
        yield f"verdict     {name}: {verdict['old']} -> {verdict['new']}"
    for name in changes.input:
        yield f"bytes       {name}"
    for name, fields in changes.changed.items():
        yield f"changed     {name}: {', '.join(fields)}"
    for name in changes.added:
        yield f"added       {name}"
    if "spec" in changes.about:
        yield "specification changed"
    for label, table in (
        ("rule", changes.rules),
        ("choice", changes.choices),
        ("code", changes.codes),
        ("field bug", changes.field_bugs),
    ):
        yield from _table(label, table)
    yield (
        f"{len(changes.added)} added, {len(changes.removed)} removed, {len(changes.status)} other status, "
        f"{len(changes.verdict)} other verdict, {len(changes.input)} other bytes, "
        f"{len(changes.changed)} changed otherwise"
    )


def _table(label: str, table: TableChanges) -> Iterator[str]:
    for name in table.removed:
        yield f"{label} removed  {name}"
    for name, fields in table.changed.items():
        yield f"{label} changed  {name}: {', '.join(fields)}"
    for name in table.added:
        yield f"{label} added    {name}"
