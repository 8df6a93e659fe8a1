"""The plain-text summary of one run: security and interoperability first, never one number for everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..text import code, join_counts, visible

if TYPE_CHECKING:
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
"""Order of the numbers that tell what is wrong; the rare ones are shown only when they occur."""

MAX_FEATURES = 6
MAX_PROBLEMS = 5


def verdict_counts(record: RunRecord) -> dict[str, int]:
    """Return the numbers of the security and interoperability line, expected failures included.

    Counted are cases; ``choice-inconsistent`` counts choices, since only several cases together contradict
    each other. It and ``harness-error`` are there only when they occur.
    """
    counts = record.counts()
    counts["choice-inconsistent"] = len(record.inconsistent_choices())
    return {kind: counts.get(kind, 0) for kind in FAILURE_COUNTS if counts.get(kind) or kind not in RARE}


def other_counts(record: RunRecord) -> dict[str, int]:
    """Return the numbers of cases that fail nothing, were not run, or fail as the baseline says."""
    counts = record.counts()
    return {
        "pass": counts.get("pass", 0),
        "choices": counts.get("choice", 0) + counts.get("choice-inconsistent", 0),
        "not strict": counts.get("not-strict", 0),
        "unsupported": counts.get("unsupported", 0),
        "not run": record.not_run,
        "expected failures": record.expected_failures,
    }


def caveats(record: RunRecord, *, markdown: bool = False) -> list[str]:
    """Return, a sentence each, why the numbers do not tell everything: how the run ended and its problems.

    Texts of the run are escaped, for Markdown on request.
    """
    out = []
    total = record.header["corpus"]["cases"]
    ran = f"{record.cases:,} of {total:,} cases have a verdict, nothing is known about the others"
    if record.truncated:
        out.append(f"truncated run: the record has no footer; {ran}")
    elif record.partial:
        out.append(f"partial run: filtered or interrupted; {ran}")
    left_out = record.header["corpus"].get("left_out", {})
    if left_out:
        spoken = ", ".join(f"{number:,} {visible(kind, 20)}" for kind, number in sorted(left_out.items()))
        out.append(f"not asked: {spoken}")
    show = code if markdown else visible
    out += [f"problem: {show(text, 300)}" for text in record.problems[:MAX_PROBLEMS]]
    if len(record.problems) > MAX_PROBLEMS:
        out.append(f"… {len(record.problems) - MAX_PROBLEMS:,} more problems")
    return out


def lacking(record: RunRecord) -> str:
    """Return the features the implementation lacks as shown to people: ``F4, F6``; empty for none."""
    names = [feature_name(name) for name in sorted(set(record.implementation.get("lacks", [])))]
    return ", ".join([*names[:MAX_FEATURES], *(["…"] if len(names) > MAX_FEATURES else [])])


def feature_name(name: str) -> str:
    """Return a feature as shown to people: ``dtype-f4`` as ``F4``."""
    dtype = name.removeprefix("dtype-")
    return visible(name if dtype == name else dtype.upper().replace("-", "_"), 30)


def summary_lines(record: RunRecord) -> list[str]:
    """Return the summary: who and what, failures by kind, the rest, then caveats if there are any.

    Args:
        record: one run, truncated or not.

    Returns:
        Lines without line ends, safe to print as UTF-8.
    """
    return [
        _head(record),
        "  " + join_counts(verdict_counts(record)),
        "  " + _rest(record),
        *(f"  {line}" for line in caveats(record)),
    ]


def _head(record: RunRecord) -> str:
    total = record.header["corpus"]["cases"]
    cases = f"{record.cases:,} cases" if record.cases == total else f"{record.cases:,} of {total:,} cases"
    if record.footer is not None:
        cases += f" in {record.footer['duration_s']:,.1f} s"
    language = record.implementation.get("language")
    spoken = f" ({visible(language, 30)})" if language not in (None, "", "unknown") else ""
    parts = [
        visible(record.label, 80) + spoken,
        f"corpus {visible(record.header['corpus']['version'], 30)}",
        cases,
        f"profile: {visible(record.header['profile'] or 'none', 30)}",
    ]
    if record.truncated:
        parts.append("TRUNCATED RUN")
    elif record.partial:
        parts.append("PARTIAL RUN")
    return " · ".join(parts)


def _rest(record: RunRecord) -> str:
    parts = []
    for name, number in other_counts(record).items():
        features = lacking(record) if name == "unsupported" and number else ""
        parts.append(f"{name} {number:,}" + (f" ({features})" if features else ""))
    return " · ".join(parts)
