"""Judge the answer to a step of a case, for runs, the proof matrix and the fuzzer.

Each failure names the rule that is certainly broken, which is not always the first rule of the case. The
level of the rule distinguishes mistakes from missed recommendations. Its basis shows whether the written
format requires the rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Generic, TypeVar

from safetensors_reference.rules.book import BASES, rule_book
from safetensors_reference.text import plural

from ..manifest import ANY_VALID_FILE, Case, Expectation, claims_rule
from .answer import UNSAFE, Answer, Flaw
from .content import Difference, differences, worst_rows
from .exported_folder import OUTSIDE
from .verdicts import badness
from .written_folder import COMPLETE, NOTHING_LEFT, RULES_OF

A = TypeVar("A", bound=Answer)

NOTHING: frozenset[str] = frozenset()
UNSAFE_RATIO = 2.0
"""Ratio of a cost to its time or memory budget at which the cost counts as unsafe."""

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
"""Maps each part of the content to the rule that is broken if this part differs."""
_NAMES = frozenset({"missing", "reported", "twice"})
_CLOSER_FAMILIES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(_NAMES, ("HDR", "ENT", "MET")),
    "metadata": ("MET",),
}
"""Maps each part of the content to families of rules that fit the difference better if a case lists them
first.

Bytes, shapes and dtypes have no such families. For example, doubles that are returned as floats prove nothing
about the byte order.
"""
_VALIDITY = frozenset({"WRT-05", "WRT-06", "WRT-11", "WRT-16", "WRT-17", "WRT-20"})
"""Rules on calls for which a careless writer produces an invalid file."""
_LAYOUT_IN_MEMORY = frozenset({"WRT-07", "WRT-08"})
"""Rules on arrays whose elements are in a different order in memory than in the file."""
_SILENT_KINDS = frozenset({"concurrent", "lifecycle"})
"""Kinds of case on which the written format is silent, because it describes only files."""
_SAVING = frozenset({"write", "sharded", "contended"})


@dataclass(frozen=True)
class Demand:
    """The expectation for an input outside the corpus. It has the attributes of a ``Case``."""

    rules: tuple[str, ...]
    expect: Expectation | None
    level: str = "must"
    features: tuple[str, ...] = ()
    kind: str = "read"
    choice: str | None = None
    options: Mapping[str, Expectation] = field(default_factory=dict)


def first_rule(demand: Case | Demand) -> str:
    return demand.rules[0] if demand.rules else ""


@dataclass(frozen=True)
class Failure:
    """One defect of an answer.

    Attributes:
        rule: the broken rule; empty if it is unknown.
        basis: basis of that rule, a key of ``BASES``.
        property: ``outcome``, a part of the content (``bytes``, ``metadata``, ...), ``valid`` or another
            property of a written file, ``cost``, ``exception``, or a check of the ``device`` step.
        detail: description in one line.
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
        verdict: a key of ``VERDICTS``; ``deviation:<effect>``; or ``choice:<option>``, in which ``|``
            separates all options that are compatible with the answer.
        detail: one line that describes the defects or names the option that the answer takes.
        options: for an open choice, the options that are compatible with the answer.
        failures: all defects, worst first.
    """

    verdict: str
    detail: str
    options: tuple[str, ...]
    result: A
    failures: tuple[Failure, ...] = ()


def excuse(answer: Answer, lacks: Iterable[str], features: Iterable[str]) -> str:
    """Return the excuse for a rejection or for leaked resources, or an empty string.

    Both are excused if the implementation ``lacks`` one of the ``features`` that the case needs.
    """
    if answer.outcome == "reject":
        what = "rejected"
    else:
        what = next((flaw.text for flaw in answer.flaws if flaw.property == NOTHING_LEFT), "")
    lacking = sorted(set(lacks).intersection(features)) if what else []
    return f"{what}; the implementation lacks {', '.join(lacking)}" if lacking else ""


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
        demand: the case or expectation.
        step: the step to judge.
        answers: the answers to all steps, because a reader that accepts a file in ``open`` may reject it
            in ``read``.
        lacks: features that the implementation declares missing.
        profile: profile that decides the choices. None decides only those that the written format
            settles.
        areas: areas that the implementation claims; if empty, all areas. Failures in other areas are
            dropped.
    """
    answer = answers[step]
    if answer.outcome == "harness-error":
        return Judgement("harness-error", answer.message, (), answer)
    if answer.outcome in UNSAFE:
        detail = f"{answer.outcome}: {answer.message}" if answer.message else answer.outcome
        rule = _rule_of_harm(demand)
        return failed(answer, [Failure("unsafe", rule, basis_of(rule), "outcome", detail)])
    if answer.outcome == "unsupported":
        return Judgement("unsupported", answer.message or "declared unsupported", (), answer)
    if excused := excuse(answer, lacks, demand.features):
        return Judgement("unsupported", excused, (), answer)
    judged = _judge(demand, step, answers, profile)
    if areas:
        claimed = [failure for failure in judged.failures if claims_rule(areas, failure.rule)]
        if judged.failures and not claimed:
            judged = Judgement("pass", "", judged.options, answer)
        elif len(claimed) < len(judged.failures):
            judged = failed(answer, claimed, judged)
    besides = _cost(demand, answer)
    undocumented = answer.outcome == "reject" and answer.documented is False
    if undocumented and demand.kind not in _KINDS_WITHOUT_API_14:
        detail = f"its documentation does not name the exception {answer.exception}"
        besides.append(failure_of("exception", EXCEPTIONS, "must", "exception", detail))
    return failed(answer, [*judged.failures, *besides], judged) if besides else judged


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
    mild = [j for verdict in ("unsupported", "late-reject") for j in trials.values() if j.verdict == verdict]
    # If there is an option with the same outcome, report the failure under this option.
    same = [j for name, j in trials.items() if demand.options[name].outcome == answer.outcome]
    if mild or same:
        return (mild or same)[0]
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
            if demand.choice is None and "may" in _refusal_levels(demand):
                # A rule that permits a feature in a file does not require readers to support the feature.
                return Judgement("unsupported", detail, (), answer)
            return failed(answer, [_outcome(demand, "reject", detail, option, profile)])
        if step == "open" and "read" in answers and answers["read"].outcome == "reject":
            late = "accepted in open, but rejected in read"
            return failed(answer, [Failure("late-reject", LATE, basis_of(LATE), "outcome", late)])
        count = "" if answer.tensors is None else f", {plural(len(answer.tensors), 'tensor')}"
        return failed(answer, [_outcome(demand, "accept", f"accept{count}", option, profile)])
    failures = [f for flaw in answer.flaws if (f := _flaw(demand, expectation, flaw, profile)) is not None]
    if answer.outcome == "accept" and expectation.content is not None:
        judged = worst_rows(expectation.content, answer) if demand.kind == "concurrent" else answer
        failures += [_content(demand, d) for d in differences(expectation.content, judged)]
    if failures:
        return failed(answer, failures)
    rows = answer.tensors if answer.outcome == "accept" else None
    missing = [row["name"] for row in rows or () if row.get("unsupported")]
    if missing:
        detail = f"cannot return {plural(len(missing), 'tensor')}, e.g. {missing[0][:40]!r}"
        return Judgement("unsupported", detail, (), answer)
    return Judgement("pass", "", (), answer)


