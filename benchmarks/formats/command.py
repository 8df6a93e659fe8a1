"""``python -m benchmarks formats``: checks the README's table of formats by measurements."""

from __future__ import annotations

import sys

import click
import msgspec

from .marks import cell
from .page import PAGE, RECORDS, SIGNS, load_records, page
from .run import measure
from .table import FORMATS, PROPERTIES


@click.command()
@click.argument("names", nargs=-1, metavar="[FORMAT]...", type=click.Choice(list(FORMATS)))
@click.option("--large", is_flag=True, help="Include TensorFlow and Paddle, which need one gigabyte each.")
@click.option("--write", is_flag=True, help="Write the results and generate the page.")
@click.option(
    "--check",
    is_flag=True,
    help="Measure nothing. Exit with 1 if the page does not match the recorded results.",
)
def formats(names: tuple[str, ...], large: bool, write: bool, check: bool) -> None:
    """Check the README's table of formats against the libraries (10 minutes without TensorFlow and Paddle).

    Each library is installed in its own environment, like an implementation.
    """
    if check:
        if PAGE.read_text(encoding="utf-8") != page(load_records()):
            raise click.ClickException(
                "docs/formats.md is not current: run with --write to measure again, or undo the change"
            )
        click.echo("docs/formats.md is current")
        return
    chosen = [name for name in names or FORMATS if large or not FORMATS[name].large]
    if sys.platform != "linux":
        raise click.ClickException(
            "the experiments need the counters of the Linux kernel; only --check runs without them"
        )
    if not chosen:
        raise click.ClickException(f"{', '.join(names)}: these formats need --large")
    measured = measure(chosen, lambda text: click.echo(text, err=True))
    for name, found in measured.items():
        cells = [cell(name, key, found) for key in PROPERTIES]
        marks = " ".join(f"{SIGNS[one.claim]}→{SIGNS[one.mark]}" for one in cells)
        click.echo(f"{marks}  {FORMATS[name].title}  {found.why}")
    if write:
        records = {**(load_records() if RECORDS.exists() else {}), **measured}
        ordered = {name: records[name] for name in FORMATS if name in records}
        RECORDS.write_bytes(msgspec.json.format(msgspec.json.encode(ordered), indent=1) + b"\n")
        PAGE.write_text(page(ordered), encoding="utf-8")
