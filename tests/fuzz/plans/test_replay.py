"""Findings turned back into cases, and asked again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.worker.worker import Limits
from safetensors_fuzz.finding import Finding
from safetensors_fuzz.findings.replay import finding_case, run_finding
from safetensors_fuzz.plans.question import PlanQuestion
from safetensors_fuzz.plans.slice import Slices

from .support import STEPS, questions

HERE = Path(__file__).parent / "fakes.py"
INCLUSIVE = f"py:{HERE}:InclusiveStop"


def finding(question: PlanQuestion) -> Finding:
    return Finding(
        step=question.step,
        verdict="wrong-content",
        signature="",
        rules=question.rules,
        codes=question.codes,
        expected="",
        got={},
        versions={},
        files=question.files,
        entry=question.entry,
        action=question.action,
        expectation=question.expectation,
    )


@pytest.mark.parametrize("step", STEPS)
def test_a_finding_makes_the_case_of_its_plan(step: str, tmp_path: Path) -> None:
    for number, (_, question) in enumerate(questions(step, 80)[:60]):
        folder = tmp_path / str(number)
        case, again = question.case(folder / "a"), finding_case(finding(question), folder / "b")
        assert replace(again, input=case.input) == case
        assert again.input.sha256 == case.input.sha256
        assert [f.path for f in again.input.files] == [f.path for f in case.input.files]
        (folder / "c").mkdir(parents=True)
        assert again.set_up(folder / "c").is_relative_to(folder / "c")


def test_the_verdict_depends_on_who_is_asked() -> None:
    tensor = {"name": "t", "dtype": "I16", "shape": [4]}
    index = [{"start": 0, "stop": 2, "step": None}]
    plan = {"tensors": [tensor], "backwards": False, "pad": 0, "fault": None, "ask": "t", "index": index}
    asked = finding(Slices().question(plan))
    assert run_finding(resolve("reference"), asked, Limits(20), None).verdict == "pass"
    assert run_finding(resolve(INCLUSIVE), asked, Limits(20), None).verdict == "deviation:content"