_WEAKEST_LAST: Sequence[str] = list(BASES)
LATE = "OFF-15"


def basis_of(rule: str) -> str:
    return rule_book().rules[rule].basis if rule else "text"


def failure_of(effect: str, rule: str, level: str, of: str, detail: str, basis: str | None = None) -> Failure:
    """Build a failure. Its verdict is ``wrong-...`` only if the written format requires the rule."""
    basis = basis or basis_of(rule)
    if level != "must":
        verdict = "not-strict"
    elif basis == "text" and effect in ("content", "accept", "reject"):
        verdict = f"wrong-{effect}"
    else:
        verdict = f"deviation:{effect}"
    return Failure(verdict, rule, basis, of, detail)


def _outcome(
    demand: Case | Demand, effect: str, detail: str, option: str | None, profile: str | None
) -> Failure:
    first, level = first_rule(demand), demand.level
    if demand.kind in _SAVING:
        # The written format allows these files, but does not require a writer to be able to write all of
        # them.
        saving = (rule for rule in demand.rules if rule.startswith(("WRT", "IDX")))
        rule = first if effect == "reject" else next(saving, OUTPUT)
        basis = _weaker(basis_of(first), "official" if effect == "reject" else basis_of(rule))
    elif option is not None:
        # The user chose the profile, so its options are required.
        choice = rule_book().choices[demand.choice or ""]
        if option == choice.positions["text"] and basis_of(first) == "text":
            basis = "text"
        elif profile is None:
            basis = basis_of(first)
        else:
            basis = {"text": "text", "official": "official"}.get(profile, "ours")
        return failure_of(effect, first, "must", "outcome", detail, basis)
    else:
        rule = (_rule_of_acceptance if effect == "accept" else _rule_of_refusal)(demand)
        basis = _weaker(*map(basis_of, demand.rules if rule == ANY_VALID_FILE else (first, rule)))
    return _failure(demand, effect, rule, level, "outcome", detail, basis)


