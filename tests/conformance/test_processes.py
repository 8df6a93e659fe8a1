"""Programs that misbehave as processes: what they cost the harness, and who is blamed for what."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from safetensors_conformance import process
from safetensors_conformance.outcomes import StepResult
from safetensors_conformance.pipe_worker import PipeWorker
from safetensors_conformance.selectors import resolve
from safetensors_conformance.worker import BETWEEN, UNSURE, Limits, Request, asked_again

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="signals and limits as on Linux")

FAKES = Path(__file__).with_name("process_fakes.py")
LONG = "p" * 3000
"""Part of a path, so that a few requests fill a pipe."""


@contextmanager
def worker_for(how: str, *words: object, seconds: float = 5.0) -> Iterator[PipeWorker]:
    """A worker over a fake, started."""
    command = " ".join(map(str, (sys.executable, "-IS", FAKES, how, *words)))
    worker = PipeWorker(resolve(f"cmd:{command}"), Limits(seconds, 256 << 20))
    try:
        worker.start()
        yield worker
    finally:
        worker.close()


def judge(worker: PipeWorker, paths: list[str], *, ahead: bool = True) -> dict[str, StepResult]:
    """Ask for all paths as a run does: sent ahead, and again in a fresh process what ended badly."""
    results = {}
    for at, path in enumerate(paths):
        if ahead and not worker.in_flight:
            worker.send_ahead([Request("read", coming) for coming in paths[at:]])
        result = worker.ask("read", path)
        if result.outcome in ("crash", "hang", "exhausted") or result.message.startswith(UNSURE):
            result = asked_again(worker, lambda path=path: worker.ask("read", path), result)
        results[path] = result
    return results


def outcomes(results: dict[str, StepResult]) -> list[str]:
    return [result.outcome for result in results.values()]


# What is read ahead is bounded


@pytest.mark.parametrize("how", ["flood", "flood-after"])
def test_a_flood_while_requests_are_sent_ahead_costs_no_memory(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "LINE_LIMIT", 4 << 20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    paths = ["a", "trigger", *(f"{LONG}{i}" for i in range(100))]
    with worker_for(how, seconds=2) as worker:
        results = judge(worker, paths)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    assert grown < 64 << 20
    trigger = results.pop("trigger")
    assert set(outcomes(results)) == {"reject"}
    if how == "flood":
        assert trigger.outcome == "harness-error"
        assert "it wrote an endless line on standard output" in trigger.message


def test_a_process_that_never_reads_what_is_sent_ahead_blocks_nobody() -> None:
    paths = ["trigger", *(f"{LONG}{i}" for i in range(200))]
    with worker_for("hoard", seconds=1) as worker:
        began = time.monotonic()
        worker.send_ahead([Request("read", path) for path in paths])
        assert time.monotonic() - began < 0.5
        results = judge(worker, paths)
    assert outcomes(results) == ["hang", *["reject"] * 200]


@pytest.mark.parametrize("how", ["drip", "half"])
def test_an_answer_that_does_not_end_in_time_is_a_hang(how: str) -> None:
    with worker_for(how, seconds=0.5) as worker:
        began = time.monotonic()
        result = worker.ask("read", "trigger")
        took = time.monotonic() - began
        assert worker.ask("read", "b").outcome == "reject"
    assert (result.outcome, took < 4) == ("hang", True)


# Who is blamed


@pytest.mark.parametrize("ahead", [True, False])
def test_a_reader_that_closes_its_input_costs_no_other_file(ahead: bool) -> None:
    paths = ["a", "trigger", *(f"{LONG}{i}" for i in range(40))]
    with worker_for("deaf") as worker:
        began = time.monotonic()
        results = judge(worker, paths, ahead=ahead)
    assert set(outcomes(results)) == {"reject"}
    assert {result.message for result in results.values()} == {"no"}
    assert time.monotonic() - began < 4  # no time limit was waited for


def test_a_death_after_an_answer_is_told_with_that_answer() -> None:
    with worker_for("die-after") as worker:
        results = judge(worker, ["a", "trigger", "b", "c"])
    assert outcomes(results) == ["reject", "crash", "reject", "reject"]
    assert results["trigger"].message == f"{BETWEEN} killed by SIGSEGV"
    assert results["b"].message == "no"


def test_a_death_after_an_answer_is_not_the_next_ones_when_nothing_was_sent_ahead() -> None:
    with worker_for("die-after") as worker:
        results = judge(worker, ["a", "trigger", "b", "c"], ahead=False)
    assert results["b"].outcome == "reject"
    assert set(outcomes(results)) <= {"reject", "crash"}


@pytest.mark.parametrize("how", ["die-after-once", "die-once"])
def test_a_death_that_does_not_come_again_is_nobodys_fault(how: str, tmp_path: Path) -> None:
    with worker_for(how, tmp_path / "note") as worker:
        results = judge(worker, ["a", "trigger", "b", "c"])
    assert outcomes(results) == ["reject"] * 4


def test_a_crash_at_work_stays_with_the_file_that_was_worked_on() -> None:
    with worker_for("die") as worker:
        results = judge(worker, ["a", "trigger", "b"])
    assert outcomes(results) == ["reject", "crash", "reject"]
    assert results["trigger"].message == "killed by SIGSEGV"
    assert results["a"].message == "no"


@pytest.mark.parametrize("ahead", [True, False])
def test_a_crash_that_takes_two_files_is_told_as_such(ahead: bool) -> None:
    with worker_for("die-second") as worker:
        results = judge(worker, ["a", "trigger", "b"], ahead=ahead)
    assert outcomes(results) == ["reject", "crash", "reject"]
    assert results["trigger"].message.startswith("killed by SIGSEGV; order-dependent: reject when run alone")
