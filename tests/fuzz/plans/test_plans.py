"""Plans of all three kinds: that they are made alike again, make sense, and can be made smaller."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from safetensors_corpus.author.file import MAX_FILE
from safetensors_fuzz.plans import PLAN_KINDS
from safetensors_fuzz.plans.question import PlanError
from safetensors_reference.rules.book import rule_book

from .support import STEPS, plans, questions, rng

COUNT = 300


@pytest.mark.parametrize("step", STEPS)
def test_plans_are_json_and_the_same_for_a_seed(step: str) -> None:
    first = plans(step, COUNT)
    assert first == plans(step, COUNT)
    assert first == [json.loads(json.dumps(plan)) for plan in first]
    assert first != plans(step, COUNT, seed=1)
    assert PLAN_KINDS[step].plan(rng(5)) == PLAN_KINDS[step].plan(rng(5))


@pytest.mark.by_day(1)
@pytest.mark.parametrize("step", STEPS)
def test_every_plan_makes_a_case_or_says_why_not(step: str, tmp_path: Path) -> None:
    kind, made = PLAN_KINDS[step], 0
    for number, plan in enumerate(plans(step, COUNT)):
        before = json.dumps(plan)
        try:
            question = kind.question(plan)
        except PlanError:
            continue
        case = question.case(tmp_path / str(number))
        made += 1
        assert json.dumps(plan) == before
        assert case.rules == question.rules
        assert step in case.steps
        assert (case.expect is None) == bool(case.options)
        assert case.size <= MAX_FILE
        assert case.level in ("must", "should", "may")
    assert made > 0.9 * COUNT


@pytest.mark.parametrize("step", STEPS)
def test_questions_speak_the_words_of_the_rule_book(step: str) -> None:
    book = rule_book()
    for _, question in questions(step, COUNT):
        assert set(question.rules) <= set(book.rules)
        assert set(question.codes) <= set(book.codes)
        expectation = question.expectation
        for one in expectation.get("options", {"": expectation}).values():
            assert set(one.get("codes", ())) <= set(book.codes)
            assert (one["outcome"] == "accept") == ("content" in one)
        if "choice" in expectation:
            assert set(expectation["options"]) == set(book.choices[expectation["choice"]].options)
            assert expectation["choice"] in question.parts


@pytest.mark.by_day(1)
@pytest.mark.parametrize("step", STEPS)
def test_about_half_of_the_plans_are_valid(step: str) -> None:
    outcomes = [q.expectation.get("outcome", "choice") for _, q in questions(step, 2000)]
    assert 0.35 < outcomes.count("accept") / len(outcomes) < 0.65
    assert outcomes.count("reject") > 200
    assert outcomes.count("choice") > 200


@pytest.mark.by_day(1)
@pytest.mark.parametrize("step", STEPS)
def test_at_most_two_faults_are_planted(step: str) -> None:
    counts = [len(q.parts) for _, q in questions(step, 2000) if q.codes]
    # A third one follows from another, such as from a tensor that went with its shard.
    assert sum(count > 2 for count in counts) < 0.03 * len(counts)
    assert max(counts) <= 4


CHOICES = {
    "slice": ("slice-",),
    "index": ("index-",),
    "write": ("non-contiguous", "big-endian", "shared-memory", "missing-folder"),
}


@pytest.mark.by_day(1)
@pytest.mark.parametrize("step", STEPS)
def test_every_choice_comes_up(step: str) -> None:
    wanted = {name for name in rule_book().choices if name.startswith(CHOICES[step])}
    met = {q.expectation["choice"] for _, q in questions(step, 2000) if "choice" in q.expectation}
    assert met == wanted


@pytest.mark.parametrize("step", STEPS)
def test_smaller_plans_come_to_an_end(step: str) -> None:
    """Whatever may go is gone at the end, and nothing sensible grows on the way."""
    kind = PLAN_KINDS[step]
    for plan, question in itertools.islice(questions(step, 30), 12):
        current, rounds = plan, 0
        while True:
            step_down = next((p for p in kind.smaller(current) if _asks(kind, p) == question.subject), None)
            if step_down is None:
                break
            current, rounds = step_down, rounds + 1
            assert rounds < 500, current
        assert _asks(kind, current) == question.subject
        assert len(json.dumps(current)) <= len(json.dumps(plan))


@pytest.mark.parametrize("step", STEPS)
def test_smaller_leaves_the_plan_as_it_is(step: str) -> None:
    for plan, _ in itertools.islice(questions(step, 40), 20):
        before = json.dumps(plan)
        for other in PLAN_KINDS[step].smaller(plan):
            assert other != plan
        assert json.dumps(plan) == before


def _asks(kind: Any, plan: Any) -> str | None:
    try:
        return str(kind.question(plan).subject)
    except PlanError:
        return None
