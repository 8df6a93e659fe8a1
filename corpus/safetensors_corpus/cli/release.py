"""``stc corpus release``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ..document import ManifestError
from ..manifest import corpus_root
from ..publish import build as builder
from ..publish.changes import Version, read_version
from ..publish.release import CHANGES, ReleaseError, check_target, release_files, write_release
from .common import UnusableError, byte_count, folder_option


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("dist", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--since",
    metavar="OLD",
    type=click.Path(path_type=Path),
    help="The release before: its corpus.json, folder or archive. Without it everything is new.",
)
@folder_option
def release(dist: Path, since: Path | None, root: Path | None) -> None:
    """Pack a release: archive, checksums and list of changes.

    DIST gets safetensors-corpus-VERSION.tar, corpus.json, changes.json and SHA256SUMS, byte-identical on
    every build and all at once. Nothing is packed when the corpus is not current, when ids of OLD
    disappeared, or when the corpus differs from OLD under the same version.

    \b
    Exit status: 0 packed, or DIST holds this release already; 1 refused; 2 cannot be read or written.
    """
    root = root or corpus_root()
    try:
        check_target(dist)
        old = read_version(since) if since else None
        _current(root)
        files = release_files(root, _license(root), old)
        fresh = write_release(files, dist)
    except ReleaseError as err:
        raise click.ClickException(str(err)) from err
    except (ManifestError, ValueError) as err:
        raise UnusableError(str(err)) from err
    except OSError as err:
        raise UnusableError(f"{err.filename or dist}: {err.strerror or err}") from err
    if not fresh:
        click.echo(f"{dist} holds this release already")
        return
    for name, data in files.items():
        click.echo(f"{dist / name}  {byte_count(len(data))}")
    changes = json.loads(files[CHANGES])
    what = f"since {old.number}" if isinstance(old, Version) else "first release"
    click.echo(f"corpus {changes['new']['corpus_version']}, {what}: {len(changes['added'])} cases added")


def _current(root: Path) -> None:
    lines = builder.differences(builder.build(), root)
    if lines:
        first = " ".join(lines[0].split())
        raise ReleaseError(f"{len(lines)} files are not current ({first}, …); run: stc corpus build")


def _license(root: Path) -> bytes:
    """Return the licence: beside the corpus in a checkout, inside of an unpacked release."""
    for folder in (root, root.resolve().parent):
        if (folder / "LICENSE").is_file():
            return (folder / "LICENSE").read_bytes()
    raise ReleaseError(f"there is no LICENSE in {root} or beside it; make releases from a checkout")
