"""Verdicts on the answers of one implementation, with device checks, as rows of records and as messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeAlias

from safetensors_corpus import Case
from safetensors_corpus.judging.answer import UNSAFE
from safetensors_corpus.judging.judge import Failure, Judgement, failed, failure_of, judge_step
from safetensors_corpus.judging.verdicts import BASES, effect_of, worst
from safetensors_corpus.publish.show import action_lines
from safetensors_reference.rules.book import rule_book
from safetensors_reports.audit.findings import evidence_of, expected_text, got_text
from safetensors_reports.causes.failures import INPUT, ORDER, message_class_of
from safetensors_reports.record.device_checks import CHECKS
from safetensors_reports.record.run import reproducer
from safetensors_reports.text import visible

from .outcome import Implementation, StepResult

StepVerdict: TypeAlias = Judgement[StepResult]


@dataclass(frozen=True)
class CaseVerdict:
    """The verdicts on all steps of one case that ran."""

    case: Case
    steps: Mapping[str, StepVerdict]

    @property
    def verdict(self) -> str:
        return worst(s.verdict for s in self.steps.values())

    @property
    def final(self) -> StepVerdict:
        """The verdict of the last step other than ``device``, or of ``device`` if it is the only step."""
        last = [judged for step, judged in self.steps.items() if step != "device"]
        return (last or list(self.steps.values()))[-1]


def judge(
    case: Case, results: Mapping[str, StepResult], implementation: Implementation, profile: str | None
) -> CaseVerdict:
    steps = {}
    for step, result in results.items():
        judged = judge_step(case, step, results, implementation.lacks, profile, implementation.areas)
        broken = []
        for check in result.checks:
            if check.status == "fail":
                promise = CHECKS[check.name]
                level = "should" if promise.verdict == "not-strict" else "must"
                # The format description does not say what libraries must do with a tensor afterwards.
                basis = "official" if promise.rule else "ours"
                detail = f"{check.name}: {check.message}"
                broken.append(failure_of("content", promise.rule, level, check.name, detail, basis))
        if result.changed and result.outcome != "harness-error":
            broken.append(Failure("deviation:content", "", "ours", INPUT, result.changed))
        steps[step] = failed(result, [*judged.failures, *broken], judged) if broken else judged
    return CaseVerdict(case, steps)


Suspicion: TypeAlias = tuple[str, str]
"""Wording of a rejection, or property of wrong content, that earlier requests may have caused."""


def suspicion_of(case: Case, judged: StepVerdict) -> Suspicion | None:
    """Return the kind of a wrong answer if earlier requests, rather than chance, may have caused it."""
    broken = [failure.property for failure in judged.failures]
    if case.kind in ("concurrent", "contended", "repeated") or judged.result.changed:
        return None
    if judged.result.outcome == "reject":
        return ("reject", message_class_of(judged.result.message, case)) if "outcome" in broken else None
    return ("content", broken[0]) if effect_of(judged.verdict) == "content" else None


def settle(case: Case, first: StepVerdict, alone: StepVerdict) -> StepVerdict:
    """Return the verdict after retrying the step alone. An answer that does not recur is order-dependent."""
    if alone.result.outcome == "harness-error":
        return first
    if suspicion_of(case, alone) or alone.result.outcome in UNSAFE:
        return alone
    detail = f"order-dependent: {alone.result.outcome} when run alone in a fresh process; {first.detail}"
    return failed(first.result, [replace(first.failures[0], rule="", property=ORDER, detail=detail)])


def only_checks(judged: StepVerdict) -> bool:
    return bool(judged.failures) and all(failure.property in CHECKS for failure in judged.failures)


def judge_choice(
    choice: str, verdicts: Iterable[CaseVerdict], refused: frozenset[str] = frozenset()
) -> tuple[str, str]:
    """Return (verdict, detail): whether a single option fits the answers to all cases of an open choice.

    If the choice is about a limit, the detail lists the different answers. ``refused`` contains the rules for
    which the implementation rejects even valid files. If a case also depends on one of these rules, its
    rejection says nothing about the choice.
    """
    answers = {}
    for v in verdicts:
        outcomes = {v.case.options[name].outcome for name in v.final.options}
        if outcomes and (refused.isdisjoint(v.case.rules[1:]) or outcomes != {"reject"}):
            answers[v.case.id] = v.final.options
    if not answers:
        return "pass", "there were no answers to the cases of this choice"
    common = set.intersection(*(set(options) for options in answers.values()))
    if common:
        return f"choice:{'|'.join(sorted(common))}", ""
    spoken = "; ".join(f"{case} {'|'.join(options)}" for case, options in list(answers.items())[:8])
    if rule_book().choices[choice].limit:
        return "choice:limited", spoken
    return "choice-inconsistent", f"no single option of {choice} explains these answers: {spoken}"


def wrongly_refused(verdicts: Iterable[CaseVerdict]) -> frozenset[str]:
    return frozenset(v.case.rules[0] for v in verdicts if effect_of(v.final.verdict) == "reject")


def result_rows(verdict: CaseVerdict) -> list[dict[str, Any]]:
    return [result_row(verdict, step, expected_failure=False) for step in verdict.steps]


def result_row(verdict: CaseVerdict, step: str, expected_failure: bool) -> dict[str, Any]:
    judged = verdict.steps[step]
    result, case = judged.result, verdict.case
    checks = {"checks": [check._asdict() for check in result.checks]} if step == "device" else {}
    worst = judged.failures[0] if judged.failures else None
    return {
        "case": case.id,
        "step": step,
        "outcome": result.outcome,
        "verdict": judged.verdict,
        "level": case.level,
        "importance": case.importance,
        "rules": list(case.rules),
        "rule": (worst.rule or None) if worst is not None else None,
        "basis": worst.basis if worst is not None else None,
        "failures": [asdict(failure) for failure in judged.failures],
        "choice": case.choice,
        "options": list(judged.options),
        "expected_failure": expected_failure,
        "detail": judged.detail,
        "message": result.message,
        "exception": result.exception,
        "documented": result.documented,
        "wall_ms": result.wall_ms,
        "cpu_ms": result.cpu_ms,
        "peak_bytes": result.peak_bytes,
        "noise": result.noise,
        "content": result.content,
        **checks,
    }


# Messages: the rule, the expectation, the result, the relevant bytes, and a way to reproduce it

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
