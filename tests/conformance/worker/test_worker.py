"""The worker with fakes: every misbehaviour becomes the right outcome, and the next case still runs."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.outcome import StepResult
from safetensors_conformance.worker.worker import (
    ExitWorker,
    Limits,
    PipeWorker,
    StartError,
    death_outcome,
    make_worker,
)

from ..support import NEIGHBOURS, TRIGGER, by_exit, cases, fake, stdio

LIMITS = Limits(seconds=2.0, memory_bytes=256 << 20)


def ask_three(
    selector: str, step: str = "read", *, measure: bool = False, limits: Limits = LIMITS
) -> list[StepResult]:
    """Ask a neighbour, the file that triggers the misbehaviour, and another neighbour."""
    before, after = cases(*NEIGHBOURS)
    trigger = cases(TRIGGER)[0]
    worker = make_worker(resolve(selector), limits)
    try:
        worker.start()
        return [worker.ask(step, str(c.path), measure=measure) for c in (before, trigger, after)]
    finally:
        worker.close()


@pytest.mark.by_day(7)
@pytest.mark.parametrize(
    ("selector", "outcome", "words"),
    [
        (fake("Hangs"), "hang", "no answer within 0.75 s"),
        (fake("HangsIgnoringSignals"), "hang", "killed"),
        (fake("Crashes"), "crash", "SIGSEGV"),
        (fake("Aborts"), "crash", "SIGABRT"),
        (fake("Exits"), "crash", "exit status 0"),
        (fake("EatsMemory"), "exhausted", "MemoryError"),
        (fake("Panics"), "crash", "PanicException"),
        (fake("ReturnsNonsense"), "harness-error", "the adapter failed"),
        (fake("SlipsUp"), "harness-error", "undefined_name"),
        (stdio("wrong-order"), "harness-error", "answers must come one per request, in order"),
        (stdio("bad-outcome"), "harness-error", "perhaps"),
        (stdio("endless-noise"), "harness-error", "never stops writing to standard output"),
        (stdio("endless-line"), "harness-error", "endless line"),
        (stdio("many-values"), "harness-error", "values, which is more than 500,000"),
        (stdio("eats-memory"), "exhausted", "MiB"),
        (stdio("closes-stdout"), "crash", "closed its standard output"),
        (by_exit("hang"), "hang", "killed"),
        (by_exit("abort"), "crash", "SIGABRT"),
        (by_exit("status-3"), "crash", "exit status 3"),
        (by_exit("status-127"), "harness-error", "127"),
    ],
)
def test_misbehaviour_is_an_outcome_and_the_next_case_still_runs(
    selector: str, outcome: str, words: str
) -> None:
    limits = replace(LIMITS, seconds=0.75) if outcome == "hang" else LIMITS
    before, trigger, after = ask_three(selector, limits=limits)
    assert (before.outcome, after.outcome) == ("reject", "reject")
    assert trigger.outcome == outcome
    assert words in trigger.message


def test_a_reader_that_goes_through_a_set_answers_alike_in_every_run() -> None:
    first, second = (ask_three(fake("GoesThroughASet"))[1] for _ in range(2))
    assert "tensor-7" in first.message
    assert first.message == second.message


def test_last_words_on_stderr_are_kept_with_the_step_that_crashed() -> None:
    before, trigger, after = ask_three(fake("Crashes"))
    assert "about to crash" in trigger.stderr
    assert "about to crash" not in before.stderr + after.stderr


@pytest.mark.parametrize("step", ["open", "read"])
def test_noise_on_stdout_cannot_corrupt_the_protocol_of_the_python_host(step: str) -> None:
    before, trigger, after = ask_three(fake("Noisy"), step)
    assert [r.outcome for r in (before, trigger, after)] == ["reject", "accept", "reject"]
    assert trigger.tensors is not None
    assert [t["name"] for t in trigger.tensors] == ["w"]


def test_noise_of_a_program_is_set_apart_from_its_answers() -> None:
    before, trigger, after = ask_three(stdio("noise"), "open")
    assert [r.outcome for r in (before, trigger, after)] == ["reject", "accept", "reject"]
    assert "reading " in trigger.noise


def test_peak_memory_is_that_of_the_step_alone() -> None:
    _, trigger, after = ask_three(fake("LiesAboutContent"), measure=True)
    if trigger.peak_bytes is None:
        pytest.skip("this system does not tell a process's peak memory")
    assert after.peak_bytes is not None
    assert after.peak_bytes < 64 << 20


@pytest.mark.parametrize(
    ("selector", "words"),
    [
        ("py:no_such_module_at_all:Reader", "No module named 'no_such_module_at_all'"),
        ("py:json:no_such_object", "no_such_object"),
        (fake("NoSteps"), "has none of the methods open, read"),
        (stdio("no-start"), "configuration file not found"),
        (stdio("old-protocol"), "speaks protocol 0"),
        (stdio("bad-steps"), "steps"),
    ],
)
def test_a_worker_that_cannot_start_says_why(selector: str, words: str) -> None:
    worker = make_worker(resolve(selector), LIMITS)
    with pytest.raises(StartError, match="cannot start") as caught:
        worker.start()
    assert words in str(caught.value)
    worker.close()


@pytest.mark.parametrize(
    ("selector", "kind"),
    [("reference", PipeWorker), (stdio("good"), PipeWorker), (by_exit("good"), ExitWorker)],
)
def test_a_target_gets_the_worker_of_its_kind(selector: str, kind: type) -> None:
    assert type(make_worker(resolve(selector), LIMITS)) is kind


def test_starting_again_is_given_up_after_three_times() -> None:
    worker = PipeWorker(resolve("py:no_such_module_at_all:Reader"), LIMITS)
    path = str(cases(TRIGGER)[0].path)
    messages = [worker.ask("read", path).message for _ in range(5)]
    assert all("cannot start" in m for m in messages[:3])
    assert all("not run" in m for m in messages[3:])


@pytest.mark.parametrize(
    ("status", "stderr", "outcome"),
    [
        (-9, "", "exhausted"),
        (-6, "memory allocation of 800000000000 bytes failed", "exhausted"),
        (-6, "terminate called after throwing an instance of 'std::bad_alloc'", "exhausted"),
        (-6, "assertion failed", "crash"),
        (-11, "", "crash"),
        (None, "", "crash"),
        (101, "thread 'main' panicked", "crash"),
    ],
)
def test_running_out_of_memory_is_told_from_other_deaths(status: int, stderr: str, outcome: str) -> None:
    assert death_outcome(status, stderr) == outcome


METHOD = "def read(self, path): return []"


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("class Adapter:\n  def x(", ":Adapter", "SyntaxError: '(' was never closed (adapter.py, line 2)"),
        ("import no_such_library", ":Adapter", f"(adapter.py, line 1); the adapter runs in {sys.executable}"),
        ("x = 1\nraise OSError('no')", ":Adapter", "OSError: no (adapter.py, line 2)"),
        (f"class Adaptr:\n  {METHOD}", ":Adapter", "adapter.py has no 'Adapter'; did you mean 'Adaptr'?"),
        (f"class Other:\n  {METHOD}", ":Adapter", "adapter.py has no 'Adapter'; did you mean 'Other'?"),
        ("", ":Adapter", "adapter.py has no 'Adapter'"),
        ("class Adapter: pass", ":Adapter", "has none of the methods open, read,"),
        ("class Adapter:\n  def raed(self): pass", ":Adapter", "export; perhaps raed should be read"),
        (f"class Adapter:\n  {METHOD}", "", "did you mean py:adapter.py:Adapter?"),
        (
            f"class Adapter:\n  {METHOD}\n  __init__ = 1",
            ":Adapter",
            "TypeError: 'int' object is not callable",
        ),
        (f"class Adapter:\n  {METHOD}\n  def __init__(self):\n    1 / 0", ":Adapter", "(adapter.py, line 4)"),
        (
            f"class Adapter:\n  {METHOD}\n  rejects = 'x'",
            ":Adapter",
            "rejects of the adapter must be a tuple",
        ),
    ],
)
def test_a_mistake_is_told_with_its_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, name: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "adapter.py").write_text(text, encoding="utf-8")
    worker = make_worker(resolve(f"py:adapter.py{name}"), Limits())
    with pytest.raises(StartError) as caught:
        worker.start()
    worker.close()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
