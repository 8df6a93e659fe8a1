"""Header: its keys, repeated, similar and in any order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...author.case import ACCEPT, accepts, chooses, reject, rejects
from ...author.file import FileBuilder, pattern
from ...author.parts import ENTRY

if TYPE_CHECKING:
    from ...author.case import Accept, Reject

HALF = '{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'
LAST_OR_FIRST: dict[str, Accept | Reject] = {
    "reject": reject("HDR_DUP_KEY"),
    "last-wins": ACCEPT,
    "first-wins": ACCEPT,
}


@chooses(
    "duplicate-tensor-names",
    options=LAST_OR_FIRST,
    importance="high",
    over={"adjacent": 1, "apart": 2},
    bugs=("FB-06", "FB-105", "FB-118"),
    issue="https://github.com/ggml-org/llama.cpp/issues/1603",
)
def name_twice(f: FileBuilder, value: int) -> None:
    """The same tensor name twice with the same entry, the two $slug.

    Harmless by itself; a reader that does not notice it will not notice the harmful forms either.
    """
    f.tensor("w", "F32", [2])
    f.tensor("x", "F32", [2])
    f.member('"w"', ENTRY, at=value)


@chooses("duplicate-tensor-names", options=LAST_OR_FIRST, importance="high", bugs=("FB-06", "FB-105"))
def name_twice_dtypes(f: FileBuilder) -> None:
    """The same tensor name twice, over the same bytes but with different dtypes and shapes."""
    f.tensor("w", "F32", [2], seen_by=["first-wins"])
    views = {"last-wins": pattern("w", 8)}
    f.tensor("w", "U8", [8], b"", begin=0, end=8, seen_by=["last-wins"], views=views)


@chooses("duplicate-tensor-names", options=LAST_OR_FIRST, importance="high", bugs=("FB-06", "FB-105"))
def names_twice_swapped(f: FileBuilder) -> None:
    """Two tensor names twice, the second time with their ranges exchanged.

    Both ways of resolving it give a complete file; a scanner and a loader can see different weights.
    """
    a, b = pattern("a", 8), pattern("b", 8)
    f.tensor("a", "F32", [2], a, views={"last-wins": b})
    f.tensor("b", "F32", [2], b, views={"last-wins": a})
    f.member('"a"', ENTRY.replace("[0,8]", "[8,16]"))
    f.member('"b"', ENTRY)


@chooses(
    "duplicate-tensor-names",
    options={
        "reject": reject("HDR_DUP_KEY", "OFF_SIZE_MISMATCH"),
        "last-wins": ACCEPT,
        "first-wins": reject("OFF_SIZE_MISMATCH"),
    },
    importance="high",
    bugs=("FB-06", "FB-105"),
)
def name_twice_first_of_another_size(f: FileBuilder) -> None:
    """The same tensor name twice; the shape of the first entry does not fit its range."""
    f.member('"w"', ENTRY.replace("[2]", "[3]"))
    f.tensor("w", "F32", [2])


@chooses(
    "duplicate-tensor-names",
    options={"reject": reject("HDR_DUP_KEY"), "last-wins": ACCEPT, "first-wins": reject("OFF_TRAILING")},
    importance="high",
    bugs=("FB-06", "FB-105"),
)
def name_twice_last_fits(f: FileBuilder) -> None:
    """The same tensor name twice; only the last entry accounts for all data."""
    f.member('"w"', HALF)
    f.tensor("w", "F32", [2])


@chooses(
    "duplicate-tensor-names",
    options={"reject": reject("HDR_DUP_KEY"), "last-wins": reject("OFF_TRAILING"), "first-wins": ACCEPT},
    importance="high",
    bugs=("FB-03", "FB-105"),
)
def name_twice_first_fits(f: FileBuilder) -> None:
    """The same tensor name twice; only the first entry accounts for all data."""
    f.tensor("w", "F32", [2])
    f.member('"w"', HALF)


@rejects(
    "HDR-09",
    codes=("HDR_DUP_KEY", "OFF_HOLE", "OFF_TRAILING"),
    importance="high",
    issue="https://github.com/safetensors/safetensors/issues/401",
    bugs=("FB-78", "FB-105"),
)
def name_twice_ranges(f: FileBuilder) -> None:
    """The same tensor name twice, each entry with a range of its own.

    Whichever entry is dropped, its bytes belong to no tensor.
    """
    f.tensor("w", "F32", [2])
    f.tensor("w", "F32", [2])


@chooses(
    "duplicate-tensor-names",
    "HDR-10",
    options=LAST_OR_FIRST,
    importance="high",
    bugs=("FB-06", "FB-105"),
    over={
        "code-point": ("w", r"\u0077"),
        "solidus": ("a/b", r"a\/b"),
        "pair": ("\U0001f600", r"\ud83d\ude00"),
    },
)
def name_twice_escaped(f: FileBuilder, value: tuple[str, str]) -> None:
    """The same tensor name twice, once written with an escape ($slug).

    Comparing keys before their escapes are decoded takes them for two names.
    """
    f.tensor(value[0], "F32", [2])
    f.member(f'"{value[1]}"', ENTRY)


@rejects(
    "HDR-12",
    codes=("HDR_DUP_KEY", "OFF_SIZE_MISMATCH", "OFF_TRAILING"),
    importance="high",
    over={
        "dtype-same": '"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]',
        "dtype-differs": '"dtype":"F64","dtype":"F32","shape":[2],"data_offsets":[0,8]',
        "dtype-escaped": r'"dtype":"F32","shape":[2],"data_offsets":[0,8],"\u0064type":"F32"',
        "shape-same": '"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8]',
        "offsets-same": '"dtype":"F32","shape":[2],"data_offsets":[0,8],"data_offsets":[0,8]',
        "offsets-differs": '"data_offsets":[0,4],"dtype":"F32","shape":[2],"data_offsets":[0,8]',
    },
    bugs=("FB-118",),
)
def field_twice(f: FileBuilder, value: str) -> None:
    """A tensor entry with one of its fields twice ($slug)."""
    f.tensor("w", "F32", [2], value="{" + value + "}")


@accepts(
    "HDR-19",
    over={
        "case": ("w", "W"),
        "normal-form": ("\xe9", "e\u0301"),
        "trailing-nul": ("w", "w\0"),
        "trailing-space": ("w", "w "),
        "byte-order-mark": ("w", "\ufeffw"),
    },
)
def similar_names(f: FileBuilder, value: tuple[str, str]) -> None:
    """Two tensors whose names differ only slightly ($slug).

    Folding, normalising, trimming or cutting names makes one of them disappear.
    """
    for name in value:
        f.tensor(name, "F32", [2])


@accepts("HDR-17")
def entries_shuffled(f: FileBuilder) -> None:
    """Three tensors whose entries stand neither in the order of their data nor backwards."""
    for name, place in (("a", 0), ("b", 0), ("c", 1)):
        f.tensor(name, "F32", [2], at=place)
