"""The one document of an audit: built from run records and findings, in canonical order.

Everything that differs between two runs over the same inputs (times, machine, memory) stands under ``run``;
the rest is the same byte for byte.
"""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from safetensors_corpus.judging.verdicts import VERDICTS
from safetensors_corpus.publish.stats import load_reasons, rule_coverage
from safetensors_reference import rule_book

from ..differences.compare import distinct_labels
from ..schemas import schema_error
from ..text import listed, plural
from .agreement import agreement_part
from .causes import cause_rows
from .coverage import LETTERS, case_rows, matrix
from .disclosure import shown_fuzz, shown_run
from .findings import find
from .implementations import implementation
from .inputs import AuditError
from .measurements import run_part
from .references import redact
from .severity import DIFFICULTIES, OUTCOMES, SEVERITIES
from .stable_text import stable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from safetensors_corpus import Manifest

    from ..record.run import RunRecord
    from .inputs import FuzzFinding, Known

SCHEMA = 1
"""Version of the report's format; raised when a reader of reports must follow."""
SCHEMA_ID = "https://safetensors-conformance.example/schema/report.schema.json"
Report = dict[str, Any]


def build_report(
    records: Sequence[RunRecord],
    manifest: Manifest,
    *,
    fuzz: Sequence[FuzzFinding] = (),
    known: Mapping[int, Sequence[Known]] | None = None,
    public: bool = False,
) -> Report:
    """Return the report of any number of runs, at least one.

    Args:
        records: runs, in any order.
        manifest: the corpus that they used; rules, files and digests come from it.
        fuzz: findings of fuzzing runs.
        known: position of a record -> entries of its baseline.
        public: leave out how to bring about failures of other people's software that are not public.

    Raises:
        AuditError: there is no run, or the result does not fit its own schema.
    """
    if not records:
        raise AuditError("no run record; give the .jsonl files that stc run --report wrote")
    order = sorted(
        range(len(records)), key=lambda i: (records[i].label, records[i].header["profile"] or "", i)
    )
    records, entries = [records[i] for i in order], [(known or {}).get(i, ()) for i in order]
    labels = distinct_labels(records)
    if public:
        records = [shown_run(r, manifest, e) for r, e in zip(records, entries, strict=True)]
        fuzz = shown_fuzz(fuzz)
    runs = list(zip(labels, records, strict=True))
    by_label = dict(zip(labels, entries, strict=True))
    found, inputs = find(runs, manifest, fuzz, by_label)
    if public:
        found = [redact(f) for f in found]
    report: Report = {
        "$schema": SCHEMA_ID,
        "schema": SCHEMA,
        "public": public,
        "rule_book": _rule_book(),
        "corpus": _corpus(manifest),
        "implementations": [
            {
                **implementation(label, record, by_label[label], public=public),
                "causes": cause_rows(label, record, manifest, found, public=public),
            }
            for label, record in runs
        ],
        "scales": {
            "severity": SEVERITIES,
            "difficulty": DIFFICULTIES,
            "outcome": OUTCOMES,
            "verdict": VERDICTS,
        },
        "matrix": matrix(records, manifest, public=public),
        "cases": {"legend": LETTERS, "rows": [] if public else case_rows(records, manifest)},
        "coverage": _coverage(manifest),
        "agreement": agreement_part(records, labels, manifest, public=public),
        "findings": found,
        "inputs": _inputs(found, inputs),
        "rules": _rules(found),
        "choices": _choices(records),
        "fuzz_findings": len(fuzz),
        "caveats": _caveats(records, manifest),
        "run": run_part(runs, public=public),
    }
    wrong = schema_error("report", report)
    if wrong is not None:
        raise AuditError(f"report.json would not fit its schema: {wrong}; this is a defect of this program")
    return report


def report_text(report: Report) -> str:
    """Return a report as JSON text in ASCII, ending in a line break."""
    return json.dumps(report, indent=1, allow_nan=False) + "\n"


def _rule_book() -> dict[str, Any]:
    package = files("safetensors_reference.rules")
    data = b"".join(package.joinpath(name).read_bytes() for name in ("rules.toml", "choices.toml"))
    book = rule_book()
    return {
        "sha256": hashlib.sha256(data).hexdigest(),
        "rules": len(book.rules),
        "choices": len(book.choices),
    }


def _corpus(manifest: Manifest) -> dict[str, Any]:
    spec = manifest.raw["spec"]
    heavy = sum(case.heavy for case in manifest.cases)
    return {
        "version": manifest.version,
        "sha256": manifest.digest,
        "cases": len(manifest.cases),
        "heavy": heavy,
        "spec": spec,
    }


def _coverage(manifest: Manifest) -> dict[str, Any]:
    rows = rule_coverage(dict(manifest.raw), load_reasons())
    return {
        "both": sum(not row.missing for row in rows),
        "one": sum(len(row.missing) == 1 for row in rows),
        "none": sum(len(row.missing) == 2 for row in rows),
        "gaps": [
            {
                "rule": row.id,
                "level": row.level,
                "cases": row.cases,
                "missing": list(row.missing),
                "reasons": {side: row.reasons[side] for side in row.missing if side in row.reasons},
            }
            for row in rows
            if row.missing
        ],
    }


def _inputs(found: Sequence[dict[str, Any]], inputs: Mapping[str, bytes]) -> dict[str, str]:
    """Return the inputs that findings still show, by SHA-256, in Base64."""
    named = {f["evidence"]["input"] for f in found if f["evidence"]}
    return {
        name: base64.b64encode(data).decode("ascii") for name, data in sorted(inputs.items()) if name in named
    }


def _rules(found: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the rules that findings name, each once."""
    named = {finding["rule"] for finding in found if finding["rule"]}
    return {
        rule.id: {
            "level": rule.level,
            "title": rule.title,
            "statement": rule.statement,
            "source": rule.source,
            "codes": list(rule.codes),
        }
        for rule in rule_book().rules.values()
        if rule.id in named
    }


def _choices(records: Sequence[RunRecord]) -> dict[str, dict[str, Any]]:
    """Return the choices that runs took, each once."""
    named = {str(row["choice"]) for record in records for row in record.choices}
    return {
        choice.id: {
            "rule": choice.rule,
            "title": choice.title,
            "description": choice.description,
            "options": choice.options,
            "required": choice.required,
        }
        for choice in rule_book().choices.values()
        if choice.id in named
    }


def _caveats(records: Sequence[RunRecord], manifest: Manifest) -> list[str]:
    """Return why the numbers do not tell everything, a sentence each."""
    out = []
    labels = distinct_labels(records)
    other = [
        stable(label, 80)
        for label, record in zip(labels, records, strict=True)
        if record.header["corpus"]["digest"] != manifest.digest
    ]
    if other:
        out.append(
            f"run with another corpus, files and rules shown are those of this one: {listed(other, 6)}"
        )
    for label, record in zip(labels, records, strict=True):
        who = stable(label, 80)
        if record.truncated:
            out.append(f"{who}: truncated run, the record has no footer; nothing is known about the rest")
        elif record.partial:
            out.append(f"{who}: partial run, filtered or interrupted; nothing is known about the rest")
        if record.left_out:
            lines = plural(record.left_out, "line")
            out.append(f"{who}: {lines} of its record cannot be read; nothing is known about what they told")
        lost = record.counts().get("harness-error", 0)
        if lost:
            out.append(f"{who}: the adapter failed in {lost:,} cases; nothing is known about those")
        if record.problems:
            out.append(f"{who}: the run reports {len(record.problems):,} problems")
    return out
