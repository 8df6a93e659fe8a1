"""Is this answer permitted? The verdict on a step, from what a case demands and what was done.

Runs, the matrix that proves the corpus and the fuzzer all ask here. What breaks is charged by itself: the
rule named is the one broken, its level says whether that is a mistake or a missed recommendation, and its
basis whether the written format requires it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from safetensors_reference.rules.book import BASES, rule_book

from ..manifest import ANY_VALID_FILE, Case, Expectation, claims_rule
from . import charge
from .answer import UNSAFE, Answer, Flaw
from .content import Difference, differences, worst_rows
from .demand import Demand, first_rule
from .verdicts import badness
from .written_folder import COMPLETE, RULES_OF

A = TypeVar("A", bound=Answer)

NOTHING: frozenset[str] = frozenset()
UNSAFE_RATIO = 2.0
"""How many times a budget of time or memory must be exceeded to be a danger and not a cost."""

_RULE_OF_DIFFERENCE: Mapping[str, str] = {
    "missing": "ENT-01",
    "reported": "ENT-01",
    "twice": "ENT-01",
    "count": "ENT-01",
    "escapes": "HDR-15",
    "bytes": "DAT-06",
    "nbytes": "DAT-06",
    "shape": "SHP-11",
    "dtype": "DTY-14",
    "metadata": "MET-04",
}
"""Part of a content that differs -> the rule broken."""
_NAMES = frozenset({"missing", "reported", "twice"})
_CLOSER_FAMILIES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(_NAMES, ("HDR", "ENT", "MET")),
    "metadata": ("MET",),
}
"""Part of a content -> families of rules of which a case can be about one that is closer to the difference.

