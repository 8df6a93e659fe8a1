"""The engines: which devices there are, and what CUDA is asked to do in which order.

Without a GPU only the order of the calls can be seen; the tests of the loads run on one where there is one.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from safetensors_reference.device.engine import PAGE, CpuEngine, CudaEngine, open_engine
from safetensors_reference.device.plan import MAX_ALIGN
from safetensors_reference.rules.errors import AccessError


class Cuda:
    """Writes down what it is asked to do; ``current`` is the stream that copies go to."""

    def __init__(self) -> None:
        self.log: list[tuple[str, ...]] = []
        self.current = "caller"
        self._streams = 0

    def stream(self) -> Stream:
        self._streams += 1
        return Stream(self, f"lane {self._streams}")

    def set_device(self, device: torch.device) -> None:
        self.log.append(("thread", "is on", str(device)))

    def set_stream(self, stream: Stream) -> None:
        self.current = stream.name


class Stream:
    def __init__(self, cuda: Cuda, name: str) -> None:
        self.cuda = cuda
        self.name = name

    def record_event(self) -> Event:
        event = Event(self.cuda)
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        self.cuda.log.append((self.name, "waits for", event.where))

    def wait_stream(self, other: Stream) -> None:
        self.wait_event(other.record_event())

    def synchronize(self) -> None:
        self.cuda.log.append(("host", "waits for", self.name))


class Event:
    def __init__(self, cuda: Cuda) -> None:
        self.cuda = cuda
        self.where = ""

    def record(self, stream: Stream) -> None:
        self.where = f"{stream.name} after {len(self.cuda.log)}"

    def query(self) -> bool:
        return False

    def synchronize(self) -> None:
        self.cuda.log.append(("host", "waits for", self.where))


class Memory:
    def __init__(self, cuda: Cuda) -> None:
        self.cuda = cuda

    def copy_(self, staged: str, non_blocking: bool = False) -> None:
        assert non_blocking
        self.cuda.log.append((self.cuda.current, "copies", staged))


def test_cuda_copies_follow_the_caller_and_the_caller_follows_them(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = Cuda()
    caller = Stream(cuda, "caller")
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _device: caller)
    monkeypatch.setattr(torch.cuda, "Stream", lambda _device, priority: cuda.stream())
    monkeypatch.setattr(torch.cuda, "Event", lambda blocking: Event(cuda))
    monkeypatch.setattr(torch.cuda, "set_device", cuda.set_device)
    monkeypatch.setattr(torch.cuda, "set_stream", cuda.set_stream)
    engine = CudaEngine(torch.device("cuda", 1))
    memory: Any = Memory(cuda)
    staged: Any = ["first", "second"]
    engine.ready()
    lane = engine.lane()
    mark = lane.copy(memory, staged[0])
    lane.copy(memory, staged[1])
    assert not mark.query()
    mark.synchronize()
    lane.drain()
    lane.close()
    assert cuda.log == [
        # First of all: whatever else a thread does takes it to device 0.
        ("thread", "is on", "cuda:1"),
        ("lane 1", "waits for", "caller after 0"),
        ("lane 1", "copies", "first"),
        ("lane 1", "copies", "second"),
        ("host", "waits for", "lane 1 after 3"),
        ("host", "waits for", "lane 1"),
        ("caller", "waits for", "lane 1 after 6"),
    ]
    engine.settle()
    assert cuda.log[-1] == ("host", "waits for", "caller")


@pytest.mark.parametrize(
    "name", ["Stream.wait_event", "Stream.record_event", "Stream.wait_stream", "Stream.synchronize",
             "Event.record", "Event.query", "Event.synchronize", "current_stream", "set_stream", "set_device",
             "device_count"],
)  # fmt: skip
def test_torch_has_what_the_engine_calls(name: str) -> None:
    thing: Any = torch.cuda
    for part in name.split("."):
        thing = getattr(thing, part)
    assert callable(thing)


@pytest.mark.parametrize("offset", [0, 16])
def test_pinned_memory_begins_on_a_page_whatever_torch_gives(
    monkeypatch: pytest.MonkeyPatch, offset: int
) -> None:
    """Pinned by a stand-in; torch gives pages unless it is set to pin what malloc gives."""
    given: list[int] = []

    def empty(size: int, *, pin_memory: bool, **_more: Any) -> torch.Tensor:
        assert pin_memory
        given.append(size)
        return CpuEngine().staging(size + PAGE)[offset:][:size]

    monkeypatch.setattr(torch, "empty", empty)
    memory = CudaEngine(torch.device("cuda", 0)).staging(3 * PAGE)
    assert (memory.numel(), memory.data_ptr() % PAGE) == (3 * PAGE, 0)
    assert given == ([3 * PAGE] if not offset else [3 * PAGE, 4 * PAGE])


@pytest.mark.parametrize("size", [0, 1, 4097, 1 << 20])
def test_memory_of_the_cpu_is_aligned(size: int) -> None:
    engine = CpuEngine()
    for memory in (engine.allocate(size), engine.staging(size)):
        assert (memory.dtype, tuple(memory.shape)) == (torch.uint8, (size,))
        assert memory.data_ptr() % max(MAX_ALIGN, PAGE) == 0


def test_copies_on_the_cpu_change_nothing_beside_them() -> None:
    engine = CpuEngine()
    memory, staged = engine.allocate(300_000), engine.staging(300_000)
    memory.fill_(1)
    staged.fill_(2)
    lane = engine.lane()
    mark = lane.copy(memory[5_001:205_001], staged[3:200_003])
    assert mark.query()
    assert memory[:5_001].eq(1).all()
    assert memory[5_001:205_001].eq(2).all()
    assert memory[205_001:].eq(1).all()


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
@pytest.mark.parametrize("device", ["cuda", "cuda:0", "cuda:7"])
def test_a_machine_without_cuda_says_so(device: str) -> None:
    with pytest.raises(AccessError, match=rf"device '{device}' does not exist: torch .* finds 0 CUDA"):
        open_engine(device)
