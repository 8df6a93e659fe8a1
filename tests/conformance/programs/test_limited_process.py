"""Programs that misbehave as processes: their cost for the harness, and which step is blamed."""

from __future__ import annotations

import errno
import os
import resource
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from unittest.mock import Mock

import psutil
import pytest

from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.outcome import RetryReason, StepResult
from safetensors_conformance.programs import launcher, limited_process
from safetensors_conformance.run.multistep import run_multistep
from safetensors_conformance.run.session import warm_up
from safetensors_conformance.worker import worker
from safetensors_conformance.worker.worker import ExitWorker, Limits, PipeWorker, Request, Worker, retry_alone

from ..support import all_end, by_exit, committed, is_running, stdio

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="signals and limits as on Linux")

LONG = "p" * 3000
"""Part of a path, so that a few requests fill a pipe."""


@pytest.fixture
def dies_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a process that dies after its answer as long as usual."""
    monkeypatch.setattr(worker, "LAST_WORDS_SECONDS", limited_process.LAST_WORDS_SECONDS)


@contextmanager
def worker_for(how: str, *words: object, seconds: float = 5.0) -> Iterator[PipeWorker]:
    """A worker over a fake, started."""
    worker = PipeWorker(resolve(stdio(how, *words, isolated=True)), Limits(seconds, 256 << 20))
    try:
        worker.start()
        yield worker
    finally:
        worker.close()


def judge(worker: PipeWorker, paths: list[str], *, ahead: bool = True) -> dict[str, StepResult]:
    """Run all paths as a run does: sent ahead, with failures retried in a fresh process."""
    results = {}
    for at, path in enumerate(paths):
        if ahead and not worker.in_flight:
            worker.send_ahead([Request("read", coming) for coming in paths[at:]])
        result = worker.ask("read", path)
        if result.outcome in ("crash", "hang", "exhausted") or result.retry is not None:
            result = retry_alone(worker, partial(worker.ask, "read", path), result)
        results[path] = result
    return results


def outcomes(results: dict[str, StepResult]) -> list[str]:
    return [result.outcome for result in results.values()]


# What is read ahead is bounded


@pytest.mark.parametrize("how", ["flood", "flood-after"])
def test_a_flood_while_requests_are_ahead_costs_no_memory(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limited_process, "LINE_LIMIT", 4 << 20)
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


@pytest.mark.usefixtures("impatient")
def test_a_process_that_never_reads_what_is_sent_ahead_blocks_nobody() -> None:
    paths = ["trigger", *(f"{LONG}{i}" for i in range(200))]
    with worker_for("hang", seconds=0.75) as worker:
        began = time.monotonic()
        worker.send_ahead([Request("read", path) for path in paths])
        assert time.monotonic() - began < 0.5
        results = judge(worker, paths)
    assert outcomes(results) == ["hang", *["reject"] * 200]


@pytest.mark.parametrize(
    ("probe_limits", "outcome", "said"),
    [
        (Limits(0.3, 256 << 20), "hang", "no answer within 0.3 s"),
        (Limits(5.0, 64 << 20), "exhausted", "used more than 64 MiB of memory"),
    ],
)
def test_an_answer_that_is_ended_early_is_taken_alone(probe_limits: Limits, outcome: str, said: str) -> None:
    with worker_for("need") as worker:
        first = worker.ask("read", "trigger", limits=probe_limits)
        assert first.outcome == outcome
        assert first.retry is RetryReason.PROBE_LIMIT
        assert first.message.startswith(f"ended early: {said}; killed")
        result = retry_alone(worker, partial(worker.ask, "read", "trigger"), first)
    assert (result.outcome, result.message) == ("reject", "no")


@pytest.mark.parametrize("opening", ["ended early:", "nothing is known:", "after its answer it"])
def test_the_words_of_a_reader_decide_nothing(opening: str) -> None:
    """A reader may reject with any message; only the harness sets the reason for a retry."""
    with worker_for("quote", shlex.quote(opening)) as worker:
        result = worker.ask("read", "trigger")
    assert (result.outcome, result.message, result.retry) == ("reject", opening, None)


@pytest.mark.parametrize("how", ["hang", "drip", "half"])
def test_an_answer_that_does_not_end_in_time_is_a_hang(how: str) -> None:
    with worker_for(how, seconds=0.5) as worker:
        began = time.monotonic()
        # A limit that is not below its own ends nothing early.
        result = worker.ask("read", "trigger", limits=Limits(0.5, 64 << 20))
        took = time.monotonic() - began
        assert worker.ask("read", "b").outcome == "reject"
    assert (result.outcome, result.retry, took < 4) == ("hang", None, True)
    assert result.message.startswith("no answer within 0.5 s; killed")


# Who is blamed


@pytest.mark.usefixtures("stubborn_is_soon_ended")
@pytest.mark.parametrize("ahead", [True, False])
def test_a_reader_that_closes_its_input_costs_no_other_file(ahead: bool) -> None:
    paths = ["a", "trigger", *(f"{LONG}{i}" for i in range(40))]
    with worker_for("deaf") as worker:
        began = time.monotonic()
        results = judge(worker, paths, ahead=ahead)
    assert set(outcomes(results)) == {"reject"}
    assert {result.message for result in results.values()} == {"no"}
    assert time.monotonic() - began < 4  # no time limit was waited for


@pytest.mark.usefixtures("dies_late")
@pytest.mark.parametrize(
    ("how", "ahead", "told"),
    [
        ("die", True, "killed by SIGSEGV"),
        ("die-after", True, "after its answer it killed by SIGSEGV"),
        ("die-second", True, "killed by SIGSEGV; order-dependent: reject when run alone in a fresh process"),
        ("die-second", False, "killed by SIGSEGV; order-dependent: reject when run alone in a fresh process"),
        ("die-once", True, "no"),
        ("die-after-once", True, "no"),
    ],
)
def test_a_death_stays_with_the_file_that_caused_it(how: str, ahead: bool, told: str, tmp_path: Path) -> None:
    with worker_for(how, tmp_path / "note") as worker:
        results = judge(worker, ["a", "trigger", "b", "c"], ahead=ahead)
    trigger = results.pop("trigger")
    assert (trigger.outcome, trigger.message) == ("reject" if told.startswith("no") else "crash", told)
    assert {(result.outcome, result.message) for result in results.values()} == {("reject", "no")}


@pytest.mark.usefixtures("dies_late")
def test_a_death_after_an_answer_is_not_the_next_ones_when_nothing_was_sent_ahead() -> None:
    with worker_for("die-after") as worker:
        results = judge(worker, ["a", "trigger", "b", "c"], ahead=False)
    assert results["b"].outcome == "reject"
    assert set(outcomes(results)) <= {"reject", "crash"}


# What is started is ended


def pids_in(note: Path) -> list[int]:
    """The processes recorded by a fake: the one left behind, and itself."""
    until = time.monotonic() + 10
    while not note.exists() and time.monotonic() < until:
        time.sleep(0.01)
    return [int(pid) for pid in note.read_text(encoding="ascii").split()]


@pytest.mark.parametrize(
    ("how", "outcome"), [("stray", "reject"), ("stray-hangs", "hang"), ("stray-dies", "crash")]
)
def test_what_has_moved_out_of_the_family_is_ended_with_it(how: str, outcome: str, tmp_path: Path) -> None:
    note = tmp_path / "note"
    with worker_for(how, note, seconds=1) as worker:
        assert worker.ask("read", "trigger").outcome == outcome
        pids = pids_in(note)
        assert worker.ask("read", "b").outcome == "reject"
    assert all_end(*pids)


def test_what_a_program_leaves_behind_is_ended_before_the_next_file(tmp_path: Path) -> None:
    note = tmp_path / "note"
    worker = ExitWorker(resolve(by_exit("stray-once", note, isolated=True)), Limits(5, 256 << 20))
    assert worker.ask("read", "trigger").outcome == "accept"
    assert not is_running(pids_in(note)[0])


@pytest.mark.parametrize("how", ["KILL", "TERM"])
def test_no_program_outlives_the_harness(how: str, tmp_path: Path) -> None:
    note = tmp_path / "note"
    code = """
