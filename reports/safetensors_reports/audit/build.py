"""The one document of an audit: built from run records and findings, in canonical order.

Everything that differs between two runs over the same inputs (times, machine, memory) stands under ``run``;
the rest is the same byte for byte.
"""

from __future__ import annotations

import base64
import hashlib
import heapq
from importlib.resources import files
from typing import TYPE_CHECKING

from msgspec import to_builtins
from msgspec.structs import replace

from safetensors_corpus.document import Spec
from safetensors_corpus.judging.verdicts import VERDICTS
from safetensors_corpus.publish.stats import load_reasons, rule_coverage
from safetensors_corpus.typed import MisfitError, typed
from safetensors_reference import rule_book

from ..differences.compare import compare, distinct_labels
from ..text import listed, plural, stable
from ..versions import label_key
from .coverage import case_rows, matrix
from .disclosure import published_fuzz_findings, published_run, redact
from .findings import collect_findings
from .implementations import implementation
from .inputs import AuditError
from .report import (
    LETTERS,
    SCHEMA,
    SCHEMA_ID,
    AgreementPart,
    Cases,
    ChoiceText,
    ClusterRow,
    CorpusRow,
    Costly,
    Coverage,
    Finding,
    GapRow,
    PairRow,
    Report,
    RuleBookRow,
    RuleRow,
    RunPart,
    RunRow,
    Scales,
)
from .roles import about, roles
from .severity import DIFFICULTIES, OUTCOMES, SEVERITIES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from safetensors_corpus import Manifest

    from ..differences.compare import Cluster
    from ..record.run import Row, RunRecord
    from .inputs import BaselineEntry, FuzzFinding

MAX_COSTLY = 10
"""Cases named as slowest, and as hungriest, of each run."""
COMPARABLE_SHARE = 0.5
"""Share of the fullest run's plain files of which a run must have a result to be compared."""


