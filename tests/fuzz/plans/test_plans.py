"""Plans of all three kinds: reproducible, decided by rules, and smaller after each simplification."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.worker.worker import Limits
from safetensors_corpus.author.file import MAX_FILE
from safetensors_fuzz.finding import Finding
from safetensors_fuzz.findings.replay import run_finding
from safetensors_fuzz.plans import PLAN_KINDS, plan_of
from safetensors_fuzz.plans.question import PlanError, PlanFault, PlanQuestion, fuzzed_case, reject_ruling
from safetensors_fuzz.plans.values import Plan
from safetensors_reference.rules.book import rule_book

from .support import STEPS, questions, slicing, span

COUNT = 300


@pytest.mark.parametrize("step", STEPS)
def test_plans_are_json_and_the_same_for_a_seed(step: str) -> None:
    first, again, other = ([plan_of(step, seed, number) for number in range(COUNT)] for seed in (0, 0, 1))
    assert first == again != other
    assert first == [json.loads(json.dumps(plan)) for plan in first]


@pytest.mark.by_day(1)
@pytest.mark.parametrize("step", STEPS)
def test_most_plans_make_a_case(step: str, memory_path: Path) -> None:
    made, fresh = questions(step, COUNT), [plan_of(step, 0, number) for number in range(COUNT)]
    assert len(made) > 0.9 * COUNT
    assert all(plan in fresh for plan, _ in made)  # building a question does not change the plan
    for number, (_, question) in enumerate(made):
        case = fuzzed_case(question, memory_path / str(number))
        assert case.rules == question.rules
        assert step in case.steps
        assert (case.expect is None) == bool(case.options)
        assert case.size <= MAX_FILE
        assert case.level in ("must", "should", "may")


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


CHOICES = {
    "slice": ("slice-",),
    "index": ("index-",),
    "write": ("non-contiguous", "big-endian", "shared-memory", "missing-folder"),
}


@pytest.mark.by_day(1)
@pytest.mark.parametrize("step", STEPS)
def test_plans_are_valid_faulty_or_under_every_choice(step: str) -> None:
    made = [question for _, question in questions(step, 2000)]
    outcomes = [question.expectation.get("outcome", "choice") for question in made]
    assert 0.35 < outcomes.count("accept") / len(outcomes) < 0.65
    assert outcomes.count("reject") > 200
    assert outcomes.count("choice") > 200
    counts = [len(question.parts) for question in made if question.codes]
    # A third fault follows from another one, such as from a tensor that went with its shard.
    assert sum(count > 2 for count in counts) < 0.03 * len(counts)
    assert max(counts) <= 4
    wanted = {name for name in rule_book().choices if name.startswith(CHOICES[step])}
    assert {q.expectation["choice"] for q in made if "choice" in q.expectation} == wanted


@pytest.mark.parametrize("step", STEPS)
def test_smaller_plans_come_to_an_end(step: str) -> None:
    kind = PLAN_KINDS[step]

    def asks(plan: Plan) -> str | None:
        with contextlib.suppress(PlanError):
            return kind.question(plan).subject
        return None

    for plan, question in questions(step, 40)[:20]:
        current, before = plan, json.dumps(plan)
        for _ in range(500):
            smaller = list(kind.smaller(current))
            assert current not in smaller
            step_down = next((p for p in smaller if asks(p) == question.subject), None)
            if step_down is None:
                break
            current = step_down
        else:
            pytest.fail(f"no end: {current}")
        assert len(json.dumps(current)) <= len(before)
        assert json.dumps(plan) == before  # the plan itself stays as it is


def finding(question: PlanQuestion) -> Finding:
    q = question
    return Finding(q.step, "", "", q.rules, q.codes, "", {}, {}, q.files, q.entry, q.action, q.expectation)


@pytest.mark.parametrize("step", STEPS)
def test_a_finding_makes_the_case_of_its_plan(step: str, tmp_path: Path) -> None:
    for number, (_, question) in enumerate(questions(step, 80)[:60]):
        folder = tmp_path / str(number)
        case, again = fuzzed_case(question, folder / "a"), fuzzed_case(finding(question), folder / "b")
        assert replace(again, input=case.input) == case
        assert again.input.sha256 == case.input.sha256
        assert [f.path for f in again.input.files] == [f.path for f in case.input.files]
        (folder / "c").mkdir(parents=True)
        assert again.set_up(folder / "c").is_relative_to(folder / "c")


def test_the_verdict_depends_on_who_is_asked() -> None:
    asked = finding(PLAN_KINDS["slice"].question(slicing([4], span(0, 2))))
    inclusive = f"py:{Path(__file__).parent / 'fakes.py'}:InclusiveStop"
    for selector, verdict in (("reference", "pass"), (inclusive, "deviation:content")):
        assert run_finding(resolve(selector), asked, Limits(20), None).verdict == verdict


def test_the_most_serious_fault_comes_first() -> None:
    ruling = reject_ruling([PlanFault(("R-1",), ("A",), "should"), PlanFault(("R-2",), ("B", "A"))])
    assert (ruling.rules, ruling.codes, ruling.level) == (("R-2", "R-1"), ("A", "B"), "must")
