"""``stc corpus list``, ``show`` and ``diff``: cases, one case, and what changed between two versions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click

from ..author.case import AREAS
from ..document import ManifestError
from ..manifest import Case
from ..publish.release import compare, read_version
from ..publish.show import case_lines
from ..steps import KINDS
from ..templates import render
from .common import (
    HELP,
    did_you_mean,
    exit_if_unusable,
    expectation_text,
    folder_option,
    in_columns,
    load,
    matches,
    width_of_terminal,
)


@click.command("list", context_settings=HELP)
@click.argument("pattern", default="")
@click.option("--kind", type=click.Choice(tuple(KINDS)), help="Only cases of this kind.")
@click.option("--area", metavar="AREA", help="Only cases of this area, the part of the id before the slash.")
@click.option("--rule", metavar="RULE", help="Only cases that carry this rule, such as OFF-07.")
@click.option("--choice", metavar="CHOICE", help="Only cases of this choice.")
@click.option("--level", type=click.Choice(["must", "should", "may"]), help="Only cases of this level.")
@click.option("--heavy/--no-heavy", default=None, help="Only, or without, the cases with large inputs.")
@folder_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
def list_cases(
    pattern: str,
    kind: str | None,
    area: str | None,
    rule: str | None,
    choice: str | None,
    level: str | None,
    heavy: bool | None,
    root: Path | None,
    as_json: bool,
) -> None:
    """List cases by name, rule, choice, kind and more.

    PATTERN is a part of the id, of a rule or of a choice. All conditions given must hold.
    """
    manifest = load(root)
    cases, raw = manifest.cases, manifest.raw
    _known("area", area, [*AREAS, *(c.area for c in cases)])
    _known("rule", rule, [r["id"] for r in raw["rules"]])
    _known("choice", choice, [c["id"] for c in raw["choices"]])
    wanted = {"kind": kind, "area": area, "choice": choice, "level": level, "heavy": heavy}
    found = [
        c
        for c in cases
        if matches(c, pattern)
        and (rule is None or rule in c.rules)
        and all(value is None or getattr(c, name) == value for name, value in wanted.items())
    ]
    if as_json:
        for case in found:
            click.echo(json.dumps(_row(case)))
        return
    for line in list_lines(found, width_of_terminal()):
        click.echo(line)
    click.echo(f"{len(found)} cases")


def list_lines(cases: list[Case], width: int | None) -> Iterator[str]:
    """Give a line for each case; titles are cut, or left out, to fit into ``width`` columns (None: any)."""
    return in_columns(
        [(case.id, expectation_text(case), " ".join(case.rules), case.title) for case in cases], width
    )


def _row(case: Case) -> dict[str, object]:
    return {
        "id": case.id,
        "kind": case.kind,
        "rules": case.rules,
        "choice": case.choice,
        "level": case.level,
        "heavy": case.heavy,
        "expects": expectation_text(case),
        "title": case.title,
    }


def _known(what: str, name: str | None, names: list[str]) -> None:
    """Refuse a name that does not exist: mistyped, it would look like a corpus without such cases."""
    if name is not None and name not in names:
        raise click.UsageError(f"no {what} {name!r}{did_you_mean(name, names)}")


@click.command(context_settings=HELP)
@click.argument("case_id", metavar="CASE")
@folder_option
@click.option("--json", "as_json", is_flag=True, help="The case as it stands in corpus.json.")
def show(case_id: str, root: Path | None, as_json: bool) -> None:
    """Show one case: purpose, rules, expectation and input.

    The input is shown as bytes, as a recipe of how to make it, or as the files of a directory; then what is
    done with it beyond opening and reading.
    """
    manifest = load(root)
    rows = {r["id"]: r for r in manifest.raw["cases"]}
    row = rows.get(case_id)
    if row is None:
        raise click.ClickException(
            f"no case {case_id!r}{did_you_mean(case_id, rows)}; "
            "look it up with: stc corpus list PART-OF-THE-NAME"
        )
    if as_json:
        click.echo(json.dumps(row, indent=1))
        return
    case = manifest.by_id.get(case_id)
    if case is None:
        raise click.ClickException(
            f"case {case_id!r} was {row['status']} and is run no more; see it with --json"
        )
    try:
        for line in case_lines(case, manifest.raw):
            click.echo(line)
    except ManifestError as err:
        raise click.ClickException(str(err)) from err


@click.command(context_settings=HELP)
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
    with exit_if_unusable(new):
        changes = compare(read_version(old), read_version(new))
    text = (
        json.dumps(changes.to_json(), indent=1) + "\n"
        if as_json
        else render("changes.txt.jinja", changes=changes)
    )
    click.echo(text, nl=False)
    if changes.removed:
        click.echo(
            f"Error: {len(changes.removed)} case ids were removed; ids are permanent, withdraw instead",
            err=True,
        )
    raise SystemExit(1 if changes.any else 0)
