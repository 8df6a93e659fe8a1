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
from safetensors_reference.device.engine import DeviceError
from safetensors_reference.device.transfer import Ring, Slot, shared_ring
from safetensors_reference.rules.errors import AccessError

from .support import file_of, write


def never() -> bool:
    return False


def memory(size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8)


class Mark:
    def __init__(self, done: bool = False) -> None:
        self.done = done
        self.waits = 0

    def query(self) -> bool:
        return self.done

    def synchronize(self) -> None:
        self.waits += 1
        self.done = True


def take(ring: Ring) -> Slot:
    slot = ring.take(never)
    assert slot is not None
    return slot


def test_slots_are_made_when_they_are_needed_and_kept() -> None:
    sizes: list[int] = []

    def make(size: int) -> torch.Tensor:
        sizes.append(size)
        return memory(size)

    ring = Ring(3, 100, make)
    for _ in range(5):
        slot = take(ring)
        ring.give(slot)
    assert sizes == [100]
    held = [take(ring) for _ in range(3)]
    assert len(set(map(id, held))) == 3
    assert sizes == [100] * 3


def test_a_busy_slot_is_waited_for_only_when_no_more_may_be_made() -> None:
    ring = Ring(2, 100, memory)
    first = take(ring)
    mark = Mark()
    first.mark = mark
    ring.give(first)
    second = take(ring)
    assert second is not first
    assert mark.waits == 0
    assert take(ring) is first
    assert mark.waits == 1
    assert first.idle()


def test_who_asked_first_gets_a_slot_first() -> None:
    ring = Ring(1, 100, memory)
    slot = take(ring)
    order: list[int] = []

    def work(number: int) -> None:
        got = take(ring)
        order.append(number)
        ring.give(got)

    threads = []
    for number in range(8):
        threads.append(threading.Thread(target=work, args=(number,)))
        threads[-1].start()
        while len(ring._waiting) <= number:
            time.sleep(0.001)
    ring.give(slot)
    for thread in threads:
        thread.join(10)
    assert order == list(range(8))


def test_who_waits_can_be_told_to_stop_and_others_go_on() -> None:
    ring = Ring(1, 100, memory)
    slot = take(ring)
    stop = threading.Event()
    got: list[Slot | None] = []
    first = threading.Thread(target=lambda: got.append(ring.take(stop.is_set)))
    first.start()
    while not ring._waiting:
        time.sleep(0.001)
    second = threading.Thread(target=lambda: got.append(ring.take(never)))
    second.start()
    stop.set()
    ring.wake()
    first.join(10)
    assert got == [None]
    ring.give(slot)
    second.join(10)
    assert got == [None, slot]


def test_a_slot_that_cannot_be_made_is_an_error_and_may_be_made_later() -> None:
    broken = True

    def make(size: int) -> torch.Tensor:
        if broken:
            raise RuntimeError("CUDA error: out of memory\nand a page of advice")
        return memory(size)

    ring = Ring(1, 4096, make)
    with pytest.raises(DeviceError, match=r"staging slot of 4,096 bytes .*configure\(\)") as caught:
        ring.take(never)
    assert "advice" not in str(caught.value)
    assert caught.value.code == "LIM_MEMORY"
    broken = False
    assert take(ring).memory.numel() == 4096


def test_a_slot_whose_mark_fails_comes_back() -> None:
    class Broken(Mark):
        def query(self) -> bool:
            raise RuntimeError("gone")

        def synchronize(self) -> None:
            raise RuntimeError("gone")

    ring = Ring(1, 100, memory)
    slot = take(ring)
    slot.mark = Broken()
    ring.give(slot)
    with pytest.raises(RuntimeError, match="gone"):
        ring.take(never)
    assert take(ring) is slot


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "_rings", {})
    monkeypatch.setattr(transfer, "_size", (transfer.SLOTS, transfer.SLOT_BYTES))


@pytest.mark.usefixtures("fresh")
def test_there_is_one_ring_of_the_size_that_was_configured_first() -> None:
    configure(slots=5, slot_bytes=1 << 16)
    one = shared_ring(False, memory)
    assert (one.slots, one.slot_bytes) == (5, 1 << 16)
    assert shared_ring(False, memory) is one
    assert shared_ring(True, memory) is not one
    configure(slots=5, slot_bytes=1 << 16)
    with pytest.raises(AccessError, match="already in use"):
        configure(slots=6)


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ([(0, 1 << 20), (1, 0), (1, 5000), (1, 8192), (-1, 1 << 20)], "at least one slot"),
        (
            [(float("nan"), 1 << 20), (1, 16384.0), (1, 1 << 70), ("a", 1 << 20), (None, 1 << 20)],
            "must be whole numbers that fit into memory",
        ),
    ],
)
def test_a_ring_of_impossible_size_is_refused(sizes: list[Any], words: str) -> None:
    for size in sizes:
        with pytest.raises(AccessError, match=words):
            configure(*size)


def test_a_forked_child_has_a_ring_of_its_own(tmp_path: Path) -> None:
    """The parent's locks are held at the moment of the fork, as another thread may hold them.

    Its slots must not be freed in the child, not at its end either: those of CUDA would end it.
    """
    path = write(tmp_path, file_of([("a", "U8", [100_000])]))
    code = """if True:
        import os, signal, sys
        from safetensors_reference.device import load_file, transfer
        mine = load_file(sys.argv[1], device="cpu")["a"]
        held = transfer._rings[False]
        held.give(held.take(lambda: False))  # reads on the CPU go past the ring

        class Pinned:
            def __init__(self, parent):
                self.parent = parent

            def __del__(self):
                if os.getpid() != self.parent:
                    os._exit(9)

        held._free[0].mark = Pinned(os.getpid())
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
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(path)], capture_output=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr.decode()
