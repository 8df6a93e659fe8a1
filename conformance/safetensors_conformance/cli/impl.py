"""``stc impl``: which implementations this project brings adapters for, and whether they start here."""

from __future__ import annotations

import click
from rich.console import Console
from rich.table import Table

from ..selectors import BUILT_IN, resolve
from ..worker import Limits, StartError, make_worker


@click.group()
def impl() -> None:
    """List the built-in implementations and try whether they start."""


@impl.command("list")
@click.option("--check", is_flag=True, help="Start each one and show its version, or why it does not start.")
def list_impls(check: bool) -> None:
    """List the built-in names for --impl."""
    table = Table(box=None, pad_edge=False)
    for column in ("--impl", "what", "here" if check else "needs"):
        table.add_column(column, overflow="fold")
    for name, built_in in BUILT_IN.items():
        table.add_row(name, built_in.about, _start(name) if check else built_in.needs)
    Console().print(table)


def _start(name: str) -> str:
    worker = make_worker(resolve(name), Limits())
    try:
        who = worker.start()
    except StartError as err:
        return f"does not start: {err}"
    finally:
        worker.close()
    return f"{who.version}, steps {', '.join(who.steps)}"
