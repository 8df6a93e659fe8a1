"""Held-out readers with a bug in the metadata or in the returned tensors (MET, DAT). See ``held_out``."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from proof.broken.correct.json import Pairs
from proof.broken.correct.reader import RESERVED, Tensor
from safetensors_corpus.judging.answer import Refused

from .watched import SPELLING, Watched, plant, raw

CHUNK = 256
"""Number of bytes that the reader that forgets the remainder copies at a time."""


class EndsChecked(Watched):
    """Checks the first and the last value, and assumes that all values of the map have the same type."""

    def metadata(self, value: object) -> dict[str, Any] | None:
        if isinstance(value, Pairs):
            middle = [(key, str(item)) for key, item in value[1:-1]]
            if self.noted(any(type(item) is not str for _, item in value[1:-1])):
                value = Pairs([*value[:1], *middle, *value[-1:]])
        return super().metadata(value)


class FalsyValue(Watched):
    """Checks whether a value is empty before it checks the type."""

    def metadata(self, value: object) -> dict[str, Any] | None:
        if isinstance(value, Pairs):
            filled = Pairs([(key, item or "") for key, item in value])
            value = filled if self.noted(filled != value) else value
        return super().metadata(value)


class ArrayAsMap(Watched):
    """Cannot distinguish an empty array from an empty object, because its language has one type for both."""

    def metadata(self, value: object) -> dict[str, Any] | None:
        array = isinstance(value, list) and not isinstance(value, Pairs) and not value
        return super().metadata(Pairs() if self.noted(array) else value)


class ReservedToNul(Watched):
    """Compares names with the reserved key only up to the first NUL."""

    def entries(self, members: Pairs) -> tuple[list[Tensor], dict[str, Any] | None]:
        cut = [(RESERVED if name.split("\0")[0] == RESERVED else name, value) for name, value in members]
        return super().entries(Pairs(cut) if self.noted(cut != members) else members)


class ReservedAsSpelled(Watched):
    """Compares names with the reserved key before it decodes escapes."""

    def entries(self, members: Pairs) -> tuple[list[Tensor], dict[str, Any] | None]:
        if self.noted(any(name == RESERVED != raw(name) for name, _ in members)):
            raise Refused("field-missing")
        return super().entries(members)


class EmptyMapLost(Watched):
    """Returns an empty map as None, unless the file contains nothing else."""

    def entries(self, members: Pairs) -> tuple[list[Tensor], dict[str, Any] | None]:
        tensors, metadata = super().entries(members)
        return tensors, None if self.noted(bool(tensors) and metadata == {}) else metadata


class Composed(Watched):
    """Normalises names as its file system does."""

    def described(self, tensor: Tensor, data: bytes) -> dict[str, Any]:
        name = unicodedata.normalize("NFC", tensor.name)
        return super().described(
            replace(tensor, name=name) if self.noted(name != tensor.name) else tensor, data
        )


class NameForDtype(Watched):
    """Looks up codes and names in the same table."""

    def described(self, tensor: Tensor, data: bytes) -> dict[str, Any]:
        mixed = tensor.name in self.widths and tensor.name != tensor.dtype
        return super().described(replace(tensor, dtype=tensor.name) if self.noted(mixed) else tensor, data)


class InnerOnes(Watched):
    """Drops dimensions of 1 that are neither first nor last."""

    def described(self, tensor: Tensor, data: bytes) -> dict[str, Any]:
        inner = [dim for dim in tensor.shape[1:-1] if dim != 1]
        if self.noted(len(inner) < len(tensor.shape[1:-1])):
            tensor = replace(tensor, shape=(tensor.shape[0], *inner, tensor.shape[-1]))
        return super().described(tensor, data)


class EmptyFlat(Watched):
    """Gives every tensor without elements the shape [0], unless its first dimension is already 0."""

    def described(self, tensor: Tensor, data: bytes) -> dict[str, Any]:
        flat = 0 in tensor.shape and tensor.shape[0] != 0
        return super().described(replace(tensor, shape=(0,)) if self.noted(flat) else tensor, data)


class InHeaderOrder(Watched):
    """Reads tensors of equal size one after the other in the order of the header."""

    def placed(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        sizes = {tensor.end - tensor.begin for tensor in tensors}
        moved = any(a.begin > b.begin for a, b in pairwise(tensors))
        if not self.noted(len(sizes) == 1 and moved):
            return tensors
        size = sizes.pop()
        return [replace(t, begin=i * size, end=(i + 1) * size) for i, t in enumerate(tensors)]


class AlignedDown(Watched):
    """Loads elements of four bytes and more from the next lower aligned address."""

    def described(self, tensor: Tensor, data: bytes) -> dict[str, Any]:
        if self.widths[tensor.dtype] >= 32 and tensor.begin % 4 != 0:
            down = replace(tensor, begin=tensor.begin // 4 * 4, end=tensor.end - tensor.begin % 4)
            if self.noted(data[down.begin : down.end] != data[tensor.begin : tensor.end]):
                return super().described(down, data)
        return super().described(tensor, data)


class Quieted(Watched):
    """Moves F32 elements through a floating-point register, which makes signalling NaNs quiet."""

    def described(self, tensor: Tensor, data: bytes) -> dict[str, Any]:
        if tensor.dtype != "F32":
            return super().described(tensor, data)
        quiet = bytearray(data[tensor.begin : tensor.end])
        for at in range(0, len(quiet), 4):
            bits = int.from_bytes(quiet[at : at + 4], "little")
            if bits & 0x7F80_0000 == 0x7F80_0000 and bits & 0x7F_FFFF:
                quiet[at + 2] |= 0x40
        other = self.noted(quiet != data[tensor.begin : tensor.end])
        moved = replace(tensor, begin=0, end=len(quiet))
        return super().described(moved, bytes(quiet)) if other else super().described(tensor, data)


class WholeChunks(Watched):
    """Copies tensors of more than one chunk in whole chunks, and leaves zeros after them."""

    def described(self, tensor: Tensor, data: bytes) -> dict[str, Any]:
        size = tensor.end - tensor.begin
        rest = data[tensor.end - size % CHUNK : tensor.end] if size > CHUNK else b""
        if not self.noted(any(rest)):
            return super().described(tensor, data)
        copied = data[tensor.begin : tensor.end - len(rest)] + bytes(len(rest))
        return super().described(replace(tensor, begin=0, end=size), copied)


PLANTED = (
    plant(
        "metadata-middle-unchecked",
        "Accepts metadata values of any type except as the first and the last value.",
        "MET-01",
        EndsChecked,
    ),
    plant(
        "metadata-value-falsy",
        "Accepts null, false, and empty arrays and objects as metadata values.",
        "MET-01",
        FalsyValue,
    ),
    plant(
        "metadata-empty-array",
        "Accepts an empty array as an empty metadata map.",
        "MET-01",
        ArrayAsMap,
    ),
    plant(
        "reserved-up-to-nul",
        "Treats a name that consists of the reserved key, a NUL and further characters as the reserved key.",
        "MET-05 ENT-08",
        ReservedToNul,
    ),
    plant(
        "reserved-escaped-refused",
        "Rejects a file whose reserved key is written with escapes.",
        "MET-06",
        ReservedAsSpelled,
        SPELLING,
    ),
    plant(
        "empty-metadata-lost",
        "Returns no metadata instead of an empty map if there are tensors.",
        "MET-03",
        EmptyMapLost,
    ),
    plant(
        "name-normalised",
        "Returns names in Unicode normalisation form C.",
        "HDR-19",
        Composed,
    ),
    plant(
        "name-for-dtype",
        "Returns the name as the dtype if the name is a dtype code.",
        "DTY-14 ENT-09",
        NameForDtype,
    ),
    plant(
        "inner-ones-dropped",
        "Returns shapes without the dimensions of 1 between the first and the last dimension.",
        "SHP-11",
        InnerOnes,
    ),
    plant(
        "empty-shape-flattened",
        "Returns [0] as the shape of a tensor without elements whose first dimension is not 0.",
        "SHP-04",
        EmptyFlat,
    ),
    plant(
        "bytes-in-header-order",
        "Returns the bytes in header order if all tensors have the same size.",
        "DAT-06 HDR-17",
        InHeaderOrder,
    ),
    plant(
        "wide-begin-aligned-down",
        "Returns wrong bytes for elements of four and eight bytes that do not begin at a multiple of four.",
        "DAT-06 OFF-11",
        AlignedDown,
    ),
    plant(
        "signalling-nan-quieted",
        "Returns signalling NaNs of F32 as quiet NaNs.",
        "DAT-04",
        Quieted,
    ),
    plant(
        "last-chunk-zeroed",
        "Returns zeros for the bytes of a tensor after its last multiple of 256, if it has more than "
        "256 bytes.",
        "DAT-06",
        WholeChunks,
    ),
)
