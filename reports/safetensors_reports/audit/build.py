"""Build the audit report from run records and findings.

The report is in canonical order. Everything that differs between two runs over the same inputs (times,
machine, memory) is under ``run``. The rest is identical byte for byte.
"""

from __future__ import annotations

import base64
import heapq
import json
from collections.abc import Mapping, Sequence

from msgspec import to_builtins

from safetensors_corpus import Case, Manifest
from safetensors_corpus.judging.verdicts import VERDICTS, fails, kind_of, worst
from safetensors_corpus.manifest import load_reasons, rule_coverage
from safetensors_corpus.model import Spec
from safetensors_corpus.steps import ONE_STEP_KINDS
from safetensors_corpus.typed import MisfitError, typed
from safetensors_reference import rule_book
from safetensors_reference.rules.pages import AREAS

from ..differences.compare import Cluster, compare
from ..labels import LETTERS
from ..record.run import Row, RunRecord, distinct_labels, worst_by_case
from ..severity import DIFFICULTIES, OUTCOMES, SEVERITIES
from ..text import label_key, listed, plural, stable
from .disclosure import published_fuzz_findings, published_run, redact
from .findings import collect_findings
from .implementations import implementation
from .inputs import AuditError, BaselineEntry, FuzzFinding
from .report import (
    SCHEMA,
    SCHEMA_ID,
    AgreementPart,
    AreaCells,
    CaseRow,
    Cases,
    ChoiceText,
    ClusterRow,
    CorpusRow,
    Costly,
    Coverage,
    GapRow,
    PairRow,
    Report,
    RuleBookRow,
    RuleCells,
    RuleRow,
    RunPart,
    RunRow,
    Scales,
)


def matrix(records: Sequence[RunRecord], manifest: Manifest) -> list[AreaCells]:
    """Return a row for each area, which contains a row for each rule.

    Each row has the worst verdict of every implementation.

    A failing case counts only for the rules to which its failures are attributed. ``worst`` is null if an
    implementation has no verdict, and ``known`` is each implementation's number of cases with a verdict.
    """
    carried: dict[str, set[str]] = {rule: set() for rule in rule_book().rules}
    for case in manifest.cases:
        for rule in case.rules:
            # A corpus from another version may refer to rules that this version does not know.
            carried.setdefault(rule, set()).add(case.id)
    by_record = [_verdicts_of(record) for record in records]

    def cells(rules: Sequence[str]) -> tuple[int, list[int], list[str | None]]:
        cases = set().union(*(carried[rule] for rule in rules))
        every, known, worst = set(cases), [], []
        for fine, charged in by_record:
            bad = worst_by_case(failure for rule in rules for failure in charged.get(rule, ()))
            kept = {kind: found for kind, of in fine.items() if (found := (of & cases) - bad.keys())}
            every |= bad.keys()
            known.append(sum(map(len, (*kept.values(), bad))))
            worst.append(_overall_kind([*kept, *bad.values()]) if kept or bad else None)
        return len(every), known, worst

    out = []
    for area, title in AREAS.items():
        rules = [
            RuleCells(rule.id, rule.level, rule.title, *cells([rule.id]))
            for rule in rule_book().rules.values()
            if rule.id.startswith(f"{area}-")
        ]
        out.append(AreaCells(area, title, *cells([rule.rule for rule in rules]), rules))
    return out


def _verdicts_of(record: RunRecord) -> tuple[dict[str, set[str]], dict[str, list[tuple[str, str]]]]:
    """Return the passing cases by kind of verdict, and the failures (case, verdict) by the broken rule."""
    fine: dict[str, set[str]] = {}
    for case, verdict in record.case_verdicts.items():
        if not fails(verdict, strict=True):
            fine.setdefault(kind_of(verdict), set()).add(case)
    charged: dict[str, list[tuple[str, str]]] = {}
    for row, failures in record.failing:
        for failed in failures:
            charged.setdefault(failed["rule"], []).append((row["case"], failed["verdict"]))
    return fine, charged


