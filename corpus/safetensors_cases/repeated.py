"""Repeated: requests that a process serves hundreds of times without accumulating memory or other resources.

Known failures: descriptors of handles that are dropped but not closed (sgl-project/sglang#7684), and memory
that is not released after each tensor (vllm-project/vllm-omni#7143).
"""

from __future__ import annotations

from safetensors_corpus.author.actions import RepeatedBuilder
from safetensors_corpus.author.case import accepts, rejects

SIZE = 64 * 1024
"""Size of the data in bytes. A leaked copy per request adds up to far more than an allocator retains."""


def large(f: RepeatedBuilder) -> None:
    f.tensor("a", "U8", [SIZE], b"\x2a" * SIZE)
    f.tensor("b", "F32", [2])


@accepts("API-22")
def read(f: RepeatedBuilder) -> None:
    """The same file is read hundreds of times."""
    large(f)


@rejects("HDR-07 API-22", "HDR_NOT_JSON")
def header_not_json(f: RepeatedBuilder) -> None:
    """A file with a header that is not JSON is rejected hundreds of times."""
    large(f)
    f.before = b"{,"


@rejects("OFF-08 API-22", "OFF_TRAILING", importance="medium")
def trailing_bytes(f: RepeatedBuilder) -> None:
    """A file with bytes after its data is rejected hundreds of times.

    Many readers notice this fault only after they have mapped or read the whole file.
    """
    large(f)
    f.trailer = b"\0" * 8


@rejects("OFF-04 API-22", "OFF_OUT_OF_BOUNDS", importance="medium")
def cut_short(f: RepeatedBuilder) -> None:
    """A file without its last bytes is rejected hundreds of times.

    A program that waits for the end of a download tries to read the file again and again.
    """
    large(f)
    f.cut = 4


@accepts("API-22", steps=("lifecycle",))
def closed(f: RepeatedBuilder) -> None:
    """Hundreds of times, a file is opened, a tensor is read, and the file is closed."""
    held(f, "hold", "tensor", "close")


@accepts("API-22", steps=("lifecycle",))
def dropped(f: RepeatedBuilder) -> None:
    """Hundreds of times, a file is opened, a tensor is read, and the handle is dropped but not closed."""
    held(f, "hold", "tensor")
    f.needs = ("drop",)


@accepts("API-22", steps=("lifecycle",))
def tensor_taken_twice(f: RepeatedBuilder) -> None:
    """The same file is opened, the same tensor is read twice, and the file is closed, hundreds of times."""
    held(f, "hold", "tensor", "tensor", "close")


@accepts("API-22", steps=("lifecycle",))
def dropped_before_reading(f: RepeatedBuilder) -> None:
    """The program drops a handle that it has not used, and reads a tensor with another one.

    A reader must not keep the unused handle, which no program can close any more.
    """
    held(f, "hold", "hold", "tensor")
    f.needs = ("drop",)


@accepts("API-22", steps=("lifecycle",))
def closed_and_dropped(f: RepeatedBuilder) -> None:
    """The program opens the file twice. It closes the first handle, and drops the second one after a read."""
    held(f, "hold", "close", "hold", "tensor")
    f.needs = ("drop",)


def held(f: RepeatedBuilder, *requests: str) -> None:
    large(f)
    f.requests, f.tensor_read = requests, "a"
