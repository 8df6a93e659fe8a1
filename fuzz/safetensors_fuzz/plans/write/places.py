"""Whether the tensors of a plan can be made: what lies outside of its memory is no question to a writer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from safetensors_corpus.author.write import covered
from safetensors_corpus.judging.written_file import FOREIGN, foreign_windows
from safetensors_reference.rules.dtypes import DTYPE_BITS

from ..question import PlanError
from .rules import WIDEST, WRAPS

ELEMENTS = 16_384
"""Elements of one tensor at most."""


def check_place(tensor: Mapping[str, Any], memory: bytes) -> None:
    """Make sure that a tensor can be made of its memory. Raises PlanError."""
    shape = tensor["shape"]
    if min(shape, default=0) < 0 or not 0 <= tensor["offset"] <= len(memory):
        raise PlanError("no shape, or no place")
    if tensor["strides"] is not None and (
        len(tensor["strides"]) != len(shape) or tensor["nbytes"] is not None
    ):
        raise PlanError("strides of another rank, or beside a size")
    if tensor["nbytes"] is not None:
        _check_buffer(tensor, len(memory))
    elif prod(shape) > ELEMENTS:
        raise PlanError("too large")
    elif tensor["dtype"] not in DTYPE_BITS:
        _check_other_type(tensor, len(memory))
    else:
        _check_view(tensor, memory)


def _check_buffer(tensor: Mapping[str, Any], size: int) -> None:
    if tensor["dtype"] not in DTYPE_BITS or not 0 <= tensor["nbytes"] <= size - tensor["offset"]:
        raise PlanError("a size that is not there")
    if tensor["byteorder"] == "big":
        raise PlanError("a buffer has no byte order")


def _check_other_type(tensor: Mapping[str, Any], size: int) -> None:
    if tensor["strides"] is not None or tensor["byteorder"] == "big":
        raise PlanError("an unknown type in an unusual view")
    if tensor["offset"] + WIDEST * max(prod(tensor["shape"]), 1) > size:
        raise PlanError("too little memory for any type")


def _check_view(tensor: Mapping[str, Any], memory: bytes) -> None:
    bits, unusual = DTYPE_BITS[tensor["dtype"]], tensor["strides"] is not None or tensor["byteorder"] == "big"
    if bits % 8 and unusual:
        raise PlanError("elements below a byte have no strides and no byte order")
    needed = prod(tensor["shape"]) * bits
    if needed % 8:
        raise PlanError("no whole bytes")
    if tensor["strides"] is None and tensor["offset"] + needed // 8 > len(memory):
        raise PlanError("outside of the memory")
    places = list(covered(tensor, len(memory)))
    if any(not 0 <= place < len(memory) for place in places):
        raise PlanError("outside of the memory")
    if tensor["dtype"] == "BOOL" and (tensor["byteorder"] == "big" or any(memory[p] > 1 for p in places)):
        raise PlanError("a truth value is 0 or 1 and has no byte order")


def check_foreign(
    action: Mapping[str, Any], memory: Mapping[str, bytes], tensors: Sequence[Mapping[str, Any]]
) -> None:
    """Make sure that nothing given looks like foreign memory. Raises PlanError."""
    windows = foreign_windows(action)
    for tensor in tensors:
        whole = memory[tensor["storage"]]
        data = bytes(whole[place] for place in covered(tensor, len(whole)))
        if any(data[at : at + FOREIGN] in windows for at in range(len(data) - FOREIGN + 1)):
            raise PlanError("what is foreign cannot be told from what is given")


def check_limit(limit: int, tensors: Sequence[Mapping[str, Any]]) -> None:
    """Make sure that the file cannot fit on the disk. Raises PlanError."""
    needed = sum(prod(t["shape"]) * DTYPE_BITS.get(t["dtype"], 0) // 8 for t in tensors)
    if not 0 < limit < needed < WRAPS:
        raise PlanError("a disk that may be large enough")
