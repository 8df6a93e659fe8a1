"""Writer: elements, shapes, and views into memory. A strict reader compares every byte that the writer saved.

The writer must reject element types that the format does not have, and sizes that do not match. The bytes
around and between the elements of a view belong to other objects.
"""

from __future__ import annotations

import struct

from safetensors_corpus.author.case import ACCEPT, Options, accepts, chooses, reject, rejects
from safetensors_corpus.author.file import pattern, size_of
from safetensors_corpus.author.parts import rare
from safetensors_corpus.author.write import WriteBuilder
from safetensors_reference.rules.dtypes import DTYPE_BITS

DTYPES = list(DTYPE_BITS)
RARELY_KNOWN = ("u16", "u32", "u64", "c64", "f8-e4m3fnuz", "f8-e5m2fnuz", "f8-e8m0", "f4")
"""Slugs of dtypes that a wrapper did not support, according to a bug report."""
SCALARS = ("F32", "BOOL", "C64")
FOUR = 4
"""Number of elements in the vectors below. Four elements fill whole bytes in every dtype."""
TYPES = {
    "complex128": "C128",
    "float128": "F128",
    "object": "OBJECT",
    "string": "STRING",
    "datetime": "DATETIME",
    "void": "VOID",
    "uint4": "U4",
    "int4": "I4",
    "float8-e3m4": "F8_E3M4",
}
"""Slug -> element type in the manifest. A STRING is two code points of four bytes each, a DATETIME is a
number of seconds in eight bytes, and a VOID is three bytes.
"""


@accepts(
    "WRT-01 DTY-05 WRT-09",
    ahead=rare(DTYPES),
    importance="high",
    over=DTYPES,
    bugs={
        **dict.fromkeys(("bool", "u8", "i8"), "FB-29"),
        "bf16": "FB-42 FB-134",
        "f32": "FB-51",
        **dict.fromkeys(RARELY_KNOWN, "FB-97"),
    },
)
def dtype(f: WriteBuilder, code: str) -> None:
    """The writer saves a vector of dtype $value."""
    data = bytes([0, 1, 1, 0]) if code == "BOOL" else pattern("t", size_of(code, [FOUR]))
    f.tensor("t", code, [FOUR], data)


@accepts("WRT-01", smoke=True, importance="high")
def two_tensors_and_metadata(f: WriteBuilder) -> None:
    """The writer saves two tensors and one metadata key, which every writer supports."""
    f.tensor("weight", "F32", [2, 3])
    f.tensor("bias", "F32", [3])
    f.metadata({"key": "value"})


@accepts("SHP-03 WRT-01", over=SCALARS, ahead=rare(SCALARS))
def scalar(f: WriteBuilder, code: str) -> None:
    """A scalar of dtype $value has an empty shape instead of one dimension of length one."""
    f.tensor("t", code, [], b"\1" if code == "BOOL" else None)


@accepts("SHP-04 WRT-01 WRT-17", over={"vector": [0], "rows": [0, 3], "columns": [3, 0], "middle": [2, 0, 2]})
def without_elements(f: WriteBuilder, shape: list[int]) -> None:
    """An empty tensor is saved with a non-empty tensor, and must keep its shape ($slug)."""
    f.tensor("empty", "F32", shape)
    f.tensor("full", "F32", [2])


@accepts("DTY-01 SHP-04 WRT-01", over={"f4": "F4", "f6": "F6_E3M2"})
def packed_without_elements(f: WriteBuilder, code: str) -> None:
    """An empty tensor of dtype $value does not use any bytes."""
    f.tensor("t", code, [0])


@accepts(
    "DTY-10 WRT-01 WRT-17 WRT-20",
    over={"f4": ("F4", [3, 4]), "f6-e2m3": ("F6_E2M3", [2, 4]), "f6-e3m2": ("F6_E3M2", [4, 4])},
)
def packed_matrix(f: WriteBuilder, code: str, shape: list[int]) -> None:
    """A matrix has packed elements ($slug), and its shape counts elements instead of bytes or pairs."""
    f.tensor("t", code, shape)


