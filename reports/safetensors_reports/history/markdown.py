"""A trend as a Markdown page; texts of cases and readers stand in code spans."""

from __future__ import annotations

from collections.abc import Sequence

from ..text import code, listed
from .model import TURNS, Change, Passage, Trend, Turn, bugs_of, rule_title
from .terminal import WORDS, moves

ROWS = 40
CASES = 8


def trend_markdown(result: Trend) -> str:
    """Return the page: GitHub-flavoured Markdown, each list bounded, encodable as UTF-8."""
    kinds = result.kinds
    lines = [
        f"### {code(result.name, 60)} over its versions · corpus {code(result.corpus, 30)}",
        "",
        f"| version | cases | {' | '.join(kinds)} |" if kinds else "| version | cases |",
        "|---|---:|" + "---:|" * len(kinds),
    ]
    for run in result.runs:
        cells = [f"{run.counts.get(kind, 0):,}" if run.record is not None else "–" for kind in kinds]
        cases = f"{run.record.cases:,}" if run.record is not None else "not run"
        lines.append("| " + " | ".join([code(run.version, 30), cases, *cells]) + " |")
    remarks = [
        f"- {code(run.version, 30)} was not run: {code(run.reason, 300)}"
        for run in result.runs
        if run.record is None
    ]
    remarks += [f"- {code(run.version, 30)}: {code(x, 300)}" for run in result.runs for x in run.remarks]
    remarks += ["- **interrupted**: further versions were not run"] if result.interrupted else []
    lines += ["", *remarks, *([""] if remarks else [])]
    for passage in result.passages:
        lines += _passage(passage)
    return "\n".join(lines).rstrip("\n") + "\n"


def _passage(passage: Passage) -> list[str]:
    lines = [f"#### {code(passage.before, 30)} → {code(passage.after, 30)}", ""]
    if not passage.changes:
        lines += ["No case has another verdict.", ""]
    for turn, count in passage.counts.items():
        if count:
            lines += _turn(passage, turn, count)
    if passage.only_before or passage.only_after:
        before, after = passage.only_before, passage.only_after
        lines += [f"Asked about in one of the two only: {before:,} cases before, {after:,} after.", ""]
    return lines


def _turn(passage: Passage, turn: Turn, count: int) -> list[str]:
    groups = passage.by_rule(turn)
    head = WORDS[turn].capitalize() if turn not in ("fixed", "broken") else WORDS[turn]
    lines = [f"**{head}: {count:,}** ({TURNS[turn]})", ""]
    for rule, changes in list(groups.items())[:ROWS]:
        lines.append(f"- **{rule or 'no rule'}** {rule_title(rule)}: {len(changes):,} ({moves(changes)})")
        lines += [f"  - {code(c.case, 80)} {code(c.note.title, 160)}" for c in changes[:CASES]]
        lines += [f"  - … {len(changes) - CASES:,} more"] if len(changes) > CASES else []
        lines += _bugs(changes, passage)
    if len(groups) > ROWS:
        lines.append(f"- … {len(groups) - ROWS:,} more rules")
    return [*lines, ""]


def _bugs(changes: Sequence[Change], passage: Passage) -> list[str]:
    parts = []
    for bug in bugs_of(changes):
        text = f"{bug.id} {code(bug.reference, 80)}" + (f" {code(bug.versions, 30)}" if bug.versions else "")
        other = bug.turns_between(passage.before, passage.after) is False
        parts.append(text + (" (recorded for other versions)" if other else ""))
    return [f"  - known: {listed(parts, CASES)}"] if parts else []
