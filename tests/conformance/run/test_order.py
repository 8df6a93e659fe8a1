"""A process broken by one file: later files are retried alone, and break no rule."""

from __future__ import annotations

import sys

import pytest

from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.outcome import StepResult
from safetensors_conformance.run.cases import CaseRunner, Input
from safetensors_conformance.run.results import result_rows
from safetensors_conformance.run.session import Session
from safetensors_conformance.verdict.judge import CaseVerdict
from safetensors_reports.causes import describe_failures

from ..support import TRIGGER, cases, committed, fake

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits as on Linux")

AFTER = ("layout/two-dtypes", "layout/hole-between-two", "dtype/scalar-of-f64", "framing/no-bytes")


def verdicts(name: str, *ids: str) -> dict[str, CaseVerdict]:
    with Session(CaseRunner(resolve(fake(name)))) as session:
        session.start()
        wanted = cases(*ids)
        session.runner.plan(wanted)
        return {case.id: session.judge(case) for case in wanted}


@pytest.mark.parametrize(
    ("name", "verdict"), [("LeaksDescriptors", "wrong-reject"), ("GivesTheSameForEver", "wrong-content")]
)
def test_what_a_file_spoils_is_charged_to_no_rule_of_the_next(name: str, verdict: str) -> None:
    found = verdicts(name, TRIGGER, *AFTER)
    spoilt = found.pop("layout/two-dtypes")
    assert {case: one.verdict for case, one in found.items()} == dict.fromkeys(found, "pass")
    assert spoilt.verdict == verdict
    (failure,) = spoilt.steps["read"].failures
    assert (failure.rule, failure.property) == ("", "order")
    assert failure.detail.startswith("order-dependent: accept when run alone in a fresh process; ")
    assert "(order-dependent)" in describe_failures(result_rows(spoilt)[-1], committed())


def test_one_who_refuses_all_is_asked_again_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    answers = CaseRunner.answers

    def noted(self: CaseRunner, item: Input) -> dict[str, StepResult]:
        asked.append(item.id)
        return answers(self, item)

    monkeypatch.setattr(CaseRunner, "answers", noted)
    valid = [case.id for case in committed().cases if case.kind == "read" and case.codes == ()][:40]
    found = verdicts("RefusesAll", *valid)
    assert "order" not in {f.property for v in found.values() for s in v.steps.values() for f in s.failures}
    assert len(asked) == len(valid) + 1
