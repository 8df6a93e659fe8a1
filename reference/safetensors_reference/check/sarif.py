"""Writes the results of ``stc check`` as SARIF 2.1.0 for code scanning services.

The rules in the log are the numbered rules of the format, and its locations are byte ranges of the checked
files. Two runs on the same files produce the same log, because it contains no times, no machine names, and no
absolute paths except those given on the command line.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_from_bytes

from ..files.names import is_remote
from ..rules.book import PROFILES, Rule, rule_book
from ..rules.cwe import CWE_NAMES, CWE_OF_CODE
from ..rules.faults import Fault, JsonPath, render_path
from ..rules.pages import escape

if TYPE_CHECKING:
    from ..model.index import IndexNote
    from .digests import DigestResult
    from .result import CheckResult, ModelResult

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
FINGERPRINT = "brokenRuleInFile/v1"
DIGEST = "digest"
SEVERITIES = ("error", "warning", "note", "none")
AREAS = ("FRM", "HDR", "ENT", "DTY", "SHP", "OFF", "MET", "LIM", "IDX")
"""Areas whose rules a file can break. The rules of all other areas apply only to programs."""
MAX_RESULTS = 25_000
LEVELS = {"must": "error", "should": "warning", "may": "note"}
RULES = tuple(rule for rule in rule_book().rules.values() if rule.id.startswith(AREAS))
RULE_INDEX = {rule.id: index for index, rule in enumerate(RULES)}
TAXON_INDEX = {number: index for index, number in enumerate(sorted(CWE_NAMES))}

Json = dict[str, object]


def artifact_uri(name: str) -> str:
    """Return the URI of a file, which is relative for local files below the current folder."""
    if is_remote(name):
        return quote(name, safe=":/@?&=%#", errors="surrogatepass")
    path = os.path.normpath(name)
    if os.path.isabs(path) or Path(path).parts[:1] == (os.pardir,):  # noqa: PTH117 - text here
        return Path(os.path.abspath(path)).as_uri()  # noqa: PTH100 - resolve() would follow links
    return quote_from_bytes(os.fsencode(path).replace(os.fsencode(os.sep), b"/"))


def message_text(text: str) -> str:
    """Double all braces and break up links, so that no file can inject SARIF placeholders or links."""
    return text.replace("{", "{{").replace("}", "}}").replace("](", "]\\(")


def message(text: str) -> Json:
    return {"text": message_text(text)}


class SarifLog:
    """Collects the results of files and models into one log; ``profile`` is the profile of the check."""

    def __init__(self, profile: str) -> None:
        self._profile = profile
        self._results: list[Json] = []
        self._artifacts: list[Json] = []
        self._notifications: list[Json] = []
        self._places: dict[str, int] = {}

    def add(self, result: CheckResult) -> None:
        uri = artifact_uri(result.name)
        location = self._artifact(uri, result.size)
        if result.error is not None:
            # An unreadable file has no results, but the log must mention it.
            self._notify("error", f"{result.error} ({result.code})", location)
        elif not result.complete:
            self._notify("warning", f"{result.name}: there are more faults than this log contains", location)
        identities: Counter[tuple[str, ...]] = Counter()
        hint = result.hint
        for fault, tolerated in [(f, False) for f in result.faults] + [(f, True) for f in result.tolerated]:
            out = _result(fault, location, tolerated, hint)
            hint = ""  # once per file
            self._add(out, identities, (uri, fault.rule, fault.code), fault.path)
        for note in result.notes:
            self._add(_note(note, location), identities, (uri, note.rule, ""), note.path)

    def add_model(self, result: ModelResult) -> None:
        identities: Counter[tuple[str, ...]] = Counter()
        for name, why in result.judgement.unread.items():
            uri = artifact_uri(result.path_of(name))
            text = f"{result.name}: cannot tell whether the model is whole: {name}: {why}"
            self._notify("error", text, self._location(uri))
        for finding in result.model_only:
            issue = finding.issue
            uri = artifact_uri(result.path_of(finding.file))
            location = self._location(uri)
            if isinstance(issue, Fault):
                out = _result(issue, location, finding.kind == "tolerated")
            else:
                out = _note(issue, location)
            self._add(out, identities, (uri, issue.rule, finding.code or "", result.name), issue.path)

    def add_digest(self, result: DigestResult) -> None:
        uri = artifact_uri(result.name)
        location, text = self._location(uri), f"{result.name}: {result}"
        if result.answer == "unreadable":
            self._notify("error", text, location)
            return
        place = {"physicalLocation": {"artifactLocation": location}}
        out: Json = {"ruleId": DIGEST, "level": "error", "message": message(text), "locations": [place]}
        self._add(out, Counter(), (uri, DIGEST), None)

    def _add(
        self, out: Json, identities: Counter[tuple[str, ...]], key: tuple[str, ...], path: JsonPath | None
    ) -> None:
        # The fingerprint contains no byte positions, so most changes to a file do not affect it.
        key = (*key, *map(repr, path or ()))
        identities[key] += 1
        text = json.dumps([*key, identities[key]])
        out["partialFingerprints"] = {FINGERPRINT: hashlib.sha256(text.encode()).hexdigest()}
        self._results.append(out)

    def _location(self, uri: str) -> Json:
        if uri not in self._places:
            return self._artifact(uri, None)
        return {"uri": uri, "index": self._places[uri]}

    def _artifact(self, uri: str, size: int | None) -> Json:
        self._places[uri] = len(self._artifacts)
        artifact: Json = {"location": {"uri": uri}, "roles": ["analysisTarget"]}
        if size is not None:
            artifact["length"] = size
        self._artifacts.append(artifact)
        return {"uri": uri, "index": self._places[uri]}

    def _notify(self, level: str, text: str, artifact: Json) -> None:
        locations = [{"physicalLocation": {"artifactLocation": artifact}}]
        self._notifications.append({"level": level, "message": message(text), "locations": locations})

    def log(self, exit_status: int) -> Json:
        """Return the log. Of more than 25,000 results, it omits the least important ones and says so."""
        # The sort is stable, so it keeps the order of the files within each level.
        kept = sorted(self._results, key=lambda r: SEVERITIES.index(str(r["level"])))[:MAX_RESULTS]
        left = len(self._results) - len(kept)
        notes = list(self._notifications)
        if left:
            notes.append({"level": "warning", "message": message(f"this log omits {left:,} more results")})
        driver: Json = {
            "name": "stc check",
            "organization": "safetensors-conformance",
            "version": version("safetensors-conformance"),
            "shortDescription": {"text": "Checks files against the rules of the safetensors format."},
            "rules": [rule_descriptor(rule) for rule in RULES],
            "supportedTaxonomies": [{"name": "CWE", "index": 0}],
        }
        invocation: Json = {
            # The results are incomplete if a file could not be read.
            "executionSuccessful": exit_status in (0, 1),
            "exitCode": exit_status,
            "toolExecutionNotifications": notes,
        }
        run: Json = {
            "tool": {"driver": driver},
            "invocations": [invocation],
            "taxonomies": taxonomies(),
            "artifacts": self._artifacts,
            "results": kept if left else self._results,
            "properties": {"profile": self._profile},
        }
        return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}

    def to_text(self, exit_status: int) -> str:
        return json.dumps(self.log(exit_status), indent=1) + "\n"


def _result(fault: Fault, artifact: Json, tolerated: bool, hint: str = "") -> Json:
    must = rule_book().rules[fault.rule].level == "must"
    note = " (tolerated by the profile)" if tolerated else ""
    out: Json = {
        **_rule(fault.rule),
        # Breaking a "should" or "may" rule is less severe than breaking a "must" rule.
        "level": "note" if tolerated else "error" if must else "warning",
        "message": message(f"{fault.code}: {fault.message}{note}{hint}"),
        "locations": [_location(artifact, fault.start, fault.end, fault.path)],
        "properties": {"code": fault.code, "choice": fault.choice},
    }
    if weaknesses := CWE_OF_CODE.get(fault.code):
        out["taxa"] = [cwe_reference(n) for n in weaknesses]
    return out


def _note(note: IndexNote, artifact: Json) -> Json:
    return {
        **_rule(note.rule),
        "kind": "informational",
        "level": "none",
        "message": message(note.message),
        "locations": [_location(artifact, note.start, note.end, note.path)],
    }


def _rule(rule_id: str) -> Json:
    return {"ruleId": rule_id, "ruleIndex": RULE_INDEX[rule_id]}


def _location(artifact: Json, start: int, end: int, path: JsonPath | None) -> Json:
    region = {"byteOffset": start, "byteLength": end - start}
    location: Json = {"physicalLocation": {"artifactLocation": artifact, "region": region}}
    if path is not None:
        location["logicalLocations"] = [{"fullyQualifiedName": render_path(path)}]
    return location


def rule_name(title: str) -> str:
    return "".join(word.capitalize() for word in re.findall(r"[A-Za-z0-9]+", title))


def cwe_reference(number: int) -> Json:
    component = {"name": "CWE", "index": 0}
    return {"id": str(number), "index": TAXON_INDEX[number], "toolComponent": component}


def rule_descriptor(rule: Rule) -> Json:
    numbers = dict.fromkeys(number for code in rule.codes for number in CWE_OF_CODE.get(code, ()))
    positions = [(name, getattr(rule, name)) for name in PROFILES]
    plain = "".join(f"\n{name}: {says}" for name, says in positions)
    marked = "".join(f"\n- {name}: {escape(says)}" for name, says in positions)
    out: Json = {
        "id": rule.id,
        "name": rule_name(rule.title),
        "shortDescription": {"text": message_text(f"{rule.id}: {rule.title}")},
        "fullDescription": {"text": message_text(rule.statement)},
        "help": {
            "text": message_text(f"{rule.statement}\n{plain}\nsource: {rule.source}"),
            "markdown": message_text(f"{escape(rule.statement)}\n{marked}\n\nSource: {escape(rule.source)}"),
        },
        "defaultConfiguration": {"level": LEVELS[rule.level]},
        "properties": {
            "level": rule.level,
            "basis": rule.basis,
            "choice": rule.choice,
            "codes": list(rule.codes),
            # GitHub reads only these tags and ignores the taxonomy.
            "tags": ["security", *(f"external/cwe/cwe-{n:03}" for n in numbers)] if numbers else [],
        },
    }
    if numbers:
        out["relationships"] = [{"target": cwe_reference(n), "kinds": ["relevant"]} for n in numbers]
    return out


def taxonomies() -> list[Json]:
    taxa = [
        {
            "id": str(number),
            "shortDescription": {"text": CWE_NAMES[number]},
            "helpUri": f"https://cwe.mitre.org/data/definitions/{number}.html",
        }
        for number in TAXON_INDEX
    ]
    cwe: Json = {
        "name": "CWE",
        "organization": "MITRE",
        "shortDescription": {"text": "The MITRE Common Weakness Enumeration"},
        "informationUri": "https://cwe.mitre.org/",
        "isComprehensive": False,
        "taxa": taxa,
    }
    return [cwe]
