"""A second reader of the hardened profile, unlike the real one: the correct reader of ``proof.broken``.

It is written from the rules and shares no code and no table with the package.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from proof.broken.correct.json import Number, Pairs
from proof.broken.correct.reader import READER, Tensor
from proof.broken.correct.reader import WIDTHS as BITS
from safetensors_corpus.judging.answer import Refused as BreachError

__all__ = ["BITS", "BreachError", "Content", "Number", "Pairs", "covered_once", "is_valid", "read", "split"]


class Content(NamedTuple):
    """What a valid file says: name -> (dtype, shape, begin, end), and the metadata."""

    tensors: dict[str, tuple[str, tuple[int, ...], int, int]]
    metadata: Mapping[str, Any] | None


def read(data: bytes) -> Content:
    """Return what the file says. Raises BreachError."""
    header, size = split(data)
    tensors, metadata = READER.entries(READER.members(header))
    READER.check_layout(tensors, size)
    return Content({t.name: (t.dtype, t.shape, t.begin, t.end) for t in tensors}, metadata)


def is_valid(data: bytes) -> bool:
    try:
        read(data)
    except BreachError:
        return False
    return True


def split(data: bytes) -> tuple[bytes, int]:
    """Return the header bytes and the size of the data buffer (FRM)."""
    header, buffer = READER.split(data)
    return header, len(buffer)


def covered_once(ranges: list[tuple[int, int]], size: int) -> None:
    """Refuse ranges that do not cover every data byte exactly once (OFF-04 to OFF-09)."""
    READER.check_layout([Tensor("", "U8", (end - begin,), begin, end) for begin, end in ranges], size)
