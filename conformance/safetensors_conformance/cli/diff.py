"""``stc diff``: run several implementations on the same inputs and show where they disagree."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
from msgspec import to_builtins

from safetensors_corpus import Manifest
from safetensors_reference.rules.book import PROFILES
from safetensors_reports.differences.report import (
    DiffDocument,
    DiffImplementation,
    diff_markdown,
    diff_text,
    document,
)
from safetensors_reports.differences.signatures import Differences, evaluate
from safetensors_reports.known_failures import SHIPPED_TRIAGE, KnownError, Triage, load_triage
from safetensors_reports.text import plural

from .. import differential
from ..differential import Side
from ..outcome import Implementation
from ..programs.launcher import ending_as_interrupted
from ..run.session import Input
from ..worker.worker import Limits
from .common import (
    cases_option,
    corpus,
    corpus_option,
    hand_out,
    limit_options,
    progress,
    reported_as,
    select,
    targets,
)

MAX_HARNESS_ERRORS = 3


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("files", nargs=-1, metavar="[FILES]...")
@click.option(
    "--impl",
    "impls",
    multiple=True,
    metavar="SELECTOR",
    help="Implementation to run. Repeat the option for each implementation; at least two are required.",
)
@cases_option
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(differential.KINDS),
    help="Kind of corpus case; repeatable.  [default: read, or any kind with --case]",
)
@click.option(
    "--triage",
    "triage_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File of known disagreements (TOML).  [default: the file shipped with this program]",
)
@click.option("--no-triage", is_flag=True, help="Treat every disagreement as new.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@click.option(
    "--report",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write diff.json and diff.md to this folder.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    help="Number of workers to run at the same time.  [default: number of processors]",
)
@click.option(
    "--profile", type=click.Choice(PROFILES), help="Profile to pass to implementations that support profiles."
)
@corpus_option
@limit_options
@click.option(
    "--show",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Number of entries to show from each list.",
)
def diff(
    files: tuple[str, ...],
    impls: tuple[str, ...],
    cases: tuple[str, ...],
    kinds: tuple[str, ...],
    triage_path: Path | None,
    no_triage: bool,
    as_json: bool,
    report: Path | None,
    jobs: int | None,
    profile: str | None,
    corpus_path: Path | None,
    show: int,
    limits: Limits,
) -> None:
    """Run implementations over the same inputs and show where they disagree.

    No expected results are needed. FILES may be any files, directories (searched for *.safetensors and
    *.safetensors.index.json files) or patterns. Without FILES, the command uses the corpus.

    \b
    content split   two implementations accept a file but report different content
    verdict split   one accepts a file that another rejects
    unsafe          a crash, a hang, or exhausted memory
    open choice     several answers are valid, so the difference is listed but not counted

    \b
    SELECTOR is one of
      reference, safetensors, ...   a known name (stc impl list)
      name:entry, name==version     another entry point, another version
      py:package.module:object      a Python adapter (or a path to a .py file)
      cmd:program args              a program that speaks the worker protocol
      exit:program {path}           a program that exits 0 to accept, 1 to reject

    \b
    Examples
      stc diff --impl reference --impl safetensors
      stc diff --impl mlx==0.31.1 --impl mlx==0.31.2 --case 'layout/*'
      stc diff --impl safetensors --impl tinygrad model.safetensors downloads/
      stc diff --impl reference --impl mylib --triage known.toml --report out

    Each disagreement has a signature, which combines the fault in the input with each implementation's answer
    and leaves out versions. The fault is given by the strict reference's fault codes or, if it finds none, by
    the case's rule. A signature in the triage file does not count until its review_by date.

    \b
    Exit status: 0 if there is no new disagreement, 1 if a signature is new or overdue
    for review, 2 if something could not run, 130 if interrupted.
    """
    if len(set(impls)) < 2:
        raise click.UsageError("give at least two different --impl options; stc impl list shows the names")
    if files and (cases or kinds):
        raise click.UsageError("give either FILES or corpus cases (--case, --kind), not both")
    if no_triage and triage_path is not None:
        raise click.UsageError("--triage and --no-triage cannot be combined")
    wanted_targets = targets(impls)
    if triage_path is not None:
        _triage(triage_path, [])  # report a broken file now rather than after the run
    inputs: Sequence[Input]
    manifest = None if files else corpus(corpus_path)
    if manifest is None:
        files_given, problems = differential.find_files(files)
        inputs = files_given
        limits = limits.with_shown(*{f.path.parent if f.kind == "index" else f.path for f in files_given})
        limits = replace(limits, values=limits.values + differential.most_values(files_given))
    else:
        wanted = kinds or (differential.KINDS if cases else ("read",))
        inputs, problems = differential.check_inputs(c for c in select(manifest, cases) if c.kind in wanted)
        if not inputs and not problems:
            raise click.UsageError(f"none of the selected cases has the kind {' or '.join(wanted)}")
        limits = limits.with_shown(manifest.root / "files")
    sides = [Side(target, limits, profile) for target in wanted_targets]
    with ending_as_interrupted():
        finished = _run(sides, inputs, jobs or os.cpu_count() or 1)
    ran = {side: side.implementation for side in sides if side.implementation is not None}
    known = Triage() if no_triage else _triage(triage_path or SHIPPED_TRIAGE, differential.names_of([*ran]))
    whole = (
        finished
        and len(ran) == len(sides)
        and not cases
        and (manifest is not None or triage_path is not None)
        and not set(kinds) - {"read"}
    )
    problems += [side.problem for side in sides if side.problem is not None]
    found = _report(ran, inputs, manifest, profile, known, problems, finished=finished, whole=whole)
    text, markdown = diff_text(found, show), diff_markdown(found)
    hand_out("diff", to_builtins(found), text, markdown, folder=report, as_json=as_json)
    raise SystemExit(130 if found.interrupted else found.exit_status)


def _triage(path: Path, names: Sequence[str]) -> Triage:
    with reported_as(click.UsageError, KnownError):
        return load_triage(path, names)


def _run(sides: Sequence[Side], inputs: Sequence[Input], jobs: int) -> bool:
    try:
        for side in sides:
            side.prepare()
    except KeyboardInterrupt:
        return False
    with progress() as shown:
        bars = {side: shown.add_task(side.target.selector, total=len(inputs)) for side in sides}
        return differential.run_all(sides, inputs, jobs, lambda side: shown.advance(bars[side]))


def _report(
    ran: Mapping[Side, Implementation],
    inputs: Sequence[Input],
    manifest: Manifest | None,
    profile: str | None,
    triage: Triage,
    problems: Sequence[str],
    *,
    finished: bool,
    whole: bool,
) -> DiffDocument:
    names, by_id = differential.names_of([*ran]), {item.id: item for item in inputs}
    digest = manifest.digest if manifest is not None else "files"
    records = differential.records_of(ran, digest, profile)
    found = evaluate(records, names, lambda input_id: differential.facts_of(by_id[input_id]))
    signatures = found.signatures()
    notes = []
    for side in ran:
        if missing := len(set(side.results) - side.asked):
            some = "any" if missing == len(inputs) else f"{missing:,}"
            notes.append(f"{side.target.selector} has no step for {some} of the inputs")
    listed = () if manifest is not None else tuple(item.id for item in inputs)
    gone = [d.input for d in found.found if d.about.subject == differential.UNREADABLE]
    vanished = [f"{name}: the file disappeared or changed during the run" for name in gone]
    return document(
        found,
        suite=version("safetensors-conformance"),
        implementations=tuple(
            DiffImplementation(label, name, s.target.selector, who.version, who.language, who.steps)
            for (s, who), name, label in zip(ran.items(), names, found.labels, strict=True)
        ),
        source="files" if manifest is None else f"corpus {manifest.version}",
        given=len(inputs),
        standing=triage.weigh(signatures, dt.datetime.now(dt.UTC).date()),
        unmatched=tuple(triage.unmatched(signatures)) if whole else (),
        problems=(*problems, *_problems(ran, inputs, finished=finished), *vanished),
        notes=tuple(notes),
        interrupted=not finished,
        answers=_answers(ran, found, listed),
        listed=listed,
    )


def _problems(ran: Mapping[Side, Implementation], inputs: Sequence[Input], *, finished: bool) -> list[str]:
    out = []
    for side in ran:
        bad = [
            f"{side.target.selector} on {name}: {side.results[name].message}"
            for name in sorted(side.asked)
            if side.results[name].outcome == "harness-error"
        ]
        out += bad[:MAX_HARNESS_ERRORS]
        if len(bad) > MAX_HARNESS_ERRORS:
            out.append(f"{side.target.selector}: its adapter failed on {plural(len(bad), 'input')}")
    for kind in dict.fromkeys(item.kind for item in inputs) if finished else ():
        some = [item for item in inputs if item.kind == kind]
        able = [who for side, who in ran.items() if any(side.steps(item) for item in some)]
        if len(able) < 2:
            having = f"only {able[0].label} has" if able else "none of them has"
            out.append(f"{having} the step for inputs of kind {kind}; there is nothing to compare")
    return out


def _answers(
    ran: Iterable[Side], found: Differences, listed: Sequence[str]
) -> Mapping[str, Mapping[str, Any]]:
    wanted = dict.fromkeys([*(d.input for d in found.found), *listed])
    pairs = list(zip(found.labels, ran, strict=True))
    return {
        name: {
            label: differential.dump(side.results[name]) if name in side.asked else {"outcome": "not-asked"}
            for label, side in pairs
            if name in side.results
        }
        for name in wanted
    }
