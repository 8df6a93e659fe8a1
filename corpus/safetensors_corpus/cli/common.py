"""What the commands of ``stc corpus`` have in common."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from .. import manifest as _manifest
from ..document import ManifestError
from ..manifest import Case

folder_option = click.option(
    "-c",
    "--corpus",
    "root",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the corpus.  [default: the one that belongs to this program]",
)
"""``--corpus DIR``, given to the command as ``root``."""


class UnusableError(click.ClickException):
    """What the command was given cannot be used: exit status 2, told apart from a finding."""

    exit_code = 2


def load(root: Path | None = None) -> _manifest.Manifest:
    """Load the typed manifest, errors as messages of the command line."""
    try:
        return _manifest.load_manifest(root)
    except ManifestError as err:
        raise click.ClickException(str(err)) from err


def raw_manifest(manifest: _manifest.Manifest) -> dict[str, Any]:
    """Return the JSON that a manifest was loaded from: everything, cases that are not active included."""
    return dict(manifest.raw)


def write_page(path: Path, text: str, *, check: bool, command: str) -> None:
    """Write a generated page, or with ``check`` only see whether it is current.

    Args:
        path: the page.
        text: what it must hold.
        check: True writes nothing and ends with exit status 1 when it is not current.
        command: what writes it, as people type it.

    Raises:
        UnusableError: it cannot be read or written.
    """
    try:
        if path.is_file() and path.read_bytes() == text.encode():
            click.echo(f"current: {path}")
            return
        if check:
            click.echo(f"{path} is not current; run: {command}")
            raise SystemExit(1)
        path.write_bytes(text.encode())
    except OSError as err:
        raise UnusableError(f"{path}: {err.strerror or err}") from err
    click.echo(f"wrote {path}")


def expects(case: Case) -> str:
    """Say in a few words what a case demands."""
    if case.expect is None:
        return f"choice {case.choice}"
    if case.expect.outcome == "accept":
        return "accept"
    return f"reject ({case.expect.codes[0]})"


def matches(case: Case, pattern: str) -> bool:
    """Whether id, a rule or the choice of a case contains ``pattern``."""
    return any(pattern in text for text in (case.id, case.choice or "", *case.rules))


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return a hint at names that resemble ``name``, or nothing."""
    names = list(dict.fromkeys(names))
    near = [n for n in names if name in n][:3] or difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def byte_count(size: int) -> str:
    """Write a size for people: exact, and from a kibibyte on also rounded."""
    if size < 1024:
        return f"{size} bytes"
    value, unit = float(size), "bytes"
    for unit in ("KiB", "MiB", "GiB", "TiB"):  # noqa: B007 - used behind the loop
        value /= 1024
        if value < 1024:
            break
    return f"{size:,} bytes ({value:.3g} {unit})" if value < 1000 else f"{size:,} bytes ({value:.0f} {unit})"
