"""Exports of a report for other tools: SARIF 2.1.0, in-toto statements and badges.

SARIF is what code scanning services take: one result per finding, at the input that speaks for it. Paths are
those of the corpus in this project's repository; a finding without a file is at the corpus itself.

In-toto is a Statement v1 with the predicate test-result v0.1, one per implementation. It is not signed here:
a signature says who ran the tests, which only the one who ran them can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
from ..text import digest, listed, slug, visible
from .inputs import AuditError
from .report import CLEAN, LETTERS, RuleRow
from .severity import CONFORMANCE_ONLY, SECURITY_SEVERITY, SEVERITIES
from .tally import FAILED, FINE, UNSUPPORTED, WARNED, fine_words, tally

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
_LISTS = tuple(frozenset(LETTERS[kind] for kind in kinds) for kinds in (FINE, WARNED | {UNSUPPORTED}, FAILED))
"""Letters of the cases in the three lists of a statement. Its format has no list for what is no success and
no fault either: what is unsupported is warned of."""
COLORS = {
    "conformant": "brightgreen",
    "wrong files": "orange",
    "unguarded": "orange",
    "late": "yellow",
    "strict": "yellow",
    "lenient": "orange",
    "misses": "orange",
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


def statements(report: Report, artifacts: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Return an in-toto statement per implementation by label.

    Test names are case ids; cases that were not run, not asked or lost to the adapter are in no list, and a
    run that lacks any of those due is at best WARNED. A report for published pages names no cases. The
    numbers are those of every other form of the report.

    Args:
        report: the report.
        artifacts: label -> SHA-256 of what was tested.

    Raises:
        AuditError: of an implementation nobody says which bytes were tested, so that there is no subject.
    """
    lost = [who.label for who in report.implementations if who.label not in artifacts]
    if lost:
        raise AuditError(
            f"--intoto: a statement is about bytes, and none are given for {visible(listed(lost, 4), 300)}; "
            "give what was tested: --artifact SELECTOR=FILE"
        )
    return {
        who.label: _statement(report, i, artifacts[who.label]) for i, who in enumerate(report.implementations)
    }


def _statement(report: Report, index: int, artifact: str) -> dict[str, Any]:
    who = report.implementations[index]
    rows = [(row.case, row.verdicts[index]) for row in report.cases.rows]
    lists = [[case for case, letter in rows if letter in letters] for letters in _LISTS]
    return {
        "_type": STATEMENT,
        "subject": [{"name": f"{who.name}@{who.version}", "digest": {"sha256": artifact}}],
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
    told = tally(who)
    if who.contradictions or told.failed:
        return "FAILED"
    # What is unsupported is no success, but an implementation that declares what it lacks may be in order.
    clean = who.word == CLEAN and who.ended == "complete" and not told.warned
    return "PASSED" if clean else "WARNED"


def _configuration(report: Report, who: Implementation) -> list[dict[str, Any]]:
    settings = {
        "profile": who.profile,
        "limits": who.limits,
        "steps": who.steps,
        "suite": who.suite,
    }
    told = tally(who)
    numbers = {
        "due": told.due,
        fine_words(report): told.fine,
        "unsupported": told.unsupported,
        "warned": told.warned,
        "failed": told.failed,
        "lost": told.lost,
        "notRun": told.not_run,
    }
    corpus = {
        "name": "corpus.json",
        "digest": {"sha256": who.corpus},
        "annotations": {"version": report.corpus.version, **numbers},
    }
    rules = {"name": "rules.toml+choices.toml", "digest": {"sha256": report.rule_book.sha256}}
    chosen = {"name": "settings", "digest": {"sha256": digest(settings)}, "annotations": settings}
    return [corpus, rules, chosen]


def badges(report: Report) -> dict[str, dict[str, Any]]:
    """Return a badge per implementation by label: its word, cases due without a fault, what was not run."""
    return {who.label: _badge(report, who) for who in report.implementations}


def _badge(report: Report, who: Implementation) -> dict[str, Any]:
    told = tally(who)
    message = f"{who.word} · {told.fine:,}/{told.due:,}"
    if report.public and who.word != fine_words(report):
        # What is counted is no pass there: the number says what it is.
        message += f" {fine_words(report)}"
    if told.not_run:
        message += f" · {told.not_run:,} not run"
    return {
        "schemaVersion": 1,
        "label": f"safetensors conformance: {visible(who.label, 60)}",
        "message": message,
        "color": COLORS[who.word],
    }
