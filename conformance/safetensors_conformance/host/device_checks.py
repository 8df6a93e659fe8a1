"""Checks for the ``device`` step: whether tensors stay intact after their loader is gone.

The host loads this file when a device is requested. It uses only the standard library, except for adapters
with torch tensors.

The checks inspect each tensor as the adapter's ``device`` method yields it. They keep one tensor after the
iterable has been exhausted and dropped. ``docs/plug-in.md`` describes the method and the optional attributes.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import os
import re
import sys
import threading
from collections.abc import Generator
from typing import Any

from .library import AdapterError, ask, iterate_result, short_repr

CHURN = 64 << 20
"""Maximum number of bytes of memory to overwrite when checking a tensor that was kept."""
ROUNDS = 3
SLACK = 1 << 20
"""Bytes that a load may need beyond twice the size of its tensors."""
_NOT_TORCH_MEMORY = "the reader does not allocate its memory with torch"
_FATAL_ERROR = re.compile(
    r"CUDA error: (an illegal|misaligned|device-side|unspecified|hardware|invalid program)"
)


class DeviceChecks:
    """The ``device`` step for one adapter and device. ``results`` contains the checks of the last file."""

    def __init__(self, adapter: Any, device: str) -> None:
        """Initialise the device. Raises NotThereError or, for a mistake in the adapter, AdapterError."""
        kind = getattr(adapter, "device_memory", "torch")
        if kind not in MEMORIES:
            raise AdapterError(f"device_memory must be one of {', '.join(MEMORIES)}, not {kind!r}")
        self._adapter = adapter
        self._device = device
        self._memory = MEMORIES[kind](device)
        ready = getattr(adapter, "device_ready", None)
        if callable(ready):
            try:
                ready(device)
            except Exception as err:
                raise NotThereError(first_line(err)) from err
        self._excess: list[str] = []
        self._counted = callable(getattr(adapter, "device_bytes", None))
        self._by_torch: bool | None = None
        self.results: list[dict[str, str]] = []
        # Later collections need not scan permanent objects for every file.
        gc.collect()
        gc.freeze()

    def run(self, path: str) -> dict[str, Any]:
        """Load a file for each check. Returns the same result as ``read``, and sets ``results``."""
        self.results = []
        memory = self._memory
        before, requested = memory.in_use(), self._requested_bytes()
        if before is not None:
            memory.reset_highest()
        try:
            out, problems, total = self._first(path, before)
        except (NotImplementedError, AdapterError):
            raise
        except Exception as err:
            self._check_fatal(err)
            self._check_untouched(before, requested)
            raise
        self._record("alignment", problems, "" if total else "every tensor is empty")
        expected = {name: _digest(data) for name, _, _, data in out["tensors"] if _has_bytes(data)}
        for check in (self._kept, self._lifetime, self._stream, self._threads, self._stopped):
            try:
                check(path, expected)
            except AdapterError:
                raise
            except Exception as err:
                self._check_fatal(err)
                self._record(check.__name__[1:], [f"loading the file again failed ({first_line(err)})"])
        self._returned(before)
        return out

    def _record(self, name: str, wrong: list[str], unknown: str = "") -> None:
        status = "fail" if wrong else "unknown" if unknown else "pass"
        more = f" ({len(wrong) - 1} more)" if len(wrong) > 1 else ""
        message = f"{wrong[0]}{more}" if wrong else unknown
        self.results.append({"name": name, "status": status, "message": message})

    def _load(self, path: str) -> Any:
        return ask(self._adapter.device, path, self._device)

    def _rows(self, path: str) -> Generator[tuple[Any, Any, Any, Any]]:
        return self._tensors(self._load(path))

    def _tensors(self, result: Any) -> Generator[tuple[Any, Any, Any, Any]]:
        """Yield tuples of name, dtype, shape and tensor. Raises AdapterError for anything else."""
        if isinstance(result, dict) and "tensors" not in result:
            raise AdapterError("device() returned a dict without 'tensors'")
        rows = result["tensors"] if isinstance(result, dict) else result
        if not hasattr(type(rows), "__iter__"):
            raise AdapterError(f"device() returned {type(rows).__name__} instead of tensors")
        for row in iterate_result(iter(rows), self._adapter.device):
            if not isinstance(row, (tuple, list)) or len(row) != 4:
                raise AdapterError(
                    f"device() yielded {short_repr(row)} instead of (name, dtype, shape, tensor)"
                )
            name, dtype, shape, tensor = row
            if not isinstance(name, str):
                raise AdapterError(
                    f"device() yielded a tensor named {short_repr(name)}, which is not a string"
                )
            del row  # this reference would keep the tensor alive
            yield name, dtype, shape, tensor
            del tensor

    def _first(self, path: str, before: int | None) -> tuple[dict[str, Any], list[str], int]:
        """Copy back every tensor. Returns the answer, the misaligned tensors, and the total size in bytes."""
        result = self._load(path)
        out = {"metadata": result["metadata"]} if isinstance(result, dict) and "metadata" in result else {}
        rows: list[Any] = []
        misaligned: list[str] = []
        total = largest = 0
        for name, dtype, shape, tensor in self._tensors(result):
            if not _has_bytes(tensor):
                rows.append((name, dtype, shape, tensor))
                continue
            data = self._copied(name, tensor)
            place = self._memory.address(tensor) if data else None
            if place is not None and place[0] % place[1]:
                misaligned.append(
                    f"{_called(name)} begins at {place[0]:#x}, which is not a multiple of {place[1]}"
                )
            rows.append((name, dtype, shape, data))
            total += len(data)
            largest = max(largest, len(data))
        self._memory.wait()
        if before is not None and total:
            peak = self._memory.highest() - before
            # A lazy loader holds one tensor at a time, because each tensor is dropped after inspection.
            self._by_torch = peak >= largest
            excess = f"the load needed {peak:,} bytes for {total:,} bytes"
            self._excess = [excess] if peak > 2 * total + SLACK else []
        out["tensors"] = rows
        return out, misaligned, total

    def _copied(self, name: Any, tensor: Any) -> bytes:
        try:
            place = self._memory.place(tensor)
        except (AttributeError, TypeError) as err:
            raise AdapterError(f"{_called(name)} is {type(tensor).__name__} ({first_line(err)})") from err
        if place != self._device:
            raise AdapterError(f"{_called(name)} is on {place} instead of {self._device}")
        try:
            return bytes(self._memory.data(tensor))
        except Exception as err:  # copying back is not the library's task
            self._check_fatal(err)
            raise AdapterError(f"{_called(name)} cannot be copied back ({first_line(err)})") from err

    def _kept(self, path: str, expected: dict[Any, str]) -> None:
        """Keep the first tensor while the loader continues."""
        name = next((name for name, digest in expected.items() if digest != _EMPTY), None)
        if name is None or len(expected) < 2:
            self._record("kept", [], "the file has no tensor after the first one")
            return
        kept = None
        wrong = []
        for other, _, _, tensor in self._rows(path):
            if kept is not None and _digest(self._memory.data(kept)) != expected[name]:
                wrong = [f"{_called(name)} contains different bytes after the loader continued"]
                break
            if other == name:
                kept = tensor
        self._record("kept", wrong)

    def _stopped(self, path: str, expected: dict[Any, str]) -> None:
        """Stop after the first tensor, and load again."""
        before = self._memory.in_use()
        rows = self._rows(path)
        next(rows, None)
        rows.close()
        del rows
        gc.collect()
        self._memory.wait()
        after = self._memory.in_use()
        wrong = _differences(expected, self._digests(path), "in a load that follows a stopped one")
        if before is not None and after is not None and after > before:
            wrong.append(f"{after - before:,} bytes of device memory remain in use after an early stop")
        self._record("stopped", wrong)

    def _lifetime(self, path: str, expected: dict[Any, str]) -> None:
        """Keep a tensor from the middle of the file, then drop the other tensors and reuse their memory."""
        names = [name for name, digest in expected.items() if digest != _EMPTY]
        if not names:
            self._record("lifetime", [], "every tensor is empty")
            return
        name = names[len(names) // 2]
        kept, sizes = self._keep(path, name)
        gc.collect()
        wrong = []
        for _ in range(ROUNDS):
            filled = self._memory.churn(sizes)
            self._memory.wait()
            if _digest(self._memory.data(kept)) != expected[name]:
                wrong = [f"{_called(name)} contains different bytes after the rest of its file was dropped"]
                break
            del filled
        # torch never reuses memory that another allocator has freed.
        other = self._memory.streams and not self._by_torch
        self._record("lifetime", wrong, _NOT_TORCH_MEMORY if other else "")

    def _keep(self, path: str, name: Any) -> tuple[Any, list[int]]:
        kept = None
        sizes: list[int] = []
        for other, _, _, tensor in self._rows(path):
            if not _has_bytes(tensor):
                continue
            sizes.append(len(self._memory.data(tensor)))
            if other == name:
                kept = tensor
        if kept is None:
            raise RuntimeError(f"{_called(name)} is missing, although it was present in the first load")
        out, room = [], CHURN
        for size in [sum(sizes), *sizes]:
            if 0 < size <= room:
                out.append(size)
                room -= size
        return kept, out

    def _stream(self, path: str, expected: dict[Any, str]) -> None:
        if not self._memory.streams:
            self._record("stream", [], "the CPU has no streams")
            return
        found = self._digests(path, elsewhere=True)
        self._record("stream", _differences(expected, found, "on another stream"))

    def _threads(self, path: str, expected: dict[Any, str]) -> None:
        wrong: list[str] = []
        mistakes: list[Exception] = []
        gate = threading.Barrier(2)

        def load() -> None:
            gate.wait()
            try:
                self._memory.enter_thread()
                found = self._digests(path)
                wrong.extend(_differences(expected, found, "when two threads load at the same time"))
            except AdapterError as err:
                mistakes.append(err)
            except BaseException as err:  # panics in Rust libraries are not Exceptions
                wrong.append(f"one of two concurrent loads fails ({first_line(err)})")
                with contextlib.suppress(MemoryError):
                    self._check_fatal(err)

        threads = [threading.Thread(target=load) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if mistakes:
            raise mistakes[0]
        self._record("threads", wrong)

    def _digests(self, path: str, *, elsewhere: bool = False) -> dict[Any, str]:
        copy = self._memory.data_elsewhere if elsewhere else self._memory.data
        return {name: _digest(copy(t)) for name, _, _, t in self._rows(path) if _has_bytes(t)}

    def _returned(self, before: int | None) -> None:
        if before is None or self._by_torch is not True:
            why = _NOT_TORCH_MEMORY if before is not None else "torch does not track CPU memory"
            self._record("peak", [], why)
            self._record("returned", [], why)
        else:
            self._record("peak", self._excess)
            gc.collect()
            self._memory.wait()
            more = (self._memory.in_use() or 0) - before
            wrong = [f"{more:,} bytes of device memory remain in use after everything was dropped"]
            self._record("returned", wrong if more > 0 else [])

    def _requested_bytes(self) -> int:
        if not self._counted:
            return 0
        try:
            return int(self._adapter.device_bytes())
        except Exception as err:
            raise AdapterError(f"device_bytes() did not return a number ({first_line(err)})") from err

    def _check_untouched(self, before: int | None, requested: int) -> None:
        if self._counted:
            more = self._requested_bytes() - requested
        elif before is not None:
            self._memory.wait()
            more = self._memory.highest() - before
        else:
            self._record("untouched", [], "the reader does not report how much CPU memory it uses")
            return
        wrong = [f"{more:,} bytes of device memory were allocated before the file was rejected"]
        unknown = "" if self._counted or self._by_torch else _NOT_TORCH_MEMORY
        self._record("untouched", wrong if more > 0 else [], unknown)

    def _check_fatal(self, err: BaseException) -> None:
        """End the process if the device is unusable. Raises MemoryError if memory ran out."""
        seen: BaseException | None = err
        while seen is not None:
            if _FATAL_ERROR.search(str(seen)):
                sys.stderr.write(f"{first_line(seen)}\n")
                sys.stderr.flush()
                os._exit(1)
            if type(seen).__name__ == "OutOfMemoryError" or "DefaultCPUAllocator: " in str(seen):
                raise MemoryError(first_line(seen)) from err
            seen = seen.__cause__


def _called(name: str) -> str:
    return f"tensor {name[:80]!r}"


def _has_bytes(data: Any) -> bool:
    return data is not None and not isinstance(data, NotImplementedError)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


_EMPTY = _digest(b"")


def _differences(expected: dict[Any, str], got: dict[Any, str], when: str) -> list[str]:
    missing = [f"{_called(name)} is missing {when}" for name in expected if name not in got]
    wrong = [name for name, digest in expected.items() if got.get(name, digest) != digest]
    return missing + [f"{_called(name)} contains different bytes {when}" for name in wrong]


FILL = 0xA5
"""Byte that fills memory, so that a check notices if the memory of a kept tensor is reused."""


class NotThereError(Exception):
    """The device cannot be used here. The message gives the reason."""


class Torch:
    """Device memory as seen by torch."""

    def __init__(self, device: str) -> None:
        try:
            import torch
        except Exception as err:  # broken installations fail in many ways
            raise NotThereError(f"it needs torch, which cannot be imported ({first_line(err)})") from err
        self._torch = torch
        try:
            self._device = torch.device(device)
        except RuntimeError as err:
            raise NotThereError(f"torch {torch.__version__} has no such device ({first_line(err)})") from err
        self.streams = self._device.type != "cpu"
        if self.streams:
            # torch.cuda, or the equivalent module for another kind of device
            self._module: Any = getattr(torch, self._device.type, None)
            count = self._module.device_count() if self._module and self._module.is_available() else 0
            if self._device.index >= count:
                kind = self._device.type.upper()
                raise NotThereError(f"torch {torch.__version__} finds {count} {kind} devices")
        try:
            self.enter_thread()
            torch.zeros(1, device=self._device)
            self.wait()
        except RuntimeError as err:
            raise NotThereError(f"torch cannot use this device ({first_line(err)})") from err

    def enter_thread(self) -> None:
        if self.streams:
            self._module.set_device(self._device)

    def place(self, tensor: Any) -> str:
        return "cpu" if tensor.device.type == "cpu" else str(tensor.device)

    def address(self, tensor: Any) -> tuple[int, int]:
        return tensor.data_ptr(), tensor.element_size()

    def data(self, tensor: Any) -> bytes:
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        return bytes(flat.view(self._torch.uint8).numpy().tobytes()) if flat.numel() else b""

    def data_elsewhere(self, tensor: Any) -> bytes:
        """Copy a tensor back on a separate stream, which waits for the current one."""
        stream = self._module.Stream(self._device)
        stream.wait_stream(self._module.current_stream(self._device))
        with self._module.stream(stream):
            return self.data(tensor)

    def churn(self, sizes: list[int]) -> Any:
        dtype, device = self._torch.uint8, self._device
        return [self._torch.full((size,), FILL, dtype=dtype, device=device) for size in sizes]

    def wait(self) -> None:
        if self.streams:
            self._module.synchronize(self._device)

    def in_use(self) -> int | None:
        return self._module.memory_allocated(self._device) if self.streams else None

    def highest(self) -> int:
        return int(self._module.max_memory_allocated(self._device))

    def reset_highest(self) -> None:
        self._module.reset_peak_memory_stats(self._device)


class Buffers:
    """Memory of this process, in objects that support the buffer protocol."""

    streams = False

    def __init__(self, device: str) -> None:
        if device != "cpu":
            raise NotThereError("its tensors are buffers in CPU memory")

    def enter_thread(self) -> None:
        """Do nothing, because there is only one device."""

    def place(self, tensor: Any) -> str:
        """Return the device of a tensor. Raises TypeError for an object without the buffer protocol."""
        memoryview(tensor)
        return "cpu"

    def address(self, tensor: Any) -> tuple[int, int] | None:
        """Return the address and the element size in bytes, or None if the object does not reveal them."""
        interface = getattr(tensor, "__array_interface__", None)
        return (interface["data"][0], memoryview(tensor).itemsize) if interface else None

    def data(self, tensor: Any) -> bytes:
        return memoryview(tensor).tobytes()

    def churn(self, sizes: list[int]) -> Any:
        return [bytearray([FILL]) * size for size in sizes]

    def wait(self) -> None:
        """Do nothing, because no work is ever queued here."""

    def in_use(self) -> int | None:
        return None


MEMORIES: dict[str, Any] = {"torch": Torch, "buffers": Buffers}


def first_line(err: BaseException) -> str:
    lines = str(err).splitlines()
    return f"{type(err).__name__}: {lines[0][:200]}" if lines else type(err).__name__
