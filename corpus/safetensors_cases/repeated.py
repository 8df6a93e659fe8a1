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


@rejects("HDR-07 API-22", codes="HDR_NOT_JSON")
def header_not_json(f: RepeatedBuilder) -> None:
    """A file with a header that is not JSON is rejected hundreds of times."""
    large(f)
    f.before = b"{,"


@rejects("OFF-08 API-22", codes="OFF_TRAILING")
def trailing_bytes(f: RepeatedBuilder) -> None:
    """A file with bytes after its data is rejected hundreds of times.

    Many readers notice this fault only after they have mapped or read the whole file.
    """
    large(f)
    f.trailer = b"\0" * 8


@accepts("API-22", steps=("lifecycle",))
def closed(f: RepeatedBuilder) -> None:
    """Hundreds of times, a file is opened, a tensor is read, and the file is closed."""
    held(f, "hold", "tensor", "close")


@accepts("API-22", steps=("lifecycle",))
def dropped(f: RepeatedBuilder) -> None:
    """Hundreds of times, a file is opened, a tensor is read, and the handle is dropped but not closed."""
    held(f, "hold", "tensor")
    f.needs = ("drop",)


def held(f: RepeatedBuilder, *requests: str) -> None:
    large(f)
    f.requests, f.tensor_read = requests, "a"
