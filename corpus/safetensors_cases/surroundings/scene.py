"""File of one row of a model, in a form that the builder accepts."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod

from safetensors_corpus.author.file import FileBuilder, filled, json_text, size_of
from safetensors_reference.rules.dtypes import DTYPE_BITS

from .model import Row

CODES = {
    "f32": "F32",
    "u8": "U8",
    "bool": "BOOL",
    "i16": "I16",
    "bf16": "BF16",
    "f64": "F64",
    "i64": "I64",
    "f8": "F8_E4M3",
    "f4": "F4",
    "c64": "C64",
}
"""Level -> dtype code."""
BYTES = {"page": 4096, "buffer": 65536, "large": 65536 + 256, "k128": 131_072 + 256}
"""Level -> size of the subject in bytes."""
SHAPES = {
    0: (),
    1: (8,),
    2: (2, 4),
    3: (2, 1, 4),
    4: (1, 2, 2, 2),
    5: (2, 1, 2, 1, 2),
    6: (1, 2, 1, 2, 2, 1),
    7: (2, 1, 1, 2, 1, 1, 2),
    8: (1, 2, 1, 1, 2, 1, 1, 2),
    12: (2, 1, 1, 1, 1, 2, 1, 1, 1, 1, 1, 2),
}
"""Rank -> dimensions of a small tensor of eight elements."""
FIELD_ORDERS = {
    "dso": ("dtype", "shape", "data_offsets"),
    "osd": ("data_offsets", "shape", "dtype"),
    "sod": ("shape", "data_offsets", "dtype"),
}
TWINS = ("layer.1", "layer.10", "Layer.1", "layer..1", "layer.1 ", "layer,1", "layer.l", "layer.")
WORDS = ("__proto__", "constructor", "None", "this", "undefined", "null", "self", "__class__")
METADATA = {"format": "pt", "note": "é"}
MAPS = {"pairs": METADATA, "emptymap": {}, "manykeys": {f"key {n}": "v" * n for n in range(30)}}
NAN_BYTES = {"F32": "0100a07f", "F64": "010000000000f47f", "BF16": "a17f", "C64": "0100a07f0200a0ff"}
"""Dtype -> bytes of a signalling NaN. Other dtypes use FF bytes."""
CONTENTS = {"zeros": b"\0", "spaces": b" ", "braces": b"{}", "archives": b"PK\x03\x04"}


@dataclass
class Tensor:
    """Tensor as the header declares it. If ``begin`` and ``end`` are None, the true offsets are used."""

    name: str
    dtype: str
    shape: list[int]
    data: bytes
    begin: int | None = None
    end: int | None = None
    key: str | None = None
    value: str | None = None
    fields: dict[str, str | None] = field(default_factory=dict)
    order: Sequence[str] = FIELD_ORDERS["dso"]

    @property
    def true_fields(self) -> dict[str, str]:
        return {"dtype": json_text(self.dtype), "shape": json_text(self.shape)}


@dataclass
class Scene:
    """Tensors of a row in data order, and the other properties of the file.

    The data begins at the position ``start`` of the buffer. ``gap`` is the number of bytes before the subject
    that belong to no tensor. ``at_end`` changes the file after the last tensor. ``length`` computes a wrong
    header length from the sizes of the header and the file.
    """

    row: Row
    start: int
    tensors: list[Tensor]
    subject: Tensor
    metadata: dict[str, str] | None
    gap: int = 0
    at_end: Callable[[FileBuilder], None] | None = None
    length: Callable[[int, int], int] | None = None

    @property
    def at(self) -> int:
        """Index of the subject among the tensors."""
        return self.tensors.index(self.subject)

    @property
    def range(self) -> tuple[int, int]:
        """True offsets of the subject, without the gap."""
        begin = self.start + sum(len(t.data) for t in self.tensors[: self.at])
        return begin, begin + len(self.subject.data)

    def write(self, f: FileBuilder) -> None:
        """Write the tensors, and pad the header as the row requires."""
        if self.row["spacing"] == "spaced":
            f.separator = " ,\n "
        for tensor in self.tensors:
            if tensor is self.subject:
                f.gap(self.gap)
            f.tensor(**vars(tensor), at=0 if self.row["order"] == "rev" else None)
        if self.metadata is not None:
            place = {"mfirst": 0, "mmid": len(self.tensors) // 2}
            f.metadata(self.metadata, at=place.get(self.row["metadata"]))
        if self.at_end is not None:
            self.at_end(f)
        f.padding = b""
        f.padding = padding(self.row, f.header_size, len(f.render()))
        if self.length is not None:
            file = f.render()
            f.length = self.length(int.from_bytes(file[:8], "little"), len(file)) % (1 << 64)


def padding(row: Row, header: int, file: int = 0) -> bytes:
    """Return the padding for a header and a file whose sizes without padding are given."""
    count = {
        "pad8": -header % 8,
        "tight": int(header % 8 == 0),
        "pad64": -(8 + header) % 64,
        "pad4096": -(8 + header) % 4096,
        "longpad": 5000 + -header % 8,
        "head4096": -header % 4096,
        "text4096": 0,
        "t64": -file % 64,
        "t4096": -file % 4096,
    }[row["padding"]]
    return b" " * count


def scene(row: Row, start: int = 0) -> Scene:
    names = _names(row)
    subject = Tensor(
        name=names[0],
        dtype=CODES[row["dtype"]],
        shape=(shape := _shape(row)),
        data=_data(row, "subject", CODES[row["dtype"]], shape),
        order=FIELD_ORDERS[row["fields"]],
    )
    others = [] if row["place"] == "only" else [_neighbour(row, name) for name in names[1:]]
    cut = {"only": 0, "first": 0, "middle": len(others) // 2, "last": len(others)}[row["place"]]
    before, behind = others[:cut], others[cut:]
    if row["before"] == "lvoid":
        before.append(Tensor("void before", "F32", [0], b""))
    if row["behind"] == "rvoid":
        behind.insert(0, Tensor("void behind", "F32", [0, 2], b""))
    metadata = None if row["metadata"] == "bare" else MAPS[row["map"]]
    for number, tensor in enumerate([*before, subject, *behind], 1):
        # Without this, the few bytes of small tensors could be equal by chance.
        if row["content"] == "mixed" and 0 < len(tensor.data) <= 3 and tensor.dtype != "BOOL":
            tensor.data = number.to_bytes(len(tensor.data), "little")
    out = Scene(row, start, [*before, subject, *behind], subject, metadata)
    if row["names"] == "escaped":
        for tensor in out.tensors:
            tensor.key = '"' + "".join(f"\\u{ord(c):04x}" for c in tensor.name) + '"'
    elif row["names"] == "astral":
        for tensor in out.tensors:
            tensor.key = json.dumps(tensor.name)
    return out


def _names(row: Row) -> list[str]:
    count = 1 if row["place"] == "only" else {"few": 3, "n16": 17, "n300": 301}[row["count"]]
    forms = {
        "utf8": "gewicht.ß{}.重み",
        "longnames": "block." * 50 + "{}",
        "escaped": "w{}",
        "digits": "{}",
        "astral": "😀{}",
    }
    if row["names"] == "twins":
        return [*TWINS, *(f"layer.1{n:03}" for n in range(count))][:count]
    if row["names"] == "words":
        return [*WORDS, *(f"this{n}" for n in range(count))][:count]
    return [forms.get(row["names"], "t{}").format(n) for n in range(count)]


def _shape(row: Row) -> list[int]:
    dims = list(SHAPES[int(row["rank"][1:])])
    bits = DTYPE_BITS[CODES[row["dtype"]]]
    if row["size"] == "one":
        return [1] * len(dims)
    if row["size"] == "void":
        dims[len(dims) // 2] = 0
    elif row["size"] in BYTES:
        # Adjust the first dimension above one so that the product matches.
        index = next(i for i, dim in enumerate(dims) if dim > 1)
        dims[index] = BYTES[row["size"]] * 8 // bits // (prod(dims) // dims[index])
    return _packable(dims) if row["dtype"] == "f4" else dims


def _packable(dims: list[int]) -> list[int]:
    """Move an even dimension to the end, where libraries that pack two elements into a byte need it."""
    index = next(i for i in reversed(range(len(dims))) if dims[i] % 2 == 0)
    dims[index], dims[-1] = dims[-1], dims[index]
    return dims


def _neighbour(row: Row, name: str) -> Tensor:
    own, shape = CODES[row["dtype"]], _shape(row)
    dtype, dims = {
        "even": ("F32", [2]),
        "odd": ("U8", [3]),
        "alike": (own, shape),
        "reshaped": (own, _packable([1, prod(shape), 1]) if own == "F4" else [1, prod(shape), 1]),
        "wider": ("U64", [3, 1]),
        "fnuz": ("F8_E4M3FNUZ", [8]),
    }[row["beside"]]
    return Tensor(name, dtype, list(dims), _data(row, name, dtype, dims))


def _data(row: Row, name: str, dtype: str, shape: Sequence[int]) -> bytes:
    """Return the content. Long content repeats one byte except at its ends, to keep the recipe short."""
    size = size_of(dtype, shape)
    if row["content"] == "mixed":
        ends = filled(name, dtype, min(size, 4096 if size <= 4096 else 128))
        return ends if size <= 4096 else ends[:64] + bytes([1]) * (size - 128) + ends[64:]
    unit = CONTENTS.get(row["content"]) or bytes.fromhex(NAN_BYTES.get(dtype, "ff"))
    return (unit * (size // len(unit) + 1))[:size]
