"""Findings as SARIF 2.1.0, the format that code scanning services take.

One result per finding, at the input that speaks for it. Paths are those of the corpus in this project's
repository; a finding without a file is at the corpus itself.
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
from ..text import digest, slug
from .severity import CONFORMANCE_ONLY, SECURITY_SEVERITY, SEVERITIES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .build import Report

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
NO_RULE = {
    "level": "must",
    "title": NOT_KNOWN,
    "statement": "An answer is wrong, and what in the input leads to it could not be told.",
    "source": "findings of fuzzing",
    "codes": [],
}
"""Stands for the rule where none is known, since services want every result to have one."""
Json = dict[str, Any]


def sarif_log(report: Report) -> Json:
    """Return the log of a report's findings."""
    found = report["findings"][:MAX_RESULTS]
    about = dict(report["rules"])
    if any(finding["rule"] is None for finding in found):
        about[slug(NOT_KNOWN)] = NO_RULE
    rules = list(about)
    index = {rule: i for i, rule in enumerate(rules)}
    files: dict[str, Json] = {}
    results = [_result(finding, index[_rule_id(finding)], files) for finding in found]
    notes = [{"level": "warning", "message": message(text)} for text in report["caveats"]]
    left = len(report["findings"]) - len(found)
    if left:
        notes.append({"level": "warning", "message": message(f"{left:,} more findings are not in this log")})
    driver = {
        "name": "stc report",
        "organization": "safetensors-conformance",
        "version": report["implementations"][0]["suite"],
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
            "corpus": report["corpus"]["sha256"],
            "implementations": [who["label"] for who in report["implementations"]],
        },
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule_id(finding: Mapping[str, Any]) -> str:
    return str(finding["rule"] or slug(NOT_KNOWN))


def _rule(rule: str, about: Mapping[str, Any], found: Sequence[Mapping[str, Any]]) -> Json:
    mine = [f for f in found if _rule_id(f) == rule]
    # Services sort by the rule: it counts as bad as the worst that breaking it led to.
    worst = min((f["severity"] for f in mine), key=list(SEVERITIES).index, default="informational")
    numbers = sorted({w["id"] for f in mine for w in f["weaknesses"]})
    weak = set(numbers) - {CONFORMANCE_ONLY}
    tags = ["security" if weak else "correctness", *(f"external/cwe/cwe-{n:03}" for n in numbers)]
    out: Json = {
        "id": rule,
        "name": rule_name(about["title"]),
        "shortDescription": {"text": message_text(f"{rule}: {about['title']}")},
        "fullDescription": {"text": message_text(about["statement"])},
        "help": {"text": message_text(f"{about['statement']}\n\nSource: {about['source']}")},
        "defaultConfiguration": {"level": LEVELS[about["level"]]},
        "properties": {"level": about["level"], "codes": about["codes"], "tags": tags[:MAX_TAGS]},
    }
    if weak:
        # GitHub shows what has this number as a security alert, so that only weaknesses get one.
        out["properties"]["security-severity"] = f"{SECURITY_SEVERITY[worst]:.1f}"
    # A finding of fuzzing may name others: those of the suite that wrote it.
    known = [n for n in numbers if n in CWE_NAMES]
    if known:
        out["relationships"] = [{"target": cwe_reference(n), "kinds": ["relevant"]} for n in known]
    return out


def _result(finding: Mapping[str, Any], rule_index: int, files: dict[str, Json]) -> Json:
    parts = [finding["title"]]
    if finding["got"]:
        parts.append(f"Expected {finding['expected']}; got {finding['got']}.")
    if finding["reproducer"]:
        parts.append(f"Again: {finding['reproducer']}")
    parts.append(finding["recommendation"])
    # The id tells implementations apart and stays from version to version.
    prints = {"finding/v1": digest(finding["id"])}
    if finding["fingerprint"]:
        prints["ruleVerdictCase/v1"] = digest([_rule_id(finding), finding["verdict"], finding["fingerprint"]])
    out: Json = {
        "ruleId": _rule_id(finding),
        "ruleIndex": rule_index,
        "level": LEVEL_OF[finding["severity"]],
        "message": message("\n".join(parts)),
        "locations": [_location(finding, files)],
        "partialFingerprints": prints,
        "properties": {
            key: finding[key]
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
    if finding["weaknesses"]:
        out["taxa"] = [cwe_reference(w["id"]) for w in finding["weaknesses"] if w["id"] in CWE_NAMES]
    return out


def _location(finding: Mapping[str, Any], files: dict[str, Json]) -> Json:
    evidence = finding["evidence"]
    uri = f"corpus/{evidence['file']}" if evidence and evidence["file"] else NOWHERE
    if uri not in files:
        files[uri] = {"location": {"uri": uri}, "roles": ["analysisTarget"]}
        if uri != NOWHERE:
            files[uri]["length"] = evidence["size"]
    physical: Json = {"artifactLocation": {"uri": uri, "index": list(files).index(uri)}}
    where = evidence["where"] if uri != NOWHERE else None
    if where:
        physical["region"] = {"byteOffset": where["start"], "byteLength": where["end"] - where["start"]}
    location: Json = {"physicalLocation": physical}
    if evidence and not finding["redacted"]:
        location["logicalLocations"] = [{"fullyQualifiedName": evidence["case"], "kind": "resource"}]
    return location
