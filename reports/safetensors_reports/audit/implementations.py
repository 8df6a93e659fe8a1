"""The part of a report about each implementation: how far it got, its counts, its word and its badge."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from safetensors_corpus.judging.verdicts import fails, kind_of

from ..record.device_checks import CHECKS, STATUSES
from ..text import stable, visible
from .disclosure import OWN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..record.run import RunRecord
    from .build import Report
    from .inputs import Known

MAX_PROBLEMS = 20
"""Most problems of a run that a report repeats."""
WORDS = {
    "unsafe": "unsafe",
    "wrong-content": "wrong content",
    "wrong-accept": "lenient",
    "wrong-write": "wrong files",
    "wrong-race": "unguarded",
    "wrong-reject": "strict",
    "deviation": "deviating",
    "choice-inconsistent": "inconsistent",
    "late-reject": "late",
}
"""Worst verdict -> the word for an implementation. See ``_set_apart``."""
CLEAN, NOT_TOLD, UNKNOWN = "conformant", "no fault shown", "not fully known"
"""Words without a bad verdict. Published pages hold some back, and so call nobody else *conformant*."""
ORDER = (*WORDS.values(), UNKNOWN, NOT_TOLD, CLEAN)
"""All words, the worst first."""
APART = {"write": "wrong-write", "lifecycle": "wrong-race"}


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


def implementation(label: str, record: RunRecord, known: Sequence[Known], *, public: bool) -> dict[str, Any]:
    """Return who was tested, how far the run got and what it counted, *not run* and *not asked* apart.

    Published pages name only those expected failures that have a public report, and no problems of the run.
    """
    who, header = record.implementation, record.header
    counts = record.counts()
    contradictions = record.inconsistent_choices()
    expected = _expected(record, known)
    if public:
        expected = [row for row in expected if row["issue"].startswith("https://")]
    device = _device(record)
    return {
        "label": label,
        "selector": who.get("selector", who["name"]),
        "name": who["name"],
        "version": who["version"],
        "language": who.get("language") or "unknown",
        "steps": list(who.get("steps", [])),
        "lacks": sorted(set(who.get("lacks", []))),
        "suite": header["suite"],
        "corpus": header["corpus"]["digest"],
        "profile": header["profile"],
        "limits": header.get("limits") or {},
        "ended": "truncated" if record.truncated else "partial" if record.partial else "complete",
        "word": _word(record, counts, contradictions, public=public),
        "due": header["corpus"]["cases"],
        "cases": record.cases,
        "counts": dict(sorted(counts.items())),
        "contradictions": len(contradictions),
        "not_run": record.not_run,
        "not_asked": dict(sorted(header["corpus"].get("left_out", {}).items())),
        "choices": _choices(record),
        "baseline": header.get("baseline"),
        "expected_failures": expected,
        "expected_failing": record.expected_failures,
        "problems": [] if public else [stable(text, 300) for text in record.problems[:MAX_PROBLEMS]],
        **({"device": device} if device else {}),
    }


def _device(record: RunRecord) -> dict[str, Any] | None:
    """Return the device that a run loaded onto and what came of each promise, None for a run without one."""
    name = record.header.get("device")
    rows = [row for row in record.results if row["step"] == "device"]
    if name is None or not rows:
        return None
    told = Counter((check["name"], check["status"]) for row in rows for check in row.get("checks", ()))
    checks = {check: {status: told[check, status] for status in STATUSES} for check in CHECKS}
    return {"name": stable(name, 40), "files": len(rows), "checks": checks}


def _set_apart(record: RunRecord, counts: Mapping[str, int]) -> dict[str, int]:
    """Return changed counts where bad verdicts were seen only in what a writer made, or of changing files.

    A wrong file harms its next reader, and a file that is cut while it is open takes somebody with access to
    it: neither is what *wrong content* and *unsafe* say to whoever loads models.
    """
    out: dict[str, int] = {}
    for kind in ("unsafe", "wrong-content"):
        steps = {row["step"] for row in record.results if kind_of(row["verdict"]) == kind}
        if counts.get(kind) and steps and steps <= {"write", "lifecycle"}:
            out[kind] = 0
            out |= {APART[step]: 1 for step in steps}
    return out


def _word(
    record: RunRecord, counts: Mapping[str, int], contradictions: Mapping[str, str], *, public: bool
) -> str:
    held_back = public and record.implementation["name"] != OWN
    if held_back:
        # If the crashes that somebody has reported gave the word, the program with the more open tracker
        # would look worse than one that crashes more.
        counts = {**counts, "unsafe": 0}
    counts = {**counts, **_set_apart(record, counts)}
    for kind, word in WORDS.items():
        if counts.get(kind) or (kind == "choice-inconsistent" and contradictions):
            return word
    # Not run, or lost to the adapter, is never shown as passed.
    if record.not_run or counts.get("harness-error") or record.truncated or not record.cases:
        return UNKNOWN
    return NOT_TOLD if held_back else CLEAN


def _choices(record: RunRecord) -> list[dict[str, str]]:
    out = []
    for row in sorted(record.choices, key=lambda r: str(r["choice"])):
        kind, _, option = row["verdict"].partition(":")
        taken = option if kind == "choice" else ""
        out.append({"choice": row["choice"], "option": taken, "verdict": kind})
    return out


def _expected(record: RunRecord, known: Sequence[Known]) -> list[dict[str, Any]]:
    """Return the expected failures by name: those of the record, and what the baseline says of each.

    ``state`` tells what became of the entry: ``fails`` as listed, ``passes`` now, or has ``no verdict``.
    """
    verdicts = record.case_verdicts()
    listed = record.expected_cases()
    entries = {case: entry for entry in reversed(known) for case in entry.cases}
    out = []
    for case in sorted(listed | entries.keys()):
        entry, verdict = entries.get(case), verdicts.get(case)
        state = "no verdict"
        if verdict is not None:
            state = "fails" if case in listed or fails(verdict) else "passes"
        out.append(
            {
                "case": case,
                "verdict": verdict,
                "state": state,
                "why": entry.why if entry else "",
                "issue": entry.issue if entry else "",
                "review_by": (entry.review_by or None) if entry else None,
            }
        )
    return out


def badges(report: Report) -> dict[str, dict[str, Any]]:
    """Return a badge per implementation by label: its word, the share of cases due, and what was not run."""
    return {who["label"]: _badge(who) for who in report["implementations"]}


def _badge(who: dict[str, Any]) -> dict[str, Any]:
    # Choices and lacking features are legitimate; only what was due and is right counts.
    counts = who["counts"]
    right = sum(counts.get(kind, 0) for kind in ("pass", "choice", "unsupported"))
    message = f"{who['word']} · {right:,}/{who['due']:,}"
    if who["not_run"]:
        message += f" · {who['not_run']:,} not run"
    return {
        "schemaVersion": 1,
        "label": f"safetensors conformance: {visible(who['label'], 60)}",
        "message": message,
        "color": COLORS[who["word"]],
    }
