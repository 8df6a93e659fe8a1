"""``stc corpus stats``."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from safetensors_reference import rule_book

from ..publish.stats import coverage_errors, load_reasons, statistics, stored_bytes
from .common import UnusableError, byte_count, folder_option, load, raw_manifest


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option(
    "--check",
    is_flag=True,
    help="Hold the rules covered against coverage.toml, strict both ways, and print contradictions.",
)
@folder_option
def stats(as_json: bool, check: bool, root: Path | None) -> None:
    """Count the cases, and say which rules they cover.

    A rule is covered from both sides when one case that carries it demands accept and another one reject
    (of a choice: under any option). For each missing side coverage.toml gives the reason.

    \b
    Exit status: 0; 1 with --check when a side of a must-rule is neither covered nor explained, or both.
    """
    manifest = load(root)
    raw = raw_manifest(manifest)
    try:
        reasons = load_reasons()
    except (OSError, ValueError) as err:
        raise UnusableError(f"coverage.toml: {err}") from err
    if check:
        errors = coverage_errors(raw, reasons)
        if root is None and (
            late := sorted(rule_book().rules.keys() ^ {rule["id"] for rule in raw["rules"]})
        ):
            errors.append(f"corpus.json is of other rules than the rule book ({', '.join(late)}): build it")
        for error in errors:
            click.echo(error)
        if errors:
            click.echo(f"{len(errors)} contradictions between rules, cases and coverage.toml")
            raise SystemExit(1)
        click.echo("every side of every must-rule is covered or has its reason")
        return
    try:
        numbers = {**statistics(raw, reasons), "stored_bytes": stored_bytes(manifest.root)}
    except OSError as err:
        raise UnusableError(f"{err.filename}: {err.strerror or err}") from err
    if as_json:
        click.echo(json.dumps(numbers, indent=1))
        return
    for line in _lines(numbers):
        click.echo(line)


def _lines(numbers: Mapping[str, Any]) -> Iterator[str]:
    withdrawn = f", {numbers['not_active']} withdrawn or superseded" if numbers["not_active"] else ""
    notes = f"{numbers['heavy']} heavy{withdrawn}"
    yield f"corpus {numbers['corpus_version']}: {numbers['cases']:,} cases ({notes})"
    yield (
        f"stored {byte_count(numbers['stored_bytes'])}, of these {numbers['files']:,} files with "
        f"{numbers['file_bytes']:,} bytes; {numbers['recipes']} recipes"
    )
    for name in ("area", "kind", "level", "importance", "outcome", "choice"):
        counts = sorted(numbers[name].items(), key=lambda item: -item[1])
        text = " · ".join(f"{key} {count:,}" for key, count in counts)
        yield from _wrapped(f"  {name:<11}", text)
    rules = numbers["rules"]
    yield (
        f"rules: {len(rules['both'])} covered from both sides, {len(rules['one'])} from one, "
        f"{len(rules['none'])} from none"
    )
    for rule, row in rules["missing"].items():
        reasons = dict.fromkeys(row["reasons"].get(side, "no reason given") for side in row["sides"])
        what = "neither accept nor reject" if len(row["sides"]) == 2 else f"no {row['sides'][0]}"
        yield from _wrapped(f"  {rule} ({row['level']}) {what}: ", "; ".join(reasons))


def _wrapped(label: str, text: str) -> list[str]:
    return textwrap.wrap(
        text, 110, initial_indent=label, subsequent_indent="             ", break_on_hyphens=False
    )
