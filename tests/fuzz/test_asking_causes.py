"""Which rule a wrong answer to a question is charged with: that of what brings it about."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from safetensors_conformance.judge import StepVerdict
from safetensors_conformance.outcomes import Outcome, StepResult
from safetensors_conformance.selectors import resolve
from safetensors_conformance.worker import Limits
from safetensors_fuzz.asking.causes import TABLES, Wrong, cause_of, features_of, must_be_refused
from safetensors_fuzz.asking.question import Asking, Plan, PlanError, Question
from safetensors_fuzz.asking.run import ASKING, ask_campaign, plan_of
from safetensors_fuzz.cause import QUESTIONS, Cause
from safetensors_fuzz.finding import Finding
from safetensors_reference import rule_book

from .plan_fakes import FAKES, Refuses

COUNT = 300
HERE = Path(__file__).parent / "asking_fakes.py"
ALL = [(step, words) for step, fakes in FAKES.items() for words in fakes]
FEATURES = [(step, feature) for step, table in TABLES.items() for feature in table]


@cache
def sound(step: str) -> tuple[tuple[Plan, Question], ...]:
    """Plans of a step that need not be refused, the shortest first."""
    out = []
    for plan in [*(plan_of(step, 5, number) for number in range(COUNT)), *rare(step)]:
        try:
            question = ASKING[step].question(plan)
        except PlanError:
            continue
        if not must_be_refused(question):
            out.append((plan, question))
    return tuple(sorted(out, key=lambda row: len(json.dumps(row[0]))))


def rare(step: str) -> Iterator[Plan]:
    """Plans with features that come up seldom or never by chance."""
    if step == "slice":
        return
    named = ("", "n" * 61, "\u00e9", "a/b", "0")
    for name in named:
        plan = plan_of(step, 5, 0)
        rows = plan["tensors"] if step == "write" else plan["shards"][0]["tensors"]
        old, rows[0]["name"] = rows[0]["name"], name
        for pair in plan.get("map", ()):
            pair[0] = name if pair[0] == old else pair[0]
        yield plan
    large = plan_of(step, 5, 0)
    if step == "index":
        large["shards"][0]["tensors"][0] |= {"dtype": "U8", "shape": [65]}
        yield large


class Remembered(Asking):
    """Asks what another kind asks, and knows which plan was asked last."""

    def __init__(self, step: str) -> None:
        self.step, self.kind = step, ASKING[step]
        self.last: Plan = {}

    def plan(self, rng: random.Random) -> Plan:
        return self.kind.plan(rng)

    def question(self, plan: Plan) -> Question:
        self.last = copy.deepcopy(plan)
        return self.kind.question(plan)

    def simpler(self, plan: Plan) -> Iterator[Plan]:
        return self.kind.simpler(plan)


def judged(verdict: str, outcome: Outcome, message: str = "bad utf-8 in metadata") -> StepVerdict:
    return StepVerdict(verdict, "", (), StepResult(outcome, message))


PASS = judged("pass", "accept")
REFUSED = judged("wrong-reject", "reject")


def charged(
    step: str,
    plan: Plan,
    refuses: Refuses,
    mistake: StepVerdict = REFUSED,
    read: StepVerdict = PASS,
) -> tuple[Cause, int]:
    """Return what is charged to one that refuses plans that are so, and how often it was asked."""
    kind, asked = Remembered(step), 0

    def ask(question: Question) -> StepVerdict:
        nonlocal asked
        asked += 1
        if question.step == "read":
            return read
        return mistake if refuses(kind.last, question) else PASS

    question = kind.question(plan)
    return cause_of(Wrong(kind, plan, question, mistake, ask)), asked


def having(step: str, words: str) -> Plan:
    return next(plan for plan, question in sound(step) if FAKES[step][words][1](plan, question))


def test_every_feature_has_one_that_refuses_it() -> None:
    for step, table in TABLES.items():
        assert {feature.words for feature in table} == set(FAKES[step])
        assert {feature.rule for feature in table} <= set(rule_book().rules)
        assert len({feature.words for feature in table}) == len(table)


@pytest.mark.parametrize(("step", "words"), ALL)
def test_a_feature_is_found_by_two_ways_of_looking(step: str, words: str) -> None:
    features = features_of(ASKING[step], TABLES[step])
    one = next(feature for feature in features.table if feature.words == words)
    refuses = FAKES[step][words][1]
    assert [p for p, q in sound(step) if refuses(p, q) and not features.has(one, p)] == []


@pytest.mark.parametrize(("step", "feature"), FEATURES, ids=lambda value: getattr(value, "words", value))
def test_a_plan_without_a_feature_need_not_be_refused_and_lacks_it(step: str, feature: Any) -> None:
    features = features_of(ASKING[step], TABLES[step])
    plans = [plan for plan, _ in sound(step) if features.has(feature, plan)][:15]
    assert plans
    variants = [features.lacking(feature, plan) for plan in plans]
    assert any(variant is not None for variant in variants)
    for plan, variant in zip(plans, variants, strict=True):
        if variant is not None:
            question = ASKING[step].question(variant)
            assert not must_be_refused(question)
            assert variant != plan
            assert not FAKES[step][feature.words][1](variant, question)


@pytest.mark.parametrize(("step", "words"), ALL)
def test_a_refusal_is_charged_to_the_feature_refused(step: str, words: str) -> None:
    rule, refuses = FAKES[step][words]
    cause, asked = charged(step, having(step, words), refuses)
    assert cause.rules[0] == rule
    assert asked <= QUESTIONS + 1


@pytest.mark.parametrize("step", FAKES)
def test_who_refuses_everything_refuses_no_feature(step: str) -> None:
    cause, _ = charged(step, sound(step)[-1][0], lambda *_: True)
    assert cause.rules == (("API-05",) if step == "slice" else ())


@pytest.mark.parametrize("seed", range(10))
def test_what_is_refused_at_random_is_charged_to_nobody(seed: int) -> None:
    rng = random.Random(seed)
    plan = having("write", "metadata")
    cause, _ = charged("write", plan, lambda *_: rng.random() < 0.5)
    assert cause.rules == ()


@pytest.mark.parametrize(
    ("aspect", "rule"),
    [("dtype", "DTY-14"), ("shape", "SHP-11"), ("metadata", "MET-04"), ("names", "ENT-01")],
)
def test_a_file_with_other_content_is_charged_to_the_rule_of_what_differs(aspect: str, rule: str) -> None:
    plan = having("write", "metadata")
    plan = {**plan, "tensors": [], "storages": {}, "metadata": {"items": [["k", "v"]]}, "target": "new"}
    plan = plan_with_one_tensor(plan)
    question = ASKING["write"].question(plan)
    content = copy.deepcopy(question.expectation["content"])
    rows, metadata = content["tensors"], content["metadata"]
    if aspect == "metadata":
        metadata = {"k": "other"}
    else:
        key, value = {"dtype": ("dtype", "U8"), "shape": ("shape", [1, 2]), "names": ("name", "b")}[aspect]
        rows[0][key] = value
    result = StepResult("accept", tensors=rows, metadata=metadata, has_metadata=True)
    mistake = StepVerdict("wrong-content", "", (), result)
    cause, asked = charged("write", plan, lambda *_: True, mistake)
    assert cause.rules == (rule,)
    assert asked == 0


def plan_with_one_tensor(plan: Plan) -> Plan:
    plan["storages"]["m"] = {"size": 8, "fill": "", "guard": False}
    row = {"name": "a", "dtype": "F32", "shape": [2], "storage": "m", "offset": 0, "strides": None}
    plan["tensors"].append({**row, "byteorder": "little", "nbytes": None})
    return {**plan, "before": [], "properties": []}


def other_bytes(question: Question) -> StepVerdict:
    """Return an answer in which only the bytes differ."""
    options = question.expectation.get("options") or {"": question.expectation}
    content = copy.deepcopy(next(o["content"] for o in options.values() if "content" in o))
    rows = [{**row, "sha256": "0" * 64} for row in content["tensors"]]
    result = StepResult("accept", tensors=rows, metadata=content["metadata"], has_metadata=True)
    return StepVerdict("wrong-content", "", (), result)


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ("a view that is not contiguous", "WRT-07"),
        ("elements with their highest byte first", "WRT-08"),
        ("values that a conversion would change", "DAT-04"),
        ("several dimensions", "DAT-02"),
        ("dtype BF16", "DTY-14"),
    ],
)
def test_other_bytes_are_charged_to_what_brings_them_about(words: str, rule: str) -> None:
    refuses = FAKES["write"][words][1]
    plan = next(
        plan
        for plan, question in sound("write")
        if refuses(plan, question)
        and plan["target"] == "new"
        and all(0 not in r["shape"] for r in plan["tensors"])
    )
    mistake = other_bytes(ASKING["write"].question(plan))
    assert charged("write", plan, refuses, mistake)[0].rules[0] == rule


@pytest.mark.parametrize(
    ("broken", "rule"),
    [("no-foreign-bytes", "WRT-07"), ("target-unchanged", "WRT-19"), ("aligned", "WRT-04")],
)
def test_a_property_that_does_not_hold_is_charged_to_its_own_rule(broken: str, rule: str) -> None:
    mistake = StepVerdict("wrong-content", "", (), StepResult("accept", broken=(broken,)))
    assert charged("write", sound("write")[0][0], lambda *_: True, mistake)[0].rules == (rule,)


def test_a_file_with_faults_is_charged_to_the_rule_that_files_are_valid() -> None:
    mistake = StepVerdict("wrong-content", "", (), StepResult("accept", fault="OFF_HOLE (4 bytes)"))
    assert charged("write", sound("write")[0][0], lambda *_: True, mistake)[0].rules == ("WRT-01",)


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ("a tensor that two shards hold", "IDX-11"),
        ("a tensor that the index does not name", "IDX-10"),
        ("a file in the folder that the index does not name", "IDX-15"),
        ("dtype BF16", "DAT-06"),
    ],
)
def test_the_wrong_copy_is_charged_to_the_rule_of_copies(words: str, rule: str) -> None:
    refuses = FAKES["index"][words][1]
    plan = next(p for p, q in sound("index") if refuses(p, q) and p["map"])
    mistake = other_bytes(ASKING["index"].question(plan))
    assert charged("index", plan, refuses, mistake)[0].rules == (rule,)


# ---- slices ----


def test_a_slice_of_what_cannot_be_loaded_either_is_charged_to_the_file() -> None:
    plan = next(p for p, q in sound("slice") if [] in [row["shape"] for row in p["tensors"]])
    kind = Remembered("slice")

    def ask(question: Question) -> StepVerdict:
        if question.step != "read":
            return REFUSED
        shapes = [row["shape"] for row in question.expectation["content"]["tensors"]]
        return REFUSED if [] in shapes else PASS

    cause = cause_of(Wrong(kind, plan, kind.question(plan), REFUSED, ask))
    assert cause.rules == ("SHP-03",)
    assert cause.words == (
        "the whole tensor cannot be loaded either; accepted without a tensor without dimensions"
    )


def test_a_slice_of_what_is_loaded_wrongly_too_is_charged_to_that() -> None:
    plan = sound("slice")[-1][0]
    mistake = other_bytes(ASKING["slice"].question(plan))
    loaded = StepVerdict(
        "wrong-content", 'tensor "t": other bytes than the file holds', (), StepResult("accept")
    )
    assert charged("slice", plan, lambda *_: True, mistake, loaded)[0].rules == ("DAT-06",)


# ---- what must be refused, and what cannot be asked ----


@cache
def refused(step: str, faults: int) -> tuple[Plan, Question]:
    for number in range(4000):
        plan = plan_of(step, 6, number)
        try:
            question = ASKING[step].question(plan)
        except PlanError:
            continue
        if must_be_refused(question) and len(question.parts) == faults:
            return plan, question
    raise AssertionError(f"no plan with {faults} faults")


@pytest.mark.parametrize("step", FAKES)
@pytest.mark.parametrize("verdict", ["wrong-accept", "unsafe"])
def test_what_had_to_be_refused_is_charged_to_its_one_fault(step: str, verdict: str) -> None:
    plan, question = refused(step, 1)
    cause, asked = charged(step, plan, lambda *_: True, judged(verdict, "accept"))
    assert cause.rules == question.rules
    (part,) = question.parts
    assert part.endswith(cause.rules[0])
    assert asked == 0


@pytest.mark.parametrize("step", FAKES)
def test_a_crash_over_several_faults_is_charged_to_none(step: str) -> None:
    plan, _ = refused(step, 2)
    cause, _ = charged(step, plan, lambda *_: True, judged("unsafe", "crash"))
    assert cause.rules == ()


@pytest.mark.parametrize(
    "mistake",
    [judged("unsafe", "hang"), judged("unsafe", "exhausted"), judged("harness-error", "harness-error")],
)
def test_some_answers_are_not_asked_for_again(mistake: StepVerdict) -> None:
    cause, asked = charged("write", sound("write")[-1][0], lambda *_: True, mistake)
    assert (cause.rules, asked) == ((), 0)
    assert cause.words.startswith("not known: ")


def test_a_crash_is_charged_to_the_feature_that_brings_it_about() -> None:
    words = "an index of the choice slice-step"
    rule, refuses = FAKES["slice"][words]
    cause, _ = charged("slice", having("slice", words), refuses, judged("unsafe", "crash"))
    assert cause.rules == (rule,)


# ---- whole campaigns ----


def found(fake: str, step: str, count: int) -> list[Finding]:
    kept: list[Finding] = []
    ask_campaign(
        [resolve(f"py:{HERE}:{fake}")],
        [step],
        keep=kept.append,
        progress=lambda _: None,
        known=lambda _: False,
        seed=3,
        max_execs=count,
        seconds=None,
        limits=Limits(20),
        profile=None,
    )
    return kept


@pytest.mark.parametrize(
    ("fake", "step", "count", "rule"),
    [
        ("NoScalars", "slice", 40, "SHP-03"),
        ("NoEllipsis", "slice", 40, "API-05"),
        ("DiesOnSteps", "slice", 60, "API-05"),
        ("NoMetadata", "write", 40, "MET-01"),
        ("NoEscapes", "index", 60, "IDX-01"),
        ("LastWins", "index", 80, "IDX-11"),
    ],
)
def test_what_a_campaign_finds_has_the_rule_of_its_cause(fake: str, step: str, count: int, rule: str) -> None:
    kept = found(fake, step, count)
    assert kept
    assert {finding.rules[:1] for finding in kept} == {(rule,)}
    assert all(finding.cause for finding in kept)


def test_what_does_not_come_again_has_no_rule() -> None:
    kept = found("RefusesByTurns", "slice", 8)
    assert kept
    assert {finding.rules for finding in kept} == {()}
    assert {finding.cause for finding in kept} == {"not known: the answer did not come again each time"}
