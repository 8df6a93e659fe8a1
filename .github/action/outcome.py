"""Last step: decide from the results whether the job fails. It runs in the suite's own environment."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from typing import TYPE_CHECKING

from common import Settings, annotate, kept_status, load_settings, output, step

if TYPE_CHECKING:
    from safetensors_reports.record.run import RunRecord


def not_done(settings: Settings) -> list[str]:
    """Return the parts of the job that were not completed. They fail the job regardless of ``fail-on``."""
    done = {"run": (0, 1), "fuzz": (0, 1), "report": (0,)}
    statuses = {step: kept_status(settings, step) for step in done}
    if not settings.fuzz_executions or statuses["run"] not in (0, 1):
        del statuses["fuzz"]
    words = {
        "run": "the corpus run was not completed",
        "fuzz": "fuzzing was not completed",
        "report": "there is no report",
    }
    if statuses["report"] == 1:
        words["report"] = "some lines of a run record cannot be read, so the report is incomplete"
    return [words[step] for step, status in statuses.items() if status not in done[step]]


def read_records(settings: Settings) -> list[RunRecord]:
    """Return the readable run records. An unreadable record has already made the report fail."""
    # If the action only checks files, the libraries that this import needs are not installed.
    from safetensors_reports.record.file import RecordError, read_record

    records = []
    for path in sorted(settings.runs.glob("*.jsonl")):
        try:
            records.append(read_record(path))
        except RecordError as err:
            annotate("error", str(err))
    return records


def fuzz_verdicts(settings: Settings) -> list[str]:
    """Return the verdict of each readable finding. An unreadable finding has already made the report fail."""
    from safetensors_reports.audit.inputs import AuditError, load_fuzz_finding

    verdicts = []
    for path in sorted(settings.findings.glob("*/finding.json")):
        try:
            verdicts.append(load_fuzz_finding(path).document.verdict)
        except AuditError as err:
            annotate("error", str(err))
    return verdicts


def baseline_faults(settings: Settings, record: RunRecord) -> list[str]:
    """Return why a baseline cannot excuse security failures: it is unreadable, or a review is overdue."""
    from safetensors_reports.known_failures import KnownError, load_baseline

    name = record.header.get("baseline")
    path = Path(settings.baseline or name or "")
    if not path.is_file():
        return []
    try:
        loaded = load_baseline(path, str(record.implementation["version"]), settings.profile or None)
    except KnownError as err:
        return [str(err)]
    late = loaded.overdue(dt.datetime.now(dt.UTC).date())
    return [f"baseline {path}: review is overdue for {', '.join(e.case for e in late)}"] if late else []


def failures(settings: Settings) -> list[str]:
    """Return the reasons why the job fails under the input ``fail-on``."""
    from safetensors_corpus.judging.verdicts import SECURITY

    if settings.fail_on == "never":
        return []
    records = read_records(settings)
    fuzzed = fuzz_verdicts(settings)
    out = []
    if settings.fail_on == "security":
        bad = [r for record in records for r in record.results if r["verdict"] in SECURITY]
        count = sum(not r.get("expected_failure") for r in bad)
        out += [fault for record in records for fault in baseline_faults(settings, record)]
        fuzzed = [verdict for verdict in fuzzed if verdict in SECURITY]
        if count:
            out.append(f"{count:,} results are security failures that no baseline expects")
    elif kept_status(settings, "run") == 1:
        out.append("the corpus run has failures that no baseline expects, or its baseline is outdated")
    if fuzzed:
        out.append(f"fuzzing has {len(fuzzed):,} findings")
    return out


def findings_count(settings: Settings) -> str:
    """Return the number of findings in the report, or an empty string if there is no report."""
    from safetensors_reports.audit.inputs import AuditError, load_report

    path = Path(settings.report, "report.json")
    try:
        return str(len(load_report(path).findings)) if path.is_file() else ""
    except AuditError as err:
        annotate("error", str(err))
        return ""


def main() -> None:
    """Report the reasons, and exit with 1 if the job fails."""
    settings = load_settings()
    if os.environ.get("STC_UPLOADED") == "failure":
        annotate(
            "warning",
            "the SARIF log was not uploaded; the job needs the permission security-events: write, and "
            "code scanning must be enabled for the repository",
        )
    if settings.check:
        import files

        result, reasons = files.decide(settings)
        count = files.findings_count(settings)
    else:
        missing, found = not_done(settings), failures(settings)
        result, reasons = "not-run" if missing else "failed" if found else "passed", missing + found
        count = findings_count(settings)
    for reason in reasons:
        annotate("error", f"{settings.name}: {reason}")
    output(result=result, findings=count)
    print(f"{settings.name}: {result} (fail-on: {settings.fail_on})")
    raise SystemExit(int(bool(reasons)))


if __name__ == "__main__":
    step(main)
