"""``stc report``: an audit report of runs and fuzzing findings. ``stc publish`` also uses these functions."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from safetensors_corpus import Manifest, ManifestError, load_manifest
from safetensors_reference.main import UnusableError
from safetensors_reference.source import read_whole
from safetensors_reference.writing.atomic import write_file
from safetensors_reports.audit.build import build_report, report_text
from safetensors_reports.audit.inputs import (
    DOCUMENT,
    REPORT,
    AuditError,
    BaselineEntry,
    FuzzFinding,
    load_fuzz_finding,
    load_report,
)
from safetensors_reports.audit.report import Report
from safetensors_reports.comment import summary_markdown
from safetensors_reports.exports import badges, sarif_log, statements
from safetensors_reports.known_failures import KnownError, load_baseline
from safetensors_reports.page.html import report_html
from safetensors_reports.record.file import LEFT_OUT_NAMED, RecordError, read_record, write_text
from safetensors_reports.record.run import RunRecord
from safetensors_reports.text import file_slug, plural, unused, visible

from ..implementations.descriptor import described, own_baselines

MAX_ARTIFACT = 4 << 30


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder to write to, created if it is missing.",
)
@click.option(
    "--html", is_flag=True, help="Also write report.html, a single file to view in a browser or print."
)
@click.option(
    "--markdown", is_flag=True, help="Also write report.md, a pull request comment of at most 60 lines."
)
@click.option("--sarif", is_flag=True, help="Also write report.sarif, for code scanning services.")
@click.option(
    "--intoto",
    is_flag=True,
    help="Also write an unsigned in-toto test-result for each implementation; needs --artifact.",
)
@click.option("--badge", is_flag=True, help="Also write a shields.io endpoint badge for each implementation.")
@click.option(
    "--previous",
    type=click.Path(path_type=Path),
    metavar="OLD",
    help="Older report (or its folder), used to find new and fixed failures.  [default: the baselines]",
)
@click.option(
    "--public",
    is_flag=True,
    help="For publication: include only what is already public about other people's software.",
)
@click.option(
    "--baseline",
    "baselines",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Baseline that a run used, if this project does not contain it. It is matched by file name.",
)
@click.option(
    "--artifact",
    "artifacts",
    multiple=True,
    metavar="SELECTOR=FILE",
    help="The tested artifact for --intoto, such as a wheel. Its SHA-256 becomes the subject.",
)
@click.option("--corpus", "corpus_path", type=click.Path(path_type=Path), help="Corpus that the runs used.")
def report(
    runs: tuple[Path, ...],
    output: Path,
    html: bool,
    markdown: bool,
    sarif: bool,
    intoto: bool,
    badge: bool,
    previous: Path | None,
    public: bool,
    baselines: tuple[Path, ...],
    artifacts: tuple[str, ...],
    corpus_path: Path | None,
) -> None:
    """Write an audit report of runs and fuzzing findings.

    RUN is a record written by stc run --report (.jsonl), a folder of records, the folder of a finding written
    by stc fuzz, or a folder of such folders. All other outputs are derived from report.json. Two reports over
    the same inputs differ only in the "run" object of report.json.

    \b
    Examples
      stc run --impl safetensors --report out
      stc report out -o audit --html --sarif
      stc report out findings -o audit --previous last/report.json --markdown

    Severity depends on the consequence of a failure, not on its frequency. The scales are explained in
    report.json.

    \b
    Exit status: 0 if the report was written, 1 if it was written but some lines of a
    record were unreadable, 2 if an input cannot be used or the output cannot be written.
    """
    try:
        records, findings = read_inputs(runs)
        manifest = load_manifest(corpus_path)
        files = {path.name: path for path in baselines}
        known = {i: known_failures(record, files, manifest) for i, record in enumerate(records)}
        made = build_report(records, manifest, fuzz=findings, known=known, public=public)
        older = None if previous is None else load_report(previous)
        # Generate everything before writing anything, so that no partial report is left behind.
        texts = {REPORT: report_text(made)}
        if html:
            texts["report.html"] = report_html(made, older)
        if markdown:
            texts["report.md"] = summary_markdown(made, older)
        if sarif:
            texts["report.sarif"] = _json(sarif_log(made))
        if intoto:
            hashes = _artifacts(made, artifacts)
            texts |= _each(statements(made, hashes), "test-result-{}.intoto.json")
        if badge:
            texts |= _each(badges(made), "badge-{}.json")
    except (AuditError, RecordError, KnownError, ManifestError) as err:
        raise UnusableError(str(err)) from err
    write_texts(output, texts)
    found, runs_said = len(made.findings), len(made.implementations)
    click.echo(f"{plural(found, 'finding')} in {plural(runs_said, 'run')}: {output / REPORT}")
    bad = [record for record in records if record.left_out]
    for record in bad:
        for text in record.problems[: min(record.left_out, LEFT_OUT_NAMED + 1)]:
            click.echo(f"note: {visible(record.label)}: {visible(text, 400)}", err=True)
    if bad:
        raise SystemExit(1)


def _artifacts(made: Report, given: Sequence[str]) -> dict[str, str]:
    labels: dict[str, list[str]] = {}
    for who in made.implementations:
        labels.setdefault(who.selector, []).append(who.label)
    out: dict[str, str] = {}
    for text in given:
        # Selectors may contain an equals sign (name==version); file names rarely do.
        selector, mark, name = text.rpartition("=")
        if not mark or selector not in labels:
            raise AuditError(
                f"--artifact {visible(text)}: there is no run of {visible(selector or text)}; write "
                "SELECTOR=FILE"
            )
        try:
            data = read_whole(name, MAX_ARTIFACT)
        except OSError as err:
            raise AuditError(f"--artifact {visible(str(err), 300)}") from err
        out |= dict.fromkeys(labels[selector], hashlib.sha256(data).hexdigest())
    return out


def _json(document: Any) -> str:
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _each(documents: dict[str, dict[str, Any]], name: str) -> dict[str, str]:
    slugs: list[str] = []
    for label in documents:
        slugs.append(unused(file_slug(label), slugs))
    return {name.format(slug): _json(one) for slug, one in zip(slugs, documents.values(), strict=True)}


def read_inputs(paths: Sequence[Path]) -> tuple[list[RunRecord], list[FuzzFinding]]:
    """Read distinct records and findings from files and folders. Raises AuditError, RecordError."""
    records: list[Path] = []
    findings: list[Path] = []
    for path in paths:
        if not path.is_dir():
            (findings if path.name == DOCUMENT else records).append(path)
            continue
        found = sorted(path.glob("*.jsonl"))
        below = sorted(document.parent for document in path.glob(f"*/{DOCUMENT}"))
        inside = [path] if (path / DOCUMENT).exists() else below
        if not found and not inside:
            raise AuditError(
                f"{visible(str(path))}: contains neither run records (*.jsonl) nor findings "
                f"({DOCUMENT}); create them with: stc run --report DIR, stc fuzz"
            )
        records += found
        findings += inside
    # Count a run only once if it is given both by name and through its folder.
    records, findings = _once(records), _once(findings)
    contents: dict[bytes, Any] = {}
    runs = [_described(read_record(path, contents)) for path in records]
    return runs, [load_fuzz_finding(path) for path in findings]


def _described(record: RunRecord) -> RunRecord:
    who = record.implementation
    found = described(str(who["selector"]))
    if found is not None:
        descriptor, entry = found
        who |= {
            "kind": descriptor.kind_of(entry),
            "title": descriptor.title,
            "homepage": descriptor.homepage,
            "issues": descriptor.issues,
            "parser": descriptor.parser_of(entry),
            "claim": entry.claim,
            "scope": " ".join(filter(None, (f"Called: {entry.about}.", descriptor.note, entry.scope))),
        }
    return record


def _once(paths: Sequence[Path]) -> list[Path]:
    return list({path.resolve(): path for path in paths}.values())


def known_failures(record: RunRecord, files: Mapping[str, Path], manifest: Manifest) -> list[BaselineEntry]:
    """Return the baseline entries that apply to a run, or an empty list if its baseline file is missing."""
    name = record.header.get("baseline")
    if not name:
        return []
    name = Path(name).name
    path = files.get(name, own_baselines().get(name))
    if path is None or not path.exists():
        click.echo(
            f"note: {visible(record.label)}: baseline {visible(name)} was not found; give --baseline",
            err=True,
        )
        return []
    cases = manifest.by_id.keys()
    loaded = load_baseline(path, record.version, record.header["profile"], record.header.get("device"))
    return [
        BaselineEntry(
            entry.case,
            tuple(filter(entry.covers, cases if entry.is_glob else cases & {entry.case})),
            entry.steps,
            entry.why,
            entry.issue,
            entry.review_by.isoformat() if entry.review_by else "",
        )
        for entry in loaded.entries
    ]


def write_texts(folder: Path, texts: Mapping[str, str]) -> None:
    """Write files, given as a mapping of names to contents, to a folder. Raises UnusableError.

    The folder is created if it is missing.
    """
    path = folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".jsonl":  # past runs cannot be regenerated
                write_file(path, [text.encode()])
            else:
                write_text(path, text)
    except OSError as err:
        why = visible(err.strerror or str(err))
        raise UnusableError(f"{visible(str(path))}: {why}; give another folder with -o") from err
