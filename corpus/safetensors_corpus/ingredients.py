"""What the cases of several modules are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .builder import FileBuilder

PLACES = {"first": 0, "middle": 1, "last": 2}
"""Slugs and indices for cases that try each of three tensors."""
ENTRY = '{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'
"""Text of an entry for a file's only tensor, or its first."""


def header_text(f: FileBuilder, header: str | bytes) -> None:
    """Write ``header`` literally, ``ENTRY`` standing for the entry of the one tensor, and its data."""
    f.tensor("w", "F32", [2])
    raw = (header.encode() if isinstance(header, str) else header).replace(b"ENTRY", ENTRY.encode())
    f.header = raw + b" " * (-len(raw) % 8)


def three_tensors(f: FileBuilder, place: int, *, begin: int | None = None, end: int | None = None) -> None:
    """Add a, b and c of eight bytes each; the one at ``place`` declares other ends of its range."""
    for index, name in enumerate("abc"):
        if index == place:
            f.tensor(name, "F32", [2], begin=begin, end=end)
        else:
            f.tensor(name, "F32", [2])
