"""Files of ``stc report`` and ``stc publish``: runs and findings read, baselines found, files written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from safetensors_corpus import Manifest
from safetensors_corpus.cli.common import UnusableError
from safetensors_reports.audit.inputs import DOCUMENT, AuditError, FuzzFinding, Known, load_fuzz_finding
from safetensors_reports.record.run import RunRecord, read_record
from safetensors_reports.text import visible

from ..run.baseline import load_baseline, own_baselines


def read_inputs(paths: Sequence[Path]) -> tuple[list[RunRecord], list[FuzzFinding]]:
    """Read records and findings from files and folders, each once. Raises AuditError, RecordError."""
    records: list[Path] = []
    findings: list[Path] = []
    for path in paths:
        if not path.is_dir():
            (findings if path.name == DOCUMENT else records).append(path)
            continue
        found = sorted(path.glob("*.jsonl"))
        inside = (
            [path] if (path / DOCUMENT).exists() else sorted(p.parent for p in path.glob(f"*/{DOCUMENT}"))
        )
        if not found and not inside:
            raise AuditError(
                f"{visible(str(path))}: holds neither run records (*.jsonl) nor findings ({DOCUMENT}); "
                "make them with: stc run --report DIR, stc fuzz"
            )
        records += found
        findings += inside
    # Given by name and in its folder again, a run is still one run.
    records, findings = _once(records), _once(findings)
    return [read_record(path) for path in records], [load_fuzz_finding(path) for path in findings]


def _once(paths: Sequence[Path]) -> list[Path]:
    return list({path.resolve(): path for path in paths}.values())


def known_failures(record: RunRecord, files: Mapping[str, Path], manifest: Manifest) -> list[Known]:
    """Return the baseline's entries that hold for a run; none when its file is not here."""
    name = record.header.get("baseline")
    if not name:
        return []
    name = Path(name).name
    path = files.get(name, own_baselines().get(name))
    if path is None or not path.exists():
        click.echo(
            f"note: {visible(record.label)}: baseline {visible(name)} is not here; give --baseline", err=True
        )
        return []
    loaded = load_baseline(
        path, str(record.implementation["version"]), record.header["profile"], record.header.get("device")
    )
    return [
        Known(
            entry.case,
            tuple(case.id for case in manifest.cases if entry.covers(case.id)),
            entry.steps,
            entry.why,
            entry.issue,
            entry.review_by.isoformat() if entry.review_by else "",
        )
        for entry in loaded.entries
    ]


def write_texts(folder: Path, texts: Mapping[str, str]) -> None:
    """Write texts by file name into a folder, made when missing. Raises UnusableError."""
    path = folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            path = folder / name
            path.write_text(text, encoding="utf-8")
    except OSError as err:
        raise UnusableError(
            f"{visible(str(path))}: {err.strerror or err}; give another folder with -o"
        ) from err