Not so of bytes, shapes and dtypes: a file about byte order whose doubles come back as floats shows nothing
about byte order."""
_VALIDITY = frozenset({"WRT-05", "WRT-06", "WRT-11", "WRT-16", "WRT-17", "WRT-20"})
"""Rules on calls from which a careless writer makes an invalid file."""
_LAYOUT_IN_MEMORY = frozenset({"WRT-07", "WRT-08"})
"""Rules on arrays whose elements lie in memory in another order than in the file."""
_SILENT_KINDS = frozenset({"concurrent", "lifecycle"})
"""Kinds of case on which the text is silent: it describes a file, not handles, threads or changes of it."""
_SAVING = frozenset({"write", "sharded"})


@dataclass(frozen=True)
class Failure:
    """One thing that is wrong about an answer.

    Attributes:
        verdict: what it counts.
        rule: the rule broken, empty when none is known.
        basis: what that rule rests on, a key of ``BASES``.
        property: what is wrong: ``outcome``, a part of the content (``bytes``, ``metadata``, ...), ``valid``
            or another property of a written file, ``cost``, ``exception``, or a check of the step ``device``.
        detail: one line.
    """

    verdict: str
    rule: str
    basis: str
    property: str
    detail: str


@dataclass(frozen=True)
class Judgement(Generic[A]):
    """The verdict on one step.

    Attributes:
        verdict: a key of ``VERDICTS``; ``deviation`` with what was done behind a colon; ``choice:<option>``
            with all options that fit, joined by ``|``.
        detail: one line saying what was wrong or which option was taken.
        options: for a case of an open choice, the options that the answer is compatible with.
        result: the answer judged.
        failures: everything that is wrong, the worst first; empty when nothing is.
    """

    verdict: str
    detail: str
    options: tuple[str, ...]
    result: A
    failures: tuple[Failure, ...] = ()


def excuse(answer: Answer, lacks: Iterable[str], features: Iterable[str]) -> str:
    """Return why a refusal says nothing about an input, empty when it does, or when it is no refusal.

    Args:
        answer: to the input.
        lacks: features that the implementation declares to lack.
        features: those of the input, looked at only where they matter.
    """
    lacks = set(lacks) if answer.outcome == "reject" else set()
    lacking = sorted(lacks.intersection(features)) if lacks else []
    return f"refused; the implementation lacks {', '.join(lacking)}" if lacking else ""


def judge_step(
    demand: Case | Demand,
    step: str,
    answers: Mapping[str, A],
    lacks: frozenset[str] = NOTHING,
    profile: str | None = None,
    areas: frozenset[str] = NOTHING,
) -> Judgement[A]:
    """Judge the answer to one step.

    Args:
        demand: what was asked.
        step: the step to judge.
        answers: the answers to all steps of the case, since a reader that accepts at open may refuse later.
        lacks: features that the implementation declares to lack.
        profile: whose options of choices are demanded; without one only those that the text settles.
        areas: of the corpus that the implementation claims to judge, none for all. No rule of another area is
            held against it.
    """
    answer = answers[step]
    if answer.outcome == "harness-error":
        return Judgement("harness-error", answer.message, (), answer)
    if answer.outcome in UNSAFE:
        detail = f"{answer.outcome}: {answer.message}" if answer.message else answer.outcome
        rule = charge.rule_of_harm(demand)
        return failed(answer, [Failure("unsafe", rule, basis_of(rule), "outcome", detail)])
    if answer.outcome == "unsupported":
        return Judgement("unsupported", answer.message or "declared unsupported", (), answer)
    if excused := excuse(answer, lacks, demand.features):
        return Judgement("unsupported", excused, (), answer)
    judged = _within(areas, _judge(demand, step, answers, profile))
    besides = [*_cost(demand, answer), *_exception(demand, answer)]
    return failed(answer, [*judged.failures, *besides], judged) if besides else judged


def _within(areas: frozenset[str], judged: Judgement[A]) -> Judgement[A]:
    claimed = [failure for failure in judged.failures if claims_rule(areas, failure.rule)]
    if len(claimed) == len(judged.failures):
        return judged
    if claimed:
        return failed(judged.result, claimed, judged)
    return Judgement("pass", "", judged.options, judged.result)


def failed(answer: A, failures: Sequence[Failure], judged: Judgement[A] | None = None) -> Judgement[A]:
    options = judged.options if judged is not None else ()
    ranked = tuple(sorted(failures, key=lambda failure: badness(failure.verdict)))
    detail = "; ".join(dict.fromkeys(failure.detail for failure in ranked))
    return Judgement(ranked[0].verdict, detail, options, answer, ranked)


def _judge(demand: Case | Demand, step: str, answers: Mapping[str, A], profile: str | None) -> Judgement[A]:
    answer = answers[step]
    if demand.choice is None:
        assert demand.expect is not None
        return _against(demand, demand.expect, step, answers, None, profile)
    option = rule_book().choices[demand.choice].expected(profile)
    if option is not None:
        judged = _against(demand, demand.options[option], step, answers, option, profile)
        taken = f"takes option {option} of choice {demand.choice}" if judged.verdict == "pass" else ""
        return replace(judged, detail=judged.detail or taken, options=(option,))
    trials = {
        name: _against(demand, expectation, step, answers, None, profile)
        for name, expectation in demand.options.items()
    }
    fitting = tuple(name for name, judged in trials.items() if judged.verdict == "pass")
    if fitting:
        label = "|".join(fitting)
        return Judgement(
            f"choice:{label}", f"takes option {label} of choice {demand.choice}", fitting, answer
        )
    unsupported = [judged for judged in trials.values() if judged.verdict == "unsupported"]
    late = [judged for judged in trials.values() if judged.verdict == "late-reject"]
    if unsupported or late:
        return (unsupported or late)[0]
    # Held against the options with the same outcome, or against any where there is none.
    same = [j for name, j in trials.items() if demand.options[name].outcome == answer.outcome]
    if same:
        return same[0]
    wrong = "accept" if answer.outcome == "accept" else "reject"
    detail = f"{answer.outcome}: no option of choice {demand.choice} {wrong}s"
    rule = first_rule(demand)
    return failed(answer, [failure_of(wrong, rule, "must", "outcome", detail)])


def _against(
    demand: Case | Demand,
    expectation: Expectation,
    step: str,
    answers: Mapping[str, A],
    option: str | None,
    profile: str | None,
) -> Judgement[A]:
    answer = answers[step]
    if expectation.outcome != answer.outcome:
        if answer.outcome == "reject":
            detail = f"reject: {answer.message}" if answer.message else "reject"
            if demand.choice is None and "may" in charge.refusal_levels(demand):
                # A rule that permits something to a file demands of nobody to have it.
                return Judgement("unsupported", detail, (), answer)
            return failed(answer, [_outcome(demand, "reject", detail, option, profile)])
        if _refused_late(step, answers):
            late = Failure("late-reject", LATE, basis_of(LATE), "outcome", _LATE)
            return failed(answer, [late])
        count = "" if answer.tensors is None else f", {_tensors(len(answer.tensors))}"
        return failed(answer, [_outcome(demand, "accept", f"accept{count}", option, profile)])
    failures = [f for flaw in answer.flaws if (f := _flaw(demand, expectation, flaw, profile)) is not None]
    if answer.outcome == "accept" and expectation.content is not None:
        told = worst_rows(expectation.content, answer) if demand.kind == "concurrent" else answer
        failures += [_content(demand, d) for d in differences(expectation.content, told)]
    if failures:
        return failed(answer, failures)
    missing = answer.unsupported_tensors if answer.outcome == "accept" else []
    if missing:
        detail = f"{_tensors(len(missing))} cannot be handed out, e.g. {missing[0][:40]!r}"
        return Judgement("unsupported", detail, (), answer)
    return Judgement("pass", "", (), answer)


_WEAKEST_LAST: Sequence[str] = list(BASES)
LATE = "OFF-15"
_LATE = "accepted at open, refused when reading"


def _tensors(count: int) -> str:
    return "1 tensor" if count == 1 else f"{count:,} tensors"


def _refused_late(step: str, answers: Mapping[str, Answer]) -> bool:
    later = answers.get("read")
    return step == "open" and later is not None and later.outcome == "reject"


def basis_of(rule: str) -> str:
    """Return what a rule rests on. A valid file is the written format's until a rule says otherwise."""
    return rule_book().rules[rule].basis if rule else "text"


