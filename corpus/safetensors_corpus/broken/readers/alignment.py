"""Broken readers: data that is expected to be aligned (OFF-11)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..correct.reader import SmallReader, Tensor
from ..variant import Panic, reading


class Aligned(SmallReader):
    """Refuses tensors that do not lie at a multiple of their element size."""

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        """Check."""
        super().check_layout(tensors, size)
        self.demand("aligned", all(t.begin % (self.widths[t.dtype] // 8 or 1) == 0 for t in tensors))


class AlignedInFile(SmallReader):
    """Casts a pointer into the file, which has to be aligned."""

    def content(self, file: bytes) -> dict[str, Any]:
        """Return the content."""
        header, data = self.split(file)
        tensors, _ = self.entries(self.members(header))
        self.check_layout(tensors, len(data))
        for t in tensors:
            if (8 + len(header) + t.begin) % (self.widths[t.dtype] // 8 or 1) != 0 and t.end > t.begin:
                raise Panic("misaligned pointer")
        return super().content(file)


VARIANTS = (
    reading("aligned-offsets", "Refuses tensors at odd offsets.", Aligned()),
    reading("aligned-pointers", "Crashes on data that is not aligned in the file.", AlignedInFile()),
)
