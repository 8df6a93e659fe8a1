"""The worker with fakes: noise, costs, starts that fail, and the meaning of exit statuses."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.outcome import StepResult
from safetensors_conformance.worker.worker import Limits, PipeWorker, StartError, death_outcome, make_worker

from ..support import NEIGHBOURS, TRIGGER, cases, fake, stdio

LIMITS = Limits(seconds=2.0, memory_bytes=256 << 20)


def ask_three(selector: str) -> list[StepResult]:
    """Ask a neighbour, the file that triggers the misbehaviour, and another neighbour."""
    before, trigger, after = cases(NEIGHBOURS[0], TRIGGER, NEIGHBOURS[1])
    worker = make_worker(resolve(selector), LIMITS)
    try:
        worker.start()
        return [worker.ask("read", str(c.path)) for c in (before, trigger, after)]
    finally:
        worker.close()


def test_last_words_on_stderr_are_kept_with_the_step_that_crashed() -> None:
    before, trigger, after = ask_three(fake("Crashes"))
    assert (before.outcome, trigger.outcome, after.outcome) == ("reject", "crash", "reject")
    assert "about to crash" in trigger.stderr
    assert "about to crash" not in before.stderr + after.stderr


def test_noise_on_stdout_cannot_corrupt_the_protocol() -> None:
    answers = {selector: ask_three(selector) for selector in (fake("Noisy"), stdio("noise"))}
    for three in answers.values():
        assert [r.outcome for r in three] == ["reject", "accept", "reject"]
        assert [t["name"] for t in three[1].tensors or ()] == ["w"]
    assert "reading " in answers[stdio("noise")][1].noise


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
        (None, "", "crash"),
        (101, "thread 'main' panicked", "crash"),
    ],
)
def test_running_out_of_memory_is_told_from_other_deaths(status: int, stderr: str, outcome: str) -> None:
    assert death_outcome(status, stderr) == outcome


METHOD = "  def read(self, path): return []"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("class Adapter:\n  def x(", "SyntaxError: '(' was never closed (adapter.py, line 2)"),
        ("import no_such_library", f"(adapter.py, line 1); the adapter runs in {sys.executable}"),
        (f"class Adaptr:\n{METHOD}", "adapter.py has no 'Adapter'; did you mean 'Adaptr'?"),
        (f"class Other:\n{METHOD}", "adapter.py has no 'Adapter'; did you mean 'Other'?"),
        ("class Adapter: pass", "has none of the methods open, read,"),
        ("class Adapter:\n  def raed(self): pass", "export; perhaps raed should be read"),
        (f"class Adapter:\n{METHOD}\n  __init__ = 1", "TypeError: 'int' object is not callable"),
        (f"class Adapter:\n{METHOD}\n  def __init__(self):\n    1 / 0", "(adapter.py, line 4)"),
        (f"class Adapter:\n{METHOD}\n  rejects = 'x'", "rejects of the adapter must be a tuple"),
        # An adapter that ends its process, or tries to, while it is imported.
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("import os; os._exit(3)", "exit status 3"),
        ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("import os; os.close(0)", "ended with exit status 1"),
        ("print('x' * 100_000)", "adapter.py has no 'Adapter'"),
        ("import sys; raise OSError(f'random {sys.flags.hash_randomization}')", "random 0"),  # sets are alike
        # Adapters of other files, and programs: the selectors in place of the text.
        ("py:adapter.py", "did you mean py:adapter.py:Adapter?"),
        ("py:no_such_module_at_all:Reader", "No module named 'no_such_module_at_all'"),
        (stdio("no-start"), "configuration file not found"),
    ],
)
def test_what_cannot_start_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    selector = text if text.startswith(("py:", "cmd:")) else ""
    (tmp_path / "adapter.py").write_text(f"class Adapter:\n{METHOD}" if selector else text, encoding="utf-8")
    worker = make_worker(resolve(selector or "py:adapter.py:Adapter"), LIMITS)
    with pytest.raises(StartError, match="cannot start") as caught:
        worker.start()
    worker.close()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
