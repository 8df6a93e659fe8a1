"""The staging ring: made once and as needed, fair, and never left waiting for nobody."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from safetensors_reference.device import configure, transfer
from safetensors_reference.device.transfer import Ring, Slot, shared_ring
from safetensors_reference.rules.errors import AccessError

from .support import file_of, write


def never() -> bool:
    return False


def memory(size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8)


class Mark:
    """The end of a copy."""

    waits = 0

    def query(self) -> bool:
        return bool(self.waits)

    def synchronize(self) -> None:
        self.waits += 1


def take(ring: Ring) -> Slot:
    slot = ring.take(never)
    assert slot is not None
    return slot


def test_slots_are_made_when_they_are_needed_and_waited_for_when_no_more_may_be_made() -> None:
    sizes: list[int] = []
    ring = Ring(2, 100, lambda size: sizes.append(size) or memory(size))  # type: ignore[func-returns-value]
    for _ in range(5):
        first = take(ring)
        ring.give(first)
    assert sizes == [100]
    first = take(ring)
    first.mark = mark = Mark()
    ring.give(first)
    assert take(ring) is not first
    assert (sizes, mark.waits) == ([100] * 2, 0)
    assert (take(ring), mark.waits, first.idle()) == (first, 1, True)


def test_who_asked_first_gets_a_slot_first_and_who_is_told_to_stop_gets_none() -> None:
    ring = Ring(1, 100, memory)
    slot = take(ring)
    stop = threading.Event()
    order: list[int] = []

    def work(number: int) -> None:
        got = ring.take(stop.is_set if number == 3 else never)
        order.append(number if got else -number)
        if got:
            ring.give(got)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for number, thread in enumerate(threads):
        thread.start()
        while len(ring._waiting) <= number:
            time.sleep(0.001)
    stop.set()
    ring.wake()
    threads[3].join(10)
    ring.give(slot)
    for thread in threads:
        thread.join(10)
    assert order == [-3, 0, 1, 2, 4, 5, 6, 7]


def test_there_is_one_ring_of_the_size_that_was_configured_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "_rings", {})
    monkeypatch.setattr(transfer, "_size", (transfer.SLOTS, transfer.SLOT_BYTES))
    odd: Any
    for odd in ((0, 1 << 20), (1, 0), (1, 5000), (1, 8192), (-1, 1 << 20)):
        with pytest.raises(AccessError, match="at least one slot"):
            configure(*odd)
    for odd in ((float("nan"), 1 << 20), (1, 16384.0), (1, 1 << 70), ("a", 1 << 20), (None, 1 << 20)):
        with pytest.raises(AccessError, match="must be whole numbers that fit into memory"):
            configure(*odd)
    configure(slots=5, slot_bytes=1 << 16)
    one = shared_ring(False, memory)
    assert (one.slots, one.slot_bytes) == (5, 1 << 16)
    assert shared_ring(False, memory) is one
    assert shared_ring(True, memory) is not one
    configure(slots=5, slot_bytes=1 << 16)
    with pytest.raises(AccessError, match="already in use"):
        configure(slots=6)


FORKED = """
import os, signal, sys
from safetensors_reference.device import load_file, transfer
mine = load_file(sys.argv[1], device="cpu")["a"]
held = transfer._rings[False]
held.give(held.take(lambda: False))  # reads on the CPU go past the ring

class Pinned:
    parent = os.getpid()

    def __del__(self):
        if os.getpid() != self.parent:
            os._exit(9)

held._free[0].mark = Pinned()
with transfer._lock, held._changed:
    child = os.fork()
if not child:
    signal.alarm(20)
    same = bool((load_file(sys.argv[1], device="cpu")["a"] == mine).all())
    other = transfer._rings[False] is not held
    del held
    sys.exit(0 if same and other else 3)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_child_has_a_ring_of_its_own(tmp_path: Path) -> None:
    """The parent's locks are held at the moment of the fork, as another thread may hold them.

    Its slots must not be freed in the child, not at its end either: those of CUDA would end it.
    """
    path = write(tmp_path, file_of([("a", "U8", [9999])]))
    argv = [sys.executable, "-W", "ignore", "-c", FORKED, str(path)]
    run = subprocess.run(argv, capture_output=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr.decode()
