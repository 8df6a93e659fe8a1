"""A run as lines for a terminal: counts, without an overall score, and likely causes of failures.

The counts are also part of comments for pull requests.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence

from safetensors_corpus.judging.verdicts import kind_of

from .causes.cause import Cause, cause_text, command, failing
from .record.device_checks import CHECKS, STATUSES
from .record.run import Row, RunRecord
from .text import code, feature_name, plural, visible, visible_lines

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


MAX_SHOWN = 10
WIDTH = 100
_INDENT = " " * 8


def headline(cause: Cause) -> str:
    """Return the verdict and the cause in one line: ``wrong-accept: accepts although ... (OFF-08)``."""
    return f"{visible(cause.verdict, 40)}: {cause_text(cause)}"


def verdict_numbers(cause: Cause) -> str:
    """Return the case counts by verdict, such as ``41 wrong-reject, 4 not-strict``, if there are several."""
    if len(cause.verdicts) < 2:
        return ""
    return ", ".join(f"{count:,} {visible(verdict, 40)}" for verdict, count in cause.verdicts)


def described(found: Sequence[Cause], *, strict: bool = False) -> list[Cause]:
    """Return the causes that ``cause_lines`` describes.

    If only one case fails, there are none, because its failure is the cause.
    """
    bad = failing(found, strict=strict)
    return bad if _cases(bad) > 1 else []


def cause_lines(
    found: Sequence[Cause], header: Row, *, strict: bool = False, limit: int | None = MAX_SHOWN
) -> list[str]:
    bad = described(found, strict=strict)
    expected = [cause for cause in found if cause.is_expected]
    if not bad:
        return _expected_lines(expected, limit)
    lines = [f"LIKELY CAUSES of {_cases(bad):,} failing cases: {len(bad):,}, worst first"]
    for cause in bad[:limit]:
        lines += _title_lines(cause)
        rows = [("", verdict_numbers(cause)), ("said: ", cause.said), ("fix: ", cause.advice)]
        for label, text in rows:
            if text:
                lines += _wrapped(label + text, _INDENT, _INDENT + " " * len(label))
        lines.append(f"{_INDENT}{command(header, cause)}")
    others: dict[str, list[Cause]] = {
        "in the baseline": expected,
        "failing only with --fail-on-should": [c for c in found if not c.is_expected and c not in bad],
    }
    lines += _rest_lines(bad, limit)
    return [*lines, *(f"{_INDENT}{title}: {_counted(group)}" for title, group in others.items() if group)]


def _expected_lines(expected: Sequence[Cause], limit: int | None) -> list[str]:
    if not expected:
        return []
    count = plural(_cases(expected), "case")
    lines = [f"CAUSES OF THE EXPECTED FAILURES of {count}: {len(expected):,}, worst first"]
    for cause in expected[:limit]:
        lines += _title_lines(cause)
    return lines + _rest_lines(expected, limit)


def _title_lines(cause: Cause) -> list[str]:
    return _wrapped(headline(cause), f"{len(cause.cases):>6,}  ", _INDENT)


def _rest_lines(all_causes: Sequence[Cause], limit: int | None) -> list[str]:
    rest = [] if limit is None else all_causes[limit:]
    more = plural(len(rest), "more cause", "more causes")
    return [f"     …  {more}, {plural(_cases(rest), 'case')}; --full-failures shows all"] if rest else []


def _cases(found: Sequence[Cause]) -> int:
    return len({case for cause in found for case in cause.cases})


def _wrapped(text: str, first: str, others: str) -> list[str]:
    """Wrap text without starting a line with ``::``, which GitHub would run as a workflow command."""
    lines = textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=others, break_on_hyphens=False)
    return [f"{others}… {line.strip()}" if line.strip().startswith("::") else line for line in lines]


def _counted(found: Sequence[Cause]) -> str:
    cases = Counter[str]()
    for cause in found:
        for verdict, count in cause.verdicts:
            cases[kind_of(verdict)] += count
    numbers = ", ".join(f"{visible(kind, 40)} {count:,}" for kind, count in cases.items())
    return f"{plural(len(found), 'cause')} ({numbers})"
