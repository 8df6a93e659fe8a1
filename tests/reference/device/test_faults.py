"""Faults at every step: all threads stop, nothing is kept, the error says where, and the next load works."""

from __future__ import annotations

import errno
import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from safetensors_reference import UnreadableError
from safetensors_reference.device import DeviceError, load_files
from safetensors_reference.device.transfer import Slot
from safetensors_reference.rules.errors import AccessError

from ..support import raw_bytes
from .faulty import FILE, STEPS, THREADS, BrokenError, PassedError, arm, assert_clean, load, running
from .support import data_of, file_of, write

OFTEN = {"copy": 46, "copied": 46, "preadv": 46, "mark": 44, "lane": THREADS, "close": THREADS, "staging": 2}
"""How often a step comes in one load, where it is more than once."""
TURNS = [(step, turn) for step in STEPS for turn in (1, 2, 3, 20) if turn <= OFTEN.get(step, 1)]


@pytest.mark.parametrize(("step", "turn"), TURNS)
def test_a_fault_at_any_step_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, turn: int
) -> None:
    path = write(tmp_path, FILE)
    before = set(threading.enumerate())
    engine, ring = arm(monkeypatch, step, turn, lambda: BrokenError("broken on purpose\nsecond line"))
    # The check at the end raises clean errors by itself; here a fault stands in its place.
    with pytest.raises(BrokenError if step == "unchanged" else DeviceError) as caught:
        load(path)
    said = str(caught.value)
    assert ("broken on purpose" in said, "second line" in said) == (True, step == "unchanged")
    in_file = step in ("copy", "copied", "preadv", "mark")
    assert ("file bytes from " in said) == in_file
    assert ("file.safetensors: " in said) == (in_file or step in ("allocate", "views"))
    assert ("cpu cannot be used" in said) == (step in ("allocate", "ready"))
    assert step != "staging" or getattr(caught.value, "code", None) == "LIM_MEMORY"
    # The error is still held here; the memory must be gone all the same.
    assert_clean(engine, ring, path, before)
    assert caught.value is not None


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("no\nmore"), MemoryError("no"), OSError(errno.ENOMEM, "no")]
)
def test_no_memory_is_told_from_a_device_that_does_not_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    path = write(tmp_path, FILE)
    before = set(threading.enumerate())
    engine, ring = arm(monkeypatch, "allocate", 1, lambda: error)
    with pytest.raises(
        DeviceError, match=r"file.safetensors: cpu has too little memory for [\d,]+ bytes \("
    ) as caught:
        load(path)
    assert (caught.value.code, caught.value.rule) == ("LIM_MEMORY", "LIM-06")
    assert_clean(engine, ring, path, before)


@pytest.fixture
def no_callbacks() -> Iterator[None]:
    """Let an interrupt meet no callback of the collector, such as Hypothesis has: there it would be lost."""
    before = gc.callbacks[:]
    gc.callbacks[:] = []
    yield
    gc.callbacks[:] = before


@pytest.mark.usefixtures("no_callbacks")
@pytest.mark.parametrize("step", STEPS)
def test_an_interrupt_in_the_calling_thread_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """A real SIGINT, sent by whoever reaches the step."""
    path = write(tmp_path, FILE)
    before = set(threading.enumerate())
    main = threading.main_thread()
    assert threading.current_thread() is main

    sent: list[str] = []

    def send() -> BaseException:
        sent.append(step)
        signal.pthread_kill(main.ident or 0, signal.SIGINT)
        return PassedError()

    engine, ring = arm(monkeypatch, step, 2 if step in ("copy", "preadv") else 1, send)
    with pytest.raises(KeyboardInterrupt) as caught:
        load(path)
    assert sent == [step]
    assert_clean(engine, ring, path, before)
    assert caught.value is not None


# An interrupt that falls into a finaliser is only reported by Python, not raised.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_interrupts_at_random_moments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, FILE)
    before = set(threading.enumerate())
    engine, ring = arm(monkeypatch, "never", 1, BrokenError)
    started = time.perf_counter()
    load(path)
    usual = time.perf_counter() - started
    main = threading.main_thread().ident or 0
    interrupted = 0
    for turn in range(60):
        timer = threading.Timer(usual * turn / 50, signal.pthread_kill, (main, signal.SIGINT))
        try:
            timer.start()
            load(path)
            timer.join()
            time.sleep(0.1)
        except KeyboardInterrupt:
            interrupted += 1
        timer.join()
        assert ring.free == ring.made
    assert interrupted > 50
    # One that comes while another is cleaned up after may leave a cycle of exception and frame, and a thread
    # that has not ended yet may hold it.
    limit = time.monotonic() + 10
    while running() - before and time.monotonic() < limit:
        time.sleep(0.001)
    gc.collect()
    assert_clean(engine, ring, path, before)


@pytest.mark.parametrize("error", [KeyboardInterrupt, UnreadableError])
def test_a_fault_or_an_interrupt_stops_the_other_threads_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    arm(monkeypatch, "never", 1, BrokenError)
    calls: list[int] = []
    real = os.preadv

    def preadv(*args: Any) -> int:
        calls.append(1)
        if len(calls) == 3 and error is UnreadableError:
            raise OSError(5, "gone")
        if len(calls) == 3:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        time.sleep(0.05)
        return real(*args)

    monkeypatch.setattr(os, "preadv", preadv)
    with pytest.raises(error):
        load(write(tmp_path, FILE))
    assert 3 <= len(calls) < 15 < OFTEN["preadv"]


