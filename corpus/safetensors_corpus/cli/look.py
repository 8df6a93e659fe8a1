"""``stc corpus list``."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from ..author.case import AREAS
from ..manifest import Case
from ..steps import KINDS
from .common import did_you_mean, expects, folder_option, load, matches, raw_manifest


@click.command("list", context_settings={"help_option_names": ["-h", "--help"]})
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
    cases = manifest.cases
    raw = raw_manifest(manifest)
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
            click.echo(json.dumps(row(case)))
        return
    for line in table(found, shutil.get_terminal_size().columns if sys.stdout.isatty() else None):
        click.echo(line)
    click.echo(f"{len(found)} cases")


def table(cases: list[Case], width: int | None) -> Iterator[str]:
    """Give a line for each case; titles are cut, or left out, to fit into ``width`` columns (None: any)."""
    rows = [(case.id, expects(case), " ".join(case.rules), case.title) for case in cases]
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(3)]
    for *cells, title in rows:
        line = "  ".join(cell.ljust(size) for cell, size in zip(cells, widths, strict=True))
        if width is None:
            line += "  " + title
        elif len(line) + 22 <= width:
            room = width - len(line) - 2
            line += "  " + (title if len(title) <= room else title[: room - 1] + "…")
        yield line.rstrip()


def row(case: Case) -> dict[str, object]:
    """Return what ``--json`` says of a case."""
    return {
        "id": case.id,
        "kind": case.kind,
        "rules": case.rules,
        "choice": case.choice,
        "level": case.level,
        "heavy": case.heavy,
        "expects": expects(case),
        "title": case.title,
    }


def _known(what: str, name: str | None, names: list[str]) -> None:
    """Refuse a name that does not exist: mistyped, it would look like a corpus without such cases."""
    if name is not None and name not in names:
        raise click.UsageError(f"no {what} {name!r}{did_you_mean(name, names)}")
