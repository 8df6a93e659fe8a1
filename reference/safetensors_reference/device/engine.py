"""Memory of a device and copies to it: everything that differs between the CPU and CUDA.

Both engines are as thin as they can be, so that what is proved on the CPU holds for CUDA. CUDA copies run on
streams of their own. They start behind what the caller's stream had queued when the buffer was allocated, for
the memory may still be in use by its former owner there; and the caller's stream waits for them, so tensors
may be used, and their memory freed, on that stream at once. Work on other streams has to wait for it, as
everywhere in torch.
"""

from __future__ import annotations

import traceback
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from ..pages import Pages
from ..rules.errors import AccessError, SafetensorsError

PAGE = 4096
POPULATE = 64 << 10
"""Pieces from this size in bytes on get their pages in bulk."""


class DeviceError(SafetensorsError, RuntimeError):
    """A device, its memory or a way of reading failed; nothing is known against the file."""


def release_frames(err: BaseException, handled: BaseException | None = None) -> None:
    """Forget what the finished frames of an error and of what led to it hold.

    An error that is kept would else keep the buffer that the frames had in hand. ``handled`` is an error that
    was there before and is not ours.
    """
    seen = {id(handled)}
    todo: list[BaseException | None] = [err]
    while todo:
        item = todo.pop()
        if item is not None and id(item) not in seen:
            seen.add(id(item))
            traceback.clear_frames(item.__traceback__)
            todo += [item.__cause__, item.__context__]


class Mark(Protocol):
    """A point in queued work, as ``torch.cuda.Event`` is one."""

    def query(self) -> bool: ...

    def synchronize(self) -> None: ...


class Lane(Protocol):
    """Copies of one worker thread, done in the order in which they are queued."""

    def host_view(self, target: torch.Tensor) -> memoryview | None: ...

    def copy(self, target: torch.Tensor, staged: torch.Tensor) -> Mark: ...

    def drain(self) -> None: ...

    def close(self) -> None:
        """Have the caller's stream wait for everything queued."""
        ...


class Engine(Protocol):
    """A device. An engine serves one load."""

    device: torch.device
    pinned: bool

    def staging(self, size: int) -> torch.Tensor:
        """Return host memory for copies, beginning on a page: uint8[size]."""
        ...

    def allocate(self, size: int) -> torch.Tensor:
        """Return memory of the device, aligned for ``plan.MAX_ALIGN``: uint8[size]."""
        ...

    def ready(self) -> None:
        """Note that everything is allocated; lanes opened from now on follow what is queued by now."""
        ...

    def settle(self) -> None:
        """Wait until the memory allocated is free of its former owner's work, for writers without a lane."""
        ...

    def lane(self) -> Lane: ...


class _FinishedMark:
    """The mark behind work that is done when it is queued."""

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        return None


