"""Writer: views into memory, and several tensors in one block of memory.

The bytes around and between the elements of a view belong to other objects.
"""

from __future__ import annotations

from safetensors_corpus.author.case import ACCEPT, Options, accepts, chooses, reject
from safetensors_corpus.author.file import pattern
from safetensors_corpus.author.write import WriteBuilder

CANARY = b"foreign memory! " * 4
"""Bytes around the data that show whether a writer reads past it."""
VIEW: Options = {"copy": ACCEPT, "refuse": reject("WRT_NOT_CONTIGUOUS")}
REFUSED = reject("WRT_SHARED_STORAGE")
ONE_HOLDS_ALL: Options = {"copy": ACCEPT, "refuse": REFUSED, "once": ACCEPT, "noted": ACCEPT}
NONE_HOLDS_ALL: Options = {"copy": ACCEPT, "refuse": REFUSED, "once": REFUSED, "noted": REFUSED}
ORDERS: Options = {"swap": ACCEPT, "refuse": reject("WRT_UNSUPPORTED_DTYPE")}


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
    options=VIEW,
    level="must",
    importance="critical",
    issue="https://github.com/safetensors/safetensors/issues/825",
    bugs=dict.fromkeys(("transposed", "fortran-order", "reversed", "row-repeated"), ("FB-23",))
    | dict.fromkeys(("every-second", "inner-columns"), ("FB-23", "FB-27")),
    over=VIEWS,
)
def view(f: WriteBuilder, value: tuple[str, int, list[int], int, list[int]]) -> None:
    """The elements of a view are not contiguous in memory: $slug.

    A writer that copies the memory unchanged stores wrong values. Starting at the first element and copying
    as many bytes as the shape requires stores memory that belongs to other objects.
    """
    code, size, shape, offset, strides = value
    begin = surrounded(f, size)
    f.tensor("t", code, shape, storage="memory", offset=begin + offset, strides=strides)


@chooses("non-contiguous", "WRT-01", options=VIEW, level="must", importance="high")
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


@accepts("WRT-01 WRT-07", importance="high", over=CONTIGUOUS, bugs={"middle": ("FB-27",), "rows": ("FB-27",)})
def contiguous_view(f: WriteBuilder, value: tuple[str, list[int], int, list[int] | None]) -> None:
    """The elements of a view are contiguous but inside a larger storage: $slug.

    The stride of a dimension of length one has no effect. The writer must not save the rest of the storage.
    """
    code, shape, offset, strides = value
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


@chooses("big-endian", "DAT-01", options=ORDERS, level="must", importance="high", over=BIG_ENDIAN)
def big_endian(f: WriteBuilder, code: str) -> None:
    """The elements are big-endian in memory: $slug ($value).

    A complex number consists of two numbers. Reversing all bytes of the complex number would also swap the
    two.
    """
    f.tensor("t", code, [3], byteorder="big")


@chooses(
    "big-endian-view",
    "WRT-08 DAT-01",
    options={"write": ACCEPT, "refuse": reject("WRT_UNSUPPORTED_DTYPE", "WRT_NOT_CONTIGUOUS")},
    level="must",
    importance="high",
)
def big_endian_and_transposed(f: WriteBuilder) -> None:
    """The writer must reorder a transposed view of big-endian elements and swap their bytes."""
    begin = surrounded(f, 24)
    f.tensor("t", "F32", [3, 2], storage="memory", offset=begin, strides=[4, 12], byteorder="big")


@chooses("big-endian", "DAT-01", options=ORDERS, level="must")
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


@chooses("shared-memory", options=ONE_HOLDS_ALL, level="must", importance="high")
def one_view_twice(f: WriteBuilder) -> None:
    """The same tensor is saved under two names, as with tied weights."""
    f.storage("memory", pattern("t", 16))
    f.tensor("a", "F32", [4], storage="memory")
    f.tensor("b", "F32", [4], storage="memory")
    stored_once(f, "a", "b")


@chooses("shared-memory", options=ONE_HOLDS_ALL, level="must")
def one_view_under_three_names(f: WriteBuilder) -> None:
    """The same tensor is saved under three names, together with an independent tensor."""
    f.storage("memory", pattern("t", 16))
    for name in "abc":
        f.tensor(name, "F32", [4], storage="memory")
    f.tensor("d", "F32", [2])
    stored_once(f, "a", "b", "c", others=("d",))


@chooses("shared-memory", options=ONE_HOLDS_ALL, level="must")
def one_memory_in_two_shapes(f: WriteBuilder) -> None:
    """A vector and a matrix consist of the same bytes in memory."""
    f.storage("memory", pattern("t", 24))
    f.tensor("a", "F32", [6], storage="memory")
    f.tensor("b", "F32", [2, 3], storage="memory")
    stored_once(f, "a", "b")


@chooses("shared-memory", options=ONE_HOLDS_ALL, level="must")
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


@accepts("WRT-16 WRT-01", importance="high", bugs=("FB-41",), over=DISJOINT)
def parts_of_one_storage(f: WriteBuilder, value: list[tuple[int, list[int], list[int] | None]]) -> None:
    """Two tensors share a storage but no bytes: $slug.

    The flat buffers of optimisers have this structure. The tensors are independent.
    """
    f.storage("memory", pattern("t", 32))
    for name, (offset, shape, strides) in zip("ab", value, strict=True):
        f.tensor(name, "F32", shape, storage="memory", offset=offset, strides=strides)


@accepts("WRT-16 WRT-01", bugs=("FB-224",))
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


@chooses("big-endian", "DAT-01", options=ORDERS, level="must", over=NUMBERS)
def big_endian_complex_beside_float(f: WriteBuilder, shape: list[int]) -> None:
    """One tensor has big-endian complex numbers ($slug), and another has little-endian floats."""
    f.tensor("a", "C64", shape, byteorder="big")
    f.tensor("b", "F64", [3])
