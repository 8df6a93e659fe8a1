"""An in-toto Statement v1 with the predicate test-result v0.1, one per implementation.

It is not signed here: a signature says who ran the tests, which only the one who ran them can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from safetensors_corpus.judging.verdicts import FAILING

from ..text import digest
from .coverage import LETTERS
from .implementations import CLEAN

if TYPE_CHECKING:
    from .build import Report

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://in-toto.io/attestation/test-result/v0.1"
PASSED = frozenset(LETTERS[kind] for kind in ("pass", "choice"))
WARNED = frozenset(LETTERS[kind] for kind in ("late-reject", "not-strict", "unsupported"))
FAILED = frozenset(LETTERS[kind] for kind in FAILING - {"harness-error"})


def statements(report: Report, artifacts: dict[str, str] | None = None) -> dict[str, dict[str, Any]]:
    """Return a statement per implementation by label.

    Test names are case ids; cases that were not run, not asked or lost to the adapter are in no list, and a
    run that lacks any of those due is at best WARNED. A report for published pages names no cases.

    Args:
        report: the report.
        artifacts: label -> SHA-256 of what was tested. Without one the subject has the digest of its name and
            version, which identifies it but proves nothing about its bytes, and says so.
    """
    known = artifacts or {}
    return {
        who["label"]: _statement(report, i, known.get(who["label"]))
        for i, who in enumerate(report["implementations"])
    }


def _statement(report: Report, index: int, artifact: str | None) -> dict[str, Any]:
    who = report["implementations"][index]
    subject: dict[str, Any] = {"name": f"{who['name']}@{who['version']}", "digest": {"sha256": artifact}}
    if artifact is None:
        identity = {"name": who["name"], "selector": who["selector"], "version": who["version"]}
        subject["digest"] = {"sha256": digest(identity)}
        subject["annotations"] = {"digestOf": "name, selector and version; no artifact was hashed"}
    rows = [(row["case"], row["verdicts"][index]) for row in report["cases"]["rows"]]
    lists = [[case for case, letter in rows if letter in letters] for letters in (PASSED, WARNED, FAILED)]
    return {
        "_type": STATEMENT,
        "subject": [subject],
        "predicateType": PREDICATE,
        "predicate": {
            "result": _result(who),
            "configuration": _configuration(report, who),
            "passedTests": lists[0],
            "warnedTests": lists[1],
            "failedTests": lists[2],
        },
    }


def _result(who: dict[str, Any]) -> str:
    counts = who["counts"]
    if who["contradictions"] or any(counts.get(kind) for kind in FAILING - {"harness-error"}):
        return "FAILED"
    clean = who["word"] == CLEAN and who["ended"] == "complete" and not counts.get("not-strict")
    return "PASSED" if clean else "WARNED"


def _configuration(report: Report, who: dict[str, Any]) -> list[dict[str, Any]]:
    settings = {
        "profile": who["profile"],
        "limits": who["limits"],
        "steps": who["steps"],
        "suite": who["suite"],
    }
    corpus = {
        "name": "corpus.json",
        "digest": {"sha256": who["corpus"]},
        "annotations": {"version": report["corpus"]["version"], "due": who["due"], "notRun": who["not_run"]},
    }
    rules = {"name": "rules.toml+choices.toml", "digest": {"sha256": report["rule_book"]["sha256"]}}
    chosen = {"name": "settings", "digest": {"sha256": digest(settings)}, "annotations": settings}
    return [corpus, rules, chosen]
