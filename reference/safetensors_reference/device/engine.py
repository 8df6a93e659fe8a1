"""Allocates device memory and copies data to it. All code that differs between devices is in this module.

Engines are thin, so tests on the CPU cover most of the code that accelerators use. Copies to an accelerator
run on their own streams. These copies start after the work that was queued on the caller's stream when the
memory was allocated, because a previous owner of the memory may still be using it on that stream. The
caller's stream waits for the copies, so work on that stream may use or free the tensors immediately. Other
streams have to wait for the caller's stream, as usual in torch.
"""

from __future__ import annotations

import platform
import traceback
from collections.abc import Iterable
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from ..arrays.buffers import Pages
from ..rules.errors import AccessError, SafetensorsError
from .numa import checked_cpus, cpus_near

PAGE = 4096
POPULATE = 64 << 10


class DeviceError(SafetensorsError, RuntimeError):
    """Raised if the device, its memory or an optional reading method fails. The file may still be valid."""


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


class Mark(Protocol):
    """A point in a queue of work, like ``torch.Event``."""

    def query(self) -> bool: ...

    def synchronize(self) -> None: ...


class Lane(Protocol):
    """The copies of one worker thread, which run in order."""

    def host_view(self, target: torch.Tensor) -> memoryview | None: ...

    def copy(self, target: torch.Tensor, staged: torch.Tensor) -> Mark: ...

    def drain(self) -> None: ...

    def close(self) -> None:
        """Make the caller's stream wait for all queued copies."""
        ...


class Engine(Protocol):
    """The device of a single load."""

    device: torch.device
    pinned: bool
    cpus: frozenset[int] | None
    """CPUs on which workers run, or None for all."""

    def staging(self, size: int) -> torch.Tensor:
        """Return page-aligned host memory for copies, as uint8[size]."""
        ...

    def allocate(self, size: int) -> torch.Tensor:
        """Return device memory aligned to ``plan.MAX_ALIGN``, as uint8[size]."""
        ...

    def ready(self) -> None:
        """Mark the point at which all memory has been allocated.

        Lanes that are opened later wait for all work queued before this point.
        """
        ...

    def settle(self) -> None:
        """Wait until previous owners have stopped using the memory.

        This is necessary for readers that write to the memory without a lane.
        """
        ...

    def lane(self) -> Lane: ...


class _FinishedMark:
    """A mark for work that is already complete."""

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        return None


class CpuLane:
    """Copies immediately, using NumPy, which releases the GIL and starts no threads."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._done = _FinishedMark()

    def host_view(self, target: torch.Tensor) -> memoryview | None:
        return self._populated(target).data

    def copy(self, target: torch.Tensor, staged: torch.Tensor) -> Mark:
        np.copyto(self._populated(target), staged.numpy())
        return self._done

    def drain(self) -> None:
        """Do nothing, because copies are already complete."""

    def close(self) -> None:
        """Do nothing, because copies are already complete."""

    def _populated(self, target: torch.Tensor) -> npt.NDArray[np.uint8]:
        into: npt.NDArray[np.uint8] = target.numpy()
        if len(into) >= POPULATE:
            self._pages.make(into.ctypes.data, len(into))
        return into


class CpuEngine:
    """Allocates memory in this process. The threads that copy data share the cost of page faults."""

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
        """Do nothing, because copies do not have to wait for other work."""

    def settle(self) -> None:
        """Do nothing, because new memory has no previous owners."""

    def lane(self) -> Lane:
        return CpuLane(self.pages)


class AcceleratorLane:
    """A stream, which becomes the current stream of the thread that creates the lane.

    On CUDA, the priority of the stream prevents the device from alternating between this stream and those of
    torch and NCCL.
    """

    def __init__(self, device: torch.device, caller: torch.Stream, start: torch.Event) -> None:
        # The current device of a new thread is device 0. Restoring it later would initialize CUDA on that
        # device.
        torch.accelerator.set_device_index(device)
        self._caller = caller
        self._stream = torch.Stream(device=device, priority=-1)
        torch.accelerator.set_stream(self._stream)
        self._stream.wait_event(start)

    def host_view(self, target: torch.Tensor) -> memoryview | None:  # noqa: ARG002
        return None

    def copy(self, target: torch.Tensor, staged: torch.Tensor) -> Mark:
        target.copy_(staged, non_blocking=True)
        # A blocking event sleeps instead of spinning, which leaves the CPU cores to the readers.
        event = torch.Event(device=self._stream.device, blocking=True)
        event.record(self._stream)
        mark: Mark = event
        return mark

    def drain(self) -> None:
        self._stream.synchronize()

    def close(self) -> None:
        self._caller.wait_stream(self._stream)


class AcceleratorEngine:
    """A device of any type that ``torch.accelerator`` supports, such as CUDA, ROCm, XPU and MTIA.

    Creating an engine does not initialize CUDA, which would use device memory.
    """

    pinned = True

    def __init__(self, device: torch.device, cpus: frozenset[int] | None = None) -> None:
        self.device = device
        self.cpus = cpus
        self._caller: torch.Stream | None = None
        self._start: torch.Event | None = None

    def staging(self, size: int) -> torch.Tensor:
        memory = torch.empty(size, dtype=torch.uint8, device="cpu", pin_memory=True)
        # torch may be configured to pin memory from malloc, which is not page-aligned
        if memory.data_ptr() % PAGE:
            memory = torch.empty(size + PAGE, dtype=torch.uint8, device="cpu", pin_memory=True)
            memory = memory[-memory.data_ptr() % PAGE :][:size]
        return memory

    def allocate(self, size: int) -> torch.Tensor:
        # Other threads could not write to a tensor that was created in inference mode.
        with torch.inference_mode(False):
            return torch.empty(size, dtype=torch.uint8, device=self.device)

    def ready(self) -> None:
        if self.cpus is None:
            self.cpus = cpus_near(self.device)
        self._caller = torch.accelerator.current_stream(self.device)
        self._start = self._caller.record_event()

    def settle(self) -> None:
        assert self._caller is not None
        self._caller.synchronize()

    def lane(self) -> Lane:
        assert self._caller is not None
        assert self._start is not None
        return AcceleratorLane(self.device, self._caller, self._start)


def open_engine(device: str | torch.device | None, cpus: Iterable[int] | None = None) -> Engine:
    """Return the engine for a device, by default for the current device of the accelerator.

    ``cpus`` are the CPUs for the workers, by default those near the device. Raises AccessError if a device or
    a CPU does not exist.
    """
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
        raise AccessError(
            f"device {str(device)!r} does not exist: torch {torch.__version__} finds {count} "
            f"{wanted.type.upper()} devices"
        )
    return AcceleratorEngine(torch.device(wanted.type, index), chosen)


def identity_of(device: torch.device) -> str | None:
    """Return a name that identifies an accelerator across machines, or None for the CPU."""
    if device.type == "cpu":
        return None
    properties = getattr(torch.get_device_module(device), "get_device_properties", None)
    identity = getattr(properties(device.index), "uuid", None) if properties else None
    return str(identity or f"{platform.node()} {device}")


def _tensor(pages: Pages, size: int) -> torch.Tensor:
    if not size:
        return torch.empty(0, dtype=torch.uint8, device="cpu")
    return torch.frombuffer(pages.new(size), dtype=torch.uint8)