def _overall_kind(verdicts: Sequence[str]) -> str:
    """Return the worst failing verdict.

    If no verdict fails, a pass outweighs an unsupported case, so one unsupported dtype does not make the
    whole rule look unsupported.
    """
    kind = kind_of(worst(verdicts))
    if fails(kind, strict=True):
        return kind
    kinds = {kind_of(verdict) for verdict in verdicts}
    return next(kind for kind in ("pass", "choice", "unsupported") if kind in kinds)


def case_rows(records: Sequence[RunRecord], manifest: Manifest) -> list[CaseRow]:
    columns = [_column(record, manifest) for record in records]
    return [
        CaseRow(case.id, case.rules[0], "".join(row))
        for case, row in zip(manifest.cases, zip(*columns, strict=True), strict=True)
    ]


def _column(record: RunRecord, manifest: Manifest) -> list[str]:
    verdicts = record.case_verdicts
    reasons = record.header["corpus"].get("left_out", {})
    unsure: set[str] = set()
    # if the implementation has the step of a kind, the run may have skipped only some cases of that kind
    if record.not_run:
        steps = set(record.implementation.get("steps", ()))
        unsure = steps.intersection(ONE_STEP_KINDS) | ({"resource"} if steps & {"open", "read"} else set())

    def missing(case: Case) -> str:
        kind = case.area if case.kind == "read" else case.kind
        skipped = (case.heavy and "heavy" in reasons) or (kind in reasons and kind not in unsure)
        return "not asked" if skipped else "not run"

    return [
        LETTERS[kind_of(verdicts[case.id]) if case.id in verdicts else missing(case)]
        for case in manifest.cases
    ]


MAX_COSTLY = 10
COMPARABLE_SHARE = 0.5
"""A run is compared only if it has results for at least this share of the largest run's plain files."""


def build_report(
    records: Sequence[RunRecord],
    manifest: Manifest,
    *,
    fuzz: Sequence[FuzzFinding] = (),
    known: Mapping[int, Sequence[BaselineEntry]] | None = None,
    public: bool = False,
) -> Report:
    """Build the report of the given runs.

    If ``public`` is set, include only public details. Raises AuditError.
    """
    if not records:
        raise AuditError("there is no run record; pass the .jsonl files that stc run --report wrote")
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
        # Unsafe results must not affect the colours of cells or the order of projects.
        compared = [published_run(r, manifest, e, reported=False) for r, e in pairs]
        one = len({record.implementation["name"] for record in records}) == 1
        records = [published_run(r, manifest, e) for r, e in pairs] if one else compared
        fuzz = published_fuzz_findings(fuzz)
    runs = list(zip(labels, records, strict=True))
    by_label = dict(zip(labels, entries, strict=True))
    findings, inputs = collect_findings(runs, manifest, fuzz, by_label)
    if public:
        findings = [redact(f) for f in findings]
    shown = {f.evidence.input for f in findings if f.evidence and f.evidence.input in inputs}
    book = rule_book()
    named = {finding.rule for finding in findings}
    chosen = {str(row["choice"]) for record in records for row in record.choices}
    report = Report(
        address=SCHEMA_ID,
        schema=SCHEMA,
        public=public,
        rule_book=RuleBookRow(book.digest, len(book.rules), len(book.choices)),
        corpus=CorpusRow(
            manifest.version,
            manifest.digest,
            len(manifest.cases),
            sum(case.heavy for case in manifest.cases),
            typed(manifest.raw["spec"], Spec),
        ),
        implementations=[
            implementation(label, run, record, by_label[label], manifest, findings, public=public)
            for (label, record), run in zip(runs, whole, strict=True)
        ],
        scales=Scales(SEVERITIES, DIFFICULTIES, OUTCOMES, VERDICTS),
        matrix=matrix(compared, manifest),
        cases=Cases(LETTERS, [] if public else case_rows(records, manifest)),
        coverage=_coverage(manifest),
        agreement=_agreement(records, labels, manifest, public=public),
        findings=findings,
        inputs={name: base64.b64encode(inputs[name]).decode("ascii") for name in sorted(shown)},
        rules={
            rule.id: RuleRow(rule.level, rule.title, rule.statement, rule.source, list(rule.codes))
            for rule in book.rules.values()
            if rule.id in named
        },
        choices={
            choice.id: ChoiceText(
                choice.rule, choice.title, choice.description, dict(choice.options), choice.required
            )
            for choice in book.choices.values()
            if choice.id in chosen
        },
        fuzz_findings=len(fuzz),
        caveats=_caveats(runs, manifest),
        run=RunPart([_run(label, record, public=public) for label, record in runs]),
    )
    try:
        typed(to_builtins(report), Report)
    except MisfitError as err:
        raise AuditError(
            f"report.json would not match its schema: {err}; this is a bug in this program"
        ) from err
    return report


