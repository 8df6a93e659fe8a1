"""``stc trend``: run several versions of one implementation and show the changes between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
from msgspec import to_builtins

from safetensors_corpus import Case
from safetensors_corpus.judging.verdicts import fails
from safetensors_reference.main import UnusableError
from safetensors_reports.history.comparable import adapter_misfits
from safetensors_reports.history.known_bugs import published_version
from safetensors_reports.history.trend import CaseInfo, VersionRun, notes_of, trend_markdown, trend_text
from safetensors_reports.history.trend import trend as hold_together
from safetensors_reports.text import plural

from ..case_verdict import result_rows
from ..implementations.commands import InstallError
from ..implementations.descriptor import is_commit
from ..implementations.selectors import SelectorError, Target, resolve, runs_program
from ..outcome import Implementation
from ..programs.launcher import ending_as_interrupted
from ..run.driver import ImplementationResults, ReportError, RunOptions, header_row
from ..run.session import GivenUpError, Session
from ..worker.worker import Limits, StartError
from .common import (
    cases_option,
    corpus,
    corpus_option,
    hand_out,
    limit_options,
    select,
    shared_option,
    tracked,
)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("name", metavar="NAME")
@click.argument("versions", nargs=-1, required=True, metavar="VERSION...")
@click.option("--entry", default="", help="Entry point to use, such as numpy (stc impl info NAME).")
@click.option(
    "--source", default="", metavar="URL", help="URL of the repository that the programs were built from."
)
@cases_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@click.option(
    "--public",
    is_flag=True,
    help="Report unsafe behaviour only if a public report describes it, as stc trophies --add requires.",
)
@click.option(
    "--report",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write trend.json, trend.md and the run record of each version to this folder.",
)
@shared_option("--profile")
@shared_option("--heavy")
@corpus_option
@shared_option("--max-hangs")
@limit_options
@click.option(
    "--show",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    help="Number of cases to show for each rule.",
)
def trend(
    name: str,
    versions: tuple[str, ...],
    entry: str,
    source: str,
    cases: tuple[str, ...],
    as_json: bool,
    public: bool,
    report: Path | None,
    profile: str | None,
    heavy: bool,
    corpus_path: Path | None,
    max_hangs: int,
    show: int,
    limits: Limits,
) -> None:
    """Run versions of an implementation and show the fixes and regressions between them.

    NAME is a known implementation that is installed from a package index (stc impl list). Each VERSION gets
    its own environment, created if missing. Each version is compared with the one before it in the given
    order. A version that cannot be installed is skipped, and the output shows the reason. For an
    implementation that is built from source, give full commit hashes. For releases that are not in a package
    index, write VERSION=PROGRAM, with the same syntax for the program as in --impl. NAME is then the name of
    the project, and VERSION is a release or a full commit hash.

    \b
    fixed                   the case failed before and does not fail now
    broken                  the case did not fail before and fails now
    fails differently       the failure is different from before
    chooses differently     the answer fits another option of an open choice
    supported now, no longer supported   unsupported cases are neither fixed nor broken
    unknown                 the adapter failed with one of the two versions, or does not support it

    \b
    Examples
      stc trend safetensors 0.3.0 0.3.1 0.4.0 0.5.3 0.7.0 0.8.0
      stc trend safetensors 0.7.0 0.8.0 --entry numpy --report out
      stc trend mlx 0.31.1 0.31.2 --case 'layout/*'
      stc trend their.cpp 1.0=cmd:./built-1.0 1.1=cmd:./built-1.1 --source https://example.org/their.cpp

    Baselines are ignored, because a trend includes known failures.

    \b
    Exit status: 0 if every version ran, 2 if one could not run, 130 if interrupted.
    """
    manifest = corpus(corpus_path)
    chosen = select(manifest, cases, heavy=heavy)
    try:
        targets = targets_of(name, entry, versions)
    except SelectorError as err:
        raise click.UsageError(str(err)) from err
    called = name + (f":{entry}" if entry else "")
    known = {target.descriptor for target in targets.values() if target.descriptor is not None}
    names = {called, *(other for one in known for other in (one.title, one.distribution))}
    notes = notes_of(manifest.raw, *names)
    options = RunOptions(
        manifest,
        profile,
        limits.with_shown(manifest.root / "files"),
        use_baseline=False,
        smoke=False,
        heavy=heavy,
        max_hangs=max_hangs,
    )
    runs: list[VersionRun] = []
    interrupted = False
    try:
        with ending_as_interrupted():
            for number, target in targets.items():
                runs.append(run_version(target, number, options, report, chosen, notes if public else None))
    except KeyboardInterrupt:
        interrupted = True
    except ReportError as err:
        raise UnusableError(f"the report cannot be written: {err}") from err
    suite = version("safetensors-conformance")
    result = hold_together(
        called, suite, manifest.version, runs, notes, interrupted=interrupted, source=source
    )
    text, markdown = trend_text(result, show), trend_markdown(result)
    hand_out("trend", to_builtins(result), text, markdown, folder=report, as_json=as_json)
    raise SystemExit(130 if interrupted else result.exit_status)


def targets_of(name: str, entry: str, versions: tuple[str, ...]) -> dict[str, Target]:
    """Return version -> target. A version may be written as VERSION=PROGRAM. Raises SelectorError."""
    if entry and ":" in name:
        raise SelectorError(f"{name!r} already names an entry; leave out --entry {entry}")
    if "=" in name:
        raise SelectorError(f"{name!r}: list the versions after the name, separated by spaces")
    called = f"{name}:{entry}" if entry else name
    out = {}
    for text in dict.fromkeys(versions):
        number, mark, program = text.partition("=")
        if mark and not runs_program(program):
            raise SelectorError(
                f"{text!r}: the equals sign must be followed by a program, for example cmd:./reader"
            )
        sign = "@" if is_commit(text) else "=="
        out[number] = resolve(program if mark else f"{called}{sign}{text}")
    return out


def run_version(
    target: Target,
    version: str,
    options: RunOptions,
    folder: Path | None,
    cases: Sequence[Case],
    public: Mapping[str, CaseInfo] | None,
) -> VersionRun:
    """Install one version if needed, and run it. If the version cannot run, the result says why.

    With ``public``, the known bugs by case, the result leaves out what must not be published.
    """
    with Session(target, options.limits, options.profile, max_hangs=options.max_hangs) as session:
        try:
            target.prepare()
            implementation = session.start()
        except (InstallError, StartError) as err:
            return VersionRun(version, reason=str(err))
        results = ImplementationResults(target, None if folder is None else folder / f"{target.slug}.jsonl")
        results.add({"header": header_row(implementation, options, None)})
        try:
            for verdict in tracked(session, cases):
                for row in result_rows(verdict):
                    results.add({"result": row})
            basic = [c for c in options.manifest.cases if c.smoke and not c.heavy]
            basic_rows = [row for verdict in session.verdicts(basic) for row in result_rows(verdict)]
        except GivenUpError as err:
            return VersionRun(version, reason=str(err))
        finally:
            results.finish(options.manifest)
            results.close()
    record = results.record()
    taken = {case.id for case in options.manifest.cases if case.expect is not None and case.expect.content}
    control = [row for row in basic_rows if row["case"] in taken]
    unknown: Mapping[str, str] = adapter_misfits(record.results, control)
    remarks = _remarks(implementation, version, basic_rows, unknown)
    if public is not None:
        record, unknown = published_version(version, record, unknown, public, options.manifest.raw)
    return VersionRun.of(version, record, unknown, remarks)


def _remarks(
    implementation: Implementation, version: str, basic: list[dict[str, Any]], unknown: Mapping[str, str]
) -> list[str]:
    out = []
    if implementation.version not in (version, "unknown"):
        out.append(f"the program reports version {implementation.version}")
    failed = list(dict.fromkeys(row["case"] for row in basic if fails(row["verdict"])))
    if failed:
        shown = ", ".join(failed[:3]) + (" …" if len(failed) > 3 else "")
        out.append(
            f"it fails on {len(failed)} of the most basic files ({shown}); the adapter may not fit this "
            "version"
        )
    if unknown:
        often = Counter(unknown.values()).most_common(1)[0][0]
        out.append(
            f"the verdict is unknown for {plural(len(unknown), 'case')} because the adapter does not fit "
            f"this version ({often[:120]})"
        )
    return out
