"""Budgets: measurements, independence from other load, and reports of an excess."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

import psutil
import pytest

from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.outcome import StepResult
from safetensors_conformance.programs import limited_process
from safetensors_conformance.programs.launcher import Confinement
from safetensors_conformance.run import budget
from safetensors_conformance.run.budget import HEAD_ROOM, cheaper, excesses, machine_factor
from safetensors_conformance.run.session import Session
from safetensors_conformance.worker.worker import Limits

from ..known_files import BYTES, SECONDS
from ..support import TRIGGER, by_exit, cases, committed, fake, stdio

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="costs are measured as on Linux")

spender = partial(fake, module="budget_fakes")
BURNING = Confinement(env=("FAKE_BURNS",))
SMALL = {"seconds": SECONDS / 10, "peak_bytes": BYTES // 2, "read_bytes": 1 << 16}


def spent(selector: str, limits: Mapping[str, float], before: tuple[str, ...] = ()) -> StepResult:
    """The answer of a reader about a small file with a budget, after other files if given."""
    case = replace(cases(TRIGGER)[0], budget=limits)
    with Session(resolve(selector), Limits(10.0, 1 << 30)) as session:
        for other in cases(*before):
            session.judge(other)
        return session.judge(case).steps["read"].result


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("selector", "name", "least"),
    [
        (spender("Burns"), "seconds", SECONDS),
        (spender("BurnsInAChild"), "seconds", SECONDS),
        (stdio("lies"), "seconds", SECONDS),
        (by_exit("burns"), "seconds", SECONDS / 2),
        (spender("TakesMemory"), "peak_bytes", BYTES * 0.9),
        (spender("ReadsMuch"), "read_bytes", BYTES),
    ],
)
def test_what_a_reader_spends_is_measured_whatever_it_says(selector: str, name: str, least: float) -> None:
    result = spent(selector, SMALL)
    (excess,) = (e for e in result.over_budget if e.name == name)
    assert excess.used >= least * 0.95  # the kernel counts in steps of 10 ms
    assert excess.allowed >= SMALL[name]
    assert excess.ratio == excess.used / excess.allowed > 1


@pytest.mark.parametrize(("name", "least_ms"), [("Sleeps", SECONDS * 1000), ("BurnsAtItsFirstFile", 0)])
def test_what_is_no_cost_of_a_file_is_not_over_budget(name: str, least_ms: float) -> None:
    """Waiting costs no processor time, and what happens once in a process belongs to no file."""
    result = spent(spender(name), SMALL)
    assert (result.outcome, result.over_budget, result.message) == ("accept", (), "")
    assert result.wall_ms > least_ms


def test_memory_that_went_to_earlier_files_is_no_fault_of_this_one() -> None:
    result = spent(spender("TakesLongerAndLonger"), {}, before=("layout/two-dtypes",))
    assert result.outcome == "accept"
    assert "asked twice: MemoryError" in result.message


def test_a_budget_of_a_case_of_several_requests_is_measured_too() -> None:
    case = replace(committed().by_id["slice/integer-first"], budget={"read_bytes": 0})
    with Session(resolve("reference")) as session:
        result = session.judge(case).final.result
    assert [e.name for e in result.over_budget] == ["read_bytes"]
    assert result.spent_ms is not None


def test_time_is_allowed_by_the_machine_and_a_fast_one_gets_no_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "known_work", lambda: 0)
    assert machine_factor() == 1.0
    monkeypatch.setattr(budget, "known_work_ms", lambda: 3 * budget.REFERENCE_MS)
    assert machine_factor() == 3.0
    for result, over in (
        (StepResult("accept", spent_ms=2999 * HEAD_ROOM), False),
        (StepResult("accept", spent_ms=3001 * HEAD_ROOM), True),
        # What the worker tells counts where nothing was measured; what nobody knows is no excess.
        (StepResult("accept", cpu_ms=100_000.0), True),
        (StepResult("accept", cpu_ms=100_000.0, spent_ms=1.0), False),
        (StepResult("accept", wall_ms=100_000.0), False),
    ):
        found = excesses({"seconds": 1.0}, result)
        assert [excess.allowed for excess in found] == [3 * HEAD_ROOM] * over, result


def test_the_smaller_of_two_costs_counts() -> None:
    first = StepResult("reject", "why", spent_ms=5.0, peak_bytes=None, read_bytes=7)
    both = cheaper(first, StepResult("accept", spent_ms=3.0, peak_bytes=1, read_bytes=9))
    assert both == replace(first, spent_ms=3.0, peak_bytes=1)


# Hangs


@pytest.fixture
def shared_processor() -> Iterator[None]:
    """Three other processes on the processor that ``OneProcessor`` takes."""
    code = "import os\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\nwhile True: pass"
    others = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    yield
    for other in others:
        other.kill()
        other.wait()


def burning(limit: float) -> StepResult:
    """Return the answer of a reader that burns ``FAKE_BURNS`` seconds on one processor."""
    with Session(resolve(spender("OneProcessor")), Limits(limit, 1 << 30, BURNING)) as session:
        return session.judge(cases(TRIGGER)[0]).steps["read"].result


@pytest.mark.usefixtures("shared_processor")
@pytest.mark.parametrize(
    ("burns", "limit", "outcome"),
    [(0.25, 0.5, "accept"), pytest.param(60, 0.25, "hang", marks=pytest.mark.nightly)],
)
def test_a_reader_that_gets_little_of_a_processor_gets_more_time(
    monkeypatch: pytest.MonkeyPatch, burns: float, limit: float, outcome: str
) -> None:
    monkeypatch.setenv("FAKE_BURNS", str(burns))
    began = time.monotonic()
    result = burning(limit)
    took = time.monotonic() - began
    assert result.outcome == outcome, result.message
    if outcome == "hang":
        assert "no answer within 0.75 s; killed after " in result.message  # alone it had more time
        assert took > 1.5 * limit + 3 * limit  # it was asked twice
        assert took < 1.5 * (limit + 3 * limit) * limited_process.STRETCH_FACTOR


def test_a_reader_that_never_gets_its_time_is_not_called_hanging(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_BURNS", "60")
    monkeypatch.setattr(limited_process.Child, "processor_seconds", lambda _: 1.0)  # as if it never got on
    monkeypatch.setattr(limited_process, "STRETCH_FACTOR", 2)
    result = burning(0.25)
    assert result.outcome == "harness-error"
    assert result.message.startswith("nothing is known: no answer after 0.")


def test_a_deadline_is_put_off_only_while_processor_time_is_left() -> None:
    deadline = limited_process.Deadline(10.0)
    deadline.count_from(3.0)
    assert deadline.left(3.0) == pytest.approx(10.0, abs=0.2)
    assert deadline.left(8.0) == pytest.approx(5.0, abs=0.2)
    assert deadline.left(12.5) == 0.0  # nearly all of it: the kernel counts roughly
    deadline.stretch(1000)
    assert deadline.at == deadline.end == pytest.approx(deadline.began + 60)


def test_the_state_of_a_process_is_that_of_all_its_threads() -> None:
    code = "import threading\ndef spin():\n    while True: pass\nthreading.Thread(target=spin).start()"
    other = subprocess.Popen([sys.executable, "-c", code])
    try:
        found = psutil.Process(other.pid)
        until, seen = time.monotonic() + 20, False
        while not seen and time.monotonic() < until:
            # The waiting thread may be awake for a moment when it is looked at.
            seen = sorted(limited_process._states(found)) == ["R", "S"]
            time.sleep(0.01)
        assert seen
    finally:
        other.kill()
        other.wait()
    assert limited_process._states(found) == []