@accepts("WRT-01 DAT-02", over={"matrix": [2, 3], "three": [2, 3, 4], "eight": [1, 2, 1, 2, 1, 2, 1, 3]})
def row_major(f: WriteBuilder, shape: list[int]) -> None:
    """An asymmetric tensor is saved in row-major order ($slug)."""
    f.tensor("t", "I16", shape)


VALUES = {
    "f16-signalling-nan": ("F16", struct.pack("<2H", 0x7D01, 0xFD55)),
    "bf16-signalling-nan": ("BF16", struct.pack("<2H", 0x7F81, 0xFFA5)),
    "f32-signalling-nan": ("F32", struct.pack("<2I", 0x7F800001, 0xFFA5A5A5)),
    "f64-signalling-nan": ("F64", struct.pack("<2Q", 0x7FF0000000000001, 0xFFF5A5A5A5A5A5A5)),
    "c64-signalling-nan": ("C64", struct.pack("<4I", 0x7F800001, 0x80000000, 0, 0xFFA5A5A5)),
    "f32-minus-zero": ("F32", struct.pack("<2I", 0x80000000, 0)),
    "f64-subnormal": ("F64", struct.pack("<2Q", 1, 0x800FFFFFFFFFFFFF)),
    "f8-e8m0-nan": ("F8_E8M0", b"\xff\x00"),
    "f8-e4m3fnuz-nan": ("F8_E4M3FNUZ", b"\x80\x00"),
    "i64-extremes": ("I64", struct.pack("<2q", -(2**63), 2**63 - 1)),
    "u64-extremes": ("U64", struct.pack("<2Q", 2**64 - 1, 2**53 + 1)),
}


@accepts("WRT-01 DAT-04", over=VALUES, ahead=rare(VALUES))
def values(f: WriteBuilder, code: str, data: bytes) -> None:
    """Values that a conversion would change are written bit for bit ($slug)."""
    f.tensor("t", code, [2], data)


@accepts("WRT-01")
def many_tensors(f: WriteBuilder) -> None:
    """The writer saves two hundred tensors in an order that differs from the order of their names."""
    for number in range(200):
        f.tensor(f"layer.{number * 77 % 200}.weight", "U8", [3])


@accepts("DTY-01 WRT-01 OFF-07", importance="high")
def every_dtype_in_one_file(f: WriteBuilder) -> None:
    """One file contains a vector of every dtype, with lengths that leave the next tensor unaligned."""
    for number, code in enumerate(DTYPE_BITS):
        length = 4 if DTYPE_BITS[code] < 8 else 2 * number % 5 + 1
        f.tensor(code.lower(), code, [length], bytes(length) if code == "BOOL" else None)


