"""``stc examples``: finished programs and adapters to begin from, also where there is no checkout."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from safetensors_corpus.cli.common import did_you_mean, usable

PACKAGE = Path(__file__).resolve().parents[1]
FOLDERS = (PACKAGE / "shims", PACKAGE / "examples", PACKAGE.parents[1] / "docs" / "examples")
"""Where they lie: with the package, and in a checkout, which needs no second copy."""


def examples() -> dict[str, Path]:
    """Return all files by their names."""
    files = [path for folder in FOLDERS if folder.is_dir() for path in sorted(folder.iterdir())]
    return {path.name: path for path in files if path.is_file() and path.suffix != ".pyc"}


@click.command("examples", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=".",
    help="Folder to copy into, made where it is not there.  [default: this one]",
)
def copy_examples(names: tuple[str, ...], output: Path) -> None:
    """Copy finished readers and adapters to begin from; without NAME, list them.

    \b
    stc examples                       what there is
    stc examples mylib_adapter.py      into this folder; a file that is there stays
    """
    known = examples()
    if not names:
        for name in known:
            click.echo(name)
        return
    for name in names:
        if name not in known:
            raise click.UsageError(f"no example {name!r}{did_you_mean(name, known)}")
        target = output / name
        with usable(target):
            output.mkdir(parents=True, exist_ok=True)
            data = known[name].read_bytes()
            if target.exists() and target.read_bytes() != data:
                raise click.ClickException(f"{target} is there and different; remove it, or use -o DIR")
            shutil.copy(known[name], target)  # with its mode: one of them is a script
        click.echo(target)