def _failure(
    demand: Case | Demand, effect: str, rule: str, level: str, of: str, detail: str, basis: str | None = None
) -> Failure:
    basis = basis or basis_of(rule)
    if demand.kind in _SILENT_KINDS:
        basis = _weaker(basis, "official")
    return failure_of(effect, rule, level, of, detail, basis)


def _weaker(*bases: str) -> str:
    return max(bases, key=_WEAKEST_LAST.index)


def _content(demand: Case | Demand, difference: Difference) -> Failure:
    of, first, level, basis = difference.part, first_rule(demand), "must", None
    rules = rule_book().rules
    if demand.kind in ("concurrent", "contended"):
        rule = first
        # Other differences break a must-rule, because the file is valid.
        if of in ("missing", "reported") or (of == "count" and demand.kind == "contended"):
            level = demand.level
    elif demand.kind in _SAVING:
        if demand.kind == "sharded" and of in _NAMES:
            rule = COMPLETE
        elif first in _LAYOUT_IN_MEMORY and of == "bytes":
            rule = first
        else:
            # The written format specifies the file layout, but not that a call writes the given content.
            rule, basis = OUTPUT, "official"
    elif demand.kind == "slice":
        rule = first if first.startswith("API") else SLICES
    elif demand.kind == "remote" and first.startswith("API"):
        # A reader may return the old file or the new file, but not content that is in neither of them.
        rule = REMOTE_CONTENT
    elif demand.kind in ("index", "lifecycle", "remote"):
        rule = first
        if demand.kind != "index" and first:  # the file may change, so the level of the rule applies
            level = _at_most(rules[first].level)
    elif of == "shape" and PACKED_DTYPES.intersection(demand.features):
        rule = ELEMENT_COUNT
    elif (
        first.startswith(_CLOSER_FAMILIES.get(of, ()))
        and basis_of(first) == "text"
        and rules[first].level == "must"
    ):
        rule = first
    else:
        rule = _RULE_OF_DIFFERENCE[of]
    return _failure(demand, "content", rule, level, of, difference.text, basis)


_FAMILIES_OF_MIXTURES = ("FRM", "HDR", "OFF")
"""Families of rules that a file with parts of two saved files breaks."""
ELEMENT_COUNT = "DTY-10"
REMOTE_CONTENT = "NET-01"
"""Rule that requires a reader to return only content of the file, whatever the server sends."""
PACKED_DTYPES = frozenset({"dtype-f4", "dtype-f6-e2m3", "dtype-f6-e3m2"})
"""Features for dtypes whose elements share bytes. Frameworks differ in how they count these elements."""


