"""Files that are mostly holes: offsets beyond 32 bits, and tensors that are read without the others."""

from __future__ import annotations

from ...author.case import accepts, rejects
from ...author.file import pattern
from ...author.resource import RecipeBuilder
from .claims import constant_cost, entry

FAR = pattern("far", 8)


def _far(f: RecipeBuilder, begin: int) -> None:
    """Add a first tensor of ``begin`` zero bytes and a second one of two floats behind it."""
    f.header("{")
    entry(f, "near", "U8", [begin], 0, begin)
    f.header(",")
    entry(f, "far", "F32", [2], begin, begin + 8)
    f.header("}")
    f.pad_header(-(-f.header_size // 8) * 8)
    f.data({"zeros": begin}, FAR)
    f.holds("far", "F32", [2], FAR)


@accepts(
    "OFF-14",
    "LIM-07",
    "API-01",
    steps=("slice",),
    importance="critical",
    over={
        "2p31": 2**31,
        "2p31-less-4": 2**31 - 4,
        "2p32": 2**32,
        "2p32-less-4": 2**32 - 4,
        "2p32-and-8": 2**32 + 8,
        "2p40": 2**40,
    },
    bugs={"2p31": ("FB-133", "FB-135"), "2p32": ("FB-133", "FB-135")},
)
def tensor_behind(f: RecipeBuilder, value: int) -> None:
    """A tensor begins at byte $value of the data and is asked for alone.

    A position kept in 32 bits, with or without a sign, leads into the zeros of the first tensor. Reading the
    first tensor as well would take more memory than the machine has.
    """
    _far(f, value)
    f.ask("far")
    constant_cost(f)


@accepts(
    "LIM-07",
    "API-01",
    "OFF-14",
    importance="high",
    over={"2p31": 2**31, "2p32": 2**32, "2p40": 2**40},
    bugs={"2p31": ("FB-135",), "2p32": ("FB-135",)},
)
def opened_only(f: RecipeBuilder, value: int) -> None:
    """A file with a tensor of $value bytes is opened and nothing is asked for.

    Its names, dtypes and shapes stand in the first bytes.
    """
    _far(f, value)
    f.holds_count(2, "U8", "F32")
    constant_cost(f)


@accepts("LIM-07", "OFF-14", "API-01", steps=("slice",), importance="high")
def element_count_beyond_32_bits(f: RecipeBuilder) -> None:
    """A tensor of 2^32 + 2 elements lies in front of the one that is asked for."""
    count = 2**32 + 2
    f.header("{")
    entry(f, "near", "BF16", [2, count // 2], 0, 2 * count)
    f.header(",")
    entry(f, "far", "F32", [2], 2 * count, 2 * count + 8)
    f.header("}")
    f.data({"zeros": 2 * count}, FAR)
    f.holds("far", "F32", [2], FAR)
    f.ask("far")
    constant_cost(f)


@accepts("LIM-07", "OFF-11", "OFF-14", steps=("slice",))
def unaligned_behind_2p32(f: RecipeBuilder) -> None:
    """Behind four gigabytes and a byte lies a tensor that no alignment fits."""
    _far(f, 2**32 + 1)
    f.ask("far")
    constant_cost(f)


@rejects(
    "OFF-04",
    "LIM-02",
    "OFF-14",
    codes=("OFF_OUT_OF_BOUNDS", "OFF_SIZE_MISMATCH"),
    importance="critical",
)
def data_shorter_by_2p32(f: RecipeBuilder) -> None:
    """The declared end and the size of the data differ by exactly 2^32.

    Compared in 32 bits the two are equal, and the reader goes on to read far behind the end of the file.
    """
    f.header("{")
    entry(f, "w", "U8", [2**32 + 8], 0, 2**32 + 8)
    f.header("}")
    f.data(FAR)
    constant_cost(f)


@rejects("OFF-08", "OFF-14", codes=("OFF_TRAILING", "OFF_HOLE"), importance="high")
def data_longer_by_2p32(f: RecipeBuilder) -> None:
    """Exactly 2^32 bytes follow the last tensor.

    Compared in 32 bits the file ends where it should, and four gigabytes can hide behind it.
    """
    f.header("{")
    entry(f, "w", "F32", [2], 0, 8)
    f.header("}")
    f.data(FAR, {"zeros": 2**32})
    constant_cost(f)


@rejects("OFF-07", "OFF-14", codes="OFF_HOLE", importance="high")
def hole_of_2p32(f: RecipeBuilder) -> None:
    """Exactly 2^32 bytes lie between two tensors and belong to neither."""
    f.header("{")
    entry(f, "a", "F32", [2], 0, 8)
    f.header(",")
    entry(f, "b", "F32", [2], 2**32 + 8, 2**32 + 16)
    f.header("}")
    f.data(FAR, {"zeros": 2**32}, FAR)
    constant_cost(f)


@rejects(
    "OFF-04", "LIM-07", codes="OFF_OUT_OF_BOUNDS", importance="high", over={"2p32": 2**32, "2p40": 2**40}
)
def one_byte_short(f: RecipeBuilder, value: int) -> None:
    """A file with a tensor of $value bytes lacks its very last byte.

    A size kept as a floating-point number of single precision does not notice.
    """
    f.header("{")
    entry(f, "w", "U8", [value], 0, value)
    f.header("}")
    f.data({"zeros": value - 1})
    constant_cost(f)


@rejects("OFF-08", "LIM-07", codes=("OFF_TRAILING", "OFF_HOLE"), over={"2p32": 2**32, "2p40": 2**40})
def one_byte_more(f: RecipeBuilder, value: int) -> None:
    """One byte follows a tensor of $value bytes."""
    f.header("{")
    entry(f, "w", "U8", [value], 0, value)
    f.header("}")
    f.data({"zeros": value + 1})
    constant_cost(f)
