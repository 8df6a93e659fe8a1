"""Exports of a report for other tools: SARIF 2.1.0, in-toto statements and badges.

SARIF is what code scanning services take: one result per finding, at the input that speaks for it. Paths are
those of the corpus in this project's repository; a finding without a file is at the corpus itself.

In-toto is a Statement v1 with the predicate test-result v0.1, one per implementation. It is not signed here:
a signature says who ran the tests, which only the one who ran them can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from safetensors_corpus.judging.verdicts import FAILING
from safetensors_reference.check.sarif import SCHEMA, message
from safetensors_reference.rules.cwe import CWE_NAMES
from safetensors_reference.rules.sarif import (
    LEVELS,
    MAX_RESULTS,
    cwe_reference,
    message_text,
    rule_name,
    taxonomies,
)

from ..recommendations import NOT_KNOWN
from ..text import digest, slug, visible
from .report import CLEAN, LETTERS, RuleRow
from .severity import CONFORMANCE_ONLY, SECURITY_SEVERITY, SEVERITIES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .report import Finding, Implementation, Report

MAX_TAGS = 20
"""Most tags of a rule that GitHub takes."""
LEVEL_OF = {
    "critical": "error",
    "high": "error",
    "medium": "warning",
    "low": "warning",
    "informational": "note",
}
NOWHERE = "corpus/corpus.json"
NO_RULE = RuleRow(
    level="must",
    title=NOT_KNOWN,
    statement="An answer is wrong, and what in the input leads to it could not be told.",
    source="findings of fuzzing",
    codes=[],
)
"""Stands for the rule where none is known, since services want every result to have one."""
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://in-toto.io/attestation/test-result/v0.1"
PASSED = frozenset(LETTERS[kind] for kind in ("pass", "choice"))
WARNED = frozenset(LETTERS[kind] for kind in ("late-reject", "not-strict", "unsupported"))
FAILED = frozenset(LETTERS[kind] for kind in FAILING - {"harness-error"})
COLORS = {
    "conformant": "brightgreen",
    "wrong files": "orange",
    "unguarded": "orange",
    "late": "yellow",
    "strict": "yellow",
    "lenient": "orange",
    "deviating": "yellow",
    "inconsistent": "orange",
    "wrong content": "red",
    "unsafe": "red",
    "not fully known": "lightgrey",
    "no fault shown": "lightgrey",
}
"""Word for an implementation -> colour of its badge. The word is always there too, never the colour alone."""
Json = dict[str, Any]


def sarif_log(report: Report) -> Json:
    """Return the SARIF log of a report's findings."""
    found = report.findings[:MAX_RESULTS]
    about = dict(report.rules)
    if any(finding.rule is None for finding in found):
        about[slug(NOT_KNOWN)] = NO_RULE
    rules = list(about)
    index = {rule: i for i, rule in enumerate(rules)}
    files: dict[str, Json] = {}
    results = [_result(finding, index[_rule_id(finding)], files) for finding in found]
    notes = [{"level": "warning", "message": message(text)} for text in report.caveats]
    left = len(report.findings) - len(found)
    if left:
        notes.append({"level": "warning", "message": message(f"{left:,} more findings are not in this log")})
    driver = {
        "name": "stc report",
        "organization": "safetensors-conformance",
        "version": report.implementations[0].suite,
        "shortDescription": {"text": "Audits readers and writers of the safetensors format."},
        "rules": [_rule(rule, about[rule], found) for rule in rules],
        "supportedTaxonomies": [{"name": "CWE", "index": 0}],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": notes}],
        "taxonomies": taxonomies(),
        "artifacts": list(files.values()),
        "results": results,
        "properties": {
            "corpus": report.corpus.sha256,
            "implementations": [who.label for who in report.implementations],
        },
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule_id(finding: Finding) -> str:
    return str(finding.rule or slug(NOT_KNOWN))


def _rule(rule: str, about: RuleRow, found: Sequence[Finding]) -> Json:
    mine = [f for f in found if _rule_id(f) == rule]
    # Services sort by the rule: it counts as bad as the worst that breaking it led to.
    worst = min((f.severity for f in mine), key=list(SEVERITIES).index, default="informational")
    numbers = sorted({w.id for f in mine for w in f.weaknesses})
    weak = set(numbers) - {CONFORMANCE_ONLY}
    tags = ["security" if weak else "correctness", *(f"external/cwe/cwe-{n:03}" for n in numbers)]
    out: Json = {
        "id": rule,
        "name": rule_name(about.title),
        "shortDescription": {"text": message_text(f"{rule}: {about.title}")},
        "fullDescription": {"text": message_text(about.statement)},
        "help": {"text": message_text(f"{about.statement}\n\nSource: {about.source}")},
        "defaultConfiguration": {"level": LEVELS[about.level]},
        "properties": {"level": about.level, "codes": about.codes, "tags": tags[:MAX_TAGS]},
    }
    if weak:
        # GitHub shows what has this number as a security alert, so that only weaknesses get one.
        out["properties"]["security-severity"] = f"{SECURITY_SEVERITY[worst]:.1f}"
    # A finding of fuzzing may name others: those of the suite that wrote it.
    known = [n for n in numbers if n in CWE_NAMES]
    if known:
        out["relationships"] = [{"target": cwe_reference(n), "kinds": ["relevant"]} for n in known]
    return out


def _result(finding: Finding, rule_index: int, files: dict[str, Json]) -> Json:
    parts = [finding.title]
    if finding.got:
        parts.append(f"Expected {finding.expected}; got {finding.got}.")
    if finding.reproducer:
        parts.append(f"Again: {finding.reproducer}")
    parts.append(finding.recommendation)
    # The id tells implementations apart and stays from version to version.
    prints = {"finding/v1": digest(finding.id)}
    if finding.fingerprint:
        prints["ruleVerdictCase/v1"] = digest([_rule_id(finding), finding.verdict, finding.fingerprint])
    out: Json = {
        "ruleId": _rule_id(finding),
        "ruleIndex": rule_index,
        "level": LEVEL_OF[finding.severity],
        "message": message("\n".join(parts)),
        "locations": [_location(finding, files)],
        "partialFingerprints": prints,
        "properties": {
            key: getattr(finding, key)
            for key in (
                "id",
                "implementation",
                "verdict",
                "severity",
                "difficulty",
                "case_count",
                "expected_failure",
            )
        },
    }
    if finding.weaknesses:
        out["taxa"] = [cwe_reference(w.id) for w in finding.weaknesses if w.id in CWE_NAMES]
    return out


def _location(finding: Finding, files: dict[str, Json]) -> Json:
    evidence = finding.evidence
    stored = evidence if evidence and evidence.file else None
    uri = f"corpus/{stored.file}" if stored else NOWHERE
    if uri not in files:
        files[uri] = {"location": {"uri": uri}, "roles": ["analysisTarget"]}
        if stored:
            files[uri]["length"] = stored.size
    physical: Json = {"artifactLocation": {"uri": uri, "index": list(files).index(uri)}}
    where = stored.where if stored else None
    if where:
        physical["region"] = {"byteOffset": where.start, "byteLength": where.end - where.start}
    location: Json = {"physicalLocation": physical}
    if evidence and not finding.redacted:
        location["logicalLocations"] = [{"fullyQualifiedName": evidence.case, "kind": "resource"}]
    return location


def statements(report: Report, artifacts: dict[str, str] | None = None) -> dict[str, dict[str, Any]]:
    """Return an in-toto statement per implementation by label.

    Test names are case ids; cases that were not run, not asked or lost to the adapter are in no list, and a
    run that lacks any of those due is at best WARNED. A report for published pages names no cases.

    Args:
        report: the report.
        artifacts: label -> SHA-256 of what was tested. Without one the subject has the digest of its name and
            version, which identifies it but proves nothing about its bytes, and says so.
    """
    known = artifacts or {}
    return {
        who.label: _statement(report, i, known.get(who.label)) for i, who in enumerate(report.implementations)
    }


def _statement(report: Report, index: int, artifact: str | None) -> dict[str, Any]:
    who = report.implementations[index]
    subject: dict[str, Any] = {"name": f"{who.name}@{who.version}", "digest": {"sha256": artifact}}
    if artifact is None:
        identity = {"name": who.name, "selector": who.selector, "version": who.version}
        subject["digest"] = {"sha256": digest(identity)}
        subject["annotations"] = {"digestOf": "name, selector and version; no artifact was hashed"}
    rows = [(row.case, row.verdicts[index]) for row in report.cases.rows]
    lists = [[case for case, letter in rows if letter in letters] for letters in (PASSED, WARNED, FAILED)]
    return {
        "_type": STATEMENT,
        "subject": [subject],
        "predicateType": PREDICATE,
        "predicate": {
            "result": _outcome(who),
            "configuration": _configuration(report, who),
            "passedTests": lists[0],
            "warnedTests": lists[1],
            "failedTests": lists[2],
        },
    }


def _outcome(who: Implementation) -> str:
    counts = who.counts
    if who.contradictions or any(counts.get(kind) for kind in FAILING - {"harness-error"}):
        return "FAILED"
    clean = who.word == CLEAN and who.ended == "complete" and not counts.get("not-strict")
    return "PASSED" if clean else "WARNED"


def _configuration(report: Report, who: Implementation) -> list[dict[str, Any]]:
    settings = {
        "profile": who.profile,
        "limits": who.limits,
        "steps": who.steps,
        "suite": who.suite,
    }
    corpus = {
        "name": "corpus.json",
        "digest": {"sha256": who.corpus},
        "annotations": {"version": report.corpus.version, "due": who.due, "notRun": who.not_run},
    }
    rules = {"name": "rules.toml+choices.toml", "digest": {"sha256": report.rule_book.sha256}}
    chosen = {"name": "settings", "digest": {"sha256": digest(settings)}, "annotations": settings}
    return [corpus, rules, chosen]


def badges(report: Report) -> dict[str, dict[str, Any]]:
    """Return a badge per implementation by label: its word, the share of cases due, and what was not run."""
    return {who.label: _badge(who) for who in report.implementations}


def _badge(who: Implementation) -> dict[str, Any]:
    # Choices and lacking features are legitimate; only what was due and is right counts.
    counts = who.counts
    right = sum(counts.get(kind, 0) for kind in ("pass", "choice", "unsupported"))
    message = f"{who.word} · {right:,}/{who.due:,}"
    if who.not_run:
        message += f" · {who.not_run:,} not run"
    return {
        "schemaVersion": 1,
        "label": f"safetensors conformance: {visible(who.label, 60)}",
        "message": message,
        "color": COLORS[who.word],
    }
