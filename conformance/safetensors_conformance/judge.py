"""Verdicts: an outcome against a case (the words are in ``safetensors_reports.verdicts``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from safetensors_corpus import Case, Expectation
from safetensors_corpus.write_properties import MEANINGS
from safetensors_reference.rules import rule_book
from safetensors_reports.promises import CHECKS
from safetensors_reports.text import plural
from safetensors_reports.verdicts import worst

from .compare import first_difference, unsupported_tensors
from .device import failed_checks
from .outcomes import UNSAFE, Implementation, StepResult


@dataclass(frozen=True)
class StepVerdict:
    """The verdict on one step.

    Attributes:
        verdict: a key of ``VERDICTS``, or ``choice:<option>`` with all options that fit, joined by ``|``.
        detail: one line saying what was wrong or which option was taken.
        options: for a case of an open choice, the options that the answer is compatible with.
        result: the outcome judged.
        by_checks: True when what the step ``device`` saw besides made the verdict worse.
    """

    verdict: str
    detail: str
    options: tuple[str, ...]
    result: StepResult
    by_checks: bool = False


@dataclass(frozen=True)
class CaseVerdict:
    """The verdicts on all steps that were run of one case."""

    case: Case
    steps: Mapping[str, StepVerdict]

    @property
    def verdict(self) -> str:
        """The worst of the steps."""
        return worst(s.verdict for s in self.steps.values())

    @property
    def final(self) -> StepVerdict:
        """The verdict of the last step; it speaks for the case in a choice and in a comparison.

        What a device was given does so only where nothing else was asked.
        """
        last = [judged for step, judged in self.steps.items() if step != "device"]
        return (last or list(self.steps.values()))[-1]


def judge(
    case: Case, results: Mapping[str, StepResult], who: Implementation, profile: str | None
) -> CaseVerdict:
    """Judge the results of all steps of one case."""
    steps = {step: _with_checks(_judge_step(case, step, results, who, profile)) for step in results}
    return CaseVerdict(case, steps)


def _with_checks(judged: StepVerdict) -> StepVerdict:
    """Worsen a verdict to that of the worst promise of the step ``device`` that does not hold."""
    failed = failed_checks(judged.result)
    verdict = worst([judged.verdict, *(CHECKS[check.name].verdict for check in failed)])
    if verdict == judged.verdict:
        return judged
    detail = "; ".join(f"{check.name}: {check.message}" for check in failed)
    return replace(judged, verdict=verdict, detail=detail, by_checks=True)


def _judge_step(
    case: Case, step: str, results: Mapping[str, StepResult], who: Implementation, profile: str | None
) -> StepVerdict:
    result = results[step]
    if result.outcome in UNSAFE:
        return StepVerdict("unsafe", f"{result.outcome}: {result.message}", (), result)
    if result.outcome == "harness-error":
        return StepVerdict("harness-error", result.message, (), result)
    expectation, demanded = _demand(case, profile)
    if result.over_budget:
        verdict = "unsafe" if case.level == "must" else "not-strict"
        return StepVerdict(verdict, f"over budget: {', '.join(result.over_budget)}", (), result)
    if expectation is None:
        return _open_choice(case, step, results, who)
    verdict, detail = _against(case, step, expectation, results, who)
    if demanded and verdict == "pass":
        detail = f"takes option {demanded} of choice {case.choice}"
    if case.level != "must" and demanded is None and verdict in ("wrong-accept", "wrong-reject"):
        verdict = "not-strict"
    return StepVerdict(verdict, detail, (demanded,) if demanded else (), result)


def _demand(case: Case, profile: str | None) -> tuple[Expectation | None, str | None]:
    """Return what is demanded and under which option; (None, None) when several answers are legitimate."""
    if case.choice is None:
        return case.expect, None
    option = rule_book().choices[case.choice].expected(profile)
    return (None, None) if option is None else (case.options[option], option)


def _against(
    case: Case,
    step: str,
    expectation: Expectation,
    results: Mapping[str, StepResult],
    who: Implementation,
) -> tuple[str, str]:
    """Compare a clean outcome with one expectation."""
    result = results[step]
    lacking = sorted(who.lacks.intersection(case.features))
    if result.outcome == "unsupported":
        return "unsupported", result.message or "declared unsupported"
    if result.outcome == "reject" and lacking:
        return "unsupported", f"refused; the implementation lacks {', '.join(lacking)}"
    if expectation.outcome == "reject":
        if result.outcome == "reject":
            return _whole(case, expectation, result)
        if _refused_late(step, results):
            return "late-reject", "accepted at open, refused when reading"
        count = "" if result.tensors is None else f", {plural(len(result.tensors), 'tensor')}"
        return "wrong-accept", f"accept{count}"
    if result.outcome == "reject":
        return "wrong-reject", f"reject: {result.message}"
    assert expectation.content is not None
    difference = result.fault or first_difference(expectation.content, result)
    if difference:
        return "wrong-content", difference
    missing = unsupported_tensors(result)
    if missing:
        return "unsupported", f"{len(missing)} tensors cannot be handed out, e.g. {missing[0][:40]!r}"
    return _whole(case, expectation, result)


def _refused_late(step: str, results: Mapping[str, StepResult]) -> bool:
    """True when this is an accepting open step and the read step refuses."""
    later = results.get("read")
    accepted = step == "open" and results[step].outcome == "accept"
    return accepted and later is not None and later.outcome == "reject"


def _open_choice(
    case: Case, step: str, results: Mapping[str, StepResult], who: Implementation
) -> StepVerdict:
    """Find the options of an open choice that the answer is compatible with."""
    result = results[step]
    lacking = sorted(who.lacks.intersection(case.features))
    if result.outcome == "unsupported" or (result.outcome == "reject" and lacking):
        return StepVerdict("unsupported", result.message, (), result)
    fitting = tuple(name for name, option in case.options.items() if _fits(option, result))
    if fitting:
        label = "|".join(fitting)
        return StepVerdict(
            f"choice:{label}", f"takes option {label} of choice {case.choice}", fitting, result
        )
    if _refused_late(step, results) and any(o.outcome == "reject" for o in case.options.values()):
        return StepVerdict("late-reject", "accepted at open, refused when reading", (), result)
    if result.outcome == "reject":
        return StepVerdict("wrong-reject", f"reject: no option of choice {case.choice} refuses", (), result)
    accepting = [o for o in case.options.values() if o.content is not None]
    if not accepting:
        return StepVerdict("wrong-accept", f"no option of choice {case.choice} accepts", (), result)
    difference = result.fault or first_difference(accepting[0].content or {}, result) or ""
    return StepVerdict("wrong-content", difference, (), result)


def _fits(expectation: Expectation, result: StepResult) -> bool:
    if expectation.outcome != result.outcome or _lacking(expectation, result) or result.fault:
        return False
    return expectation.content is None or first_difference(expectation.content, result) is None


def _lacking(expectation: Expectation, result: StepResult) -> list[str]:
    """Properties that the expectation demands and the result does not have."""
    return [p for p in expectation.properties if p in result.broken]


def _whole(case: Case, expectation: Expectation, result: StepResult) -> tuple[str, str]:
    """Pass, unless a demanded property of a written file or of its folder does not hold."""
    lacking = _lacking(expectation, result)
    if not lacking:
        return "pass", ""
    told = ", ".join(f"{MEANINGS[name]} ({name})" if name in MEANINGS else name for name in lacking)
    return ("wrong-content" if case.level == "must" else "not-strict"), f"does not hold: {told}"


def judge_choice(choice: str, verdicts: Iterable[CaseVerdict]) -> tuple[str, str]:
    """Judge whether the answers to all cases of an open choice fit one option: (verdict, detail).

    A limit may lie anywhere, so there the answers may differ from case to case; where is told.
    """
    answers = {v.case.id: v.final.options for v in verdicts if v.final.options}
    if not answers:
        return "pass", "no case of this choice gave an answer"
    common = set.intersection(*(set(options) for options in answers.values()))
    if common:
        return f"choice:{'|'.join(sorted(common))}", ""
    spoken = "; ".join(f"{case} {'|'.join(options)}" for case, options in list(answers.items())[:8])
    if rule_book().choices[choice].limit:
        return "choice:limited", spoken
    return "choice-inconsistent", f"no single option of {choice} explains: {spoken}"
