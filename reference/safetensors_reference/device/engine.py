"""Allocates device memory and copies data to it. All code that differs between devices is in this module.

Engines are thin, so tests on the CPU cover most of the code that accelerators use. Copies to an accelerator
run on their own streams. These copies start after the work that was queued on the caller's stream when the
memory was allocated, because a previous owner of the memory may still be using it on that stream. The
caller's stream waits for the copies, so work on that stream may use or free the tensors immediately. Other
streams have to wait for the caller's stream, as usual in torch.
"""

from __future__ import annotations

import os
import platform
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from operator import index as as_int
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ..arrays.buffers import Pages
from ..rules.errors import AccessError, SafetensorsError, reason
from ..text import shown

PAGE = 4096
POPULATE = 64 << 10
SYSFS = Path("/sys")


class DeviceError(SafetensorsError, RuntimeError):
    """Raised if the device, its memory or an optional reading method fails. The file may still be valid."""


@contextmanager
def device_errors(problem: str, kinds: tuple[type[Exception], ...] = (Exception,)) -> Iterator[None]:
    """Convert errors of torch in the ``with`` block to DeviceError."""
    try:
        yield
    except SafetensorsError:
        raise
    except kinds as err:
        raise DeviceError(f"{problem} ({reason(err)})") from err


def release_frames(err: BaseException, handled: BaseException | None = None) -> None:
    """Clear the frames of ``err`` and its causes, except ``handled``, because they may keep buffers alive."""
    seen = {id(handled)}
    pending: list[BaseException | None] = [err]
    while pending:
        item = pending.pop()
        if item is not None and id(item) not in seen:
            seen.add(id(item))
            traceback.clear_frames(item.__traceback__)
            pending += [item.__cause__, item.__context__]


def _tensor(pages: Pages, size: int) -> torch.Tensor:
    if not size:
        return torch.empty(0, dtype=torch.uint8, device="cpu")
    return torch.frombuffer(pages.new(size), dtype=torch.uint8)


class CpuLane:
    """Copies of one worker thread, complete at once. NumPy releases the GIL and starts no threads."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages

    def host_view(self, target: torch.Tensor) -> memoryview | None:
        return self._populated(target).data

    def copy(self, target: torch.Tensor, staged: torch.Tensor) -> torch.Event | None:
        np.copyto(self._populated(target), staged.numpy())
        return None

    def drain(self) -> None:
        """Do nothing, because no copy is pending."""

    close = drain

    def _populated(self, target: torch.Tensor) -> npt.NDArray[np.uint8]:
        into: npt.NDArray[np.uint8] = target.numpy()
        if len(into) >= POPULATE:
            self._pages.make(into.ctypes.data, len(into))
        return into


class CpuEngine:
    """Allocates memory in this process; ``cpus`` are those on which the workers run, or None for all."""

    pinned = False

    def __init__(self, cpus: frozenset[int] | None = None) -> None:
        self.device = torch.device("cpu")
        self.cpus = cpus
        self.pages = Pages()

    def staging(self, size: int) -> torch.Tensor:
        return _tensor(Pages(), size)

    def allocate(self, size: int) -> torch.Tensor:
        return _tensor(self.pages, size)

    def ready(self) -> None:
        """Do nothing, because new memory has no previous owners."""

    settle = ready

    def lane(self) -> CpuLane:
        return CpuLane(self.pages)


class AcceleratorLane:
    """Copies of one worker thread, in order on a stream, which becomes the thread's current stream."""

    def __init__(self, device: torch.device, caller: torch.Stream, start: torch.Event) -> None:
        # The current device of a new thread is device 0. Restoring it later would initialize CUDA on that
        # device.
        torch.accelerator.set_device_index(device)
        self._caller = caller
        # On CUDA, the priority prevents the device from alternating between this stream and those of torch
        # and NCCL.
        self._stream = torch.Stream(device=device, priority=-1)
        torch.accelerator.set_stream(self._stream)
        self._stream.wait_event(start)

    def host_view(self, target: torch.Tensor) -> memoryview | None:  # noqa: ARG002
        return None

    def copy(self, target: torch.Tensor, staged: torch.Tensor) -> torch.Event | None:
        """Queue a copy, and return an event for its end."""
        target.copy_(staged, non_blocking=True)
        # A blocking event sleeps instead of spinning, which leaves the CPU cores to the readers.
        event = torch.Event(device=self._stream.device, blocking=True)
        event.record(self._stream)
        return event

    def drain(self) -> None:
        self._stream.synchronize()

    def close(self) -> None:
        """Make the caller's stream wait for all queued copies."""
        self._caller.wait_stream(self._stream)


