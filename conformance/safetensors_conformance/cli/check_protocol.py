"""``stc check-protocol``: check whether a program speaks the worker protocol, and suggest fixes."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from safetensors_reference.main import SecondsRange
from safetensors_reference.text import visible_lines

from ..implementations.commands import InstallError
from ..programs.launcher import Confinement
from ..protocol_check.checks import Check, check_protocol
from .common import confinement_options, corpus, corpus_option, targets

_MARKS = {"pass": "ok", "fail": "FAIL", "note": "note", "skip": "-"}


@click.command("check-protocol", context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--impl",
    "selector",
    required=True,
    metavar="SELECTOR",
    help="Program to check, such as cmd:program args.",
)
@corpus_option
@click.option(
    "--time-limit",
    type=SecondsRange(0.1),
    default=10.0,
    show_default=True,
    help="Seconds to wait for each answer.",
)
@confinement_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each check.")
def check_protocol_command(
    selector: str, corpus_path: Path | None, time_limit: float, as_json: bool, confinement: Confinement
) -> None:
    """Test a program's use of the worker protocol, step by step, and report its mistakes.

    \b
    Exit status: 0 if the program speaks the protocol, 1 if it does not,
    2 if it cannot be started.
    """
    (target,) = targets([selector])
    if target.kind == "exit":
        raise click.UsageError(
            f"--impl {selector!r}: this program answers through its exit status and does not speak the "
            "protocol; use stc run instead"
        )
    manifest = corpus(corpus_path)
    confinement = confinement.with_shown(manifest.root / "files")
    counts = dict.fromkeys(_MARKS, 0)
    try:
        target.prepare()
        for check in check_protocol(target, manifest, time_limit, confinement):
            counts[check.status] += 1
            click.echo(json.dumps(asdict(check)) if as_json else "\n".join(lines(check)))
    except (OSError, InstallError) as err:
        click.echo(visible_lines(f"cannot start {selector!r}: {err}"), err=True)
        raise SystemExit(2) from err
    if not as_json:
        click.echo(f"{counts['pass']} ok, {counts['fail']} failed, {counts['note']} notes")
    raise SystemExit(1 if counts["fail"] else 0)


def lines(check: Check) -> list[str]:
    head = f"{_MARKS[check.status]:<5} {check.id:<10} {check.title}"
    if check.status == "pass":
        return [f"{head}{': ' if check.detail else ''}{_plain(check.detail)}"]
    out = [f"{head}: {_plain(check.detail)}"]
    more = {"sent": check.sent, "got": check.line, "schema": check.where, "do": check.do}
    return out + [f"{'':<16} {name:<7} {_plain(text)}" for name, text in more.items() if text]


def _plain(text: str) -> str:
    """Escape control characters in the program's output before it is printed to a terminal."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
