"""Findings turned back into cases, and asked again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.worker.worker import Limits
from safetensors_corpus.author.file import FileBuilder
from safetensors_fuzz.finding import ENTRY, Finding
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


def file_finding(step: str, data: bytes, expectation: dict[str, Any]) -> Finding:
    return Finding(
        step, "wrong-accept", "", ("OFF-07",), (), "", {}, {}, {ENTRY: data}, expectation=expectation
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


@pytest.mark.parametrize("step", ["open", "read"])
def test_files_are_opened_and_read(step: str) -> None:
    builder = FileBuilder()
    builder.tensor("a", "F32", [2])
    right = {"outcome": "accept", "content": builder.content()}
    whole = file_finding(step, builder.render(), right)
    assert run_finding(resolve("reference"), whole, Limits(20), None).verdict == "pass"
    refused = {"outcome": "reject", "codes": ["OFF_HOLE"], "level": "must"}
    judged = run_finding(resolve("reference"), replace(whole, expectation=refused), Limits(20), None)
    assert judged.verdict == "wrong-accept"


def test_the_verdict_depends_on_who_is_asked() -> None:
    tensor = {"name": "t", "dtype": "I16", "shape": [4]}
    index = [{"start": 0, "stop": 2, "step": None}]
    plan = {"tensors": [tensor], "backwards": False, "pad": 0, "fault": None, "ask": "t", "index": index}
    asked = finding(Slices().question(plan))
    assert run_finding(resolve("reference"), asked, Limits(20), None).verdict == "pass"
    assert run_finding(resolve(INCLUSIVE), asked, Limits(20), None).verdict == "deviation:content"


def test_a_step_that_is_not_there_is_unsupported() -> None:
    _, question = questions("slice", 10)[0]
    judged = run_finding(resolve(f"py:{HERE}:LastWins"), finding(question), Limits(20), None)
    assert judged.verdict == "unsupported"
    assert "does not have the step slice" in judged.detail
