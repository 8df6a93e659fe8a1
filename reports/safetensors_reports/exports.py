"""Export a report as SARIF 2.1.0, in-toto statements and badges.

A SARIF result is located at the input that represents its finding, or at the corpus if there is no file. The
statements are not signed, because only the person who ran the tests can sign them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from safetensors_reference.check.sarif import (
    LEVELS,
    MAX_RESULTS,
    SCHEMA,
    cwe_reference,
    message,
    message_text,
    rule_name,
    taxonomies,
)
from safetensors_reference.check.statement import PREDICATE, STATEMENT
from safetensors_reference.rules.cwe import CWE_NAMES

from .audit.inputs import AuditError
from .audit.report import Finding, Report, RuleRow
from .labels import CLEAN, LETTERS, OVERALL
from .page.results import FAILED, FINE, UNSUPPORTED, WARNED, fine_words, tally
from .severity import CONFORMANCE_ONLY, NOT_KNOWN, SECURITY_SEVERITY, SEVERITIES
from .text import digest, listed, plural, slug, visible

MAX_TAGS = 20
LEVEL_OF = {
    "critical": "error",
    "high": "error",
    "medium": "warning",
    "low": "warning",
    "informational": "note",
}
CORPUS_URI = "corpus/corpus.json"
NO_RULE = RuleRow(
    level="must",
    title=NOT_KNOWN,
    statement="The answer is wrong, but it is not known which part of the input caused it.",
    source="fuzzing findings",
    codes=[],
)
"""Placeholder for an unknown rule; code scanning services require a rule for every result."""
INCOMPLETE = RuleRow(
    level="must",
    title="results are complete",
    statement="A run that reports a problem lacks results, so nothing follows from the absence of findings.",
    source="run records",
    codes=[],
)
"""Rule for the problems of a run, which would otherwise look like a run without findings."""
_INCOMPLETE_ID = slug(INCOMPLETE.title)
_LISTS = {"passedTests": FINE, "warnedTests": WARNED | {UNSUPPORTED}, "failedTests": FAILED}
"""List of cases in a statement -> kinds of verdict of these cases."""
_PROPERTIES = ("id", "implementation", "verdict", "severity", "difficulty", "case_count", "expected_failure")
Json = dict[str, Any]


def sarif_log(report: Report) -> Json:
    findings = report.findings[:MAX_RESULTS]
    about = dict(report.rules)
    if any(finding.rule is None for finding in findings):
        about[slug(NOT_KNOWN)] = NO_RULE
    problems = [(who.label, text) for who in report.implementations for text in who.problems]
    if problems:
        about[_INCOMPLETE_ID] = INCOMPLETE
    index = {rule: i for i, rule in enumerate(about)}
    files: dict[str, Json] = {}
    results = [_result(finding, index[_rule_id(finding)], files) for finding in findings]
    results += [
        {
            "ruleId": _INCOMPLETE_ID,
            "ruleIndex": index[_INCOMPLETE_ID],
            "level": "error",
            "message": message(f"{label}: {text}"),
            "locations": [{"physicalLocation": {"artifactLocation": _artifact(CORPUS_URI, files)}}],
            "partialFingerprints": {"problem/v1": digest([label, text])},
        }
        for label, text in problems
    ]
    caveats = list(report.caveats)
    if left := len(report.findings) - len(findings):
        caveats.append(f"this log leaves out {plural(left, 'more finding')}")
    notes = [{"level": "warning", "message": message(text)} for text in caveats]
    driver = {
        "name": "stc report",
        "organization": "safetensors-conformance",
        "version": report.implementations[0].suite,
        "shortDescription": {"text": "Audits readers and writers of the safetensors format."},
        "rules": [_rule(rule, row, findings) for rule, row in about.items()],
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


def _rule(rule: str, about: RuleRow, findings: Sequence[Finding]) -> Json:
    mine = [f for f in findings if _rule_id(f) == rule]
    # Services sort by rule, so a rule gets the severity of its worst finding.
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
        # GitHub shows rules that have this number as security alerts, so only weaknesses get one.
        out["properties"]["security-severity"] = f"{SECURITY_SEVERITY[worst]:.1f}"
    # A fuzzing finding from another version of the suite may refer to weaknesses that are unknown here.
    known = [n for n in numbers if n in CWE_NAMES]
    if known:
        out["relationships"] = [{"target": cwe_reference(n), "kinds": ["relevant"]} for n in known]
    return out


def _result(finding: Finding, rule_index: int, files: dict[str, Json]) -> Json:
    parts = [finding.title]
    if finding.got:
        parts.append(f"Expected {finding.expected}; got {finding.got}.")
    if finding.reproducer:
        parts.append(f"Reproduce: {finding.reproducer}")
    parts.append(finding.recommendation)
    # The id distinguishes implementations and is stable across versions.
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
        "properties": {key: getattr(finding, key) for key in _PROPERTIES},
    }
    if finding.weaknesses:
        out["taxa"] = [cwe_reference(w.id) for w in finding.weaknesses if w.id in CWE_NAMES]
    return out


def _artifact(uri: str, files: dict[str, Json]) -> Json:
    files.setdefault(uri, {"location": {"uri": uri}, "roles": ["analysisTarget"]})
    return {"uri": uri, "index": list(files).index(uri)}


def _location(finding: Finding, files: dict[str, Json]) -> Json:
    evidence = finding.evidence
    stored = evidence if evidence and evidence.file else None
    uri = f"corpus/{stored.file}" if stored else CORPUS_URI
    physical: Json = {"artifactLocation": _artifact(uri, files)}
    if stored:
        files[uri]["length"] = stored.size
        if where := stored.where:
            physical["region"] = {"byteOffset": where.start, "byteLength": where.end - where.start}
    location: Json = {"physicalLocation": physical}
    if evidence and not finding.redacted:
        location["logicalLocations"] = [{"fullyQualifiedName": evidence.case, "kind": "resource"}]
    return location


def statements(report: Report, artifacts: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Return one in-toto statement per label; ``artifacts`` maps labels to SHA-256 digests.

    Cases without a result are not listed, and the result of an incomplete run is never better than WARNED.
    Raises AuditError for a missing artifact.
    """
    labels = [one.label for one in report.implementations]
    if missing := [label for label in labels if label not in artifacts]:
        raise AuditError(
            f"--intoto: every statement needs an artifact, but {visible(listed(missing, 4), 300)} has "
            "none; give the tested file with --artifact SELECTOR=FILE"
        )
    return {label: _statement(report, i, artifacts[label]) for i, label in enumerate(labels)}


