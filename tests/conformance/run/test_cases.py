"""The loop over cases, with a worker that records requests; answers that files or memory spoil."""

from __future__ import annotations

import itertools
import platform
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from safetensors_conformance import case_verdict as judging
from safetensors_conformance.case_verdict import CaseVerdict, result_rows
from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.outcome import Implementation, RetryReason, StepResult
from safetensors_conformance.run import session as running
from safetensors_conformance.run.heap import content_depends_on_heap
from safetensors_conformance.run.session import (
    DEATHS_FOR_A_HANG,
    GivenFile,
    GivenUpError,
    Input,
    Session,
    StoppedError,
    is_single_question,
    within_budget,
)
from safetensors_conformance.worker.worker import PROBE_LIMITS, Limits, Request
from safetensors_corpus.judging.answer import Outcome
from safetensors_reports.causes.cause import describe_failures

from ..support import NEIGHBOURS, QUICK, TRIGGER, by_exit, cases, committed, fake


class Recorder:
    """A worker that records requests in ``asked`` and ``ahead``. ``ends`` may replace its result."""

    timeout_factor = 1.0
    force_fresh_process = False

    def __init__(self, ends: Callable[[Recorder, Limits | None], StepResult | None] | None = None) -> None:
        self.result = StepResult("accept", tensors=[])
        self.ends = ends
        self.asked: list[Request] = []
        self.ahead: list[Request] = []
        self.early_limits: list[Limits | None] = []
        self.renewed = self.starts = 0
        self.closed = False

    def start(self) -> Implementation:
        self.starts += 1
        return Implementation("recorder", "1", "Python", ("open", "read"))

    @property
    def in_flight(self) -> int:
        return len(self.ahead)

    def send_ahead(self, requests: Iterable[Request]) -> None:
        self.ahead += requests

    def ask(
        self,
        step: str,
        path: str,
        more: Mapping[str, Any] | None = None,
        *,
        measure: bool = False,
        limits: Limits | None = None,
    ) -> StepResult:
        request = Request(step, path, more)
        if request in self.ahead:
            self.ahead.remove(request)
        self.asked.append(request)
        self.early_limits.append(limits)
        if self.ends is not None and (end := self.ends(self, limits)) is not None:
            return end
        return replace(self.result, spent_ms=0.0) if measure else self.result

    def renew(self, *, as_before: bool = False) -> None:
        self.renewed += not as_before

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """The worker of every runner that a test makes."""
    made = Recorder()
    monkeypatch.setattr(running, "make_worker", lambda *_, **__: made)
    return made


def files(count: int) -> list[GivenFile]:
    return [GivenFile(f"{number}.safetensors", "read", Path(f"/{number}")) for number in range(count)]


def asked(requests: Iterable[Request]) -> list[tuple[str, str]]:
    return [(request.path, request.step) for request in requests]


def started(runner: Session, count: int) -> Iterator[tuple[Input, dict[str, StepResult]]]:
    """Start the implementation, which makes sending ahead possible, and run it on files."""
    runner.start()
    return runner.run(files(count), runner.answers)


def test_inputs_are_asked_about_in_order_and_as_many_as_fit_are_sent_ahead(worker: Recorder) -> None:
    with closing(Session(resolve(QUICK))) as runner:
        ran = started(runner, 3)
        first, results = next(ran)
        assert (first.id, list(results)) == ("0.safetensors", ["open", "read"])
        assert asked(worker.ahead) == [("/1", "open"), ("/1", "read"), ("/2", "open"), ("/2", "read")]
        assert [item.id for item, _ in ran] == ["1.safetensors", "2.safetensors"]
    assert asked(worker.asked) == [(f"/{number}", step) for number in range(3) for step in ("open", "read")]
    assert worker.closed
    assert worker.starts == 1
    with closing(Session(resolve(QUICK))) as runner:
        next(started(runner, running.MAX_IN_FLIGHT))
        assert running.MAX_IN_FLIGHT - 2 <= worker.in_flight <= running.MAX_IN_FLIGHT + 1


