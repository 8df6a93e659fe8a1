"""Options, errors and formatting that the ``stc corpus`` commands share."""

from __future__ import annotations

import difflib
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from safetensors_reference.main import UnusableError

from ..document import ManifestError
from ..manifest import Case, Manifest, load_manifest

HELP = {"help_option_names": ["-h", "--help"]}
"""Context settings of each command. The settings of the group do not apply to a command that is called
directly.
"""
folder_option = click.option(
    "-c",
    "--corpus",
    "root",
    type=click.Path(file_okay=False, path_type=Path),
    help="Corpus folder.  [default: the corpus of this installation]",
)
"""``--corpus DIR``, passed as ``root``."""


@contextmanager
def exit_if_unusable(where: Path | str) -> Iterator[None]:
    """Convert errors to UnusableError.

    ``where`` is the file name to report for errors that do not name a file.
    """
    try:
        yield
    except OSError as err:
        raise UnusableError(f"{err.filename or where}: {err.strerror or err}") from err
    except (ManifestError, ValueError) as err:
        raise UnusableError(str(err)) from err


def load(root: Path | None = None) -> Manifest:
    try:
        return load_manifest(root)
    except ManifestError as err:
        raise click.ClickException(str(err)) from err


def write_page(path: Path, text: str, *, check: bool, command: str) -> None:
    """Write a page that ``command`` generates, or exit with status 1 if ``check`` finds a difference."""
    with exit_if_unusable(path):
        if path.is_file() and path.read_bytes() == text.encode():
            click.echo(f"up to date: {path}")
            return
        if check:
            click.echo(f"{path} is out of date; run: {command}")
            raise SystemExit(1)
        path.write_bytes(text.encode())
    click.echo(f"wrote {path}")


def expectation_text(case: Case) -> str:
    if case.expect is None:
        return f"choice {case.choice}"
    if case.expect.outcome == "accept":
        return "accept"
    return f"reject ({case.expect.codes[0]})"


def matches(case: Case, pattern: str) -> bool:
    return any(pattern in text for text in (case.id, case.choice or "", *case.rules))


def width_of_terminal() -> int | None:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def in_columns(rows: Sequence[Sequence[str]], width: int | None) -> Iterator[str]:
    """Align rows in columns. The last cells are truncated or dropped to fit ``width``, unless it is None."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    for *cells, last in rows:
        line = "  ".join(cell.ljust(size) for cell, size in zip(cells, widths, strict=True))
        if width is None:
            line += "  " + last
        elif len(line) + 22 <= width:
            room = width - len(line) - 2
            line += "  " + (last if len(last) <= room else last[: room - 1] + "…")
        yield line.rstrip()


def did_you_mean(name: str, names: Iterable[str]) -> str:
    names = list(dict.fromkeys(names))
    near = [n for n in names if name in n][:3] or difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(near)}?" if near else ""