import sys, threading
from safetensors_conformance.worker.worker import PipeWorker
from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.worker.worker import Limits
worker = PipeWorker(resolve(sys.argv[1]), Limits(60, 1 << 30))
# In a thread that ends: a death signal of the kernel goes by threads.
thread = threading.Thread(target=worker.start)
thread.start()
thread.join()
worker.ask("read", "trigger")
"""
    command = stdio("stray-hangs", note, isolated=True)
    harness = subprocess.Popen([sys.executable, "-c", code, command])
    pids = pids_in(note)
    assert all(map(is_running, pids))
    harness.send_signal(getattr(signal, f"SIG{how}"))
    harness.wait()
    assert all_end(*pids)


@pytest.mark.parametrize(("how", "seconds"), [("kill-keeper", 5.0), ("stop-keeper", 0.5)])
def test_one_that_turns_on_its_keeper_ends_too(
    how: str, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launcher, "GONE_SECONDS", 0.5)
    with worker_for(how, seconds=seconds) as worker:
        pid = worker._child.pid if worker._child is not None else 0
        assert worker.ask("read", "trigger").outcome in ("crash", "hang", "exhausted")
        assert worker.ask("read", "b").outcome == "reject"
    assert all_end(pid)


def test_a_program_that_cannot_be_run_is_told_as_ever(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no-such-program"):
        limited_process.Child(["no-such-program"], 1 << 30, os.environ)
    (tmp_path / "plain").write_bytes(b"#!")
    with pytest.raises(PermissionError, match="plain"):
        limited_process.Child([str(tmp_path / "plain")], 1 << 30, os.environ)


def test_a_start_without_free_descriptors_closes_its_pipes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "socketpair", Mock(side_effect=OSError(errno.EMFILE, "Too many open files")))
    before = psutil.Process().num_fds()
    with pytest.raises(OSError, match="Too many open files"):
        launcher._supervised(lambda _: None, *launcher._pipes())
    assert psutil.Process().num_fds() == before


def started() -> bytes:
    """Start a program and return its unique output."""
    word = os.urandom(8).hex()
    child = limited_process.Child([sys.executable, "-IS", "-c", f"print({word!r})"], 1 << 30, os.environ)
    line = child.read_line(limited_process.Deadline(60))
    child.wait_closed(5)
    assert line.decode() == word
    return line


@pytest.mark.parametrize("kills", [0, 3])
def test_programs_of_several_threads_start_even_if_their_supervisor_is_killed(kills: int) -> None:
    """Requests of several threads queue up before the first is read."""
    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(started) for _ in range(24)]
        for _ in range(kills):
            time.sleep(0.05)
            popen = launcher._supervisor._popen
            if popen is not None:
                popen.kill()
        assert len({one.result() for one in waiting}) == 24


@pytest.mark.parametrize("platform", ["linux", "other"])
def test_a_program_gets_its_own_surroundings_with_a_keeper_and_without(
    platform: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setenv("SOME_NAME", "caf\udce9")
    monkeypatch.chdir(tmp_path)
    code = """