def _statement(report: Report, index: int, artifact: str) -> dict[str, Any]:
    implementation = report.implementations[index]
    lists = {}
    for name, kinds in _LISTS.items():
        letters = {LETTERS[kind] for kind in kinds}
        lists[name] = [row.case for row in report.cases.rows if row.verdicts[index] in letters]
    counts = tally(implementation)
    # Unsupported cases do not count as passes, but they do not prevent PASSED if they are declared.
    clean = implementation.word == CLEAN and implementation.ended == "complete" and not counts.warned
    failed = implementation.contradictions or counts.failed
    settings = {
        "profile": implementation.profile,
        "limits": implementation.limits,
        "steps": implementation.steps,
        "suite": implementation.suite,
    }
    numbers = {
        "due": counts.due,
        fine_words(report): counts.fine,
        "unsupported": counts.unsupported,
        "warned": counts.warned,
        "failed": counts.failed,
        "lost": counts.lost,
        "notRun": counts.not_run,
    }
    corpus = {
        "name": "corpus.json",
        "digest": {"sha256": implementation.corpus},
        "annotations": {"version": report.corpus.version, **numbers},
    }
    rules = {"name": "rules.toml+choices.toml", "digest": {"sha256": report.rule_book.sha256}}
    chosen = {"name": "settings", "digest": {"sha256": digest(settings)}, "annotations": settings}
    return {
        "_type": STATEMENT,
        "subject": [
            {"name": f"{implementation.name}@{implementation.version}", "digest": {"sha256": artifact}}
        ],
        "predicateType": PREDICATE,
        "predicate": {
            "result": "FAILED" if failed else "PASSED" if clean else "WARNED",
            "configuration": [corpus, rules, chosen],
            **lists,
        },
    }


def badges(report: Report) -> dict[str, dict[str, Any]]:
    out = {}
    for implementation in report.implementations:
        counts = tally(implementation)
        message = f"{implementation.word} · {counts.fine:,}/{counts.due:,}"
        if report.public and implementation.word != fine_words(report):
            # This number is not the number of passes, so the badge says what it counts.
            message += f" {fine_words(report)}"
        if counts.not_run:
            message += f" · {counts.not_run:,} not run"
        out[implementation.label] = {
            "schemaVersion": 1,
            "label": f"safetensors conformance: {visible(implementation.label, 60)}",
            "message": message,
            "color": OVERALL[implementation.word].badge,
        }
    return out
