"""Files written by hand: a header given as text or bytes, the length prefix put in front."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from safetensors_reference.rules.errors import SafetensorsError

OPEN, CLOSE = b"<<", b">>"


def as_bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def make(header: str | bytes, data: bytes = b"", length: int | None = None) -> bytes:
    """Return the file: length prefix (the true one unless given), header, data."""
    raw = as_bytes(header)
    return (len(raw) if length is None else length).to_bytes(8, "little") + raw + data


def entry(dtype: str = "U8", shape: str = "[4]", offsets: str = "[0,4]") -> str:
    """Return a tensor entry; shape and offsets are JSON text."""
    return f'{{"dtype":{json.dumps(dtype)},"shape":{shape},"data_offsets":{offsets}}}'


@dataclass(frozen=True)
class Marked:
    """A file, and the range that stood between ``<<`` and ``>>``."""

    data: bytes
    start: int
    end: int


def marked(header: str | bytes, data: bytes = b"") -> Marked:
    """Make a file out of a header and data of which one stretch is marked with ``<<`` and ``>>``."""
    raw = as_bytes(header)
    length = len(raw.replace(OPEN, b"").replace(CLOSE, b""))
    whole = length.to_bytes(8, "little") + raw + data
    start = whole.index(OPEN)
    end = whole.index(CLOSE) - len(OPEN)
    return Marked(whole.replace(OPEN, b"").replace(CLOSE, b""), start, end)


W = entry()
"""A sound entry over the first four data bytes."""
ABCD = b"abcd"


def refusal(
    error: type[SafetensorsError], call: Callable[..., object], *given: Any, **named: Any
) -> tuple[str, str | None]:
    """Return code and rule of the error that a call has to raise."""
    with pytest.raises(error) as caught:
        call(*given, **named)
    return caught.value.code, caught.value.rule


def peak(call: Callable[[], object]) -> int:
    """Return the largest number of bytes that a call allocates at a time."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def raw_bytes(tensor: Any) -> bytes:
    """Return the bytes of an array, a torch tensor on any device or a packed tensor, in logical order."""
    tensor = getattr(tensor, "raw", tensor)
    if not hasattr(tensor, "cpu"):
        return bytes(tensor.tobytes())
    import torch

    flat = tensor.contiguous().reshape(-1)
    return bytes(flat.view(torch.uint8).cpu().numpy().tobytes()) if flat.numel() else b""
