"""``stc publish``: regenerate the published reports of every implementation."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from safetensors_corpus import Manifest, ManifestError, load_manifest
from safetensors_reference.main import UnusableError
from safetensors_reports.audit.disclosure import OWN
from safetensors_reports.audit.inputs import AuditError, BaselineEntry
from safetensors_reports.features import (
    FEATURES,
    FeatureRun,
    document,
    feature_run,
    feature_texts,
    load_features,
)
from safetensors_reports.features import JSON as FEATURES_JSON
from safetensors_reports.features import PAGE as FEATURES_PAGE
from safetensors_reports.history.directory import FILE
from safetensors_reports.history.ledger import DIGEST, Line, append_lines, load_ledgers
from safetensors_reports.history.ledger import FOLDER as HISTORY
from safetensors_reports.known_failures import KnownError
from safetensors_reports.page.publish import (
    INDEX,
    JSON,
    README,
    Unbuilt,
    history,
    history_texts,
    load_published,
    pages,
    publication,
    stale,
)
from safetensors_reports.record.file import RecordError, read_record
from safetensors_reports.record.run import RunRecord
from safetensors_reports.text import listed, plural, visible

from ..implementations.descriptor import descriptors, longest_first
from .report import known_failures, read_inputs, write_texts
from .run import run

FOLDER = Path("reports") / "published"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("runs", nargs=-1, metavar="[RUN]...", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=FOLDER,
    show_default=True,
    metavar="DIR",
    help="Folder that contains the published reports.",
)
@click.option(
    "--check", is_flag=True, help="Write nothing; fail if a page does not match its report or history."
)
@click.option(
    "--history-only",
    is_flag=True,
    help="Only add the runs to the histories of their programs; leave the reports unchanged.",
)
@click.option(
    "--features",
    is_flag=True,
    help="Only update the table of features by version; leave the reports and histories unchanged.",
)
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Number of implementations to run at the same time.",
)
@click.option("--corpus", "corpus_path", type=click.Path(path_type=Path), help="Corpus that the runs used.")
def publish(
    runs: tuple[Path, ...],
    output: Path,
    check: bool,
    history_only: bool,
    features: bool,
    jobs: int,
    corpus_path: Path | None,
) -> None:
    """Write the published reports: a page for each implementation, a comparison, and a chart.

    Without RUN, stc publish first runs every known implementation and installs the missing ones. This takes
    several minutes and, the first time, gigabytes of disk space. RUN is a record written by stc run --report
    (.jsonl), or a folder of records.

    Each run is added to the history of its program, history/NAME.jsonl and .md, which shows what each release
    changed. A run that is already in the history is not added again. With --history-only, stc publish adds
    the runs of old releases without changing the reports. Without RUN, --history-only regenerates all pages
    from their reports and histories.

    With --features, stc publish writes features.json and features.md. It runs only the cases that test
    features, for every version in the histories and every version that features.json already contains. Each
    RUN adds a version. It must include the same cases, so record it with stc run --report --heavy.

    Statements about other people's software follow docs/disclosure.md. Run records contain data that must not
    be published, so they are not kept.

    \b
    Examples
      stc publish -j 2
      stc publish runs -o pages
      stc run -q --max-hangs 0 --impl mlx==0.31.2 --report old; stc publish old --history-only
      stc publish --features -j 2
      stc publish --check

    \b
    Exit status: 0 if the pages were written or are all current, 1 if a page differs,
    2 if an input is unusable.
    """
    try:
        manifest = load_manifest(corpus_path)
        if check:
            _check(output, manifest)
        elif history_only:
            _append(runs, output, manifest)
        elif features:
            _add_features(runs, output, jobs, manifest)
        elif runs:
            _publish(runs, output, manifest)
        else:
            with tempfile.TemporaryDirectory() as folder:
                _run_all(Path(folder), jobs, corpus_path)
                _publish([Path(folder)], output, manifest)
    except (AuditError, RecordError, KnownError, ManifestError) as err:
        raise UnusableError(str(err)) from err


def _run_all(folder: Path, jobs: int, corpus_path: Path | None) -> None:
    """Run every entry point that does not need a device. Raises AuditError if a run leaves no record."""
    runnable = {d.name: d.listed for d in longest_first()}
    options = [
        word for selectors in runnable.values() for selector in selectors for word in ("--impl", selector)
    ]
    options += ["--corpus", str(corpus_path)] if corpus_path else []
    _run(options, folder, jobs)
    there = {read_record(path).implementation["name"] for path in folder.glob("*.jsonl")}
    if missing := sorted({name for name, selectors in runnable.items() if selectors} - there):
        raise AuditError(
            f"{listed(missing, 6)} did not run; nothing is published until every implementation can be run"
        )


def _run(options: Sequence[str], folder: Path, jobs: int) -> None:
    # Published pages need complete runs, even for implementations that hang often.
    options = [*options, "-q", "--jobs", str(jobs), "--max-hangs", "0", "--report", str(folder)]
    try:
        run.main(options, prog_name="stc run", standalone_mode=False)
    except SystemExit as done:
        if done.code == 130:
            raise


def _add_features(paths: Sequence[Path], output: Path, jobs: int, manifest: Manifest) -> None:
    path = output / FEATURES_JSON
    old = load_features(path).runs if path.exists() else ()
    if paths:
        records = _records(paths, manifest)
    else:
        past: list[Line | FeatureRun] = [*_current_lines(output, manifest)]
        past += [run for run in old if run.program != OWN]
        selectors = [x.entry if x.program == OWN else f"{x.entry}=={x.version}" for x in past]
        with tempfile.TemporaryDirectory() as folder:
            cases = {case for feature in FEATURES for case in feature.cases}
            cases |= {case.id for case in manifest.cases if case.smoke}
            options = [word for case in sorted(cases) for word in ("--case", case)]
            options += [word for selector in dict.fromkeys(selectors) for word in ("--impl", selector)]
            options += ["--heavy", "--no-smoke", "--no-baseline"]
            _run(options, Path(folder), jobs)
            records = _records([Path(folder)], manifest)
    made = document([*old, *(feature_run(record, manifest) for record in records)], manifest)
    write_texts(output, feature_texts(made))
    click.echo(f"{len(made.table):,} entry points, {len(made.runs):,} versions: {output / FEATURES_PAGE}")


def _current_lines(output: Path, manifest: Manifest) -> list[Line]:
    """Return the runs in the histories that used this corpus."""
    return [
        line
        for ledger in load_ledgers(output / HISTORY).values()
        for line in ledger.runs
        if line.corpus.sha256 == manifest.digest[:DIGEST] and not line.profile
    ]


def _feature_texts(output: Path, manifest: Manifest) -> Mapping[str, str]:
    """Return the table of features, if the folder has one. Raises AuditError if a version is missing."""
    path = output / FEATURES_JSON
    if not path.exists():
        return {}
    made = document(load_features(path).runs, manifest)
    there = {run.key for run in made.runs}
    lines = _current_lines(output, manifest)
    if lost := [line.label for line in lines if (line.entry, line.version) not in there]:
        raise AuditError(f"{visible(str(path))}: lacks {listed(lost, 4)}; run stc publish --features")
    return feature_texts(made)


def _unbuilt() -> list[Unbuilt]:
    return [
        Unbuilt(d.name, d.title, d.language, d.homepage, d.source.revision, d.note)
        for d in descriptors().values()
        if d.source and all(map(d.by_hand, d.entries))
    ]


def _append(paths: Sequence[Path], output: Path, manifest: Manifest) -> None:
    ledgers = load_ledgers(output / HISTORY)
    before = sum(len(ledger.runs) for ledger in ledgers.values())
    if paths:
        records, known = _usable(paths, manifest)
        ledgers = append_lines(ledgers, history(records, manifest, known))
    reports = load_published(output) if (output / JSON).exists() else {}
    texts = history_texts(ledgers, reports)
    if reports:
        texts |= pages(reports, _unbuilt())
    write_texts(output, texts)
    added = sum(len(ledger.runs) for ledger in ledgers.values()) - before
    click.echo(f"{plural(added, 'run')} added to {output / HISTORY}")


def _publish(paths: Sequence[Path], output: Path, manifest: Manifest) -> None:
    records, known = _usable(paths, manifest)
    texts = publication(records, manifest, known, load_ledgers(output / HISTORY), _unbuilt())
    old = stale(output, texts)
    write_texts(output, texts)
    for path in old:
        path.unlink()
        if not any(path.parent.iterdir()):
            path.parent.rmdir()
    click.echo(f"{len(texts):,} files: {output / INDEX}")


def _usable(
    paths: Sequence[Path], manifest: Manifest
) -> tuple[list[RunRecord], dict[int, list[BaselineEntry]]]:
    """Return the runs, and a mapping from the index of each run to its known failures.

    Raises AuditError for an incomplete run.
    """
    records = _records(paths, manifest)
    for record in records:
        if record.footer is None or record.partial or record.left_out or not record.results:
            # The page of an incomplete run would look like the page of a complete one.
            why = "; ".join(record.problems[:1]) or "the run is not complete"
            raise AuditError(
                f"{visible(record.label)}: {visible(why)}; run it again, or leave this record out"
            )
    return records, {i: known_failures(record, {}, manifest) for i, record in enumerate(records)}


def _records(paths: Sequence[Path], manifest: Manifest) -> list[RunRecord]:
    records, findings = read_inputs(paths)
    if findings:
        raise AuditError("fuzzing findings are not published; give only run records (.jsonl)")
    for record in records:
        if record.header["corpus"]["digest"] != manifest.digest:
            raise AuditError(f"{visible(record.label)}: this run used a different corpus; run it again")
    return records


def _check(output: Path, manifest: Manifest) -> None:
    reports = load_published(output)
    texts = pages(reports, _unbuilt()) | history_texts(load_ledgers(output / HISTORY), reports)
    texts |= _feature_texts(output, manifest)
    wrong = [name for name, text in texts.items() if not _is_current(output / name, text)]
    for name in wrong:
        made_of, how = "report.json", "stc publish --history-only"
        if name == README:
            made_of = "report.json and the descriptors"
        elif name in (FEATURES_JSON, FEATURES_PAGE):
            made_of, how = "feature runs", "stc publish --features"
        elif name == FILE or name.startswith(f"{HISTORY}/"):
            made_of = "history"
        click.echo(f"{visible(str(output / name))}: does not match its {made_of}; run {how}")
    if wrong:
        raise SystemExit(1)
    click.echo("the published pages match their reports and histories")


def _is_current(path: Path, text: str) -> bool:
    try:
        return path.read_bytes() == text.encode()
    except OSError:
        return False
