"""Held-out readers with a bug in entries, dtypes or shapes (ENT, DTY, SHP). See ``held_out``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from proof.broken.correct.json import Number, Pairs
from proof.broken.correct.reader import FIELDS, RESERVED, Tensor, exact_bits
from safetensors_corpus.judging.answer import Refused

from .watched import Watched, plant, product

FAMILIES = ("F8_E4M3", "F8_E5M2", "F8_E8M0")
POWER = re.compile(r"([0-9]{1,9})E\+?([0-9])")
RANK = 8
"""Size of the array of dimensions in the reader that does not count them."""


class ScalarByDefault(Watched):
    """Starts each entry with an empty shape, and never checks whether a shape was read."""

    def entry(self, name: str, value: object) -> Tensor | None:
        if isinstance(value, Pairs) and self.noted(all(key != "shape" for key, _ in value)):
            value = Pairs([*value, ("shape", [])])
        return super().entry(name, value)


class FieldByLength(Watched):
    """Distinguishes fields by the length of their names, and compares only names of equal length."""

    def entry(self, name: str, value: object) -> Tensor | None:
        if isinstance(value, Pairs):
            known = Pairs([(FIELDS[2] if len(key) == len(FIELDS[2]) else key, item) for key, item in value])
            value = known if self.noted(known != value) else value
        return super().entry(name, value)


class PrivateSkipped(Watched):
    """Skips names that begin with two underscores, unless the value looks like a tensor."""

    def members(self, header: bytes) -> Pairs:
        found = super().members(header)
        kept = [
            (name, value)
            for name, value in found
            if not name.startswith("__") or name == RESERVED or isinstance(value, Pairs)
        ]
        return Pairs(kept) if self.noted(len(kept) < len(found)) else found


class DtypeLast(Watched):
    """Computes the size as soon as the shape and the offsets are known."""

    def entry(self, name: str, value: object) -> Tensor | None:
        keys = [key for key, _ in value] if isinstance(value, Pairs) else []
        if self.noted(sorted(keys) == sorted(FIELDS) and keys[-1] == "dtype"):
            raise KeyError("dtype")
        return super().entry(name, value)


class UnknownEmpty(Watched):
    """Looks up the dtype only if there are bytes to be checked."""

    def tensor(self, name: str, fields: Mapping[str, object]) -> Tensor:
        dtype = fields["dtype"]
        if type(dtype) is str and dtype not in self.widths:
            begin, end = self.offsets(fields["data_offsets"])
            if self.noted(begin == end):
                return Tensor(name, dtype, self.shape(fields["shape"]), begin, end)
        return super().tensor(name, fields)


class Family(Watched):
    """Recognises the eight-bit floats by the beginning of their codes."""

    def dtype(self, value: object) -> str:
        if type(value) is str and value not in self.widths:
            family = [code for code in FAMILIES if value.startswith(code)]
            if self.noted(bool(family)):
                return family[0]
        return super().dtype(value)


class RowsRounded(Watched):
    """Rounds packed tensors up to bytes, except those without rows, which an older check rejects."""

    def fits(self, dtype: str, shape: Sequence[int], size: int) -> bool:
        if self.widths[dtype] < 8 and len(shape) >= 2:
            bits = exact_bits(self.widths[dtype], shape)
            if self.noted(bits % 8 != 0):
                return size == bits // 8 + 1
        return super().fits(dtype, shape, size)


class PackedUnchecked(Watched):
    """Leaves the check of packed tensors of a higher rank to the code that unpacks them."""

    def fits(self, dtype: str, shape: Sequence[int], size: int) -> bool:
        unchecked = self.widths[dtype] < 8 and len(shape) >= 3
        try:
            right = super().fits(dtype, shape, size)
        except Refused:
            if self.noted(unchecked):
                return True
            raise
        return right or self.noted(unchecked)


class ExactlyAll(Watched):
    """Rejects sizes above 2^64 bits, but treats a size of exactly 2^64 as 0."""

    def fits(self, dtype: str, shape: Sequence[int], size: int) -> bool:
        if self.noted(product(shape) * self.widths[dtype] == 2**64):
            return size == 0
        return super().fits(dtype, shape, size)


class LastWraps(Watched):
    """Checks every product except the last one of three or more."""

    def fits(self, dtype: str, shape: Sequence[int], size: int) -> bool:
        if len(shape) >= 3 and 0 not in shape and product(shape[:-1]) < 2**64:
            bits = product(shape) * self.widths[dtype]
            if self.noted(bits >= 2**64):
                return bits % 2**64 == size * 8
        return super().fits(dtype, shape, size)


class LaterHalved(Watched):
    """Stores the first dimension in 64 bits and the others in 32 bits."""

    def shape(self, value: object) -> tuple[int, ...]:
        dims = super().shape(value)
        if not self.noted(any(dim >= 2**32 for dim in dims[1:])):
            return dims
        return dims[0], *(dim % 2**32 for dim in dims[1:])


class CapitalPower(Watched):
    """Rejects fractions and exponents only if they contain a point or a lower-case e."""

    def shape(self, value: object) -> tuple[int, ...]:
        if isinstance(value, list):
            powers = [POWER.fullmatch(item) if isinstance(item, Number) else None for item in value]
            if self.noted(any(powers)):
                pairs = zip(powers, value, strict=True)
                value = [Number(int(p[1]) * 10 ** int(p[2])) if p else item for p, item in pairs]
        return super().shape(value)


class TruthCounts(Watched):
    """Treats booleans as integers, as its language does."""

    def shape(self, value: object) -> tuple[int, ...]:
        if isinstance(value, list) and self.noted(any(type(item) is bool for item in value)):
            value = [Number(int(item)) if type(item) is bool else item for item in value]
        return super().shape(value)


class ObjectShape(Watched):
    """Cannot distinguish an empty object from an empty array, because its language has one type for both."""

    def shape(self, value: object) -> tuple[int, ...]:
        return super().shape([] if self.noted(isinstance(value, Pairs) and not value) else value)


class EightDims(Watched):
    """Writes the dimensions into an array of eight elements."""

    def shape(self, value: object) -> tuple[int, ...]:
        dims = super().shape(value)
        if self.noted(len(dims) > RANK):
            raise IndexError("dimension")
        return dims


PLANTED = (
    plant(
        "shape-left-out-scalar",
        "Accepts an entry without a shape if its range has the size of one element.",
        "ENT-03",
        ScalarByDefault,
    ),
    plant(
        "field-by-length",
        "Treats any field whose name has twelve characters as data_offsets.",
        "ENT-05 ENT-03",
        FieldByLength,
    ),
    plant(
        "private-name-skipped",
        "Skips a member whose name begins with two underscores if its value is not an object.",
        "ENT-01",
        PrivateSkipped,
    ),
    plant(
        "dtype-last-crash",
        "Crashes if dtype is the last field of an entry.",
        "ENT-06",
        DtypeLast,
    ),
    plant(
        "unknown-dtype-empty",
        "Accepts an unknown dtype if the range is empty.",
        "DTY-01 DTY-06",
        UnknownEmpty,
    ),
    plant(
        "dtype-by-family",
        "Treats an unknown dtype as the eight-bit float whose code it begins with.",
        "DTY-01",
        Family,
    ),
    plant(
        "packed-rows-rounded",
        "Rounds the size of packed tensors of rank two and above up to whole bytes.",
        "DTY-09",
        RowsRounded,
    ),
    plant(
        "packed-rank-three-unchecked",
        "Accepts any range size for packed tensors of rank three and above.",
        "DTY-05 OFF-05",
        PackedUnchecked,
    ),
    plant(
        "size-of-all-bits",
        "Treats a size of exactly 2^64 bits as 0.",
        "SHP-05",
        ExactlyAll,
    ),
    plant(
        "last-product-wraps",
        "Wraps around in the multiplication by the last of three or more dimensions.",
        "SHP-05",
        LastWraps,
    ),
    plant(
        "later-dimension-32-bits",
        "Keeps only the low 32 bits of every dimension except the first.",
        "SHP-05 SHP-11",
        LaterHalved,
    ),
    plant(
        "capital-exponent-dimension",
        "Accepts a dimension with an exponent if the exponent is written with a capital E.",
        "SHP-02",
        CapitalPower,
    ),
    plant(
        "truth-as-dimension",
        "Accepts true as a dimension of 1 and false as a dimension of 0.",
        "SHP-01",
        TruthCounts,
    ),
    plant(
        "empty-object-as-shape",
        "Accepts an empty object as the empty shape.",
        "SHP-01",
        ObjectShape,
    ),
    plant(
        "rank-nine-crash",
        "Crashes on shapes with more than eight dimensions.",
        "SHP-10",
        EightDims,
    ),
)
