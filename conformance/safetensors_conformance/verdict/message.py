"""Failure messages: the rule, the expectation, the result, the relevant bytes, and a way to reproduce it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from safetensors_corpus import Case
from safetensors_corpus.judging.verdicts import BASES
from safetensors_corpus.publish.show import action_lines
from safetensors_reference import rule_book
from safetensors_reports.case_evidence import evidence_of, expected_text, got_text, reproducer
from safetensors_reports.text import visible

from ..outcome import Implementation

WIDTH = 100
MAX_RULES = 3


def explain_failure(
    implementation: Implementation,
    case: Case,
    row: Mapping[str, Any],
    profile: str | None,
    device: str | None = None,
    *,
    stderr: str = "",
) -> str:
    rules = rule_book().rules
    broken = list(dict.fromkeys(f["rule"] for f in row["failures"] if f["rule"] in rules))
    lines = [_headline(implementation, case, row)]
    lines += [_row("rule", f"{r} ({rules[r].level}): {rules[r].statement}") for r in broken[:MAX_RULES]]
    if row["basis"]:
        lines.append(_row("basis", f"{row['basis']}: {BASES[row['basis']]}"))
    lines.append(_row("case", case.title))
    lines.append(_row("expected", expected_text(case, profile)))
    lines.append(_row("got", got_text(row)))
    if case.action is None:
        lines += _evidence(case, row["rule"] or "")
    else:
        lines += [f"  {line}"[:500] for line in action_lines(case)]
    if stderr.strip():
        lines.append(_row("stderr", visible(stderr.strip().splitlines()[-1], 300)))
    again = device if row["step"] == "device" else None
    lines.append(_row("again", reproducer(implementation.selector, case.id, profile, again)))
    return "\n".join(lines)


def explain_answer(implementation: Implementation, case: Case, row: Mapping[str, Any]) -> str:
    choice = rule_book().choices[case.choice or ""]
    lines = [_headline(implementation, case, row), _row("case", case.title)]
    lines.append(_row("choice", f"{choice.id}: {choice.title}"))
    lines.append(_row("got", got_text(row)))
    lines += [_row("answer", f"{name}: {choice.options[name]}") for name in row["options"]]
    others = [name for name in case.options if name not in row["options"]]
    lines += [
        _row("or" if i == 0 else "", f"{name}: {choice.options[name]}") for i, name in enumerate(others)
    ]
    takers = {name: choice.takers(name) for name in choice.options}
    taken = "; ".join(f"{', '.join(takes)}: {name}" for name, takes in takers.items() if takes)
    lines.append(_row("profiles", taken or "all profiles leave this choice open"))
    return "\n".join(lines)


def _headline(implementation: Implementation, case: Case, row: Mapping[str, Any]) -> str:
    left = f"{visible(implementation.label, 200)} · {case.id} · {row['step']}"
    return f"{left}  {row['verdict'].upper():>{max(WIDTH - len(left) - 2, 0)}}"


def _row(label: str, text: str) -> str:
    return f"  {label:<9} {text}"


def _evidence(case: Case, rule: str) -> list[str]:
    seen = evidence_of(case, rule)
    lines = []
    if seen.where is not None:
        start, end = seen.where.start, seen.where.end
        path = f", {seen.where.path}" if seen.where.path is not None else ""
        lines.append(_row("where", f"file bytes {start}..{max(end - 1, start)}{path}: {seen.where.text}"))
    if seen.layout:
        lines.append(_row("data", seen.layout))
    lines.extend(_row("bytes" if i == 0 else "", line) for i, line in enumerate(seen.hex.splitlines()))
    return lines
