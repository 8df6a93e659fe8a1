"""``stc check``: is this file valid, and if not, which rules are broken by which bytes."""

from __future__ import annotations

import json
from typing import cast

import click
from rich.console import Console
from rich.text import Text

from .explain import Explanation, explain
from .faults import Fault, quote, render_path
from .hexview import hexview
from .layout import draw_layout
from .rules import PROFILES, ProfileName, rule_book
from .source import UnreadableError, open_source

SHOWN = 20
"""Faults printed per file; --all prints the rest."""


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per file and line.")
@click.option(
    "--profile",
    type=click.Choice(PROFILES),
    default="hardened",
    show_default=True,
    help="Whose answer to take where readers legitimately differ.",
)
@click.option(
    "--all", "show_all", is_flag=True, help=f"Print every fault, not only the first {SHOWN} of a file."
)
def check(files: tuple[str, ...], as_json: bool, profile: str, show_all: bool) -> None:
    r"""Check that each FILE obeys every rule of the safetensors format.

    Every fault is printed with its rule, what was found, where it stands, and the bytes around it. Only the
    length prefix and the header are read, never the data buffer.

    \b
    Exit status: 0 all valid, 1 at least one invalid, 2 at least one cannot be read.
    """
    console = Console(highlight=False, soft_wrap=True, emoji=False)
    status = 0
    for name in files:
        try:
            explanation = explain(name, cast("ProfileName", profile))
        except UnreadableError as err:
            status = 2
            if as_json:
                click.echo(
                    json.dumps({"file": name, "readable": False, "code": "IO_ERROR", "message": str(err)})
                )
            else:
                click.echo(f"{quote(str(err), 1000)[1:-1]} (IO_ERROR)", err=True)
            continue
        if not explanation.valid:
            status = max(status, 1)
        if as_json:
            click.echo(json.dumps(to_json(name, explanation)))
        else:
            _print(console, name, explanation, show_all)
    raise SystemExit(status)


def to_json(name: str, explanation: Explanation) -> dict[str, object]:
    """Return the result of one file as a JSON-serialisable dict."""
    header = explanation.header
    return {
        "file": name,
        "readable": True,
        "valid": explanation.valid,
        "profile": explanation.profile,
        "size": explanation.size,
        "tensors": None if header is None else len(header.tensors),
        "faults": [f.to_dict() for f in explanation.faults],
        "tolerated": [f.to_dict() for f in explanation.tolerated],
    }


def _print(console: Console, name: str, explanation: Explanation, show_all: bool) -> None:
    shown = quote(name, 500)[1:-1]
    for fault in explanation.tolerated:
        console.print(
            f"{shown}: note: {fault.message} ({fault.rule}, tolerated by profile {explanation.profile})",
            markup=False,
        )
    header = explanation.header
    if header is not None:
        size = sum(t.nbytes for t in header.tensors.values())
        console.print(
            f"{shown}: valid, {len(header.tensors):,} tensors, {size:,} bytes of data", markup=False
        )
        return
    faults = explanation.faults
    console.print(Text(f"{shown}: {len(faults):,} fault{'s' * (len(faults) != 1)}", style="bold"))
    limit = len(faults) if show_all else SHOWN
    for fault in faults[:limit]:
        _print_fault(console, name, fault)
    if len(faults) > limit:
        console.print(f"  … and {len(faults) - limit:,} more; --all prints them")
    if explanation.ranges and explanation.data_start is not None:
        drawing = draw_layout(explanation.ranges, explanation.size - explanation.data_start)
        console.print(f"  data  {drawing}", markup=False)


def _print_fault(console: Console, name: str, fault: Fault) -> None:
    rule = rule_book().rules[fault.rule]
    where = f"file {fault.start:#x}..{max(fault.end - 1, fault.start):#x}"
    path = f"  {render_path(fault.path)}" if fault.path is not None else ""
    console.print(Text.assemble("  ", (fault.code, "bold red"), f"  {fault.message}"))
    console.print(f"    rule   {rule.id} ({rule.level}): {rule.statement}", markup=False)
    console.print(f"    where  {where}{path}", markup=False)
    if fault.choice is not None:
        console.print(
            f"    choice {fault.choice}: readers differ here (stc check --profile official)", markup=False
        )
    for line in _bytes_around(name, fault).splitlines():
        console.print(f"    {line}", markup=False)


def _bytes_around(name: str, fault: Fault) -> str:
    """Show the bytes of a fault with some context; nothing when the file cannot be read any more."""
    try:
        with open_source(name) as source:
            base = max(fault.start - 16, 0) // 16 * 16
            data = source.read(base, max(min(source.size, fault.end + 16, base + 96) - base, 0))
    except UnreadableError:
        return ""
    return hexview(data, fault.start, fault.end, base=base, limit=80)
