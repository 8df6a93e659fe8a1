"""Memory of a device as the step ``device`` sees it from the worker, for the kinds of tensors there are."""

from __future__ import annotations

from typing import Any

FILL = 0xA5
"""Byte that memory is filled with to see whether a tensor that is kept lies there."""


class NotThereError(Exception):
    """The device cannot be used here; the text says why."""


class Torch:
    """Memory of a device as torch sees it."""

    def __init__(self, device: str) -> None:
        """Take the device into use. Raises NotThereError."""
        try:
            import torch
        except Exception as err:  # broken installations fail in many ways
            raise NotThereError(f"it needs torch, which cannot be imported ({said(err)})") from err
        self._torch = torch
        self._device = torch.device(device)
        self.cuda = self._device.type == "cuda"
        if self.cuda:
            count = torch.cuda.device_count() if torch.cuda.is_available() else 0
            if self._device.index >= count:
                raise NotThereError(f"torch {torch.__version__} sees {count} CUDA devices")
        try:
            self.enter_thread()
            torch.zeros(1, device=self._device)
            self.wait()
        except RuntimeError as err:
            raise NotThereError(f"torch cannot use it ({said(err)})") from err

    def enter_thread(self) -> None:
        """Make the device the current one of this thread."""
        if self.cuda:
            self._torch.cuda.set_device(self._device)

    def place(self, tensor: Any) -> str:
        """Return the device that a tensor lies on."""
        return "cpu" if tensor.device.type == "cpu" else str(tensor.device)

    def address(self, tensor: Any) -> tuple[int, int]:
        """Return address and element size in bytes."""
        return tensor.data_ptr(), tensor.element_size()

    def data(self, tensor: Any) -> bytes:
        """Copy a tensor back and return its bytes in C order."""
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        return bytes(flat.view(self._torch.uint8).numpy().tobytes()) if flat.numel() else b""

    def data_elsewhere(self, tensor: Any) -> bytes:
        """Copy a tensor back on a stream of its own, which waits for the current one."""
        stream = self._torch.cuda.Stream(self._device)
        stream.wait_stream(self._torch.cuda.current_stream(self._device))
        with self._torch.cuda.stream(stream):
            return self.data(tensor)

    def churn(self, sizes: list[int]) -> Any:
        """Allocate and fill memory in these sizes."""
        return [
            self._torch.full((size,), FILL, dtype=self._torch.uint8, device=self._device) for size in sizes
        ]

    def wait(self) -> None:
        """Wait for the device, so that what went wrong there shows now."""
        if self.cuda:
            self._torch.cuda.synchronize(self._device)

    def in_use(self) -> int | None:
        """Return the memory of the device that is in use through torch, None where torch does not count."""
        return self._torch.cuda.memory_allocated(self._device) if self.cuda else None

    def highest(self) -> int:
        """Return the most that was in use since the last reset."""
        return int(self._torch.cuda.max_memory_allocated(self._device))

    def reset_highest(self) -> None:
        """Count the highest use from now on."""
        self._torch.cuda.reset_peak_memory_stats(self._device)


class Buffers:
    """Memory of this process, in objects with the buffer protocol."""

    cuda = False

    def __init__(self, device: str) -> None:
        if device != "cpu":
            raise NotThereError("its tensors are buffers of the CPU")

    def enter_thread(self) -> None:
        """Do nothing: there is one device."""

    def place(self, tensor: Any) -> str:
        """Return the device that a tensor lies on. Raises TypeError for what is no buffer."""
        memoryview(tensor)
        return "cpu"

    def address(self, tensor: Any) -> tuple[int, int] | None:
        """Return address and element size in bytes, None where the object does not tell."""
        told = getattr(tensor, "__array_interface__", None)
        return (told["data"][0], memoryview(tensor).itemsize) if told else None

    def data(self, tensor: Any) -> bytes:
        """Return the bytes of a tensor in C order."""
        return memoryview(tensor).tobytes()

    data_elsewhere = data

    def churn(self, sizes: list[int]) -> Any:
        """Allocate and fill memory in these sizes."""
        return [bytearray([FILL]) * size for size in sizes]

    def wait(self) -> None:
        """Do nothing: no work is ever queued here."""

    def in_use(self) -> int | None:
        """Return None: this memory is not counted."""
        return None

    def highest(self) -> int:
        """Return 0: this memory is not counted."""
        return 0

    def reset_highest(self) -> None:
        """Do nothing: this memory is not counted."""


MEMORIES: dict[str, Any] = {"torch": Torch, "buffers": Buffers}


def said(err: BaseException) -> str:
    """Return type and first line of an error."""
    lines = str(err).splitlines()
    return f"{type(err).__name__}: {lines[0][:200]}" if lines else type(err).__name__
