"""Layout: the range of a tensor against its shape and its place."""

from __future__ import annotations

from ...author.case import rejects
from ...author.file import FileBuilder, pattern
from ...author.parts import PLACES, three_tensors

MLX = "https://github.com/ml-explore/mlx/issues/3363"


def _places(**values: int) -> dict[str, tuple[int, int]]:
    """Return every value with every place, under slugs such as larger-first."""
    return {f"{k}-{place}": (v, i) for k, v in values.items() for place, i in PLACES.items()}


@rejects(
    "OFF-05",
    codes="OFF_SIZE_MISMATCH",
    importance="critical",
    bugs=("FB-43",),
    over=_places(larger=3, smaller=1),
)
def shape_alone(f: FileBuilder, value: tuple[int, int]) -> None:
    """The shape of one of three tensors is $slug; its range and the file agree."""
    for index, name in enumerate("abc"):
        f.tensor(name, "F32", [value[0] if index == value[1] else 2], pattern(name, 8))


@rejects(
    "OFF-05", codes="OFF_SIZE_MISMATCH", importance="critical", bugs=("FB-43", "FB-55", "FB-130"), issue=MLX
)
def shape_of_4_mb_range_of_4_bytes(f: FileBuilder) -> None:
    """The shape needs four million bytes, range and file have four."""
    f.tensor("w", "F32", [1000, 1000], bytes(4))


@rejects(
    "OFF-05",
    codes="OFF_SIZE_MISMATCH",
    importance="critical",
    bugs=("FB-43", "FB-55"),
    issue="https://github.com/ztxz16/fastllm/issues/712",
)
def shape_of_1_kib_range_of_48_kib(f: FileBuilder) -> None:
    """The shape needs a kibibyte, range and file have 48 of them.

    A buffer made for the shape and filled from the range overflows.
    """
    f.tensor("w", "F32", [32, 8], pattern("w", 48 * 1024))


@rejects(
    "OFF-05",
    codes=("OFF_SIZE_MISMATCH", "OFF_HOLE", "OFF_TRAILING", "OFF_OVERLAP", "OFF_OUT_OF_BOUNDS"),
    importance="critical",
    bugs=("FB-43",),
    over=_places(larger=4, smaller=-4),
)
def range_alone(f: FileBuilder, value: tuple[int, int]) -> None:
    """The range of one of three tensors is $slug; its shape and the file agree."""
    three_tensors(f, value[1], end=8 * value[1] + 8 + value[0])


SHIFTED = ("OFF_HOLE", "OFF_OVERLAP", "OFF_OUT_OF_BOUNDS")


@rejects("OFF-07", "OFF-06", codes=SHIFTED, importance="critical", over=PLACES)
def range_shifted(f: FileBuilder, value: int) -> None:
    """The range of the $slug of three tensors lies four bytes too far back; its size is right."""
    three_tensors(f, value, begin=8 * value + 4, end=8 * value + 12)