def _flaw(demand: Case | Demand, expectation: Expectation, flaw: Flaw, profile: str | None) -> Failure | None:
    """Return the failure for a flaw, which names a rule on writing, or None if no rule forbids the flaw."""
    if demand.kind == "contended":
        if flaw.property == "valid" and not flaw.rule.startswith(_FAMILIES_OF_MIXTURES):
            return None  # each of the processes alone would write this flaw too
        return failure_of("content", first_rule(demand), demand.level, flaw.property, flaw.text)
    if flaw.property == "missing":
        return failure_of("content", OUTPUT, "must", "missing", flaw.text, "official")
    if flaw.property == "valid":
        broken = rule_book().rules[flaw.rule]
        if flaw.choice is not None and rule_book().choices[flaw.choice].expected(profile) != "reject":
            return None  # implementations differ, and the rest was judged without the flaw
        basis = broken.basis if profile is None or broken.basis == "text" else "ours"
        first = first_rule(demand)
        # Rules on an index are already rules on saving.
        rule = flaw.rule if flaw.rule.startswith("IDX") else first if first in _VALIDITY else OUTPUT
        return failure_of(
            "content", rule, _at_most(broken.level), "valid", flaw.text, _weaker(basis, basis_of(rule))
        )
    if demand.kind == "export":
        demanded = rule_book().rules[flaw.rule].level
        failure = failure_of("content", flaw.rule, demanded, flaw.property, flaw.text)
        return replace(failure, verdict="unsafe") if flaw.property == OUTSIDE else failure
    if flaw.property not in expectation.properties:
        return None
    rules = RULES_OF[flaw.property]
    rule = next((r for r in demand.rules if r in rules), rules[0])
    level = demand.level if demand.level != "must" else _at_most(rule_book().rules[rule].level)
    return failure_of("content", rule, level, flaw.property, f"{flaw.text} ({flaw.property})")


def _at_most(level: str) -> str:
    return "should" if level == "may" else level


def _cost(demand: Case | Demand, answer: Answer) -> list[Failure]:
    if not answer.over_budget:
        return []
    # If the written format requires time and memory to be proportional to the input size, costs far above the
    # budget are unsafe.
    limit = next((r for r in demand.rules if r.startswith("LIM")), first_rule(demand))
    out = []
    for excess in answer.over_budget:
        # Neither the rule on the header limit nor a rule that is not about cost restricts the cost.
        costly = limit.startswith("LIM") and limit != "LIM-01"
        rule = limit if costly else _COSTS.get(excess.name, limit)
        # The written format limits memory; the limit on bytes read is our own.
        basis = "ours" if excess.name == "read_bytes" else None
        detail = f"over budget: {excess} (the lower of two runs)"
        failure = failure_of("cost", rule, demand.level, "cost", detail, basis)
        far_above = excess.name != "read_bytes" and excess.ratio >= UNSAFE_RATIO
        if far_above and failure.basis == "text" and demand.level == "must":
            failure = replace(failure, verdict="unsafe")
        out.append(failure)
    return out


_COSTS = {"peak_bytes": "LIM-03", "seconds": "LIM-04"}
"""Maps each budget to the rule on the cost of parsing a header."""
EXCEPTIONS = "API-14"
_KINDS_WITHOUT_API_14 = (*_SAVING, "export", "remote")
"""Kinds in which an exception is about a call or a server rather than a file."""
SLICES = "API-05"
DTYPES = "DTY-01"
OUTPUT = "WRT-01"
"""Rule that requires a written file to be valid and to contain the given tensors."""
SHARED = "WRT-16"
"""Rule on tensors that share memory. A writer may reject all such tensors."""
LARGE_DIMENSION = 2**31
"""Smallest dimension for which a reader may reject a file (SHP-08)."""

