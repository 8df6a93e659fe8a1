"""Where the tensors of a file lie in memory terms: statistics, never faults (rule OFF-11)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..header.model import Header


@dataclass(frozen=True, slots=True)
class Alignment:
    """How the data of one file is aligned.

    Attributes:
        data_start: file position of the first data byte.
        tensors: number of tensors in the file.
        unaligned: how many of them begin at a file position that is no multiple of their element size. Packed
            elements count as one byte, and an empty tensor is never unaligned: it has no element anywhere.
    """

    data_start: int
    tensors: int
    unaligned: int

    def to_dict(self) -> dict[str, int]:
        """Return the statistics as a JSON-serialisable dict."""
        return {
            "data_start": self.data_start,
            "data_start_mod_8": self.data_start % 8,
            "data_start_mod_64": self.data_start % 64,
            "unaligned_tensors": self.unaligned,
        }

    def __str__(self) -> str:
        """Say it in one line for people."""
        if not self.tensors:
            return f"data starts at {self.data_start:,}; no tensors"
        if not self.unaligned:
            return f"data starts at {self.data_start:,}; all tensors aligned"
        return f"data starts at {self.data_start:,}; {self.unaligned:,} of {self.tensors:,} tensors unaligned"


def alignment(header: Header) -> Alignment:
    """Return the alignment statistics of a header."""
    start = header.data_start
    unaligned = sum(
        (start + tensor.begin) % max(tensor.bits // 8, 1) != 0
        for tensor in header.tensors.values()
        if tensor.nbytes
    )
    return Alignment(start, len(header.tensors), unaligned)
