"""Generated files for the benchmarks, shaped like real models."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path


def header_of(count: int, size: int, name: str = "model.layers.{0}.self_attn.weight") -> bytes:
    """Return the header for ``count`` F32 tensors of ``size`` bytes each, padded to a multiple of 8."""
    entries = {
        name.format(i): {"dtype": "F32", "shape": [size // 4], "data_offsets": [i * size, (i + 1) * size]}
        for i in range(count)
    }
    text = json.dumps({"__metadata__": {"format": "pt"}, **entries}, separators=(",", ":")).encode()
    return text + b" " * (-len(text) % 8)


def write(path: Path, count: int, size: int) -> None:
    """Write a file with ``count`` F32 tensors of ``size`` bytes. The values are small, varying numbers."""
    header = header_of(count, size)
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for piece in _data(count * size):
            file.write(piece)


def _data(total: int) -> Iterator[bytes]:
    pattern = bytes(range(1, 61)) * 17_476  # about 1 MiB
    while total > 0:
        yield pattern[:total]
        total -= len(pattern)