_RULES_OF_HARM: Mapping[tuple[str, ...], str] = {
    ("FRM-01", "FRM_HEADER_OVER_LIMIT"): "FRM-06",
    ("FRM-02", "FRM_HEADER_OVER_LIMIT"): "FRM-06",
    ("OFF-13", "OFF_OUT_OF_BOUNDS"): "OFF-04",
}
"""Maps a parsing rule and the fault that results from breaking it to the rule that forbids the fault."""
_RULES_OF_ACCEPTANCE: Mapping[str, tuple[str, str]] = {
    "FRM-02": ("FRM_HEADER_PAST_EOF", "FRM-04"),
    "FRM-05": ("FRM_HEADER_PAST_EOF", "FRM-04"),
    "FRM-06": ("FRM_HEADER_PAST_EOF", "FRM-04"),
    "OFF-13": ("OFF_OUT_OF_BOUNDS", "OFF-04"),
    **dict.fromkeys(("DTY-05", "DTY-10", "SHP-03", "SHP-04", "SHP-05"), ("OFF_SIZE_MISMATCH", "OFF-05")),
    "LIM-05": ("OFF_OVERLAP", "OFF-06"),
    "ENT-05": ("ENT_MISSING_FIELD", "ENT-03"),
}
"""Maps a rule on parsing or arithmetic to the fault that a mistake causes and the rule that forbids it."""
FORBIDDING = frozenset({*(f"HDR-{n:02}" for n in range(9, 14)), "OFF-06", "OFF-07", "OFF-08", "OFF-12"})
"""Rules that only forbid files. A reader that rejects a valid file does not break them."""
_DTYPE_RULES = frozenset({"DTY-05", "DTY-08", "DTY-09", "DTY-10", "DTY-12"})
"""Rules on the elements of a dtype. A reader that rejects a valid file may not support the dtype at all."""


def _rule_of_harm(demand: Case | Demand) -> str:
    """Return the rule that a reader breaks by crashing, hanging or exhausting a resource."""
    first = first_rule(demand)
    codes = demand.expect.codes[:1] if demand.expect is not None else ()
    return _RULES_OF_HARM.get((first, *codes), first) if demand.kind == "read" else first


def _rule_of_acceptance(demand: Case | Demand) -> str:
    """Return the rule that a reader breaks by accepting a broken file.

    This is the rule whose violation the reader certainly missed.
    """
    first = first_rule(demand)
    code, rule = _RULES_OF_ACCEPTANCE.get(first, ("", ""))
    codes = demand.expect.codes if demand.expect is not None else ()
    return rule if demand.kind in ("read", "resource") and code in codes else first


def _rule_of_refusal(demand: Case | Demand) -> str:
    """Return the rule that a reader breaks by rejecting a valid file."""
    first = first_rule(demand)
    if demand.kind == "slice":
        return first if first.startswith("API") else SLICES
    if demand.kind not in ("read", "resource"):
        return first
    if demand.kind == "resource" and demand.level == "should":
        return ANY_VALID_FILE  # only the size is unusual, and the rules of the case are about cost
    if first in _DTYPE_RULES:
        return DTYPES
    metadata = _expected_content(demand).get("metadata") or {}
    # Some loaders reject every metadata map that does not contain the key ``format``.
    any_file = first in FORBIDDING or (metadata and "format" not in metadata)
    return ANY_VALID_FILE if any_file else first


def _refusal_levels(demand: Case | Demand) -> set[str]:
    """Return the levels of the rules that may have caused the rejection of a valid file."""
    parts = demand.rules if first_rule(demand) == ANY_VALID_FILE else ()
    dimensions = chain.from_iterable(row["shape"] for row in _expected_content(demand).get("tensors", ()))
    large = ("SHP-08",) if any(n >= LARGE_DIMENSION for n in dimensions) else ()
    shared = {"may"} if demand.kind in ("write", "sharded") and first_rule(demand) == SHARED else set()
    return {demand.level, *(rule_book().rules[rule].level for rule in (*parts, *large)), *shared}


def _expected_content(demand: Case | Demand) -> Mapping[str, Any]:
    return (demand.expect.content if demand.expect is not None else None) or {}
