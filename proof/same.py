"""``python -m proof.same``: record what the product does, and compare it after a refactoring."""

from __future__ import annotations

import fnmatch
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import click

from . import document as documents
from .commands import ROOT, FailedError, commit, foreign
from .document import Document, UnusableError
from .items import ITEMS, Item

ITEM_LIST = "\b\nItems:\n" + "\n".join(
    f"  {name:<27}{item.about}{' (only with --full)' if item.full else ''}" for name, item in ITEMS.items()
)

_only = click.option(
    "--only",
    metavar="ITEM",
    multiple=True,
    help="Use only this item, or all items that match a glob pattern. Can be given several times.",
)
_full = click.option(
    "--full", is_flag=True, help="Also recompute the mutants and the matrix, which takes half an hour."
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, epilog=ITEM_LIST)
def same() -> None:
    """Show that a refactoring changes nothing: record before it, and compare after it.

    \b
    python -m proof.same record FOLDER     on the commit before
    python -m proof.same compare FOLDER    on the commit after

    Wording, timings and locations of modules are left out. The packages must be installed from this checkout
    (pip install -e), with the safetensors environments that `stc run` uses.
    """


@same.command(epilog=ITEM_LIST)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@_only
@_full
def record(folder: Path, only: tuple[str, ...], full: bool) -> None:
    """Record every item in FOLDER, in one JSON file each.

    \b
    Exit status:
      0  all items were recorded
      1  at least one item could not be computed
      2  wrong usage
    """
    chosen = choose(ITEMS, only, full)
    _check_installation()
    sys.exit(0 if record_items(chosen, folder) else 1)


@same.command(epilog=ITEM_LIST)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False, exists=True))
@_only
@_full
@click.option(
    "--show",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="Largest number of differing entries shown for an item.",
)
def compare(folder: Path, only: tuple[str, ...], full: bool, show: int) -> None:
    """Compute every item again and compare it with FOLDER.

    \b
    Exit status:
      0  all items are the same
      1  at least one item differs, was not recorded or could not be computed
      2  wrong usage
    """
    chosen = choose(ITEMS, only, full)
    _check_installation()
    sys.exit(0 if compare_items(chosen, folder, show) else 1)


def choose(items: Mapping[str, Item], only: tuple[str, ...], full: bool) -> dict[str, Item]:
    """Return the selected items. Raises click.UsageError for an item that does not exist."""
    for pattern in only:
        if not fnmatch.filter(items, pattern):
            raise click.UsageError(f"no item {pattern!r}; -h lists the items")
    return {
        name: item
        for name, item in items.items()
        if any(fnmatch.fnmatch(name, pattern) for pattern in only) or (not only and (full or not item.full))
    }


def record_items(items: Mapping[str, Item], folder: Path) -> bool:
    """Record the items and return whether all were recorded.

    If an item fails, its earlier record is removed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    head, good = commit(), True
    for name, item in items.items():
        path = _path(folder, name)
        made, seconds = _make(item)
        if isinstance(made, Document):
            made.write(path, name, head)
            _tell("recorded", name, seconds, f"{len(made.entries):,} entries")
        else:
            path.unlink(missing_ok=True)
            good = False
            _tell("failed", name, seconds, made)
    return good


def compare_items(items: Mapping[str, Item], folder: Path, show: int) -> bool:
    """Return whether all items are the same as recorded."""
    good = True
    for name, item in items.items():
        try:
            before = documents.load(_path(folder, name))
        except UnusableError as err:
            good = False
            _tell("failed", name, 0, str(err))
            continue
        made, seconds = _make(item)
        if not isinstance(made, Document):
            good = False
            _tell("failed", name, seconds, made)
            continue
        after = documents.plain(made)
        lines = documents.differences(before.entries, after.entries)
        if lines:
            good = False
            every = {*before.entries, *after.entries}
            _tell("different", name, seconds, f"{len(lines):,} of {len(every):,} entries")
            _list(lines, show)
        else:
            _tell("same", name, seconds, f"{len(after.entries):,} entries")
        for line in documents.differences(before.notes, after.notes):
            click.echo(f"           note: {line}")
    return good


def _make(item: Item) -> tuple[Document | str, float]:
    """Return a document, or the reason why there is none, and the seconds it took."""
    begin = time.monotonic()
    made: Document | str
    try:
        made = item.make()
        if not made.entries:
            made = "the item has no entries"
    except FailedError as err:
        made = str(err)
    except Exception as err:  # an error in one item must not stop the others
        made = f"{type(err).__name__}: {err}"
    return made, time.monotonic() - begin


def _tell(status: str, name: str, seconds: float, text: str) -> None:
    click.echo(f"{status:<10} {name:<27} {seconds:6.1f} s  {text}")


def _list(lines: list[str], show: int) -> None:
    for line in lines[:show]:
        click.echo(f"           {line}")
    if len(lines) > show > 0:
        click.echo(f"           ... and {len(lines) - show:,} more")


def _path(folder: Path, name: str) -> Path:
    return folder / f"{name}.json"


def _check_installation() -> None:
    place = foreign()
    if place:
        raise click.UsageError(f"the packages are not installed from {ROOT}: {place}")


if __name__ == "__main__":
    same(prog_name="python -m proof.same")