class AcceleratorEngine:
    """A device of ``torch.accelerator``, such as CUDA. Creating an engine does not initialize CUDA."""

    pinned = True

    def __init__(self, device: torch.device, cpus: frozenset[int] | None = None) -> None:
        self.device = device
        self.cpus = cpus
        self._caller: torch.Stream | None = None
        self._start: torch.Event | None = None

    def staging(self, size: int) -> torch.Tensor:
        """Return page-aligned host memory for copies, as uint8[size]."""
        memory = torch.empty(size, dtype=torch.uint8, device="cpu", pin_memory=True)
        # torch may be configured to pin memory from malloc, which is not page-aligned
        if memory.data_ptr() % PAGE:
            memory = torch.empty(size + PAGE, dtype=torch.uint8, device="cpu", pin_memory=True)
            memory = memory[-memory.data_ptr() % PAGE :][:size]
        return memory

    def allocate(self, size: int) -> torch.Tensor:
        """Return device memory aligned to ``plan.MAX_ALIGN``, as uint8[size]."""
        # Other threads could not write to a tensor that was created in inference mode.
        with torch.inference_mode(False):
            return torch.empty(size, dtype=torch.uint8, device=self.device)

    def ready(self) -> None:
        """Mark the end of all allocations; lanes wait for the work that was queued before this point."""
        if self.cpus is None:
            self.cpus = cpus_near(self.device)
        self._caller = torch.accelerator.current_stream(self.device)
        self._start = self._caller.record_event()

    def settle(self) -> None:
        """Wait until previous owners have stopped using the memory, for readers without a lane."""
        assert self._caller is not None
        self._caller.synchronize()

    def lane(self) -> AcceleratorLane:
        assert self._caller is not None
        assert self._start is not None
        return AcceleratorLane(self.device, self._caller, self._start)


Lane = CpuLane | AcceleratorLane
Engine = CpuEngine | AcceleratorEngine
"""The device of a single load."""


def open_engine(device: str | torch.device | None, cpus: Iterable[int] | None = None) -> Engine:
    """Return the engine for a device, by default the accelerator. Raises AccessError."""
    chosen = None if cpus is None else checked_cpus(cpus)
    accelerator = torch.accelerator.current_accelerator()
    if device is None:
        if accelerator is None:
            raise AccessError(f"torch {torch.__version__} finds no accelerator; pass device='cpu'")
        device = accelerator
    try:
        wanted = torch.device(device)
    except (RuntimeError, TypeError) as err:
        raise AccessError(f"device must be 'cpu' or an accelerator such as 'cuda:0', not {device!r}") from err
    if wanted.type == "cpu":
        return CpuEngine(chosen)
    here = accelerator is not None and accelerator.type == wanted.type
    # Counting devices does not initialize CUDA, which would not work in children forked later.
    count = torch.accelerator.device_count() if here else 0
    index = wanted.index
    if index is None:
        initialized = here and torch.get_device_module(accelerator).is_initialized()
        index = torch.accelerator.current_device_index() if initialized else 0
    if index >= count:
        found = f"torch {torch.__version__} finds {count} {wanted.type.upper()} devices"
        raise AccessError(f"device {str(device)!r} does not exist: {found}")
    return AcceleratorEngine(torch.device(wanted.type, index), chosen)


def identity_of(device: torch.device) -> str | None:
    """Return a name that identifies an accelerator across machines, or None for the CPU."""
    if device.type == "cpu":
        return None
    properties = getattr(torch.get_device_module(device), "get_device_properties", None)
    identity = getattr(properties(device.index), "uuid", None) if properties else None
    return str(identity or f"{platform.node()} {device}")


def checked_cpus(cpus: Iterable[int]) -> frozenset[int]:
    """Return the CPUs that a caller chose. Raises AccessError if this process is not allowed to use them."""
    try:
        given = list(cpus)
        chosen = frozenset(map(as_int, given))
        usable = hasattr(os, "sched_getaffinity") and chosen <= os.sched_getaffinity(0)
        known = usable and not any(isinstance(cpu, bool) for cpu in given)
    except TypeError:
        known = False
    if not known or not chosen:
        raise AccessError(f"cpus must be numbers of CPUs that this process may use, not {shown(cpus)}")
    return chosen


def cpus_near(device: torch.device) -> frozenset[int] | None:
    """Return the usable CPUs of the NUMA node of an accelerator, or None if the system does not report it."""
    # Copies from other nodes are slower. Reporting the PCI address of a CUDA device initializes CUDA.
    properties: Any = getattr(torch.get_device_module(device), "get_device_properties", lambda _index: None)
    found = properties(device.index)
    with suppress(OSError, ValueError, AttributeError):
        address = f"{found.pci_domain_id:04x}:{found.pci_bus_id:02x}:{found.pci_device_id:02x}.0"
        node = int((SYSFS / "bus/pci/devices" / address / "numa_node").read_text("ascii"))
        if node >= 0:
            cpus = parse_list((SYSFS / f"devices/system/node/node{node}/cpulist").read_text("ascii"))
            return frozenset(cpus & os.sched_getaffinity(0)) or None
    return None


def parse_list(text: str) -> set[int]:
    """Parse a list of the form ``0-3,8``. Raises ValueError."""
    out: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        out.update(range(int(first), int(last or first) + 1))
    return out