def report_text(report: Report) -> str:
    return json.dumps(to_builtins(report), indent=1, allow_nan=False) + "\n"


def _coverage(manifest: Manifest) -> Coverage:
    rows = rule_coverage(dict(manifest.raw), load_reasons())
    gaps = []
    for row in rows:
        if row.missing:
            reasons = {side: row.reasons[side] for side in row.missing if side in row.reasons}
            gaps.append(GapRow(row.id, row.level, row.cases, list(row.missing), reasons))
    both, one, none = (sum(len(row.missing) == number for row in rows) for number in range(3))
    return Coverage(both, one, none, gaps)


def _caveats(runs: Sequence[tuple[str, RunRecord]], manifest: Manifest) -> list[str]:
    out = []
    named = [(stable(label, 80), record) for label, record in runs]
    other = [name for name, record in named if record.header["corpus"]["digest"] != manifest.digest]
    if other:
        out.append(
            "Some runs used a different corpus; the files and rules shown here are from the current "
            f"one: {listed(other, 6)}"
        )
    for name, record in named:
        lost = record.counts().get("harness-error", 0)
        rest, those = "so the remaining results are unknown", "so those results are unknown"
        lines, cases = plural(record.left_out, "line"), plural(lost, "case")
        remarks = {
            f"the run is truncated (its record has no footer), {rest}": record.truncated,
            f"the run is partial (filtered or interrupted), {rest}": record.partial,
            f"{lines} of its record cannot be read, {those}": record.left_out,
            f"the adapter failed in {cases}, {those}": lost,
            f"the run reports {plural(len(record.problems), 'problem')}": record.problems,
        }
        out += [f"{name}: {remark}" for remark, applies in remarks.items() if applies]
    return out


def _run(label: str, record: RunRecord, *, public: bool) -> RunRow:
    """Return the data that differs between two runs.

    Published reports omit costs, because these would reveal limits.
    """
    header, footer, rows = record.header, record.footer, record.results
    out = RunRow(label, header.get("started"), header.get("platform"), header.get("python"))
    if public:
        out.started = (out.started or "")[:10] or None
        if out.platform:  # published reports leave out the kernel build
            system, *parts = out.platform.split("-")
            out.platform = " ".join([system, *(p for p in parts if p in ("x86_64", "aarch64", "arm64"))])
        return out
    out.duration_s = footer["duration_s"] if footer else None
    out.slowest = _most(rows, "wall_ms")
    out.hungriest = _most(rows, "peak_bytes")
    return out


def _most(rows: Sequence[Row], name: str) -> list[Costly]:
    measured = (row for row in rows if (row.get(name) or 0) > 0)
    most = heapq.nlargest(MAX_COSTLY, measured, key=lambda row: (row[name], row["case"], row["step"]))
    return [Costly(row["case"], row["step"], **{name: row[name]}) for row in most]


def _agreement(
    records: Sequence[RunRecord], labels: Sequence[str], manifest: Manifest, *, public: bool
) -> AgreementPart:
    """Compare the runs.

    Published reports contain only counts, because the cases would show how to trigger splits.
    """
    plain = {case.id for case in manifest.reading}
    have = [len({row["case"] for row in record.results} & plain) for record in records]
    # Compare filtered runs with the largest of them, not with the whole corpus.
    kept = [i for i, number in enumerate(have) if number and number >= COMPARABLE_SHARE * max(have)]
    kept = kept if len(kept) > 1 else list(range(len(records)))
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
