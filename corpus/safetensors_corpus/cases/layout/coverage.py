"""Layout: the ranges against each other, bytes of no tensor or of several."""

from __future__ import annotations

from ...author.case import rejects
from ...author.file import FileBuilder, pattern


@rejects("OFF-07", codes="OFF_HOLE", importance="high", bugs=("FB-59", "FB-78", "FB-117"))
def hole_between_two(f: FileBuilder) -> None:
    """Four bytes between two tensors belong to neither.

    Every tensor is fine by itself; the hole has room for another content.
    """
    f.tensor("a", "F32", [1])
    f.gap(4)
    f.tensor("b", "F32", [1])


@rejects(
    "OFF-07",
    codes="OFF_HOLE",
    importance="high",
    over={"before-first": (0, 8), "one-byte-before-first": (0, 1), "one-byte": (1, 1), "before-last": (2, 8)},
    bugs=("FB-59", "FB-117"),
)
def hole(f: FileBuilder, value: tuple[int, int]) -> None:
    """Bytes that belong to no tensor: $slug of three."""
    place, count = value
    for index, name in enumerate("abc"):
        if index == place:
            f.gap(count)
        f.tensor(name, "F32", [2])


@rejects("OFF-12", codes="OFF_HOLE", importance="high", over={"8": 8, "64": 64})
def hole_for_alignment(f: FileBuilder, value: int) -> None:
    """Zeros between two tensors bring the second to a multiple of $value bytes.

    A well-meant habit of other formats, here it makes the file unreadable for others.
    """
    f.tensor("a", "U8", [1])
    f.gap(value - 1)
    f.tensor("b", "F64", [2])


@rejects("OFF-09", codes=("OFF_HOLE", "OFF_OVERLAP"), importance="high")
def hole_with_empty_tensor(f: FileBuilder) -> None:
    """A tensor without bytes stands in the middle of a hole."""
    f.tensor("a", "F32", [1])
    f.gap(2)
    f.tensor("empty", "F32", [0])
    f.gap(2)
    f.tensor("b", "F32", [1])


@rejects("OFF-09", codes=("OFF_HOLE", "OFF_TRAILING"), importance="high")
def empty_tensor_behind_unused_bytes(f: FileBuilder) -> None:
    """Eight bytes belong to no tensor; one without bytes marks the end of the file behind them.

    Comparing only the largest end with the size of the file finds nothing.
    """
    f.tensor("a", "F32", [2])
    f.gap(8)
    f.tensor("empty", "F32", [0])


@rejects("OFF-09", codes=("OFF_OVERLAP", "OFF_HOLE"), importance="high", over={"1": 1, "4": 4, "7": 7})
def empty_tensor_inside_another(f: FileBuilder, value: int) -> None:
    """A tensor without bytes stands at offset $value, inside a tensor of eight bytes."""
    f.tensor("a", "F32", [2])
    f.tensor("empty", "F32", [0], begin=value, end=value)


@rejects(
    "OFF-06",
    codes="OFF_OVERLAP",
    importance="high",
    over={
        "whole": ("U8", 0, 8),
        "whole-other-dtype": ("F32", 0, 8),
        "front": ("U8", 0, 4),
        "back": ("U8", 5, 8),
    },
    bugs={
        "whole": ("FB-59", "FB-78", "FB-79", "FB-117"),
        "whole-other-dtype": ("FB-79",),
        "front": ("FB-59",),
        "back": ("FB-59",),
    },
)
def range_of_another(f: FileBuilder, value: tuple[str, int, int]) -> None:
    """The range of a tensor is a part of that of another: $slug.

    What is written to one tensor appears in the other.
    """
    dtype, begin, end = value
    f.tensor("a", "U8", [8])
    f.tensor("b", dtype, [2] if dtype == "F32" else [end - begin], b"", begin=begin, end=end)


@rejects(
    "OFF-06",
    codes="OFF_OVERLAP",
    importance="high",
    over={"first-two-1-byte": (1, 1), "first-two-4-bytes": (1, 4), "last-two-1-byte": (2, 1)},
    bugs=("FB-59", "FB-78", "FB-117"),
)
def overlap(f: FileBuilder, value: tuple[int, int]) -> None:
    """A tensor begins before its predecessor ends: $slug of three."""
    place, shared = value
    for index, name in enumerate("abc"):
        if index == place:
            f.tensor(name, "U8", [8], pattern(name, 8 - shared), begin=f.position - shared)
        else:
            f.tensor(name, "U8", [8])


@rejects("OFF-06", "OFF-07", codes=("OFF_OVERLAP", "OFF_HOLE", "OFF_TRAILING"), importance="high")
def overlap_makes_up_for_unused_bytes(f: FileBuilder) -> None:
    """Two tensors share eight bytes and eight others are unused; the sizes add up."""
    f.tensor("a", "F32", [2])
    f.tensor("b", "F32", [2], b"", begin=0, end=8)
    f.gap(8)


@rejects(
    "OFF-06",
    "LIM-05",
    codes="OFF_OVERLAP",
    importance="critical",
    issue="https://github.com/safetensors/safetensors/issues/26",
    bugs=("FB-01",),
)
def many_names_for_one_range(f: FileBuilder) -> None:
    """Six hundred names stand for one range of 16,000 bytes.

    A reader that copies every tensor needs hundreds of times the memory of the file.
    """
    f.tensor("0", "U8", [16_000])
    for index in range(1, 600):
        f.tensor(f"{index:x}", "U8", [16_000], b"", begin=0, end=16_000)
