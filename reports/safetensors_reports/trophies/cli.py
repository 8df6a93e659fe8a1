"""``stc trophies``: known bugs that runs have shown, published as ``docs/trophies.md``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from safetensors_corpus.cli.common import folder_option, load, write_page
from safetensors_reference.main import UnusableError
from safetensors_reference.rules.cli import docs_folder
from safetensors_reference.writing.atomic import write_file

from ..audit.inputs import AuditError
from ..history.known_bugs import lines_of_trend, load_trend, trend_of, trends
from ..history.ledger import FOLDER, append_lines, load_ledgers
from ..text import plural
from .model import PAGE, load_baselines, render, sighting_text
from .model import trophies as put_together


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--write", is_flag=True, help=f"Write docs/{PAGE}.")
@click.option("--check", is_flag=True, help=f"Write nothing, and fail if docs/{PAGE} is out of date.")
@click.option(
    "--add",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Add a trend (the output of stc trend --public --json) to the histories. Only bugs that have "
    "public reports are kept.",
)
@folder_option
def trophies(write: bool, check: bool, add: Path | None, root: Path | None) -> None:
    """List known bugs that the suite has found, and the versions that no longer have them.

    The data comes from the histories in reports/published/history and the baselines of the newest versions.

    \b
    Examples
      stc trend mlx 0.31.1 0.31.2 --public --json > trend.json && stc trophies --add trend.json
      stc trophies --write

    \b
    Exit status: 0 success; 1 the page is out of date (with --check); 2 the data cannot be used, or the page
    cannot be written.
    """
    if write + check + (add is not None) > 1:
        raise click.UsageError("--write, --check and --add cannot be combined")
    docs = docs_folder()
    if docs is None:
        raise UnusableError("this command must be run in a checkout of the project")
    manifest = load(root).raw
    folder = docs.parent / "reports" / "published" / FOLDER
    try:
        if add is not None:
            _add(add, folder, manifest)
            return
        data = put_together(manifest, trends(load_ledgers(folder), manifest), load_baselines(docs.parent))
    except AuditError as err:
        raise UnusableError(str(err)) from err
    if write or check:
        write_page(docs / PAGE, render(data), check=check, command="stc trophies --write")
    else:
        for bug in data.bugs:
            for s in data.sightings[bug["id"]]:
                words = f"{sighting_text(s)}: {plural(len(s.cases), 'case')}"
                click.echo(f"{bug['id']:<7} {s.implementation:<22} {words}")
        seen = sum(bool(data.sightings[bug["id"]]) for bug in data.bugs)
        click.echo(f"{seen} of the {len(data.bugs)} known bugs that have cases were seen")


def _add(path: Path, folder: Path, manifest: dict[str, Any]) -> None:
    lines = lines_of_trend(load_trend(path, manifest), manifest)
    ledger = append_lines(load_ledgers(folder), lines)[lines[0].program]
    trend_of(lines[0].entry, ledger, manifest)
    target = folder / f"{ledger.stem}.jsonl"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_file(target, [ledger.text.encode()])  # the other runs cannot be regenerated
    except OSError as err:
        raise UnusableError(f"{target}: {err.strerror or err}") from err
    click.echo(f"wrote {target}")
