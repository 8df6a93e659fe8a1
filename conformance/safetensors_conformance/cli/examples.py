"""``stc examples``: copy shims, programs and adapters to start from, even without a checkout."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from safetensors_corpus.cli.common import did_you_mean, exit_if_unusable, in_columns

PACKAGE = Path(__file__).resolve().parents[1]
FOLDERS = (PACKAGE / "shims", PACKAGE / "examples", PACKAGE.parents[1] / "docs" / "examples")
"""Folders that contain the examples, in the package or in a checkout. Folders that do not exist are skipped.
"""


def examples() -> dict[str, dict[str, Path]]:
    """Map the name of each example, a file or the folder of a language, to {destination: source}."""
    there = [path for folder in FOLDERS if folder.is_dir() for path in sorted(folder.iterdir())]
    return {
        path.name: {
            file.relative_to(path.parent).as_posix(): file
            for file in ([path] if path.is_file() else sorted(path.rglob("*")))
            if file.is_file()
        }
        for path in there
        if not path.name.startswith(("_", "."))
    }


@click.command("examples", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=".",
    help="Folder to copy into, created if it is missing.  [default: the current folder]",
)
def copy_examples(names: tuple[str, ...], output: Path) -> None:
    """Copy shims, readers and adapters as starting points. Without NAME, list them.

    \b
    stc examples                       list the examples
    stc examples mylib_adapter.py      copy into the current folder, without overwriting files
    stc examples java                  copy the shim of a language and its example into java/
    """
    known = examples()
    if not names:
        rows = [(name, "" if name in files else " ".join(files)) for name, files in known.items()]
        for line in in_columns(rows, None):
            click.echo(line)
        return
    for name in names:
        if name not in known:
            raise click.UsageError(f"no example {name!r}{did_you_mean(name, known)}")
    wanted = {output / place: file for name in names for place, file in known[name].items()}
    with exit_if_unusable(output):
        for target, file in wanted.items():
            if target.exists() and target.read_bytes() != file.read_bytes():
                raise click.ClickException(
                    f"{target} exists and differs from the example; remove it, or use -o DIR"
                )
        for target, file in wanted.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)  # also copies the mode, because some files are scripts
            click.echo(target)