def failure_of(effect: str, rule: str, level: str, of: str, detail: str, basis: str | None = None) -> Failure:
    """Return what an effect (``content``, ``accept``, ``reject``, ...) on a rule of a level counts.

    Only what the written format requires is called wrong.
    """
    basis = basis or basis_of(rule)
    if level != "must":
        verdict = "not-strict"
    elif basis == "text" and effect in ("content", "accept", "reject"):
        verdict = f"wrong-{effect}"
    else:
        verdict = f"deviation:{effect}"
    return Failure(verdict, rule, basis, of, detail)


def _outcome(
    demand: Case | Demand, effect: str, detail: str, option: str | None = None, profile: str | None = None
) -> Failure:
    rule = first_rule(demand)
    if demand.kind in _SAVING:
        return _call(demand, effect, detail)
    if option is None:
        first, rule = (
            rule,
            charge.rule_of_acceptance(demand) if effect == "accept" else charge.rule_of_refusal(demand),
        )
        basis = _weaker(*map(basis_of, demand.rules if rule == ANY_VALID_FILE else (first, rule)))
        return _failure(demand, effect, rule, demand.level, "outcome", detail, basis)
    # What a profile demands of a choice is a must for whoever asked for the profile.
    return failure_of(
        effect, rule, "must", "outcome", detail, _basis_of_option(demand, option, profile, rule)
    )


def _call(demand: Case | Demand, effect: str, detail: str) -> Failure:
    """Return the failure of a writer that takes a call it must refuse, or refuses one it must take.

    The text allows files; it obliges no writer to be able to write each of them.
    """
    first = first_rule(demand)
    if effect == "reject":
        return failure_of(
            effect, first, demand.level, "outcome", detail, _weaker(basis_of(first), "official")
        )
    saving = (rule for rule in demand.rules if rule.startswith(("WRT", "IDX")))
    rule = next(saving, charge.OUTPUT)
    return failure_of(effect, rule, demand.level, "outcome", detail, _weaker(*map(basis_of, (first, rule))))


def _failure(
    demand: Case | Demand,
    effect: str,
    rule: str,
    level: str,
    of: str,
    detail: str,
    basis: str | None = None,
) -> Failure:
    """Return the failure of a reader; of handles, threads and changing files the text demands nothing."""
    basis = basis or basis_of(rule)
    if demand.kind in _SILENT_KINDS:
        basis = _weaker(basis, "official")
    return failure_of(effect, rule, level, of, detail, basis)


def _weaker(*bases: str) -> str:
    return max(bases, key=_WEAKEST_LAST.index)


def _basis_of_option(demand: Case | Demand, option: str, profile: str | None, rule: str) -> str:
    choice = rule_book().choices[demand.choice or ""]
    if option == choice.positions["text"] and basis_of(rule) == "text":
        return "text"
    if profile is None:
        return basis_of(rule)
    return {"text": "text", "official": "official"}.get(profile, "ours")


def _content(demand: Case | Demand, difference: Difference) -> Failure:
    of, first = difference.part, first_rule(demand)
    if demand.kind in _SAVING:
        return _written_content(demand, difference)
    if demand.kind == "concurrent":
        level = demand.level if of in ("missing", "reported") else "must"  # by somebody: the file is in order
        return _failure(demand, "content", first, level, of, difference.text)
    if demand.kind == "slice":
        rule = first if first.startswith("API") else charge.SLICES
        return _failure(demand, "content", rule, "must", of, difference.text)
    if demand.kind in ("index", "lifecycle", "remote"):
        # What is read of a file that somebody changes meanwhile is only as binding as the rule on it.
        if demand.kind == "remote" and first.startswith("API"):
            # A reader may hand out the old file or the new one, but nothing that neither holds.
            return _failure(demand, "content", REMOTE_CONTENT, "must", of, difference.text)
        changing = demand.kind != "index"
        level = _at_most(rule_book().rules[first].level) if changing and first else "must"
        return _failure(demand, "content", first, level, of, difference.text)
    if of == "shape" and PACKED_DTYPES.intersection(demand.features):
        rule = ELEMENT_COUNT
    elif first.startswith(_CLOSER_FAMILIES.get(of, ())) and basis_of(first) == "text" and _is_must(first):
        rule = first
    else:
        rule = _RULE_OF_DIFFERENCE[of]
    return _failure(demand, "content", rule, "must", of, difference.text)


