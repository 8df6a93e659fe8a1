"""Findings of an audit: one per implementation, rule and verdict, with the smallest of its worst inputs.

The evidence for a verdict consists of strings, which the messages of a run show as well.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from safetensors_corpus import Case, Manifest, ManifestError
from safetensors_corpus.judging.verdicts import fails, kind_of
from safetensors_corpus.manifest import AREA_OF_RULES
from safetensors_reference import Fault, rule_book
from safetensors_reference.header.explain import draw_layout
from safetensors_reference.header.read import explain_source
from safetensors_reference.rules.cwe import CWE_NAMES, CWE_OF_CODE
from safetensors_reference.rules.faults import render_path
from safetensors_reference.source import MemorySource
from safetensors_reference.text import hexview, shorten

from ..causes.failures import MAX_EXPLAINED
from ..fuzz_finding import Weakness
from ..record.run import MAX_VERSION, Row, RunRecord, reproducer
from ..severity import (
    NO_WEAKNESS,
    NOT_KNOWN,
    OUTCOMES,
    SEVERITIES,
    difficulty,
    outcome_class,
    recommendation,
    severity,
    to_upstream,
    weaknesses_of,
)
from ..text import affects_version, digest, plural, same_project, slug, stable, unused, visible
from .disclosure import OWN
from .inputs import BaselineEntry, FuzzFinding
from .report import EvidenceRow, Finding, FuzzRow, ReferenceRow, Where

_OUTCOMES = list(OUTCOMES)
_SEVERITIES = list(SEVERITIES)
MAX_REQUEST = 1_000
MAX_CARRIED = 16 << 10
Key = tuple[str, str, str]
"""Label, rule and verdict; the rule is empty if it is not known."""
MAX_NAME = 80
MAX_GOT = 300


class Evidence(NamedTuple):
    """Explanation of one input; only the code is known if the input is large or not a single file."""

    code: str | None
    where: Where | None = None
    layout: str = ""
    hex: str = ""


def evidence_of(case: Case, rule: str) -> Evidence:
    return _evidence_in(_small_file(case), case.codes, rule)


def _small_file(case: Case) -> bytes | None:
    single = case.input.file is not None and not case.input.files
    if case.kind == "index" or not single or case.size > MAX_EXPLAINED:
        return None
    try:
        return case.read_input()
    except ManifestError:
        # A corpus without its files still has rules, sizes and digests.
        return None


def _evidence_in(data: bytes | None, codes: Sequence[str], rule: str) -> Evidence:
    code = codes[0] if codes else None
    if data is None:
        return Evidence(code)
    explanation = explain_source(MemorySource(data))
    layout = ""
    if explanation.data_start is not None and explanation.ranges:
        layout = draw_layout(explanation.ranges, explanation.size - explanation.data_start)

    def rank(fault: Fault) -> tuple[bool, int, bool]:
        place = codes.index(fault.code) if fault.code in codes else len(codes)
        return fault.rule != rule or place == len(codes), place, fault.rule != rule

    fault = min([*explanation.faults, *explanation.tolerated], key=rank, default=None) if codes else None
    if fault is None:
        return Evidence(code, None, layout, hexview(data, 0, 0))
    path = None if fault.path is None else render_path(fault.path)
    where = Where(fault.start, fault.end, path, fault.message)
    return Evidence(fault.code, where, layout, hexview(data, fault.start, fault.end))


def expected_text(case: Case, profile: str | None) -> str:
    demand, why = case.expect, ""
    if demand is None:
        option = rule_book().choices[case.choice or ""].expected(profile)
        if option is None or option not in case.options:
            return f"one of the options of choice {case.choice}: {', '.join(case.options)}"
        under = f", profile {profile}" if profile else ""
        demand, why = case.options[option], f" [choice {case.choice}: {option}{under}]"
    if demand.outcome == "reject":
        return f"reject ({', '.join(demand.codes)}){why}" if demand.codes else f"reject{why}"
    content = demand.content or {}
    count = content.get("tensor_count", len(content["tensors"]) if "tensors" in content else None)
    return f"accept{why}" if count is None else f"accept, {plural(count, 'tensor')}{why}"


def got_text(row: Mapping[str, Any]) -> str:
    outcome, detail, message = row["outcome"], row.get("detail") or "", row.get("message") or ""
    if fails(row["verdict"], strict=True) and detail:
        return visible(detail if detail.startswith(outcome) else f"{outcome}, but {detail}", MAX_GOT)
    if outcome != "accept":
        return visible(f"{outcome}: {message}" if message else outcome, MAX_GOT)
    content = row.get("content") or {}
    tensors = content.get("tensors")
    count = None if tensors is None else content.get("tensor_count", len(tensors))
    return "accept" if count is None else f"accept, {plural(count, 'tensor')}"


@dataclass(frozen=True)
class FailingInput:
    """A case or a fuzzing finding (``item``), together with the result of an implementation."""

    row: Row
    codes: tuple[str, ...] = ()
    size: int = 0
    case: Case | None = None
    item: FuzzFinding | None = None

    @property
    def outcome(self) -> str:
        return outcome_class(self.row)

    @property
    def severity(self) -> str:
        numbers = [n for code in self.codes[:1] for n in CWE_OF_CODE.get(code, ())]
        return severity(self.outcome, self.row["step"], numbers)

    @property
    def rank(self) -> tuple[Any, ...]:
        # Prefer a small file to a call without a file, because a call has no bytes to show. Steps on a device
        # come last.
        grade = (_SEVERITIES.index(self.severity), _OUTCOMES.index(self.outcome))
        case, step = self.row["case"], self.row["step"]
        return *grade, self.size == 0, self.size, case, step == "device", step

    @property
    def data(self) -> bytes | None:
        if self.case is not None:
            return _small_file(self.case)
        # An index and its shards are several files.
        return self.item.entry if self.item and self.row["step"] != "index" else None


def _fuzz_input(item: FuzzFinding, selector: str) -> FailingInput:
    document = item.document
    got = document.got[selector]
    row = {
        "verdict": document.verdict,
        "outcome": document.outcome(selector),
        "message": got,
        "detail": got,
        "step": document.step,
        "case": item.slug,
    }
    return FailingInput(row, document.codes, document.size.now, item=item)


@dataclass
class _Group:
    selector: str
    name: str
    version: str
    profile: str | None = None
    device: str = ""
    parser: str = ""
    rows: list[Row] = field(default_factory=list)
    fuzz: list[FuzzFinding] = field(default_factory=list)


def collect_findings(
    runs: Sequence[tuple[str, RunRecord]],
    manifest: Manifest,
    fuzz: Sequence[FuzzFinding] = (),
    known: Mapping[str, Sequence[BaselineEntry]] | None = None,
) -> tuple[list[Finding], dict[str, bytes]]:
    groups: dict[Key, _Group] = {}
    for label, record in runs:
        _add_run(groups, label, record)
    _add_fuzz(groups, runs, fuzz)
    names = _ids(groups)
    findings: list[Finding] = []
    inputs: dict[str, bytes] = {}
    for key, group in groups.items():
        cases = [(row, manifest.by_id.get(row["case"])) for row in group.rows]
        options = [FailingInput(row, c.codes, c.size, c) if c else FailingInput(row) for row, c in cases]
        options += [_fuzz_input(item, group.selector) for item in group.fuzz]
        shown = min(options, key=lambda option: option.rank)
        data = shown.data
        evidence = _evidence(shown, data, key[1], manifest)
        if data is not None and evidence.input:
            inputs[evidence.input] = data
        entries = (known or {}).get(key[0], ())
        findings.append(_finding(key, group, shown, evidence, names[key], manifest, entries))
    findings.sort(key=lambda f: (_SEVERITIES.index(f.severity), _OUTCOMES.index(f.outcome or ""), f.id))
    return findings, inputs


def _add_run(groups: dict[Key, _Group], label: str, record: RunRecord) -> None:
    book = rule_book()
    device = record.header.get("device") or ""
    parser = visible(str(record.implementation.get("parser") or ""), 80)
    who = record.selector, record.name, record.version, record.header["profile"], device, parser

    def add(rule: str, verdict: str, rows: Sequence[Row]) -> None:
        # A record of another corpus may refer to rules that this version does not know.
        if rule in book.rules and rows:
            groups.setdefault((label, rule, verdict), _Group(*who)).rows.extend(rows)

    for row, failures in record.failing:
        for failed in failures:
            if fails(failed["verdict"], strict=True):
                charged = {**row, **{key: failed[key] for key in ("verdict", "property", "detail")}}
                add(failed["rule"], kind_of(failed["verdict"]), [charged])
    for summary in record.choices:
        choice = book.choices.get(summary["choice"])
        if kind_of(summary["verdict"]) == "choice-inconsistent" and choice is not None:
            answer = {"verdict": summary["verdict"], "detail": summary.get("detail", "")}
            members = [{**r, **answer} for r in record.results if r.get("choice") == choice.id]
            add(choice.rule, "choice-inconsistent", members)


def _add_fuzz(
    groups: dict[Key, _Group], runs: Sequence[tuple[str, RunRecord]], fuzz: Sequence[FuzzFinding]
) -> None:
    ran = {(r.selector, r.version): label for label, r in runs}
    for item in sorted(fuzz, key=lambda f: (f.slug, f.digest)):
        document = item.document
        for selector in sorted(document.got):
            version = shorten(document.versions.get(selector, "unknown"), MAX_VERSION)
            alone = selector if version == "unknown" else f"{selector} {version}"
            name = selector.partition("==")[0]
            name = name if name.startswith(("py:", "cmd:", "exit:")) else name.partition(":")[0]
            key = (
                ran.get((selector, version), alone),
                next((rule.id for rule in document.rules), ""),
                kind_of(document.verdict),
            )
            groups.setdefault(key, _Group(selector, name, version)).fuzz.append(item)


def _ids(groups: Mapping[Key, _Group]) -> dict[Key, str]:
    labels: dict[str, set[str]] = {}
    for key, group in groups.items():
        labels.setdefault(group.selector, set()).add(key[0])
    out: dict[Key, str] = {}
    taken: set[str] = set()
    for key, group in groups.items():
        who = group.selector if len(labels[group.selector]) == 1 else key[0]
        if len(who) > MAX_NAME:  # this must be safe on a command line and as an anchor on a page
            who = f"{who[:MAX_NAME]} {digest(who)[:8]}"
        out[key] = unused(slug(f"{who} {key[1] or NOT_KNOWN} {key[2]}"), taken)
        taken.add(out[key])
    return out


def _finding(
    key: Key,
    group: _Group,
    shown: FailingInput,
    evidence: EvidenceRow,
    name: str,
    manifest: Manifest,
    known: Sequence[BaselineEntry],
) -> Finding:
    label, rule_id, verdict = key
    cases = sorted({row["case"] for row in group.rows})
    weaknesses = weaknesses_of(shown.outcome, shown.row, CWE_OF_CODE.get(evidence.code or "", ()))
    about_files = rule_id[:3] in AREA_OF_RULES and group.parser != group.name
    # A program accepts whatever its parser accepts, but it may reject more.
    upstream = group.parser if about_files and shown.outcome != "reject" else ""
    advice = recommendation(shown.outcome, evidence.code, rule_id, shown.row.get("property", ""))
    if shown.item is not None:
        expected, again = stable(shown.item.document.expected), shown.item.document.reproduce
        fingerprint = shown.item.digest
    else:
        fingerprint = _case_digest(shown.case) if shown.case else ""
        expected = expected_text(shown.case, group.profile) if shown.case else ""
        device = group.device if shown.row["step"] == "device" else None
        again = reproducer(group.selector, shown.row["case"], group.profile, device)
    return Finding(
        id=name,
        title=f"{stable(label, 80)} {_predicate(shown, rule_id)}",
        implementation=label,
        rule=rule_id or None,
        verdict=verdict,
        outcome=shown.outcome,
        severity=shown.severity,
        difficulty=difficulty(shown.row["step"]),
        weaknesses=[Weakness(n, CWE_NAMES[n]) for n in weaknesses],
        steps=sorted({r["step"] for r in group.rows} | {f.document.step for f in group.fuzz}),
        expected=expected,
        got=stable(got_text(shown.row)),
        case_count=len(cases),
        cases=cases,
        fuzz=[
            FuzzRow(f.slug, f.digest, d.size.now, d.seed, d.engine, d.reproduce)
            for f, d in ((f, f.document) for f in group.fuzz)
        ],
        evidence=evidence,
        fingerprint=fingerprint,
        reproducer=again,
        upstream=upstream,
        recommendation=to_upstream(advice, upstream),
        references=_references(group.name, group.version, cases, manifest, known),
        expected_failure=bool(group.rows) and all(r.get("expected_failure", False) for r in group.rows),
        own=group.name == OWN,
        redacted=False,
    )


def _references(
    name: str, version: str, cases: Sequence[str], manifest: Manifest, known: Sequence[BaselineEntry]
) -> list[ReferenceRow]:
    """Return the public reports about failed cases; ``current`` reports are about the tested version."""
    references: dict[tuple[str, bool], set[str]] = {}
    for case_id in cases:
        case = manifest.by_id.get(case_id)
        for bug in case.affects if case else ():
            if same_project(name, bug["project"]):
                key = (bug["reference"], affects_version(bug["versions"], version))
                references.setdefault(key, set()).add(case_id)
    for entry in known:
        if entry.issue.startswith("https://"):
            for case_id in set(entry.cases).intersection(cases):
                references.setdefault((entry.issue, True), set()).add(case_id)
    return [
        ReferenceRow(reference, current, sorted(ids))
        for (reference, current), ids in sorted(references.items())
    ]


def _evidence(shown: FailingInput, data: bytes | None, rule: str, manifest: Manifest) -> EvidenceRow:
    case, size = shown.case, shown.size
    seen = _evidence_in(data, shown.codes, rule)
    where = seen.where
    if where is None and size:
        what, part = "input", "single byte" if shown.codes else "part of it"
        if shown.row["step"] in ("write", "sharded"):
            what, part = "previous file", "part of it"
        where = Where(0, size, None, f"the whole {what}; no {part} is wrong")
    action = shown.item.document.action if shown.item else case.action if case else None
    stored = case.input.file if case else None
    inside = stored is not None and stored.is_relative_to(manifest.root)
    return EvidenceRow(
        case=shown.row["case"],
        title=case.title if case else "",
        file=stored.relative_to(manifest.root).as_posix() if stored and inside else None,
        size=size,
        code=seen.code,
        where=where,
        request=stable(json.dumps(action), MAX_REQUEST) if action else None,
        layout=seen.layout,
        hex=seen.hex,
        # Large inputs and inputs that consist of several files are not included in the report.
        input=hashlib.sha256(data).hexdigest() if data is not None and len(data) <= MAX_CARRIED else None,
    )


def _case_digest(case: Case) -> str:
    if case.sha256 and case.action is None:
        return case.sha256
    files = [[item.path, item.sha256] for item in case.input.files]
    return digest([case.sha256, case.input.entry, files, dict(case.action) if case.action else None])


def _predicate(shown: FailingInput, rule_id: str) -> str:
    objects = {
        "slice": "requests",
        "write": "calls of its writer",
        "index": "indexes",
        "sharded": "sharded saves",
        "export": "exports",
    }.get(shown.row["step"], "files")
    if not rule_id:
        return f"{OUTCOMES[shown.outcome]} {objects} ({NOT_KNOWN})"
    rule = rule_book().rules[rule_id]
    tolerated = shown.outcome in NO_WEAKNESS or not shown.codes or shown.row["step"] == "export"
    about = "about" if tolerated else "that break"
    verb = f"{OUTCOMES[shown.outcome]} {objects} {about}"
    if shown.outcome == "content" and shown.row["step"] in ("write", "sharded", "export"):
        verb = "writes files that differ from the given data, contrary to"
    return f"{verb} {rule.id} ({rule.title})"
