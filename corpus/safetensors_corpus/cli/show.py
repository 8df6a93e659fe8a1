"""``stc corpus show``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from ..manifest import Case, Expectation
from ..publish.show import action_lines, input_lines
from .common import did_you_mean, folder_option, load, raw_manifest


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("case_id", metavar="CASE")
@folder_option
@click.option("--json", "as_json", is_flag=True, help="The case as it stands in corpus.json.")
def show(case_id: str, root: Path | None, as_json: bool) -> None:
    """Show one case: purpose, rules, expectation and input.

    The input is shown as bytes, as a recipe of how to make it, or as the files of a directory; then what is
    done with it beyond opening and reading.
    """
    manifest = load(root)
    raw = raw_manifest(manifest)
    rows = {r["id"]: r for r in raw["cases"]}
    row = rows.get(case_id)
    if row is None:
        raise click.ClickException(
            f"no case {case_id!r}{did_you_mean(case_id, rows)}; "
            "look it up with: stc corpus list PART-OF-THE-NAME"
        )
    if as_json:
        click.echo(json.dumps(row, indent=1))
        return
    case = manifest.by_id.get(case_id)
    if case is None:
        raise click.ClickException(
            f"case {case_id!r} was {row['status']} and is run no more; see it with --json"
        )
    for line in case_lines(case, raw):
        click.echo(line)


def case_lines(case: Case, raw: dict[str, Any]) -> Iterator[str]:
    """Give what is shown of a case of the manifest ``raw``. Raises ClickException when its files differ."""
    yield f"{case.id}: {case.title}"
    if case.description:
        yield case.description
    yield ""
    steps = ", ".join(case.steps)
    yield f"kind     {case.kind} (steps: {steps}){', heavy: run on demand only' if case.heavy else ''}"
    titles = {r["id"]: f"{r['id']} ({r['level']}): {r['title']}" for r in raw["rules"]}
    for i, rule in enumerate(case.rules):
        yield f"{'rules' if i == 0 else '':<8} {titles.get(rule, rule)}"
    yield f"level    {case.level}, importance {case.importance}{', smoke check' if case.smoke else ''}"
    if case.features:
        yield f"needs    {', '.join(case.features)}"
    yield from _demands(case, raw)
    if case.budget:
        limits = ", ".join(_limit(name, value) for name, value in case.budget.items())
        yield f"budget   {limits}"
    if "issue" in case.source:
        yield f"source   {case.source['issue']}"
    yield from _bugs(case, raw)
    yield from input_lines(case)
    yield from action_lines(case)


def _demands(case: Case, raw: dict[str, Any]) -> Iterator[str]:
    if case.expect is not None:
        yield f"expects  {_demand(case.expect)}"
        yield from _content(case.expect)
        return
    choice = next((c for c in raw["choices"] if c["id"] == case.choice), None)
    yield f"expects  choice {case.choice}" + (f": {choice['title']}" if choice else "")
    for option, expectation in case.options.items():
        notes = []
        if choice:
            notes = [f"profile {p}" for p, taken in choice["positions"].items() if taken == option]
            notes += ["required of every reader"] if choice["required"] == option else []
        means = f" ({choice['options'][option]})" if choice else ""
        tail = f"  [{', '.join(notes)}]" if notes else ""
        yield f"  {option}{means}: {_demand(expectation)}{tail}"
        yield from _content(expectation)


def _demand(expectation: Expectation) -> str:
    text = "accept" if expectation.outcome == "accept" else f"reject ({', '.join(expectation.codes)})"
    return text + (f"; the file: {', '.join(expectation.properties)}" if expectation.properties else "")


def _content(expectation: Expectation, most: int = 8) -> Iterator[str]:
    content = expectation.content
    if content is None:
        return
    if "tensor_count" in content:
        yield f"           {content['tensor_count']:,} tensors"
        return
    for tensor in content["tensors"][:most]:
        shape = json.dumps(tensor["shape"], separators=(",", ":"))
        # As JSON, because names hold control characters and characters that change the direction of text.
        name = json.dumps(tensor["name"])[:60]
        yield f"           {name} {tensor['dtype']}{shape}, {tensor['nbytes']:,} bytes"
    if len(content["tensors"]) > most:
        yield f"           … and {len(content['tensors']) - most:,} more tensors"
    if not content["tensors"]:
        yield "           no tensors"
    if content["metadata"] is not None:
        text = json.dumps(content["metadata"])
        yield f"           metadata {text[:90]}{' …' if len(text) > 90 else ''}"


def _limit(name: str, value: float) -> str:
    return f"{value:g} seconds" if name == "seconds" else f"{name.replace('_', ' ')} {value:,.0f}"


def _bugs(case: Case, raw: dict[str, Any]) -> Iterator[str]:
    known = {bug["id"]: bug for bug in raw["field_bugs"]}
    for affected in case.affects:
        bug = known.get(affected["bug"])
        where = " ".join(filter(None, (affected["project"], affected["versions"])))
        label = " ".join(filter(None, (affected["bug"], where, affected["reference"])))
        yield f"shows    {label}{': ' + bug['trigger'] if bug else ''}"
