"""``stc corpus bugs``: list bugs reported in real readers, or write ``docs/field-bugs.md``."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console, JustifyMethod
from rich.table import Table

from safetensors_reference.main import UnusableError
from safetensors_reference.rules.cli import docs_folder
from safetensors_reference.text import plural, visible

from ..field_bugs import FAMILIES
from ..templates import render as rendered
from .common import HELP, folder_option, load, write_page

PAGE = "field-bugs.md"
CASES_NAMED = 3
"""Maximum number of cases that the page names for each bug. The page only counts the remaining cases."""

BugRow = Mapping[str, Any]


def render(manifest: Mapping[str, Any]) -> str:
    bugs: Sequence[BugRow] = manifest["field_bugs"]
    shown = cases_of(manifest)
    return rendered(
        f"{PAGE}.jinja",
        bugs=bugs,
        shown=shown,
        caught=[bug for bug in bugs if shown[bug["id"]]],
        cases=set().union(*(shown[bug["id"]] for bug in bugs)),
        families=FAMILIES,
        cases_named=CASES_NAMED,
    )


def cases_of(manifest: Mapping[str, Any]) -> dict[str, list[str]]:
    """Map each bug to the ids of the active cases that show it."""
    out: dict[str, list[str]] = {bug["id"]: [] for bug in manifest["field_bugs"]}
    for case in manifest["cases"]:
        if case["status"] == "active":
            for affected in case["affects"]:
                out.setdefault(affected["bug"], []).append(case["id"])
    return out


@click.command(context_settings=HELP)
@click.argument("pattern", default="")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line, including the cases.")
@click.option("--write", is_flag=True, help=f"Write docs/{PAGE}.")
@click.option("--check", is_flag=True, help=f"Write nothing; fail if docs/{PAGE} is out of date.")
@folder_option
def bugs(pattern: str, as_json: bool, write: bool, check: bool, root: Path | None) -> None:
    """List bugs reported in real readers and the cases that show them.

    PATTERN selects the bugs whose id, project, family, trigger, reports or cases contain it.

    \b
    Exit status: 0 success; 1 no match, or page out of date (--check); 2 page cannot be written.
    """
    manifest = load(root).raw
    if write or check:
        if pattern or as_json or (write and check):
            raise click.UsageError(
                "--write and --check cannot be combined with each other or with other options"
            )
        docs = docs_folder()
        if docs is None:
            raise UnusableError("not in a checkout of the project")
        write_page(docs / PAGE, render(manifest), check=check, command="stc corpus bugs --write")
        return
    shown = cases_of(manifest)
    all_bugs = manifest["field_bugs"]
    selected = [bug for bug in all_bugs if bug["id"] == pattern.upper()]
    for bug in () if selected else all_bugs:
        texts = (
            bug["id"],
            bug["project"],
            bug["family"],
            bug["trigger"],
            *bug["references"],
            *shown[bug["id"]],
        )
        if any(pattern.lower() in text.lower() for text in texts):
            selected.append(bug)
    if not selected:
        raise click.ClickException(f"no bug matches {pattern!r}")
    if as_json:
        for bug in selected:
            click.echo(json.dumps({**bug, "cases": shown[bug["id"]]}))
    elif len(selected) == 1:
        _print_bug(selected[0], shown[selected[0]["id"]])
    else:
        _print_table(selected, shown)


def _print_bug(bug: BugRow, cases: Sequence[str]) -> None:
    click.echo(f"{bug['id']}: {bug['project']} ({bug['language']}), {bug['date']}")
    click.echo(visible(bug["trigger"], 2000))
    click.echo(f"family    {FAMILIES.get(bug['family'], bug['family'])}")
    for name, text in (
        ("reports", ", ".join(bug["references"])),
        ("affected", bug["versions"]),
        ("fixed", bug["fixed"]),
        ("not shown", bug["not_shown"]),
    ):
        if text:
            click.echo(f"{name:<9} {text}")
    for case in cases:
        click.echo(f"case      {case}")


def _print_table(selected: Sequence[BugRow], shown: Mapping[str, Sequence[str]]) -> None:
    grid = Table(box=None, pad_edge=False)
    for column in ("bug", "project", "affected", "cases"):
        width = max((len(bug["project"]) for bug in selected), default=0) if column == "project" else None
        justify: JustifyMethod = "right" if column == "cases" else "left"
        grid.add_column(column, no_wrap=True, min_width=width, justify=justify)
    grid.add_column("trigger", no_wrap=True, overflow="ellipsis")
    for bug in selected:
        count = str(len(shown[bug["id"]]) or "-")
        grid.add_row(bug["id"], bug["project"], bug["versions"], count, bug["trigger"])
    if selected:
        # Do not truncate piped output to a terminal width.
        Console(markup=False, width=None if sys.stdout.isatty() else 1000).print(grid)
    caught = sum(bool(shown[bug["id"]]) for bug in selected)
    click.echo(f"{plural(len(selected), 'bug')}, {caught} of them shown by cases")