def test_a_runner_that_is_stopped_asks_nothing_more(worker: Recorder) -> None:
    stop = threading.Event()
    with closing(Session(resolve(QUICK), stop=stop)) as runner:
        for _ in runner.run(files(3), runner.answers):
            stop.set()
        assert {path for path, _ in asked(worker.asked)} == {"/0"}
        with pytest.raises(StoppedError):
            runner.answers(files(1)[0])


@pytest.mark.parametrize(
    ("outcome", "max_hangs", "before"),
    [("hang", 2, 2), ("crash", 2, 2 * DEATHS_FOR_A_HANG), ("hang", 0, 50), ("harness-error", 1, 50)],
)
def test_hangs_or_deaths_on_end_are_given_up(
    worker: Recorder, outcome: Outcome, max_hangs: int, before: int
) -> None:
    worker.result = StepResult(outcome)
    with closing(Session(resolve(QUICK), max_hangs=max_hangs)) as runner:
        ran = runner.run(files(50), runner.answers)
        assert len(list(itertools.islice(ran, before))) == before
        if before < 50:
            says = r"last one was \d+\.safetensors\); the limit is --max-hangs 2"
            with pytest.raises(GivenUpError, match=says):
                next(ran)


def test_an_answer_in_between_starts_the_count_of_hangs_anew(worker: Recorder) -> None:
    with closing(Session(resolve(QUICK), max_hangs=2)) as runner:
        for number, file in enumerate(files(8)):
            worker.result = StepResult("accept" if number % 2 else "hang", tensors=[])
            assert runner.answers(file)


@pytest.mark.parametrize(
    ("outcome", "times", "left"), [("hang", 2, 2), ("crash", 2, 0), ("exhausted", 2, 0), ("reject", 1, 0)]
)
def test_a_bad_end_is_asked_again_in_a_fresh_process_and_a_hang_with_leave(
    worker: Recorder, outcome: Outcome, times: int, left: int
) -> None:
    worker.result = StepResult(outcome, "killed")
    asked_before: list[int] = []

    @contextmanager
    def leave() -> Iterator[None]:
        asked_before.append(len(worker.asked))
        yield
        asked_before.append(len(worker.asked))

    with closing(Session(resolve(QUICK))) as runner:
        runner.waiting = leave
        found = runner.answers(files(1)[0])
    assert {step: result.outcome for step, result in found.items()} == {"open": outcome, "read": outcome}
    assert asked(worker.asked) == [("/0", "open")] * times + [("/0", "read")] * times
    assert worker.renewed == 2 * (times - 1)
    assert asked_before == [1, 2, 3, 4][: 2 * left]


def answers(item: Input | None = None, **options: Any) -> dict[str, StepResult]:
    """Return what a new runner says about one input."""
    with closing(Session(resolve(QUICK), **options)) as runner:
        return runner.answers(item or files(1)[0])


HANG = StepResult("hang", "no answer")
NO_MEMORY = StepResult("exhausted", "out of memory", retry=RetryReason.ADDRESS_SPACE)


def ended_early(outcome: Outcome) -> StepResult:
    return StepResult(outcome, "ended early: no answer", retry=RetryReason.PROBE_LIMIT)


def test_a_hang_after_another_failure_is_confirmed_with_more_time_as_well(worker: Recorder) -> None:
    """Memory is exhausted first; alone, the reader is slow but orderly."""
    worker.ends = lambda *_: NO_MEMORY if not worker.renewed else None if worker.timeout_factor > 1 else HANG
    assert answers()["open"].outcome == "accept"


