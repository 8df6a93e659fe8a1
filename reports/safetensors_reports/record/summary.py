"""Counts of a run and a summary for people, without an overall score."""

from __future__ import annotations

from collections import Counter

from safetensors_corpus.judging.verdicts import kind_of

from ..text import code, plural, visible, visible_lines
from .device_checks import CHECKS, STATUSES
from .run import RunRecord

RARE = ("choice-inconsistent", "harness-error")
FAILURE_COUNTS = (
    "unsafe",
    "wrong-content",
    "wrong-accept",
    "wrong-reject",
    "deviation",
    "late-reject",
    *RARE,
)
"""Kinds of failure in display order. The rare ones are shown only if they occur."""

MAX_FEATURES = 6
MAX_PROBLEMS = 5


def verdict_counts(record: RunRecord) -> dict[str, int]:
    counts = record.counts()
    counts["choice-inconsistent"] = len(record.inconsistent_choices())
    return {kind: counts.get(kind, 0) for kind in FAILURE_COUNTS if counts.get(kind) or kind not in RARE}


def other_counts(record: RunRecord) -> dict[str, int]:
    counts = record.counts()
    return {
        "pass": counts.get("pass", 0),
        "choices": counts.get("choice", 0) + counts.get("choice-inconsistent", 0),
        "not strict": counts.get("not-strict", 0),
        "unsupported": counts.get("unsupported", 0),
        "not run": record.not_run,
        "expected failures": len(record.expected_cases),
    }


def caveats(record: RunRecord, *, markdown: bool = False) -> list[str]:
    """Return the reasons why the numbers are incomplete, escaped for a terminal or for Markdown."""
    out = []
    total = record.header["corpus"]["cases"]
    ran = f"{record.cases:,} of {plural(total, 'case')} have a verdict; the others are unknown"
    if record.truncated:
        out.append(f"truncated run: the record has no footer; {ran}")
    elif record.partial:
        out.append(f"partial run: filtered or interrupted; {ran}")
    left_out = record.header["corpus"].get("left_out", {})
    if left_out:
        kinds = ", ".join(f"{number:,} {visible(kind, 20)}" for kind, number in sorted(left_out.items()))
        out.append(f"skipped: {kinds}")
    for text in record.problems[:MAX_PROBLEMS]:
        lines = [code(text, 300)] if markdown else visible_lines(text).split("\n")
        out += [f"problem: {line}" for line in lines]
    if len(record.problems) > MAX_PROBLEMS:
        out.append(f"… {plural(len(record.problems) - MAX_PROBLEMS, 'more problem')}")
    return out


def lacking(record: RunRecord) -> str:
    names = [feature_name(name) for name in sorted(set(record.implementation.get("lacks", [])))]
    return ", ".join([*names[:MAX_FEATURES], *(["…"] if len(names) > MAX_FEATURES else [])])


def feature_name(name: str) -> str:
    """Return the display name of a feature, such as ``F4`` for ``dtype-f4``."""
    dtype = name.removeprefix("dtype-")
    return visible(name if dtype == name else dtype.upper().replace("-", "_"), 30)


def summary_lines(record: RunRecord) -> list[str]:
    rest = []
    for name, number in other_counts(record).items():
        features = lacking(record) if name == "unsupported" and number else ""
        rest.append(f"{name} {number:,}" + (f" ({features})" if features else ""))
    return [
        _head(record),
        "  " + "   ".join(_with_expected(record)),
        "  " + " · ".join(rest),
        *(f"  {line}" for line in caveats(record)),
        *_device_lines(record),
    ]


def _with_expected(record: RunRecord) -> list[str]:
    expected = Counter(kind_of(record.case_verdicts[case]) for case in record.expected_cases)
    return [
        f"{name} {number:,}" + (f" ({expected[name]:,} expected)" if expected[name] else "")
        for name, number in verdict_counts(record).items()
    ]


def _head(record: RunRecord) -> str:
    total = record.header["corpus"]["cases"]
    cases = plural(total, "case")
    if record.cases != total:
        cases = f"{record.cases:,} of {cases}"
    if record.footer is not None:
        cases += f" in {record.footer['duration_s']:,.1f} s"
    language = record.implementation.get("language")
    suffix = f" ({visible(language, 30)})" if language not in (None, "", "unknown") else ""
    parts = [
        visible(record.label, 80) + suffix,
        f"corpus {visible(record.header['corpus']['version'], 30)}",
        cases,
        f"profile: {visible(record.header['profile'] or 'none', 30)}",
    ]
    if record.truncated:
        parts.append("TRUNCATED RUN")
    elif record.partial:
        parts.append("PARTIAL RUN")
    return " · ".join(parts)


def _device_lines(record: RunRecord) -> list[str]:
    name = record.header.get("device")
    if name is None:
        return []
    if "device" not in record.implementation["steps"]:
        return [
            f"  device {visible(name)}: not tested, because the implementation does not load onto devices"
        ]
    mine = [row for row in record.results if row["step"] == "device"]
    lines = [f"  device {visible(name)}: {plural(len(mine), 'file')}"]
    for check in CHECKS:
        seen = [found for row in mine for found in row.get("checks", ()) if found["name"] == check]
        counts = Counter(found["status"] for found in seen)
        words = [f"{counts[status]:,} {status}" for status in STATUSES if counts[status]]
        why = Counter(found["message"] for found in seen if found["status"] == "unknown").most_common(1)
        if why and why[0][0]:
            words[-1] += f" ({visible(why[0][0])})"
        lines.append(f"    {check:<10} {' · '.join(words) or 'not reported'}")
    return lines