def test_a_thread_that_cannot_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, FILE)
    before = set(threading.enumerate())
    engine, ring = arm(monkeypatch, "never", 1, BrokenError)
    real = threading.Thread.start
    count = 0

    def start(self: threading.Thread) -> None:
        nonlocal count
        count += 1
        if count == 2:
            raise RuntimeError("can't start new thread")
        real(self)

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(DeviceError, match="use fewer threads"):
        load(path)
    assert_clean(engine, ring, path, before)


def test_an_error_leaves_alone_what_was_being_handled_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The frames of the caller's own error keep their variables."""
    arm(monkeypatch, "copy", 1, lambda: BrokenError("x"))

    def fails() -> None:
        precious = [1]
        raise LookupError(precious)

    try:
        fails()
    except LookupError as err:
        frame = pytest.ExceptionInfo.from_exception(err).traceback[-1].frame
        with pytest.raises(DeviceError):
            load(write(tmp_path, FILE))
    assert frame.f_locals == {"precious": [1]}


def test_slots_held_by_another_load_are_not_waited_for_after_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A load that has failed ends although the ring is empty."""
    path = write(tmp_path, FILE)
    engine, ring = arm(monkeypatch, "copy", 1, lambda: BrokenError("x"))
    other = ring.take(lambda: False)
    assert isinstance(other, Slot)
    real = engine.trigger

    def hold(step: str) -> None:
        if step == "copy":
            # With this slot in hand and the other one away, the rest of the workers waits.
            limit = time.monotonic() + 10
            while len(ring._waiting) < THREADS - 1 and time.monotonic() < limit:
                time.sleep(0.001)
        real(step)

    engine.trigger = hold  # type: ignore[assignment]
    with pytest.raises(DeviceError):
        load(path)
    assert ring.free == ring.made - 1
    ring.give(other)


# ---- files that change, end early or cannot be read while a load is under way ----


def during_reads(patch: pytest.MonkeyPatch, turn: int, change: Callable[[], object]) -> None:
    """Have something happen just before the read with this number."""
    real = os.preadv
    lock = threading.Lock()
    left = [turn]

    def preadv(*args: Any) -> int:
        with lock:
            left[0] -= 1
            if left[0] == 0:
                change()
        return real(*args)

    patch.setattr(os, "preadv", preadv)


@pytest.mark.parametrize("turn", [1, 5, 30])
@pytest.mark.parametrize("left", [0, 2000, len(FILE) - 1, None])
def test_a_file_that_shrinks_or_is_rewritten_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turn: int, left: int | None
) -> None:
    path = write(tmp_path, FILE)
    before = set(threading.enumerate())
    engine, ring = arm(monkeypatch, "never", 1, BrokenError)
    change = partial(os.utime, path, ns=(1, 1)) if left is None else partial(os.truncate, path, left)
    during_reads(monkeypatch, turn, change)
    words = "was modified after it was opened" if left is None else "became shorter"
    with pytest.raises((UnreadableError, AccessError), match=f"file.safetensors: the file {words}") as caught:
        load(path)
    assert caught.value.code == "API_TRUNCATED"
    if isinstance(caught.value, UnreadableError):
        assert "at byte " in str(caught.value)
    path.write_bytes(FILE)
    assert_clean(engine, ring, path, before)


def test_a_file_that_is_replaced_while_it_is_read_keeps_its_old_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, FILE)
    arm(monkeypatch, "never", 1, BrokenError)
    during_reads(monkeypatch, 1, lambda: write(tmp_path, b"something else", "other").replace(path))
    assert b"".join(map(raw_bytes, load(path).values())) == data_of(FILE)
    assert path.read_bytes() == b"something else"


def test_a_read_that_the_system_refuses_names_the_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, FILE)
    before = set(threading.enumerate())
    engine, ring = arm(monkeypatch, "preadv", 1, lambda: OSError(5, "Input/output error"))
    start = len(FILE) - len(data_of(FILE))
    with pytest.raises(
        UnreadableError, match=rf"at byte ({start:,}|{start + 900:,}|{start + 1800:,}): Input"
    ) as err:
        load(path)
    assert err.value.code == "IO_ERROR"
    assert_clean(engine, ring, path, before)


def test_a_second_file_that_is_bad_leaves_nothing_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, ring = arm(monkeypatch, "allocate", 2, lambda: MemoryError("no more"))
    paths = [write(tmp_path, file_of([(name, "U8", [5000])]), name) for name in "ab"]
    with pytest.raises(
        DeviceError, match=r"b: cpu has too little memory for 5,000 bytes \(MemoryError: no more\)"
    ):
        load_files(paths, device="cpu")
    assert ([memory() for memory in engine.memories], ring.made) == ([None], 0)
    write(tmp_path, b"short", "b")
    with pytest.raises(ValueError, match="FRM_"):
        load_files(paths, device="cpu")
    assert len(engine.memories) == 1
