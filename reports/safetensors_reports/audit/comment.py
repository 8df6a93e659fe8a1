"""A comment for a pull request, at most 60 lines: what changed first, then the verdict, then what to mend.

A pure function of one report, and of an older one to compare with. Every text that comes from a reader or a
file stands in a code span, where it can neither mention people nor hide characters.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from safetensors_corpus.judging.verdicts import badness, fails

from ..text import code, listed
from .delta import Delta, baseline_delta, report_delta

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .build import Report

LINES = 60
TOP = 5
IMPLEMENTATIONS = 12
NAMED = 4
CAVEATS = 4
CAUSES = 10
WRONG = ("unsafe", "wrong-content", "wrong-accept", "wrong-reject", "deviation", "late-reject")
RARE = ("choice-inconsistent", "harness-error")


def summary_markdown(report: Report, previous: Report | None = None) -> str:
    """Return the comment, ending in a line break.

    Args:
        report: the report.
        previous: an older report; without one the baselines tell what is new.
    """
    found = [f for f in report["findings"] if f["severity"] != "informational"]
    lines = [f"# Audit: {_title(report)}", "", *_delta(report, previous), "", *_verdicts(report), ""]
    rest = [*_top(found, report), *_footer(report)]
    lines += [*_causes(report, LINES - len(lines) - len(rest)), *rest]
    return "\n".join(lines[:LINES]) + "\n"


def _title(report: Report) -> str:
    whos = report["implementations"]
    names = listed([code(who["label"], 40) for who in whos], NAMED)
    return f"{names} · corpus {code(report['corpus']['version'], 30)}"


def _delta(report: Report, previous: Report | None) -> list[str]:
    delta = baseline_delta(report) if previous is None else report_delta(report, previous)
    if delta is None:
        return ["No earlier report and no baseline to compare with: everything below is as it is today."]
    against = "the previous report" if previous is not None else "the baseline"
    head = f"**Against {against}:** {len(delta.new):,} new · {len(delta.fixed):,} fixed"
    head += f" · {len(delta.still):,} still"
    if delta.unknown:
        head += f" · {len(delta.unknown):,} without a verdict this time"
    return [head, *_named(delta), *(f"- {note}" for note in delta.notes)]


def _named(delta: Delta) -> list[str]:
    parts = (("new", delta.new), ("fixed", delta.fixed), ("no verdict", delta.unknown))
    return [f"- {word}: {listed([code(n, 80) for n in names], NAMED)}" for word, names in parts if names]


def _verdicts(report: Report) -> list[str]:
    whos = report["implementations"]
    lines = [
        "| implementation | verdict | what is wrong | pass | not run | not asked |",
        "|---|---|---|--:|--:|--:|",
    ]
    for who in whos[:IMPLEMENTATIONS]:
        counts = who["counts"]
        wrong = [f"{kind} {counts[kind]:,}" for kind in (*WRONG, *RARE) if counts.get(kind)]
        if who["contradictions"] and "choice-inconsistent" not in counts:
            wrong.append(f"choice-inconsistent {who['contradictions']:,}")
        if who["expected_failing"]:
            wrong.append(f"({who['expected_failing']:,} expected)")
        lines.append(
            f"| {code(who['label'], 40)} | **{who['word']}**{_ended(who)} | {', '.join(wrong) or 'nothing'} "
            f"| {counts.get('pass', 0):,} of {who['due']:,} | {who['not_run']:,} | {_not_asked(who)} |"
        )
    if len(whos) > IMPLEMENTATIONS:
        lines.append(f"| … {len(whos) - IMPLEMENTATIONS:,} more | | | | | |")
    return lines


def _ended(who: Mapping[str, Any]) -> str:
    return "" if who["ended"] == "complete" else f" ({who['ended']} run)"


def _not_asked(who: Mapping[str, Any]) -> str:
    reasons = who["not_asked"]
    spoken = listed([f"{code(reason, 20)} {number:,}" for reason, number in reasons.items()], NAMED + 1)
    total = sum(reasons.values())
    return f"{total:,} ({spoken})" if total else "0"


def _causes(report: Report, room: int) -> list[str]:
    """Return the causes that no baseline lists as a table with its head, as many as there is room for."""
    rows = [
        (who, row)
        for who in report["implementations"]
        for row in who.get("causes", ())
        if not row["redacted"] and not row["expected_failure"] and fails(row["verdict"])
    ]
    limit = min(CAUSES, room - 8)
    if not rows or limit < 1:
        return []
    rows.sort(key=lambda pair: (badness(pair[1]["verdict"]), -pair[1]["case_count"]))
    many = len(report["implementations"]) > 1
    lines = [
        "## Likely causes",
        "",
        f"| cases |{' implementation |' if many else ''} verdict | what | again |",
        f"|---:|{'---|' if many else ''}---|---|---|",
    ]
    for who, row in rows[:limit]:
        name = f" {code(who['label'], 40)} |" if many else ""
        again = code(row["reproducer"] or "", 200) or "not public"
        lines.append(
            f"| {row['case_count']:,} |{name} **{code(row['verdict'], 40)}** | {code(row['what'], 200)} | "
            f"{again} |"
        )
    if len(rows) > limit:
        lines += ["", f"{len(rows) - limit:,} more in `report.json`."]
    return [*lines, ""]


def _top(found: Sequence[Mapping[str, Any]], report: Report) -> list[str]:
    if not found:
        return ["No finding."]
    levels = Counter(f["severity"] for f in report["findings"])
    numbers = {level: levels[level] for level in report["scales"]["severity"]}
    spoken = " · ".join(f"{level} {number:,}" for level, number in numbers.items() if number)
    lines = [f"## Findings: {spoken}", ""]
    # What the baseline expects is known; of the rest the worst come first already.
    ranked = sorted(found, key=lambda f: f["expected_failure"])
    for number, finding in enumerate(ranked[:TOP], 1):
        lines += _finding(number, finding)
    rest = len(report["findings"]) - min(TOP, len(found))
    if rest > 0:
        lines += ["", f"{rest:,} more in `report.json`."]
    return lines


def _finding(number: int, finding: Mapping[str, Any]) -> list[str]:
    known = " · expected" if finding["expected_failure"] else ""
    cwe = "".join(f" · CWE-{w['id']}" for w in finding["weaknesses"][:1])
    cases = _cases(finding["case_count"])
    head = f"{number}. **{finding['severity']}** ({finding['difficulty']} difficulty){cwe} · {cases}{known}"
    lines = [f"{head}: {code(finding['title'], 160)}"]
    if finding["redacted"]:
        return [*lines, "   - not public: verdict and rule only"]
    evidence = finding["evidence"]
    where = evidence["where"] if evidence else None
    place = f" at bytes {where['start']:,}..{max(where['end'] - 1, where['start']):,}" if where else ""
    lines.append(f"   - expected {code(finding['expected'], 100)}, got {code(finding['got'], 100)}{place}")
    lines.append(f"   - again: {code(finding['reproducer'], 200)}")
    lines.append(f"   - {finding['recommendation']}")
    return lines


def _cases(number: int) -> str:
    if number == 0:
        return "found by fuzzing"
    return "1 case" if number == 1 else f"{number:,} cases"


def _footer(report: Report) -> list[str]:
    lines = [""]
    caveats = report["caveats"]
    lines += [f"- Note: {code(text, 200)}" for text in caveats[:CAVEATS]]
    if len(caveats) > CAVEATS:
        lines.append(f"- … {len(caveats) - CAVEATS:,} more notes in `report.json`")
    agreement = report["agreement"]
    if agreement["compared"]:
        lines.append(
            f"- Agreement over {agreement['compared']:,} shared cases: {agreement['content_splits']:,} read "
            f"differently, {agreement['verdict_splits']:,} accepted by some and refused by others."
        )
    lines.append(
        f"- Rules {code(report['rule_book']['sha256'][:12])}, "
        f"corpus {code(report['corpus']['sha256'][:12])}; "
        "severity goes by the worst outcome, never by the number of cases."
    )
    return lines