@rejects("WRT-17 DTY-09", "WRT_SIZE_MISMATCH DTY_SUBBYTE", over={"f4": "F4", "f6": "F6_E2M3"})
def packed_part_of_a_byte(f: WriteBuilder, code: str) -> None:
    """Three elements of $value do not fill whole bytes, and the format does not define the remaining bits."""
    f.tensor("t", code, [3], bytes(3 * DTYPE_BITS[code] // 8 + 1), nbytes=3 * DTYPE_BITS[code] // 8 + 1)


@rejects("WRT-09", "WRT_UNSUPPORTED_DTYPE", over=TYPES)
def element_type(f: WriteBuilder, code: str) -> None:
    """The elements have the type $slug, for which the format has no code."""
    f.tensor("t", code, [2], bytes(64))
    f.properties = ["target-unchanged"]


@rejects(
    "WRT-09 WRT-19",
    "WRT_UNSUPPORTED_DTYPE",
    importance="medium",
    over={k: TYPES[k] for k in ("complex128", "object")},
)
def element_type_last_of_three(f: WriteBuilder, code: str) -> None:
    """The last of three tensors has elements of the type $slug, for which the format has no code.

    The writer must detect the unsupported type before it writes anything.
    """
    f.tensor("a")
    f.tensor("b")
    f.tensor("z", code, [2], bytes(64))
    f.properties = ["target-unchanged"]


@rejects("WRT-09 WRT-19 WRT-14", "WRT_UNSUPPORTED_DTYPE", bugs="FB-77")
def element_type_over_an_old_file(f: WriteBuilder) -> None:
    """Elements of an unsupported type are saved over a valid file, which must stay unchanged."""
    f.target = "file"
    f.before.tensor("old", "F32", [2])
    f.tensor("a")
    f.tensor("z", "C128", [2], bytes(64))
    f.properties = ["target-unchanged"]


SIZES: dict[str, tuple[str, list[int], int]] = {
    # dtype, shape, and bytes of the buffer
    "one-byte-short": ("F32", [2], 7),
    "one-element-short": ("F32", [2], 4),
    "nothing": ("F32", [2], 0),
    "one-byte-long": ("F32", [2], 9),
    "twice": ("F32", [2], 16),
    "something-for-none": ("F32", [0], 4),
    "scalar-long": ("F32", [], 8),
    "pairs-counted": ("F4", [4], 4),
    "six-bits-as-bytes": ("F6_E2M3", [4], 4),
    "elements-counted": ("F64", [8], 8),
}


@rejects("WRT-17", "WRT_SIZE_MISMATCH OFF_SIZE_MISMATCH", importance="high", over=SIZES)
def size(f: WriteBuilder, code: str, shape: list[int], nbytes: int) -> None:
    """The size of the buffer does not match the dtype and the shape: $slug.

    If the writer saves the tensor, the file breaks OFF-05, or the writer reads past the end of the buffer.
    """
    f.storage("memory", bytes(range(1, nbytes + 1)))
    f.tensor("t", code, shape, storage="memory", nbytes=nbytes)
    f.properties = ["target-unchanged"]


@rejects("WRT-17 WRT-19", "WRT_SIZE_MISMATCH OFF_SIZE_MISMATCH")
def sizes_that_even_out(f: WriteBuilder) -> None:
    """One buffer is four bytes too short and the next is four bytes too long, so the sum is right."""
    f.storage("memory", bytes(range(1, 17)))
    f.tensor("a", "F32", [2], storage="memory", nbytes=4)
    f.tensor("b", "F32", [2], storage="memory", offset=4, nbytes=12)


WRAPS: dict[str, tuple[str, list[int], int]] = {
    "elements-to-zero": ("U8", [2**32, 2**32], 0),
    "elements-to-four": ("U8", [2**62 + 1, 4], 4),
    "bytes-to-zero": ("F64", [2**61], 0),
    "bytes-to-four": ("F32", [2**62 + 1], 4),
    "bits-to-zero": ("U8", [2**61], 0),
    "bits-to-a-byte": ("U8", [2**61 + 1], 1),
    "packed-bits-to-zero": ("F4", [2**62], 0),
    "packed-pairs-to-zero": ("F4", [2**64], 0),
    "thirty-two-bits": ("U8", [2**16, 2**16], 0),
    "thirty-two-bits-to-four": ("F32", [2**30 + 1], 4),
}


@rejects(
    "WRT-17 WRT-20 SHP-05",
    "SHP_OVERFLOW WRT_SIZE_MISMATCH",
    importance="critical",
    issue="safetensors/safetensors#765",
    over=WRAPS,
    bugs={slug: "FB-15 FB-16" if slug == "packed-pairs-to-zero" else "FB-15" for slug in WRAPS},
)
def wrapping_shape(f: WriteBuilder, code: str, shape: list[int], nbytes: int) -> None:
    """The size of a shape, computed in 64 bits, wraps around to the size of the buffer: $slug."""
    f.storage("memory", bytes(range(1, nbytes + 1)))
    f.tensor("t", code, shape, storage="memory", nbytes=nbytes)


DEEP = {"seven": ("F16", [2, 1, 3, 1, 2, 1, 2]), "ten": ("U8", [1, 1, 2, 1, 1, 3, 1, 1, 1, 2])}


@accepts("WRT-01 DAT-02", over=DEEP)
def dimensions(f: WriteBuilder, code: str, shape: list[int]) -> None:
    """A tensor of $slug dimensions is between a matrix and a scalar, and the file has metadata."""
    f.tensor("a", "F64", [2, 2])
    f.tensor("b", code, shape)
    f.tensor("c", "F32", [])
    f.metadata({"format": "pt"})


CANARY = b"foreign memory! " * 4
"""Bytes around the data that show whether a writer reads past it."""
REFUSED = reject("WRT_SHARED_STORAGE")
NONE_HOLDS_ALL: Options = {"copy": ACCEPT, "refuse": REFUSED, "once": REFUSED, "noted": REFUSED}


def surrounded(f: WriteBuilder, size: int) -> int:
    """Add the storage ``memory`` with ``size`` bytes of data between canaries, and return the data offset."""
    f.storage("memory", CANARY + pattern("t", size) + CANARY)
    f.properties = ["no-foreign-bytes"]
    return len(CANARY)


VIEWS: dict[str, tuple[str, int, list[int], int, list[int]]] = {
    # dtype, bytes of the storage, shape, offset of the first element, and strides
    "transposed": ("F32", 24, [3, 2], 0, [4, 12]),
    "fortran-order": ("F64", 48, [2, 3], 0, [8, 16]),
    "axes-permuted": ("I16", 48, [4, 2, 3], 0, [2, 24, 8]),
    "every-second": ("F32", 32, [4], 0, [8]),
    "every-third-byte": ("U8", 24, [8], 0, [3]),
    "every-second-row": ("F32", 48, [2, 3], 0, [24, 4]),
    "column": ("F32", 48, [4], 4, [12]),
    "inner-columns": ("I32", 64, [4, 2], 4, [16, 4]),
    "inner-block": ("I16", 72, [2, 2, 2], 14, [24, 8, 2]),
    "reversed": ("F32", 16, [4], 12, [-4]),
    "rows-reversed": ("F32", 24, [2, 3], 12, [-12, 4]),
    "both-reversed": ("I64", 48, [2, 3], 40, [-24, -8]),
    "reversed-every-second": ("U8", 8, [4], 7, [-2]),
    "row-repeated": ("F32", 12, [2, 3], 0, [0, 4]),
    "element-repeated": ("F32", 4, [2, 2], 0, [0, 0]),
    "column-repeated": ("F64", 16, [2, 3], 0, [8, 0]),
    "overlapping-windows": ("U8", 6, [4, 3], 0, [1, 1]),
    "complex-every-second": ("C64", 32, [2], 0, [16]),
    "stride-no-multiple-of-width": ("F32", 10, [2], 0, [6]),
}


@chooses(
    "non-contiguous",
    "WRT-01",
    codes="WRT_NOT_CONTIGUOUS",
    level="must",
    importance="critical",
    issue="safetensors/safetensors#825",
    bugs=dict.fromkeys(("transposed", "fortran-order", "reversed", "row-repeated"), "FB-23")
    | dict.fromkeys(("every-second", "inner-columns"), "FB-23 FB-27"),
    over=VIEWS,
)
def view(f: WriteBuilder, code: str, size: int, shape: list[int], offset: int, strides: list[int]) -> None:
    """The elements of a view are not contiguous in memory: $slug.

    A writer that copies the memory unchanged stores wrong values. Starting at the first element and copying
    as many bytes as the shape requires stores memory that belongs to other objects.
    """
    begin = surrounded(f, size)
    f.tensor("t", code, shape, storage="memory", offset=begin + offset, strides=strides)


@chooses("non-contiguous", "WRT-01", codes="WRT_NOT_CONTIGUOUS", level="must", importance="high")
def view_between_two_tensors(f: WriteBuilder) -> None:
    """A transposed view is between two contiguous tensors of the same dtype."""
    begin = surrounded(f, 24)
    f.tensor("a", "F32", [2])
    f.tensor("b", "F32", [3, 2], storage="memory", offset=begin, strides=[4, 12])
    f.tensor("c", "F32", [2])


CONTIGUOUS: dict[str, tuple[str, list[int], int, list[int] | None]] = {
    # dtype, shape, offset, and strides; the storage has 48 bytes
    "middle": ("F32", [2], 16, None),
    "rows": ("F32", [2, 3], 12, [12, 4]),
    "strides-spelled-out": ("I16", [2, 3, 4], 0, [24, 8, 2]),
    "one-row-with-odd-stride": ("F32", [1, 3], 12, [999, 4]),
    "one-element-with-odd-strides": ("F64", [1, 1], 8, [-8, 4096]),
    "scalar": ("F32", [], 20, []),
    "unaligned": ("F64", [2], 3, None),
}


@accepts("WRT-01 WRT-07", importance="high", over=CONTIGUOUS, bugs={"middle": "FB-27", "rows": "FB-27"})
def contiguous_view(
    f: WriteBuilder, code: str, shape: list[int], offset: int, strides: list[int] | None
) -> None:
    """The elements of a view are contiguous but inside a larger storage: $slug.

    The stride of a dimension of length one has no effect. The writer must not save the rest of the storage.
    """
    begin = surrounded(f, 48)
    f.tensor("t", code, shape, storage="memory", offset=begin + offset, strides=strides)


@accepts("WRT-01 WRT-07")
def empty_view(f: WriteBuilder) -> None:
    """A view without elements is at the end of its storage and has strides."""
    begin = surrounded(f, 8)
    f.tensor("t", "F32", [0, 3], storage="memory", offset=begin + 8, strides=[-12, 8])


BIG_ENDIAN = {
    "two-bytes": "U16",
    "half": "F16",
    "four-bytes": "I32",
    "float": "F32",
    "eight-bytes": "I64",
    "double": "F64",
    "complex": "C64",
}


@chooses(
    "big-endian", "DAT-01", codes="WRT_UNSUPPORTED_DTYPE", level="must", importance="high", over=BIG_ENDIAN
)
def big_endian(f: WriteBuilder, code: str) -> None:
    """The elements are big-endian in memory: $slug ($value).

    A complex number consists of two numbers. Reversing all bytes of the complex number would also swap the
    two.
    """
    f.tensor("t", code, [3], byteorder="big")


@chooses(
    "big-endian-view",
    "WRT-08 DAT-01",
    codes="WRT_UNSUPPORTED_DTYPE WRT_NOT_CONTIGUOUS",
    level="must",
    importance="high",
)
def big_endian_and_transposed(f: WriteBuilder) -> None:
    """The writer must reorder a transposed view of big-endian elements and swap their bytes."""
    begin = surrounded(f, 24)
    f.tensor("t", "F32", [3, 2], storage="memory", offset=begin, strides=[4, 12], byteorder="big")


@chooses("big-endian", "DAT-01", codes="WRT_UNSUPPORTED_DTYPE", level="must")
def big_endian_beside_little_endian(f: WriteBuilder) -> None:
    """One of two tensors is big-endian in memory, and the other is little-endian."""
    f.tensor("a", "I32", [2], byteorder="big")
    f.tensor("b", "I32", [2])


@accepts("WRT-08 WRT-01", over={"u8": "U8", "f8": "F8_E5M2"})
def byte_order_of_single_bytes(f: WriteBuilder, code: str) -> None:
    """Elements of one byte ($value) do not have a byte order."""
    f.tensor("t", code, [4])


def stored_once(f: WriteBuilder, kept: str, *left_out: str, others: tuple[str, ...] = ()) -> None:
    """Of the tensors that share memory, expect only ``kept`` in the file."""
    f.expect(kept, *others, option="once")
    f.expect(kept, *others, metadata=dict.fromkeys(left_out, kept), option="noted")


@chooses("shared-memory", codes="WRT_SHARED_STORAGE", level="must", importance="high")
def one_view_twice(f: WriteBuilder) -> None:
    """The same tensor is saved under two names, as with tied weights."""
    f.storage("memory", pattern("t", 16))
    f.tensor("a", "F32", [4], storage="memory")
    f.tensor("b", "F32", [4], storage="memory")
    stored_once(f, "a", "b")


@chooses("shared-memory", codes="WRT_SHARED_STORAGE", level="must")
def one_view_under_three_names(f: WriteBuilder) -> None:
    """The same tensor is saved under three names, together with an independent tensor."""
    f.storage("memory", pattern("t", 16))
    for name in "abc":
        f.tensor(name, "F32", [4], storage="memory")
    f.tensor("d", "F32", [2])
    stored_once(f, "a", "b", "c", others=("d",))


@chooses("shared-memory", codes="WRT_SHARED_STORAGE", level="must")
def one_memory_in_two_shapes(f: WriteBuilder) -> None:
    """A vector and a matrix consist of the same bytes in memory."""
    f.storage("memory", pattern("t", 24))
    f.tensor("a", "F32", [6], storage="memory")
    f.tensor("b", "F32", [2, 3], storage="memory")
    stored_once(f, "a", "b")


@chooses("shared-memory", codes="WRT_SHARED_STORAGE", level="must")
def part_of_another_tensor(f: WriteBuilder) -> None:
    """One tensor is a row of another tensor."""
    f.storage("memory", pattern("t", 24))
    f.tensor("a", "F32", [2, 3], storage="memory")
    f.tensor("b", "F32", [3], storage="memory", offset=12)
    stored_once(f, "a", "b")


@chooses("shared-memory", options=NONE_HOLDS_ALL, level="must", importance="high")
def overlapping_halves(f: WriteBuilder) -> None:
    """The second half of one tensor is the first half of another, so neither contains the whole storage."""
    f.storage("memory", pattern("t", 24))
    f.tensor("a", "F32", [4], storage="memory")
    f.tensor("b", "F32", [4], storage="memory", offset=8)


DISJOINT: dict[str, list[tuple[int, list[int], list[int] | None]]] = {
    "side-by-side": [(0, [4], None), (16, [4], None)],
    "second-first": [(16, [4], None), (0, [4], None)],
    "with-a-gap": [(0, [2], None), (24, [2], None)],
}


@accepts("WRT-16 WRT-01", importance="high", bugs="FB-41", over=DISJOINT)
def parts_of_one_storage(f: WriteBuilder, value: list[tuple[int, list[int], list[int] | None]]) -> None:
    """Two tensors share a storage but no bytes: $slug.

    The flat buffers of optimisers have this structure. The tensors are independent.
    """
    f.storage("memory", pattern("t", 32))
    for name, (offset, shape, strides) in zip("ab", value, strict=True):
        f.tensor(name, "F32", shape, storage="memory", offset=offset, strides=strides)


@accepts("WRT-16 WRT-01", bugs="FB-224")
def empty_tensors_of_one_storage(f: WriteBuilder) -> None:
    """Two empty tensors at the same address share no bytes."""
    f.storage("memory", pattern("t", 8))
    f.tensor("a", "F32", [0], storage="memory")
    f.tensor("b", "F32", [0], storage="memory")
    f.tensor("c", "F32", [2], storage="memory")


@accepts("WRT-16 WRT-01")
def equal_tensors(f: WriteBuilder) -> None:
    """Two tensors have equal bytes in different memory and must both be saved."""
    f.tensor("a", "F32", [2], pattern("t", 8))
    f.tensor("b", "F32", [2], pattern("t", 8))


NUMBERS: dict[str, list[int]] = {"matrix": [2, 2], "three-dimensions": [2, 1, 3]}


@chooses("big-endian", "DAT-01", codes="WRT_UNSUPPORTED_DTYPE", level="must", over=NUMBERS)
def big_endian_complex_beside_float(f: WriteBuilder, shape: list[int]) -> None:
    """One tensor has big-endian complex numbers ($slug), and another has little-endian floats."""
    f.tensor("a", "C64", shape, byteorder="big")
    f.tensor("b", "F64", [3])
