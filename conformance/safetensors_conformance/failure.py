"""The message of a failure: rule, expected, got, the bytes concerned, and how to see it again."""

from __future__ import annotations

import shlex

from safetensors_corpus import Case, ManifestError
from safetensors_corpus.showing import action_lines
from safetensors_reference import Explanation, Fault, explain, rule_book
from safetensors_reference.faults import render_path
from safetensors_reference.hexview import hexview
from safetensors_reference.layout import draw_layout
from safetensors_reports.text import plural

from .device import rules_of_checks
from .judge import CaseVerdict, StepVerdict
from .outcomes import Implementation

WIDTH = 100


def explain_failure(
    who: Implementation, verdict: CaseVerdict, step: str, profile: str | None, device: str | None = None
) -> str:
    """Return the message for a failing step: a headline, labelled rows, the bytes with marks underneath."""
    case, judged = verdict.case, verdict.steps[step]
    left = f"{who.label} · {case.id} · {step}"
    lines = [f"{left}  {judged.verdict.upper():>{max(WIDTH - len(left) - 2, 0)}}"]
    rules = rule_book().rules
    for rule_id in dict.fromkeys([*rules_of_checks(judged.result), *case.rules[:3]]):
        rule = rules[rule_id]
        lines.append(_row("rule", f"{rule.id} ({rule.level}): {rule.statement}"))
    lines.append(_row("case", case.title))
    lines.append(_row("expected", expected_text(case, profile)))
    lines.append(_row("got", got_text(judged)))
    lines.extend(_evidence(case) if case.action is None else _action(case))
    if judged.result.stderr.strip():
        lines.append(_row("stderr", judged.result.stderr.strip().splitlines()[-1][:300]))
    lines.append(_row("again", reproduce(who.selector, case.id, profile, device)))
    return "\n".join(lines)


def _action(case: Case) -> list[str]:
    """Return what was asked, where that is more than opening and reading a file."""
    return [f"  {line}"[:500] for line in action_lines(case)]


def _row(label: str, text: str) -> str:
    return f"  {label:<9} {text}"


def reproduce(selector: str, case_id: str, profile: str | None, device: str | None = None) -> str:
    """Return the command line that runs one case again."""
    tail = (f" --profile {profile}" if profile else "") + (f" --device {device}" if device else "")
    return f"stc run --impl {shlex.quote(selector)} --case {case_id}{tail}"


def expected_text(case: Case, profile: str | None) -> str:
    """Say what the case demands, with the option when it is one of a choice."""
    if case.expect is not None:
        expectation, why = case.expect, ""
    else:
        option = rule_book().choices[case.choice or ""].expected(profile)
        if option is None:
            names = ", ".join(case.options)
            return f"one of the options of choice {case.choice}: {names}"
        expectation = case.options[option]
        why = f" [choice {case.choice}: {option}" + (f", profile {profile}]" if profile else "]")
    if expectation.outcome == "reject":
        return f"reject ({', '.join(expectation.codes)}){why}"
    tensors = (expectation.content or {}).get("tensors", [])
    return f"accept, {len(tensors)} tensors{why}"


def got_text(judged: StepVerdict) -> str:
    """Say what the implementation did."""
    result = judged.result
    if judged.verdict == "wrong-content" or judged.by_checks:
        return f"{result.outcome}, but {judged.detail}"
    if result.outcome == "accept":
        return "accept" if result.tensors is None else f"accept, {plural(len(result.tensors), 'tensor')}"
    text = f"{result.outcome}: {result.message}" if result.message else result.outcome
    return text if len(text) <= 300 else f"{text[:300]}…"


def _evidence(case: Case) -> list[str]:
    """Show where the file breaks the rule, its layout and the bytes around the place."""
    try:
        data = case.read_input()
    except ManifestError as err:
        return [_row("file", str(err))]
    explanation = explain(data)
    fault = _fitting_fault(case, explanation)
    lines = []
    start, end = 0, 0
    if fault is not None:
        start, end = fault.start, fault.end
        path = f", {render_path(fault.path)}" if fault.path is not None else ""
        lines.append(_row("where", f"file bytes {start}..{max(end - 1, start)}{path}: {fault.message}"))
    if explanation.data_start is not None and explanation.ranges:
        size = explanation.size - explanation.data_start
        lines.append(_row("data", draw_layout(explanation.ranges, size)))
    view = hexview(data, start, end)
    lines.extend(_row("bytes" if i == 0 else "", line) for i, line in enumerate(view.splitlines()))
    return lines


def _fitting_fault(case: Case, explanation: Explanation) -> Fault | None:
    """Return the fault that the case is about: the first whose code the author named, else the first."""
    named = [c for e in ([case.expect] if case.expect else case.options.values()) for c in e.codes]
    faults = [*explanation.faults, *explanation.tolerated]
    for code in named:
        for fault in faults:
            if fault.code == code:
                return fault
    return faults[0] if faults else None
