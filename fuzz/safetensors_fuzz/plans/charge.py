"""The rules that a wrong answer to a question is charged with: those of what brings it about, or none.

What is wrong with an answer that came is said by the judge. Where something had to be refused, its faults
tell. Where something had to be done and was refused, the rules of what is asked say nothing of the reason: it
is made simpler in each way, and a rule that goes when the answer turns right is the one.
"""

from __future__ import annotations

from collections.abc import Callable

from safetensors_conformance.verdict.judge import StepVerdict
from safetensors_corpus.judging.verdicts import fails

from ..loop.attribution import Cause, unknown
from .question import Asking, Plan, PlanError, Question

TRIES = 60
"""Simpler questions asked at most."""


def charged(
    kind: Asking, plan: Plan, question: Question, judged: StepVerdict, ask: Callable[[Question], StepVerdict]
) -> Cause:
    """Return the rules and why.

    Args:
        kind: what is asked.
        plan: of the question.
        question: that was answered wrongly.
        judged: the verdict on the answer.
        ask: asks another question of the same implementation.
    """
    if judged.verdict == "harness-error":
        return unknown("the adapter failed, not the implementation")
    if "choice" in question.expectation or question.expectation["outcome"] == "reject":
        return Cause(question.rules)
    named = tuple(dict.fromkeys(f.rule for f in judged.failures if f.rule))
    if named and all(f.property != "outcome" for f in judged.failures):
        return Cause(named)
    if judged.result.outcome in ("hang", "exhausted"):
        return unknown("nothing is wrong with what is asked, and asking for others would use up the limits")
    gone: dict[str, str] = {}
    for _, other in zip(range(TRIES), kind.smaller(plan), strict=False):
        try:
            asked = kind.question(other)
        except PlanError:
            continue
        lost = [rule for rule in question.rules if rule not in asked.rules]
        sound = asked.expectation.get("outcome") == "accept"
        if len(lost) == 1 and lost[0] not in gone and sound and not fails(ask(asked).verdict):
            gone[lost[0]] = f"answered rightly without what {lost[0]} is about"
    if gone:
        return Cause(tuple(gone), "; ".join(gone.values()))
    return unknown("no single thing could be taken out of what is asked that mends the answer")