import os, signal
fds = sorted(map(int, os.listdir("/proc/self/fd")))[:5]
mask, chld = signal.pthread_sigmask(signal.SIG_BLOCK, []), signal.getsignal(signal.SIGCHLD)
print([os.getcwd(), os.environb[b"SOME_NAME"], fds, chld, mask, os.getsid(0) == os.getpid()])
"""
    child = limited_process.Child([sys.executable, "-IS", "-c", code], 1 << 30, os.environ)
    line = child.read_line(limited_process.Deadline(10))
    with pytest.raises(limited_process.DiedError, match="ended with exit status 0"):
        child.read_line(limited_process.Deadline(10))
    child.wait_closed(0)
    default = "<Handlers.SIG_DFL: 0>"
    assert line.decode() == f"[{str(tmp_path)!r}, b'caf\\xe9', [0, 1, 2, 3], {default}, set(), True]"


# Memory and number of processes


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("stray-fills", "used more than 256 MiB of memory in 2 processes; killed"),
        ("bomb", "ran more than 30 processes at the same time; killed"),
    ],
)
def test_many_processes_are_limited_as_one(
    how: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limited_process, "MAX_PROCESSES", 30)
    with worker_for(how, tmp_path / "note", seconds=20) as worker:
        began = time.monotonic()
        result = worker.ask("read", "trigger")
        assert worker.ask("read", "b").outcome == "reject"
        assert time.monotonic() - began < 15
    assert (result.outcome, result.message) == ("exhausted", said)
    assert how == "bomb" or all_end(*pids_in(tmp_path / "note"))


@pytest.mark.parametrize("known", [True, False])
def test_pages_that_processes_share_count_once_if_told(monkeypatch: pytest.MonkeyPatch, known: bool) -> None:
    if not known:
        monkeypatch.setattr(limited_process, "_share", lambda _: None)
    with worker_for("share", seconds=20) as worker:
        result = worker.ask("read", "trigger")
    assert result.outcome == ("reject" if known else "exhausted")
    assert known or "processes, shared pages counted in each of them; killed" in result.message


def test_a_program_that_spoils_its_folder_ends_no_run(tmp_path: Path) -> None:
    def replace_folder(_step: str, path: str, *_: object, **__: object) -> StepResult:
        folder = Path(path).parent
        if not folder.is_symlink():
            shutil.rmtree(folder)
            folder.symlink_to(tmp_path)
        return StepResult("accept")

    spoiler = cast(Worker, SimpleNamespace(ask=replace_folder))
    (case, *_) = (c for c in committed().cases if c.kind == "write")
    assert run_multistep(spoiler, case).outcome in ("accept", "reject")
    warm_up(spoiler, "read")
