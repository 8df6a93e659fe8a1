"""``stc check``: are these files valid, and if not, which rules are broken by which bytes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click
from rich.console import Console

from ..rules.book import PROFILES, ProfileName
from .output import ProgressBar, final_line, print_brief, print_result, shown_name, unreadable_line
from .result import CheckInput, CheckResult, Status, check_input, find_inputs

if TYPE_CHECKING:
    from .sarif import SarifLog

MAX_FAULTS = 20
"""Faults printed per file; --all prints the rest."""

EXIT_STATUS = {"valid": 0, "invalid": 1, "unreadable": 2}
INTERRUPTED = 130
"""Exit status after Ctrl-C, as a shell gives it: 128 and the number of SIGINT."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per file and line.")
@click.option(
    "--sarif",
    "sarif_path",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also write all results to FILE as SARIF 2.1.0, for code scanning services.",
)
@click.option(
    "--profile",
    type=click.Choice(PROFILES),
    default="hardened",
    show_default=True,
    help="Whose answer to take where readers legitimately differ.",
)
@click.option(
    "--all", "show_all", is_flag=True, help=f"Print every fault, not only the first {MAX_FAULTS} of a file."
)
@click.option("-q", "--quiet", is_flag=True, help="One line for each file with faults, none for a valid one.")
def check(
    paths: tuple[str, ...],
    as_json: bool,
    sarif_path: Path | None,
    profile: str,
    show_all: bool,
    quiet: bool,
) -> None:
    """Check that files obey every rule of the safetensors format.

    PATH is a file, a pattern such as 'models/**/*.safetensors', or a directory, which stands for every
    *.safetensors and *.safetensors.index.json below it. An index (*.index.json) is checked together with
    the shards it names.

    Every fault is printed with its rule, what was found, where it stands, and the bytes around it. Only the
    length prefix and the header are read, never the data buffer. For several files a count follows on
    standard error.

    \b
    Exit status:
      0    all files are valid
      1    at least one is invalid
      2    at least one cannot be read, or the SARIF file cannot be written
      130  interrupted (Ctrl-C)
    """
    console = Console(highlight=False, soft_wrap=True, emoji=False, markup=False)
    if sarif_path is not None and sarif_path.suffix == ".safetensors":
        # One slip of the hand would replace a model by a log about it.
        raise click.UsageError(f"--sarif {shown_name(str(sarif_path))}: would be written over a model file")
    log = None if sarif_path is None else _new_log(profile)
    inputs: list[CheckInput] = []
    statuses: list[Status] = []
    interrupted = False
    try:
        inputs = find_inputs(paths)
        with ProgressBar(len(inputs)) as bar:
            for item in inputs:
                result = check_input(item, cast("ProfileName", profile))
                statuses.append(result.status)
                if log is not None:
                    log.add(result)
                if as_json or not quiet or result.status != "valid":
                    with bar.hidden(to_stderr=result.status == "unreadable"):
                        if as_json:
                            click.echo(result.to_json())
                        else:
                            _print(console, result, None if show_all else MAX_FAULTS, quiet)
                bar.advance()
    except KeyboardInterrupt:
        interrupted = True
    if interrupted or len(inputs) > 1:
        click.echo(final_line(statuses, len(inputs) if interrupted else None), err=True)
    status = INTERRUPTED if interrupted else max(EXIT_STATUS[s] for s in statuses)
    if sarif_path is not None and log is not None:
        _write(sarif_path, log.to_text(status))
    raise SystemExit(status)


def _print(console: Console, result: CheckResult, limit: int | None, quiet: bool) -> None:
    if result.status == "unreadable":
        click.echo(unreadable_line(result), err=True)
    elif quiet:
        print_brief(console, result)
    else:
        print_result(console, result, limit)


def _new_log(profile: str) -> SarifLog:
    # Most runs want no log, so that they need not load what makes one.
    from .sarif import SarifLog

    return SarifLog(profile)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as err:
        click.echo(f"{shown_name(str(path))}: {err.strerror or err} (IO_ERROR)", err=True)
        raise SystemExit(2) from err
