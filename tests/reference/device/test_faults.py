"""Faults at every step: all threads stop, nothing is kept, the error says where, and the next load works."""

from __future__ import annotations

import errno
import gc
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from safetensors_reference import UnreadableError
from safetensors_reference.device import DeviceError
from safetensors_reference.device.transfer import Slot
from safetensors_reference.rules.errors import AccessError

from ..support import raw_bytes
from .faulty import FILE, STEPS, THREADS, BrokenError, Faults
from .support import data_of, write

OFTEN = dict.fromkeys(("start", "lane", "close"), THREADS)
OFTEN |= {"copy": 46, "copied": 46, "preadv": 46, "mark": 44, "staging": 2}
"""How often a step comes in one load, where it is more than once."""
TURNS = [(step, turn) for step in STEPS for turn in (1, 2, 3, 20) if turn <= OFTEN.get(step, 1)]


@pytest.fixture
def faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Faults:
    return Faults(tmp_path, monkeypatch)


def interrupt() -> None:
    """Send the main thread a real SIGINT."""
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


@pytest.mark.parametrize(("step", "turn"), TURNS)
def test_a_fault_at_any_step_leaves_nothing_behind(faults: Faults, step: str, turn: int) -> None:
    faults.arm(step, turn, lambda: BrokenError("broken on purpose\nsecond line"))
    # The check at the end raises clean errors by itself; here a fault stands in its place.
    with pytest.raises(BrokenError if step == "unchanged" else DeviceError) as caught:
        faults.load()
    said = str(caught.value)
    assert ("broken on purpose" in said, "second line" in said) == (True, step == "unchanged")
    in_file = step in ("copy", "copied", "preadv", "mark")
    assert ("file bytes from " in said) == in_file
    assert ("file.safetensors: " in said) == (in_file or step in ("allocate", "views"))
    assert ("cpu cannot be used" in said) == (step in ("allocate", "ready"))
    assert ("use fewer threads" in said) == (step == "start")
    assert bool(re.search(r"a staging slot of 16,384 bytes .*configure\(\)", said)) == (step == "staging")
    assert step != "staging" or getattr(caught.value, "code", None) == "LIM_MEMORY"
    # The error is still held here; the memory must be gone all the same.
    faults.assert_clean()
    assert caught.value is not None


NO_MEMORY = r"file.safetensors: cpu has too little memory for [\d,]+ bytes \("
FIRST = "|".join(f"{len(FILE) - len(data_of(FILE)) + 900 * chunk:,}" for chunk in range(THREADS))
"""Places in the file at which the threads begin."""


@pytest.mark.parametrize(
    ("step", "error", "kind", "words", "code"),
    [
        *(
            ("allocate", error, DeviceError, NO_MEMORY, "LIM_MEMORY")
            for error in (torch.OutOfMemoryError("a\nb"), MemoryError("no"), OSError(errno.ENOMEM, "no"))
        ),
        ("preadv", OSError(5, "Bad"), UnreadableError, f"at byte ({FIRST}): Bad", "IO_ERROR"),
    ],
)
def test_no_memory_and_refused_reads_are_told_apart(
    faults: Faults, step: str, error: BaseException, kind: type[UnreadableError], words: str, code: str
) -> None:
    faults.arm(step, 1, lambda: error)
    with pytest.raises(kind, match=words) as caught:
        faults.load()
    assert (caught.value.code, caught.value.rule == "LIM-06") == (code, code == "LIM_MEMORY")
    faults.assert_clean()


@pytest.fixture
def no_callbacks() -> Iterator[None]:
    """Let an interrupt meet no callback of the collector, such as Hypothesis has: there it would be lost."""
    before = gc.callbacks[:]
    gc.callbacks[:] = []
    yield
    gc.callbacks[:] = before


@pytest.mark.usefixtures("no_callbacks")
@pytest.mark.parametrize("step", STEPS)
def test_an_interrupt_in_the_calling_thread_leaves_nothing_behind(faults: Faults, step: str) -> None:
    """A real SIGINT, sent by whoever reaches the step."""
    sent: list[str] = []

    def send() -> None:
        sent.append(step)
        interrupt()

    faults.arm(step, 2 if step in ("copy", "preadv") else 1, send)
    with pytest.raises(KeyboardInterrupt) as caught:
        faults.load()
    assert sent == [step]
    faults.assert_clean()
    assert caught.value is not None