def build_report(
    records: Sequence[RunRecord],
    manifest: Manifest,
    *,
    fuzz: Sequence[FuzzFinding] = (),
    known: Mapping[int, Sequence[BaselineEntry]] | None = None,
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
        AuditError: there is no run, one for published pages is not whole, or the result does not fit its own
            schema.
    """
    if not records:
        raise AuditError("no run record; give the .jsonl files that stc run --report wrote")
    order = sorted(
        range(len(records)),
        key=lambda i: (label_key(records[i].label), records[i].header["profile"] or "", i),
    )
    records, entries = [records[i] for i in order], [(known or {}).get(i, ()) for i in order]
    whole = records
    labels = distinct_labels(records)
    compared = records
    if public:
        pairs = list(zip(records, entries, strict=True))
        # Nothing unsafe gives a cell its colour, or an order to projects that stand beside each other.
        compared = [published_run(r, manifest, e, reported=False) for r, e in pairs]
        one = len({record.implementation["name"] for record in records}) == 1
        records = [published_run(r, manifest, e) for r, e in pairs] if one else compared
        fuzz = published_fuzz_findings(fuzz)
    runs = list(zip(labels, records, strict=True))
    by_label = dict(zip(labels, entries, strict=True))
    found, inputs = collect_findings(runs, manifest, fuzz, by_label)
    if public:
        found = [redact(f) for f in found]
    told: dict[str, set[str]] = {}
    for finding in found:
        if not finding.redacted:
            told.setdefault(finding.implementation, set()).update(finding.cases)
    report = Report(
        address=SCHEMA_ID,
        schema=SCHEMA,
        public=public,
        rule_book=_rule_book(),
        corpus=_corpus(manifest),
        implementations=[
            replace(
                implementation(label, record, by_label[label], manifest, found, public=public),
                roles=roles(run, record, manifest, public=public, told=told.get(label, ())),
                **about(run),
            )
            for (label, record), run in zip(runs, whole, strict=True)
        ],
        scales=Scales(SEVERITIES, DIFFICULTIES, OUTCOMES, VERDICTS),
        matrix=matrix(compared, manifest),
        cases=Cases(LETTERS, [] if public else case_rows(records, manifest)),
        coverage=_coverage(manifest),
        agreement=_agreement(records, labels, manifest, public=public),
        findings=found,
        inputs=_inputs(found, inputs),
        rules=_rules(found),
        choices=_choices(records),
        fuzz_findings=len(fuzz),
        caveats=_caveats(records, manifest),
        run=RunPart([_run(label, record, public=public) for label, record in runs]),
    )
    try:
        typed(to_builtins(report), Report)
    except MisfitError as err:
        raise AuditError(
            f"report.json would not fit its schema: {err}; this is a defect of this program"
        ) from err
    return report


def _rule_book() -> RuleBookRow:
    package = files("safetensors_reference.rules")
    data = b"".join(package.joinpath(name).read_bytes() for name in ("rules.toml", "choices.toml"))
    book = rule_book()
    return RuleBookRow(hashlib.sha256(data).hexdigest(), len(book.rules), len(book.choices))


def _corpus(manifest: Manifest) -> CorpusRow:
    heavy = sum(case.heavy for case in manifest.cases)
    return CorpusRow(
        manifest.version, manifest.digest, len(manifest.cases), heavy, typed(manifest.raw["spec"], Spec)
    )


def _coverage(manifest: Manifest) -> Coverage:
    rows = rule_coverage(dict(manifest.raw), load_reasons())
    gaps = [
        GapRow(
            row.id,
            row.level,
            row.cases,
            list(row.missing),
            {side: row.reasons[side] for side in row.missing if side in row.reasons},
        )
        for row in rows
        if row.missing
    ]
    both, one, none = (sum(len(row.missing) == number for row in rows) for number in range(3))
    return Coverage(both, one, none, gaps)


def _inputs(found: Sequence[Finding], inputs: Mapping[str, bytes]) -> dict[str, str]:
    named = {f.evidence.input for f in found if f.evidence}
    return {
        name: base64.b64encode(data).decode("ascii") for name, data in sorted(inputs.items()) if name in named
    }


def _rules(found: Sequence[Finding]) -> dict[str, RuleRow]:
    named = {finding.rule for finding in found}
    return {
        rule.id: RuleRow(rule.level, rule.title, rule.statement, rule.source, list(rule.codes))
        for rule in rule_book().rules.values()
        if rule.id in named
    }


def _choices(records: Sequence[RunRecord]) -> dict[str, ChoiceText]:
    named = {str(row["choice"]) for record in records for row in record.choices}
    return {
        choice.id: ChoiceText(
            choice.rule, choice.title, choice.description, dict(choice.options), choice.required
        )
        for choice in rule_book().choices.values()
        if choice.id in named
    }


def _caveats(records: Sequence[RunRecord], manifest: Manifest) -> list[str]:
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


def _run(label: str, record: RunRecord, *, public: bool) -> RunRow:
    """Return what differs between two runs over the same inputs; in public nothing that was measured.

    What a case takes tells how near to a limit it comes, and the starts of runs that follow each other how
    long each took: so published pages have the day alone.
    """
    header, footer, rows = record.header, record.footer, record.results
    out = RunRow(
        label, header.get("started"), _platform(header.get("platform"), public=public), header.get("python")
    )
    if public:
        out.started = (out.started or "")[:10] or None
        return out
    out.duration_s = footer["duration_s"] if footer else None
    out.slowest = [Costly(r["case"], r["step"], wall_ms=r["wall_ms"]) for r in _most(rows, "wall_ms")]
    out.hungriest = [
        Costly(r["case"], r["step"], peak_bytes=r["peak_bytes"]) for r in _most(rows, "peak_bytes")
    ]
    return out


def _platform(text: str | None, *, public: bool) -> str | None:
    """Return the platform; published pages leave out the build of the kernel, which is nobody's business."""
    if not public or not text:
        return text
    parts = text.split("-")
    return " ".join([parts[0], *(p for p in parts[1:] if p in ("x86_64", "aarch64", "arm64"))])


def _most(rows: Sequence[Row], name: str) -> list[Row]:
    largest = heapq.nlargest(MAX_COSTLY, (number for row in rows if (number := row.get(name) or 0) > 0))
    told = [row for row in rows if largest and (row.get(name) or 0) >= largest[-1]]
    return heapq.nlargest(MAX_COSTLY, told, key=lambda row: (row[name], row["case"], row["step"]))


def _agreement(
    records: Sequence[RunRecord], labels: Sequence[str], manifest: Manifest, *, public: bool
) -> AgreementPart:
    """Return the splits by cluster and by pair; implementations are numbers, from 0 on in their order.

    Compared are the cases that all have, so that readers of a few areas, writers and readers of indexes would
    leave next to nothing: they are set aside, and named. Published pages get the numbers alone, since a case
    that divides readers shows how to bring that about.
    """
    kept = _comparable(records, manifest)
    comparison = compare([records[i] for i in kept])
    number = dict(zip(comparison.labels, kept, strict=True))
    return AgreementPart(
        compared=comparison.compared,
        unanswered=comparison.unanswered,
        left_out=comparison.left_out,
        set_aside=[label for i, label in enumerate(labels) if i not in kept],
        content_splits=len(comparison.content_splits),
        verdict_splits=len(comparison.verdict_splits),
        clusters=[] if public else [_cluster(c, number) for c in comparison.clusters],
        pairs=[
            PairRow([number[a], number[b]], splits.content, splits.verdict)
            for (a, b), splits in comparison.pairs.items()
        ],
        notes=[stable(note, 300) for note in comparison.notes],
    )


def _comparable(records: Sequence[RunRecord], manifest: Manifest) -> list[int]:
    plain = {case.id for case in manifest.reading}
    have = [len({row["case"] for row in record.results} & plain) for record in records]
    # Filtered runs are held against the fullest of them, not against a corpus that nobody asked for.
    kept = [i for i, number in enumerate(have) if number and number >= COMPARABLE_SHARE * max(have)]
    return kept if len(kept) > 1 else list(range(len(records)))


def _cluster(cluster: Cluster, number: Mapping[str, int]) -> ClusterRow:
    groups: dict[str, list[int]] = {}
    for label, token in cluster.vector.items():
        groups.setdefault(token, []).append(number[label])
    first = cluster.splits[0]
    return ClusterRow(
        kind=cluster.kind,
        answers={token: groups[token] for token in sorted(groups)},
        dissenter=None if first.dissenter is None else number[first.dissenter],
        cases=list(cluster.cases),
        difference=stable(first.difference) if first.difference else "",
        between=[number[label] for label in first.between] if first.between else None,
    )
