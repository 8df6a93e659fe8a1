"""Writer: element types that the format does not have, and sizes that do not fit."""

from __future__ import annotations

from ...author.case import rejects
from ...author.write import WriteBuilder

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
"""Slug -> element type as the manifest names it. STRING has two code points of four bytes, DATETIME seconds
in eight, VOID three bytes."""


@rejects("WRT-09", codes="WRT_UNSUPPORTED_DTYPE", importance="high", over=TYPES)
def element_type(f: WriteBuilder, code: str) -> None:
    """Elements of the type $slug, for which the format has no code."""
    f.give("t", code, [2], bytes(64))
    f.properties = ["target-unchanged"]


@rejects(
    "WRT-09", "WRT-19", codes="WRT_UNSUPPORTED_DTYPE", over={k: TYPES[k] for k in ("complex128", "object")}
)
def element_type_last_of_three(f: WriteBuilder, code: str) -> None:
    """Elements of the type $slug come last, and no byte may have been written by then."""
    f.give("a")
    f.give("b")
    f.give("z", code, [2], bytes(64))
    f.properties = ["target-unchanged"]


@rejects("WRT-09", "WRT-19", "WRT-14", codes="WRT_UNSUPPORTED_DTYPE", importance="high", bugs=("FB-77",))
def element_type_over_an_old_file(f: WriteBuilder) -> None:
    """Elements of an unsupported type are saved over a good file, which stays."""
    f.target = "file"
    f.before.tensor("old", "F32", [2])
    f.give("a")
    f.give("z", "C128", [2], bytes(64))
    f.properties = ["target-unchanged"]


SIZES: dict[str, tuple[str, list[int], int]] = {
    # dtype, shape, bytes handed over
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


@rejects("WRT-17", codes=("WRT_SIZE_MISMATCH", "OFF_SIZE_MISMATCH"), importance="high", over=SIZES)
def size(f: WriteBuilder, value: tuple[str, list[int], int]) -> None:
    """The buffer has another size than dtype and shape say: $slug.

    The file would break OFF-05, or the writer would read behind the buffer.
    """
    code, shape, nbytes = value
    f.storage("memory", bytes(range(1, nbytes + 1)))
    f.give("t", code, shape, storage="memory", nbytes=nbytes)
    f.properties = ["target-unchanged"]


@rejects("WRT-17", "WRT-19", codes=("WRT_SIZE_MISMATCH", "OFF_SIZE_MISMATCH"))
def sizes_that_even_out(f: WriteBuilder) -> None:
    """One buffer is four bytes short and the next four bytes long; the sum is right."""
    f.storage("memory", bytes(range(1, 17)))
    f.give("a", "F32", [2], storage="memory", nbytes=4)
    f.give("b", "F32", [2], storage="memory", offset=4, nbytes=12)


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
    "WRT-17",
    "WRT-20",
    "SHP-05",
    codes=("SHP_OVERFLOW", "WRT_SIZE_MISMATCH"),
    importance="critical",
    issue="https://github.com/safetensors/safetensors/issues/765",
    over=WRAPS,
    bugs={slug: ("FB-15", "FB-16") if slug == "packed-pairs-to-zero" else ("FB-15",) for slug in WRAPS},
)
def wrapping_shape(f: WriteBuilder, value: tuple[str, list[int], int]) -> None:
    """A shape whose size, computed in a machine word, is that of the buffer: $slug."""
    code, shape, nbytes = value
    f.storage("memory", bytes(range(1, nbytes + 1)))
    f.give("t", code, shape, storage="memory", nbytes=nbytes)
