"""``stc publish``: the published reports of every implementation, made again."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

from safetensors_corpus import Manifest, ManifestError, load_manifest
from safetensors_corpus.cli.common import UnusableError
from safetensors_reports.audit.inputs import AuditError
from safetensors_reports.page.publish import INDEX, pages, publication, published, stale
from safetensors_reports.record.run import RecordError, RunRecord, read_record
from safetensors_reports.text import listed, visible

from ..implementations.descriptor import descriptors
from ..run.baseline import BaselineError
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
    help="Folder of the published reports.",
)
@click.option(
    "--check", is_flag=True, help="Write nothing; fail when a page is not what its report.json gives."
)
@click.option(
    "-j", "--jobs", type=click.IntRange(1), default=1, show_default=True, help="Runs at the same time."
)
@click.option("--corpus", "corpus_path", type=click.Path(path_type=Path), help="The corpus of the runs.")
def publish(runs: tuple[Path, ...], output: Path, check: bool, jobs: int, corpus_path: Path | None) -> None:
    """Write the published reports: a page of each implementation, one that compares all, a picture.

    Without RUN every implementation that the harness knows is run first, which installs those
    that are not there yet: minutes, and gigabytes the first time. RUN is a record that
    stc run --report wrote (.jsonl), or a folder of them.

    What is told about other people's software follows docs/disclosure.md; records of runs hold
    more than that, and are not kept.

    \b
    Examples
      stc publish -j 2
      stc publish runs -o pages
      stc publish --check

    \b
    Exit status: 0 written, or all as it should be; 1 a page differs; 2 something cannot be used.
    """
    try:
        if check:
            _check(output)
            return
        if runs:
            texts = _texts(runs, load_manifest(corpus_path))
        else:
            with tempfile.TemporaryDirectory() as folder:
                _run_all(Path(folder), jobs, corpus_path)
                texts = _texts([Path(folder)], load_manifest(corpus_path))
    except (AuditError, RecordError, BaselineError, ManifestError) as err:
        raise UnusableError(str(err)) from err
    old = stale(output, texts)
    for path in {Path(name).parent for name in texts}:
        write_texts(output / path, {Path(n).name: t for n, t in texts.items() if Path(n).parent == path})
    for path in old:
        path.unlink()
        if not any(path.parent.iterdir()):
            path.parent.rmdir()
    click.echo(f"{len(texts):,} files: {output / INDEX}")


def _run_all(folder: Path, jobs: int, corpus_path: Path | None) -> None:
    """Run every entry point of every implementation, but those that only load onto a device.

    Raises AuditError when one leaves no record at all: its page would be removed as if it were gone.
    """
    selectors = [d.selector(entry) for d in descriptors().values() for entry in d.entries]
    options: list[str] = [word for selector in selectors for word in ("--impl", selector)]
    options += ["-q", "--jobs", str(jobs), "--report", str(folder)]
    options += ["--corpus", str(corpus_path)] if corpus_path else []
    try:
        run.main(options, prog_name="stc run", standalone_mode=False)
    except SystemExit as done:
        if done.code == 130:
            raise
    there = {read_record(path).implementation["name"] for path in folder.glob("*.jsonl")}
    missing = sorted(descriptors().keys() - there)
    if missing:
        raise AuditError(f"no run of {listed(missing, 6)}; nothing is published before all can be run")


def _texts(paths: Sequence[Path], manifest: Manifest) -> dict[str, str]:
    records, findings = read_inputs(paths)
    if findings:
        raise AuditError("findings of fuzzing are not published; give run records (.jsonl) only")
    shown: list[RunRecord] = []
    for record in records:
        if record.footer is None or record.partial or record.left_out or not record.results:
            # A page of half a run would look like one of a whole one.
            why = "; ".join(record.problems[:1]) or "the run is not complete"
            raise AuditError(
                f"{visible(record.label)}: {visible(why)}; run it again, or give the other records"
            )
        if record.header["corpus"]["digest"] != manifest.digest:
            raise AuditError(f"{visible(record.label)}: run with another corpus; run it again")
        shown.append(record)
    known = {i: known_failures(record, {}, manifest) for i, record in enumerate(shown)}
    return publication(shown, manifest, known)


def _check(output: Path) -> None:
    wrong = []
    for name, text in pages(published(output)).items():
        path = output / name
        try:
            same = path.read_bytes() == text.encode()
        except OSError:
            same = False
        if not same:
            wrong.append(name)
    for name in wrong:
        click.echo(f"{visible(str(output / name))}: is not what its report.json gives; run stc publish")
    if wrong:
        raise SystemExit(1)
    click.echo("the published pages are what their reports give")
