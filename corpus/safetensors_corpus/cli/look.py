"""``stc corpus list``, ``show`` and ``diff``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click

from safetensors_reference.text import plural

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
@click.option("--kind", type=click.Choice(tuple(KINDS)), help="Select cases of this kind.")
@click.option(
    "--area", metavar="AREA", help="Select cases of this area (the part of the id before the slash)."
)
@click.option("--rule", metavar="RULE", help="Select cases that test this rule, such as OFF-07.")
@click.option("--choice", metavar="CHOICE", help="Select cases that test this choice.")
@click.option("--level", type=click.Choice(["must", "should", "may"]), help="Select cases with this level.")
@click.option(
    "--heavy/--no-heavy",
    default=None,
    help="Select only cases with large inputs, or only cases without them.",
)
@folder_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
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
    """List cases by name, rule, choice, kind and other properties.

    The command selects the cases whose id, rules or choice contain PATTERN. The output contains only cases
    that match all options.
    """
    manifest = load(root)
    cases, raw = manifest.cases, manifest.raw
    _check_name("area", area, [*AREAS, *(c.area for c in cases)])
    _check_name("rule", rule, [r["id"] for r in raw["rules"]])
    _check_name("choice", choice, [c["id"] for c in raw["choices"]])
    wanted = {"kind": kind, "area": area, "choice": choice, "level": level, "heavy": heavy}
    selected = [
        c
        for c in cases
        if matches(c, pattern)
        and (rule is None or rule in c.rules)
        and all(value is None or getattr(c, name) == value for name, value in wanted.items())
    ]
    if as_json:
        for case in selected:
            fields = ("id", "kind", "rules", "choice", "level", "heavy")
            row = {name: getattr(case, name) for name in fields}
            click.echo(json.dumps({**row, "expects": expectation_text(case), "title": case.title}))
        return
    for line in list_lines(selected, width_of_terminal()):
        click.echo(line)
    click.echo(plural(len(selected), "case"))


def list_lines(cases: list[Case], width: int | None) -> Iterator[str]:
    return in_columns(
        [(case.id, expectation_text(case), " ".join(case.rules), case.title) for case in cases], width
    )


def _check_name(kind: str, name: str | None, names: list[str]) -> None:
    # Without this check, a mistyped name would print "0 cases".
    if name is not None and name not in names:
        raise click.UsageError(f"no {kind} {name!r}{did_you_mean(name, names)}")


@click.command(context_settings=HELP)
@click.argument("case_id", metavar="CASE")
@folder_option
@click.option("--json", "as_json", is_flag=True, help="Print the entry of the case in corpus.json.")
def show(case_id: str, root: Path | None, as_json: bool) -> None:
    """Show the purpose, rules, expectation and input of one case.

    Prints the input as bytes, as a recipe or as the files of a directory. If the case does more than open and
    read the input, also prints its action.
    """
    manifest = load(root)
    rows = {r["id"]: r for r in manifest.raw["cases"]}
    row = rows.get(case_id)
    if row is None:
        raise click.ClickException(
            f"no case {case_id!r}{did_you_mean(case_id, rows)}; search with: stc corpus list PART-OF-THE-NAME"
        )
    if as_json:
        click.echo(json.dumps(row, indent=1))
        return
    case = manifest.by_id.get(case_id)
    if case is None:
        raise click.ClickException(
            f"case {case_id!r} was {row['status']} and no longer runs; use --json to see it"
        )
    try:
        for line in case_lines(case, manifest.raw):
            click.echo(line)
    except ManifestError as err:
        raise click.ClickException(str(err)) from err


@click.command(context_settings=HELP)
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the changes in the format of changes.json.")
def diff(old: Path, new: Path, as_json: bool) -> None:
    """Compare two versions of the corpus.

    OLD and NEW are each a corpus.json, a folder that contains a corpus.json, or a release archive. Changes to
    bytes and verdicts are listed separately from changes to wording. Case ids are permanent, so a removed id
    is an error; withdraw the case instead.

    \b
    Exit status: 0 identical, 1 different, 2 unusable input.
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
            f"Error: {len(changes.removed)} case ids were removed; ids are permanent, so withdraw the "
            "cases instead",
            err=True,
        )
    raise SystemExit(1 if changes.any else 0)