def test_large_inputs_and_last_retries_have_no_limit_of_address_space(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unlimited: list[bool] = []

    def make(*_: Any, unlimited_address_space: bool = False, **__: Any) -> Recorder:
        unlimited.append(unlimited_address_space)
        needs_more = None if unlimited_address_space else NO_MEMORY
        return Recorder(lambda _, limits: ended_early("exhausted") if limits else needs_more)

    monkeypatch.setattr(running, "make_worker", make)
    assert {result.outcome for result in answers().values()} == {"accept"}
    unlimited.clear()
    (case,) = cases(TRIGGER)
    answers(case, limits=Limits(memory_bytes=case.size))
    assert unlimited == [False, True]


def doubtful(worker: Recorder, early: Outcome = "hang", later: StepResult | None = None) -> None:
    """Let the worker exceed the probe limits every time."""
    worker.ends = lambda _, limits: ended_early(early) if limits else later


def doubted(limits: Limits) -> list[StepResult]:
    with closing(Session(resolve(QUICK), limits)) as runner:
        return [result for _, results in started(runner, 3) for result in results.values()]


@pytest.mark.parametrize("early", ["hang", "harness-error"])
def test_a_wrong_doubt_leaves_no_trace_and_gives_the_next_more(worker: Recorder, early: Outcome) -> None:
    doubtful(worker, early)
    limits = Limits(4 * PROBE_LIMITS.seconds, 2 * PROBE_LIMITS.memory_bytes)
    assert {(r.outcome, r.message) for r in doubted(limits)} == {("accept", "")}
    told = [early for early in worker.early_limits if early]
    assert [early.seconds for early in told] == [PROBE_LIMITS.seconds, 2 * PROBE_LIMITS.seconds]
    assert [early.memory_bytes for early in told] == [PROBE_LIMITS.memory_bytes, limits.memory_bytes]


def test_a_doubt_that_holds_is_told_as_the_end_at_the_limits_and_stays(worker: Recorder) -> None:
    doubtful(worker, later=HANG)
    assert {(r.outcome, r.message) for r in doubted(Limits())} == {("hang", "no answer")}
    assert [early for early in worker.early_limits if early] == [PROBE_LIMITS] * 6


def test_what_took_longer_alone_than_its_limit_is_told_with_a_note(worker: Recorder) -> None:
    doubtful(worker)
    doubted(PROBE_LIMITS)  # small limits end nothing early
    assert not any(worker.early_limits)
    worker.result = replace(worker.result, wall_ms=12_000.0)
    first, *others = doubted(Limits())
    note = "no answer within 10 s, but an answer after 12 s when run alone"
    assert (first.outcome, first.message) == ("accept", note)
    assert {result.outcome for result in others} == {"accept"}


def test_what_warms_up_a_process_is_never_ended_early(worker: Recorder) -> None:
    case = replace(cases(TRIGGER)[0], budget={"read_bytes": 10}, steps=("read",))
    worker.result = replace(worker.result, read_bytes=11)
    assert answers(case)["read"].over_budget
    first, *others = worker.early_limits
    assert first == PROBE_LIMITS
    assert len(others) > 1
    assert not any(others)


def test_a_case_is_asked_about_by_a_copy_and_without_one_nothing_is_asked(worker: Recorder) -> None:
    (case,) = cases(TRIGGER)
    assert list(answers(case)) == ["open", "read"]
    assert all(Path(path).name.startswith("input-") for path, _ in asked(worker.asked))
    worker.asked.clear()
    gone = replace(case, input=replace(case.input, file=Path("/no/such/file")))
    assert {result.outcome for result in answers(gone).values()} == {"harness-error"}
    assert worker.asked == []


@pytest.mark.parametrize("where", ["run_multistep", "judge_step"])
def test_what_does_not_fit_into_memory_is_nobodys_fault(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    calls = itertools.count()
    module = running if where == "run_multistep" else judging
    whole = getattr(module, where)

    def first_time_too_large(*arguments: Any, **options: Any) -> Any:
        if next(calls) == 0:
            raise MemoryError
        return whole(*arguments, **options)

    monkeypatch.setattr(module, where, first_time_too_large)
    slice_case, read_case = cases("slice/beside-f4", TRIGGER)
    with Session(resolve(QUICK)) as session:
        session.start()
        odd = slice_case if where == "run_multistep" else read_case
        first, second = session.judge(odd), session.judge(cases(NEIGHBOURS[0])[0])
    assert first.verdict == "harness-error"
    assert "does not fit into the memory of the harness" in first.final.detail
    assert second.verdict == "pass"


def test_what_is_sent_ahead_is_one_question_and_what_is_counted_is_asked_alone(worker: Recorder) -> None:
    assert is_single_question(files(1)[0])
    assert all(is_single_question(case) for case in cases(TRIGGER, *NEIGHBOURS))
    counted = [case for case in committed().cases if case.counted and not case.heavy]
    odd = [case for case in committed().cases if case.kind != "read" or case.budget or case.action]
    assert odd
    assert not any(map(is_single_question, odd + counted))
    answers(counted[0])
    assert worker.asked
    assert all(request.more == {"summary": True} for request in worker.asked)


def test_budgets_bind_clean_results() -> None:
    (case,), limited = cases(TRIGGER), {"read_bytes": 10}
    for budget, result, over in (
        (limited, StepResult("accept", read_bytes=11), 1),
        (limited, StepResult("accept", read_bytes=10), 0),
        (limited, StepResult("crash", read_bytes=11), 0),
        (None, StepResult("accept", read_bytes=11), 0),
    ):
        assert len(within_budget(replace(case, budget=budget), result).over_budget) == over, result


# Answers that earlier files spoilt, and content from uninitialised memory


pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.libc_ver()[0] != "glibc",
    reason="limits as on Linux, memory as with glibc",
)

AFTER = ("layout/two-dtypes", "layout/hole-between-two", "dtype/scalar-of-f64", "framing/no-bytes")


def verdicts(name: str, *ids: str) -> dict[str, CaseVerdict]:
    with Session(resolve(fake(name))) as session:
        session.start()
        wanted = cases(*ids)
        session.plan(wanted)
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
    original = Session.answers

    def noted(self: Session, item: Input) -> dict[str, StepResult]:
        asked.append(item.id)
        return original(self, item)

    monkeypatch.setattr(Session, "answers", noted)
    valid = [case.id for case in committed().cases if case.kind == "read" and case.codes == ()][:40]
    found = verdicts("RefusesAll", *valid)
    assert "order" not in {f.property for v in found.values() for s in v.steps.values() for f in s.failures}
    assert len(asked) == len(valid) + 1


# Content from uninitialised memory


LIMITS = Limits(5.0, 512 << 20)


@pytest.mark.parametrize(
    ("selector", "says"),
    [
        (fake("HandsOutFreshMemory"), "uninitialised memory: bytes of tensor .* change when fresh memory"),
        (fake("HandsOutRandomBytes"), "content differs from run to run: bytes of tensor "),
        *((same, "$") for same in ("reference", fake("HandsOutZeros"), "py:no_such_module:Reader")),
        (by_exit("good"), "$"),
    ],
)
def test_memory_that_was_never_written_is_told_from_random_content(selector: str, says: str) -> None:
    note = content_depends_on_heap(resolve(selector), cases("layout/two-dtypes")[0], LIMITS)
    assert re.match(says, note or "")


def test_the_note_stands_in_the_detail_of_the_wrong_content(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "MAX_HEAP_CHECKS", 1)
    with Session(resolve(fake("HandsOutFreshMemory")), LIMITS) as session:
        verdict = session.judge(cases(TRIGGER)[0])
        assert verdict.verdict == "wrong-content"
        says = 'other bytes than the file contains.*; uninitialised memory: bytes of tensor "w" change'
        assert re.search(says, verdict.steps["read"].detail)
        assert verdict.steps["open"].verdict == "pass"
        monkeypatch.setattr(running, "content_depends_on_heap", None)  # checks are used up, or not needed
        assert session.judge(cases("layout/two-dtypes")[0]).verdict == "wrong-content"
    monkeypatch.setattr(running, "MAX_HEAP_CHECKS", 1)
    with Session(resolve(QUICK), LIMITS) as session:
        assert session.judge(cases(TRIGGER)[0]).verdict == "pass"