def _written_content(demand: Case | Demand, difference: Difference) -> Failure:
    """Return the failure of a written file that does not hold what was given.

    The text says how elements lie in a file. That a call writes what it was given is expected of a library.
    """
    of, first = difference.part, first_rule(demand)
    if demand.kind == "sharded" and of in _NAMES:
        return failure_of("content", COMPLETE, "must", of, difference.text)
    if first in _LAYOUT_IN_MEMORY and of == "bytes":
        return failure_of("content", first, "must", of, difference.text)
    return failure_of("content", charge.OUTPUT, "must", of, difference.text, "official")


ELEMENT_COUNT = "DTY-10"
REMOTE_CONTENT = "NET-01"
"""The rule that what a reader hands out of an answer is what the file holds."""
PACKED_DTYPES = frozenset({"dtype-f4", "dtype-f6-e2m3", "dtype-f6-e3m2"})
"""Features of tensors whose elements share bytes: frameworks count them otherwise than the format does."""


def _is_must(rule: str) -> bool:
    return rule_book().rules[rule].level == "must"


def _flaw(demand: Case | Demand, expectation: Expectation, flaw: Flaw, profile: str | None) -> Failure | None:
    """Return the failure of a flaw of a written file; None for one that is not demanded or permitted.

    The writer of an invalid file breaks a rule on writing; ``flaw.text`` names the rule that the file breaks.
    """
    if flaw.property == "missing":
        return failure_of("content", charge.OUTPUT, "must", "missing", flaw.text, "official")
    if flaw.property == "valid":
        known = rule_book().rules[flaw.rule]
        if flaw.choice is not None and rule_book().choices[flaw.choice].expected(profile) != "reject":
            return None  # both answers are found in practice, and the rest was judged without it
        basis = known.basis if profile is None or known.basis == "text" else "ours"
        first = first_rule(demand)
        # What is wrong about an index is a rule on saving already.
        rule = flaw.rule if flaw.rule.startswith("IDX") else first if first in _VALIDITY else charge.OUTPUT
        return failure_of(
            "content", rule, _at_most(known.level), "valid", flaw.text, _weaker(basis, basis_of(rule))
        )
    if flaw.property not in expectation.properties:
        return None
    rules = RULES_OF[flaw.property]
    rule = next((r for r in demand.rules if r in rules), rules[0])
    level = demand.level if demand.level != "must" else _at_most(rule_book().rules[rule].level)
    return failure_of("content", rule, level, flaw.property, f"{flaw.text} ({flaw.property})")


def _at_most(level: str) -> str:
    return "should" if level == "may" else level


def _cost(demand: Case | Demand, answer: Answer) -> list[Failure]:
    """Return the failures of budgets that were exceeded.

    Reading too much is a cost; time and memory are a danger where the text ties them to the input and they
    are far above.
    """
    if not answer.over_budget:
        return []
    limit = next((r for r in demand.rules if r.startswith("LIM")), first_rule(demand))
    out = []
    for excess in answer.over_budget:
        # A rule on the cap, or one that says nothing of costs, is not what a costly file breaks.
        costly = limit.startswith("LIM") and limit != "LIM-01"
        rule = limit if costly else _COSTS.get(excess.name, limit)
        # The text speaks of memory; how often a file is read is nobody's but ours.
        basis = "ours" if excess.name == "read_bytes" else None
        told = f"over budget: {excess}, the less of two runs"
        found = failure_of("cost", rule, demand.level, "cost", told, basis)
        grave = excess.name != "read_bytes" and excess.ratio >= UNSAFE_RATIO
        if grave and found.basis == "text" and demand.level == "must":
            found = replace(found, verdict="unsafe")
        out.append(found)
    return out


_COSTS = {"peak_bytes": "LIM-03", "seconds": "LIM-04"}
"""Part of a budget -> the rule on what parsing a header may cost."""
EXCEPTIONS = "API-14"
_KINDS_WITHOUT_API_14 = ("write", "sharded", "remote")
"""Kinds of case in which an exception answers a caller or a server, not a file."""


def _exception(demand: Case | Demand, answer: Answer) -> list[Failure]:
    """Return the failure of a reader that refuses by an exception that it does not document.

    The rule speaks of readers and files: a writer that is handed no map answers its caller and not a file,
    and what a server does is no fault of a file.
    """
    if answer.outcome != "reject" or answer.documented is not False or demand.kind in _KINDS_WITHOUT_API_14:
        return []
    detail = f"the exception {answer.exception} is not one that its documentation names"
    return [failure_of("exception", EXCEPTIONS, "must", "exception", detail)]
