"""Sessions: answers that earlier files spoilt, and content from uninitialised memory."""

from __future__ import annotations

import platform
import re
import sys

import pytest

from safetensors_conformance.case_verdict import CaseVerdict, result_rows
from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.outcome import StepResult
from safetensors_conformance.run import session as judging
from safetensors_conformance.run.heap import content_depends_on_heap
from safetensors_conformance.run.session import CaseRunner, Input, Session
from safetensors_conformance.worker.worker import Limits
from safetensors_reports.causes.cause import describe_failures

from ..support import QUICK, TRIGGER, by_exit, cases, committed, fake

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.libc_ver()[0] != "glibc",
    reason="limits as on Linux, memory as with glibc",
)

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


LIMITS = Limits(5.0, 512 << 20)


# Content from uninitialised memory


def note(selector: str) -> str | None:
    return content_depends_on_heap(resolve(selector), cases("layout/two-dtypes")[0], LIMITS)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("HandsOutFreshMemory", "uninitialised memory: bytes of tensor .* change when fresh memory contains"),
        ("HandsOutRandomBytes", "content differs from run to run: bytes of tensor "),
    ],
)
def test_memory_that_was_never_written_is_told_from_random_content(name: str, says: str) -> None:
    assert re.match(says, note(fake(name)) or "")


@pytest.mark.parametrize(
    "selector", ["reference", fake("HandsOutZeros"), "py:no_such_module:Reader", by_exit("good")]
)
def test_content_that_is_always_the_same_is_not_noted(selector: str) -> None:
    assert note(selector) is None


def test_the_note_stands_in_the_detail_of_the_wrong_content(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "MAX_HEAP_CHECKS", 1)
    with Session(CaseRunner(resolve(fake("HandsOutFreshMemory")), LIMITS)) as session:
        verdict = session.judge(cases(TRIGGER)[0])
        assert verdict.verdict == "wrong-content"
        says = 'other bytes than the file contains.*; uninitialised memory: bytes of tensor "w" change'
        assert re.search(says, verdict.steps["read"].detail)
        assert verdict.steps["open"].verdict == "pass"
        monkeypatch.setattr(judging, "content_depends_on_heap", None)  # checks are used up, or not needed
        assert session.judge(cases("layout/two-dtypes")[0]).verdict == "wrong-content"
    monkeypatch.setattr(judging, "MAX_HEAP_CHECKS", 1)
    with Session(CaseRunner(resolve(QUICK), LIMITS)) as session:
        assert session.judge(cases(TRIGGER)[0]).verdict == "pass"
