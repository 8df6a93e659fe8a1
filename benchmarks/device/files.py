"""Test files to load. The reference's own writer creates them.

No two pages of a file are equal, so the check always detects misplaced bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from safetensors_reference.writing.atomic import write_file
from safetensors_reference.writing.writer import DeferredBytes, FilePlan, TensorData, plan

KINDS = ("large", "llm", "small")
TITLES = {
    "large": "few large tensors",
    "llm": "tensors as in a language model, with a header of odd length",
    "small": "many small tensors",
}
PAGE = 4096
_LAYER = (
    ("self_attn.q_proj", 1), ("self_attn.k_proj", 1), ("self_attn.v_proj", 1), ("self_attn.o_proj", 1),
    ("mlp.gate_proj", 1), ("mlp.up_proj", 1), ("mlp.down_proj", 1),
    ("input_layernorm", 0), ("post_attention_layernorm", 0),
)  # fmt: skip
SMALL_SHAPE = (64, 96)


@dataclass(frozen=True)
class BenchFile:
    """A file to load.

    Attributes:
        kind: one of ``KINDS``.
        size: file size in bytes.
        tensors: number of tensors.
        header: length of the header in bytes, without the length prefix.
    """

    kind: str
    path: Path
    size: int
    tensors: int
    header: int


def shapes(kind: str, size: int, count: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of BF16 tensors by name.

    The tensors have about ``size`` bytes in total. For the kind ``small``, there are ``count`` tensors.
    """
    if kind == "small":
        return {name: SMALL_SHAPE for name, _ in _names(count)}
    if kind == "large":
        number = min(64, max(2, size >> 26))
        rows = max(1, size // (number * 2 * 8192))
        return {f"blocks.{i}.weight": (rows, 8192) for i in range(number)}
    # This width leads to a few hundred tensors and is within the range of real models.
    width = 2048
    while width > 64 and 200 * 2 * width * width > size:
        width //= 2
    layers = max(1, size // (7 * 2 * width * width))
    return {name: (width, width) if square else (width,) for name, square in _names(layers * len(_LAYER))}


def _names(count: int) -> Iterator[tuple[str, int]]:
    for i in range(count):
        part, square = _LAYER[i % len(_LAYER)]
        yield f"model.layers.{i // len(_LAYER)}.{part}.weight", square


def make(kind: str, path: Path, size: int, count: int) -> BenchFile:
    """Write a file. ``size`` is in bytes, and ``count`` is the number of tensors for the kind ``small``.

    Raises NotSavedError.
    """
    out = layout(kind, size, count)
    write_file(path, out.chunks())
    return BenchFile(kind, path, path.stat().st_size, len(out.tensors), len(out.head) - 8)


def layout(kind: str, size: int, count: int) -> FilePlan:
    """Lay out a file. Its data is generated on demand."""
    out = plan(
        TensorData(name, "BF16", shape, _deferred(number, 2 * prod(shape)))
        for number, (name, shape) in enumerate(shapes(kind, size, count).items())
    )
    return _odd(out) if kind == "llm" else out


def _odd(out: FilePlan) -> FilePlan:
    header = out.head[8:].rstrip(b" ")
    header += b" " * (1 - len(header) % 2)
    return replace(out, head=len(header).to_bytes(8, "little") + header)


def _deferred(number: int, size: int) -> DeferredBytes:
    return DeferredBytes(size, lambda: payload(number, size).data)


def payload(number: int, size: int) -> npt.NDArray[np.uint8]:
    """Return the bytes of tensor ``number``: noise, with the number and page at the start of every page."""
    out = np.resize(_noise(), size)
    words = out[: size // 8 * 8].view(np.uint64)[:: PAGE // 8]
    words[:] = np.arange(len(words), dtype=np.uint64) + np.uint64(number << 40)
    return out


@cache
def _noise() -> npt.NDArray[np.uint8]:
    # The length is not a multiple of the page size, so repetitions do not start at page boundaries.
    return np.random.default_rng(1).integers(0, 256, (8 << 20) + 24, np.uint8)


def save_twin(path: Path, twin: Path) -> None:
    """Save the tensors of a file with ``torch.save``. Each tensor has its own memory, as in a checkpoint."""
    import torch

    from safetensors_reference.torch import load_file

    tensors: dict[str, Any] = load_file(path, mode="mmap")
    torch.save({name: tensor.clone() for name, tensor in tensors.items()}, twin)