# An interrupt that falls into a finaliser is only reported by Python, not raised.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_interrupts_at_random_moments(faults: Faults) -> None:
    started = time.perf_counter()
    faults.load()
    usual = time.perf_counter() - started
    interrupted = 0
    for turn in range(60):
        timer = threading.Timer(usual * turn / 50, interrupt)
        try:
            timer.start()
            faults.load()
            timer.join()
            time.sleep(0.1)
        except KeyboardInterrupt:
            interrupted += 1
        timer.join()
        assert faults.ring.free == faults.ring.made
    assert interrupted > 50
    # One that comes while another is cleaned up after may leave a cycle of exception and frame, and a thread
    # that has not ended yet may hold it.
    faults.wait_for_threads()
    gc.collect()
    faults.assert_clean()


@pytest.mark.parametrize(
    ("error", "kind"), [(interrupt, KeyboardInterrupt), (lambda: OSError(5, "gone"), UnreadableError)]
)
def test_a_fault_or_an_interrupt_stops_the_other_threads_soon(
    faults: Faults, monkeypatch: pytest.MonkeyPatch, error: Any, kind: type[BaseException]
) -> None:
    calls: list[int] = []
    real = os.preadv

    def slow(*args: Any) -> int:
        calls.append(1)
        time.sleep(0.05)
        return real(*args)

    monkeypatch.setattr(os, "preadv", slow)
    faults.arm("preadv", 3, error)
    with pytest.raises(kind):
        faults.load()
    assert 2 <= len(calls) < 15 < OFTEN["preadv"]


def test_an_error_leaves_alone_what_was_being_handled_before(faults: Faults) -> None:
    """The frames of the caller's own error keep their variables."""
    faults.arm("copy", 1, lambda: BrokenError("x"))

    def fails() -> None:
        precious = [1]
        raise LookupError(precious)

    try:
        fails()
    except LookupError as err:
        frame = pytest.ExceptionInfo.from_exception(err).traceback[-1].frame
        with pytest.raises(DeviceError):
            faults.load()
    assert frame.f_locals == {"precious": [1]}


def test_slots_held_by_another_load_are_not_waited_for_after_a_fault(faults: Faults) -> None:
    """A load that has failed ends although the ring is empty."""

    def fault() -> BaseException:
        # With this slot in hand and the other one away, the rest of the workers waits.
        limit = time.monotonic() + 10
        while len(faults.ring._waiting) < THREADS - 1 and time.monotonic() < limit:
            time.sleep(0.001)
        return BrokenError("x")

    faults.arm("copy", 1, fault)
    other = faults.ring.take(lambda: False)
    assert isinstance(other, Slot)
    with pytest.raises(DeviceError):
        faults.load()
    assert faults.ring.free == faults.ring.made - 1
    faults.ring.give(other)


# ---- files that change, end early or cannot be read while a load is under way ----


@pytest.mark.parametrize("turn", [1, 5, 30])
@pytest.mark.parametrize("left", [0, 2000, len(FILE) - 1, None])
def test_a_file_that_shrinks_or_is_rewritten_while_it_is_read(
    faults: Faults, turn: int, left: int | None
) -> None:
    path = faults.path
    change = partial(os.utime, path, ns=(1, 1)) if left is None else partial(os.truncate, path, left)
    faults.arm("preadv", turn, change)
    words = "was modified after it was opened" if left is None else "became shorter"
    with pytest.raises((UnreadableError, AccessError), match=f"file.safetensors: the file {words}") as caught:
        faults.load()
    assert caught.value.code == "API_TRUNCATED"
    assert not isinstance(caught.value, UnreadableError) or "at byte " in str(caught.value)
    path.write_bytes(FILE)
    faults.assert_clean()


def test_a_file_that_is_replaced_while_it_is_read_keeps_its_old_content(faults: Faults) -> None:
    other = write(faults.path.parent, b"something else", "other")
    faults.arm("preadv", 1, partial(other.replace, faults.path))
    assert b"".join(map(raw_bytes, faults.load().values())) == data_of(FILE)
    assert faults.path.read_bytes() == b"something else"