class CpuLane:
    """Copies at once; NumPy releases the interpreter lock meanwhile and starts no threads of its own."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._done = _FinishedMark()

    def host_view(self, target: torch.Tensor) -> memoryview | None:
        return self._populated(target).data

    def copy(self, target: torch.Tensor, staged: torch.Tensor) -> Mark:
        np.copyto(self._populated(target), staged.numpy())
        return self._done

    def drain(self) -> None:
        """Nothing is ever queued."""

    def close(self) -> None:
        """Nothing is ever queued."""

    def _populated(self, target: torch.Tensor) -> npt.NDArray[np.uint8]:
        """Return the bytes of ``target`` for NumPy, whose pages are made at once if they are many."""
        into: npt.NDArray[np.uint8] = target.numpy()
        if len(into) >= POPULATE:
            self._pages.make(into.ctypes.data, len(into))
        return into


class CpuEngine:
    """The memory of this process."""

    pinned = False

    def __init__(self) -> None:
        self.device = torch.device("cpu")
        self.pages = Pages()

    def staging(self, size: int) -> torch.Tensor:
        return _tensor(Pages(), size)

    def allocate(self, size: int) -> torch.Tensor:
        """Return ordinary pages; they come while copies are made, from several threads at once."""
        return _tensor(self.pages, size)

    def ready(self) -> None:
        """Nothing is ever queued."""

    def settle(self) -> None:
        """Nothing is ever queued."""

    def lane(self) -> Lane:
        return CpuLane(self.pages)


class CudaLane:
    """A stream, which is the current one of its thread.

    It is of high priority: of these torch's own work, and that of nccl, has none, with which this one would
    have to take turns.
    """

    def __init__(self, device: torch.device, caller: torch.cuda.Stream, start: torch.cuda.Event) -> None:
        # A thread begins on device 0, and merely going back there would start CUDA on it.
        torch.cuda.set_device(device)
        self._caller = caller
        self._stream = torch.cuda.Stream(device, priority=-1)
        torch.cuda.set_stream(self._stream)
        self._stream.wait_event(start)

    def host_view(self, target: torch.Tensor) -> memoryview | None:  # noqa: ARG002
        return None

    def copy(self, target: torch.Tensor, staged: torch.Tensor) -> Mark:
        """Queue a copy from pinned memory, and an event behind it."""
        target.copy_(staged, non_blocking=True)
        # Waiting for it sleeps instead of spinning: the cores are needed for reading.
        event = torch.cuda.Event(blocking=True)
        event.record(self._stream)
        mark: Mark = event
        return mark

    def drain(self) -> None:
        self._stream.synchronize()

    def close(self) -> None:
        self._caller.wait_stream(self._stream)


class CudaEngine:
    """One CUDA device, under the stream that is current when its memory is allocated.

    Making an engine does not start CUDA, which takes memory of the device.
    """

    pinned = True

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._caller: torch.cuda.Stream | None = None
        self._start: torch.cuda.Event | None = None

    def staging(self, size: int) -> torch.Tensor:
        memory = torch.empty(size, dtype=torch.uint8, device="cpu", pin_memory=True)
        if memory.data_ptr() % PAGE:  # torch can be set to pin what malloc gives
            memory = torch.empty(size + PAGE, dtype=torch.uint8, device="cpu", pin_memory=True)
            memory = memory[-memory.data_ptr() % PAGE :][:size]
        return memory

    def allocate(self, size: int) -> torch.Tensor:
        # Under inference mode torch would let no other thread write to it.
        with torch.inference_mode(False):
            return torch.empty(size, dtype=torch.uint8, device=self.device)

    def ready(self) -> None:
        """Mark where the caller's stream is."""
        self._caller = torch.cuda.current_stream(self.device)
        self._start = self._caller.record_event()

    def settle(self) -> None:
        """Wait for the caller's stream."""
        assert self._caller is not None
        self._caller.synchronize()

    def lane(self) -> Lane:
        assert self._caller is not None
        assert self._start is not None
        return CudaLane(self.device, self._caller, self._start)


def open_engine(device: str | torch.device) -> Engine:
    """Return the engine of ``"cpu"``, ``"cuda"`` or ``"cuda:N"``. Raises AccessError for any other."""
    try:
        wanted = torch.device(device)
    except (RuntimeError, TypeError) as err:
        raise AccessError(f"device must be 'cpu' or 'cuda:N', not {device!r}") from err
    if wanted.type == "cpu":
        return CpuEngine()
    if wanted.type != "cuda":
        raise AccessError(f"device must be 'cpu' or 'cuda:N', not {str(device)!r}")
    # Unlike is_available() this starts nothing, after which a forked child could not use CUDA.
    count = torch.cuda.device_count()
    index = wanted.index
    if index is None:
        index = torch.cuda.current_device() if torch.cuda.is_initialized() else 0
    if index >= count:
        raise AccessError(
            f"device {str(device)!r} is not there: torch {torch.__version__} sees {count} of CUDA"
        )
    return CudaEngine(torch.device("cuda", index))


def _tensor(pages: Pages, size: int) -> torch.Tensor:
    if not size:
        return torch.empty(0, dtype=torch.uint8, device="cpu")
    return torch.frombuffer(pages.new(size), dtype=torch.uint8)
