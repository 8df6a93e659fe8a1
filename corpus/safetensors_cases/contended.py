"""Contended: several processes save to one path at the same time.

Known failures: all processes use the same temporary file name (unslothai/unsloth-zoo#1078), or they write
into the target itself.
"""

from __future__ import annotations

from safetensors_corpus.author.case import accepts
from safetensors_corpus.author.write import ContendedBuilder

SIZE = 512 * 1024
"""Size of a large tensor in bytes. Saving the tensor takes long enough for saves to overlap."""


def saver(f: ContendedBuilder, number: int, size: int) -> None:
    large, small = f"large{number}", f"small{number}"
    f.tensor(large, "U8", [size], bytes([number + 1]) * size)
    f.tensor(small, "I16", [3])
    f.saver(large, small)


@accepts("WRT-21 WRT-14", importance="high", over=(2, 4))
def new_file(f: ContendedBuilder, count: int) -> None:
    """Several processes ($value) save different tensors of the same size to a new file."""
    for number in range(count):
        saver(f, number, SIZE)


@accepts("WRT-21 WRT-14", importance="high")
def existing_file(f: ContendedBuilder) -> None:
    """Four processes save different tensors of different sizes over an existing file."""
    f.target = "file"
    f.before.tensor("old", "F32", [2])
    for number in range(4):
        saver(f, number, SIZE >> number)
