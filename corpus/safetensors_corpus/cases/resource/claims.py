"""Cost: limits on memory, time and bytes read, false claims, and sparse files.

The budgets suit a small machine (two slow cores) and are generous. They distinguish costs that grow with the
file from constant ones, and quadratic costs from linear ones. Sparse files have offsets beyond 32 bits, and
tensors that a reader can read without the others.
"""

from __future__ import annotations

from ...author.case import ACCEPT, accepts, chooses, reject, rejects
from ...author.file import pattern
from ...author.parts import powers
from ...author.resource import RecipeBuilder
from ..framing import CAP, OVER_LIMIT, PAST_END

MEGABYTE = 1_000_000
SLACK = 16 << 20
"""Memory in bytes that any file may cost: buffers, caches and allocator overhead."""
PREFETCH = (1 << 20) + (64 << 10)
"""Bytes that a reader may read beyond what it needs: one generous read-ahead and some slack.

Buffered readers read 4 KiB to 1 MiB at once, whatever they need: 8 KiB in Rust and Java, 128 KiB in recent
Python. Of 38 readers most read 8 to 4,096 bytes before they reject, scanners up to 86,016. With a buffer of
1 MiB neither the length prefix, read before it, nor a page of a system file must make the difference. A
reader that reads a large header that it should reject by its length exceeds this a hundredfold."""
BYTES_MISSING = ("OFF_OUT_OF_BOUNDS", "OFF_SIZE_MISMATCH")
SIXTEEN = bytes(range(1, 17))
FAR = pattern("far", 8)


def constant_cost(f: RecipeBuilder) -> None:
    """Set the budget of a file that is rejected, or opened, without reading a large part of it.

    Such a rejection takes microseconds; two seconds leave room for the start of a process.
    """
    f.budget = {"seconds": 2, "peak_bytes": SLACK, "read_bytes": PREFETCH}


def linear_cost(f: RecipeBuilder) -> None:
    """Set the budget of a header.

    Memory: LIM-03 suggests less than twenty times the header. Time: the official library needs about 0.4 s
    per megabyte for the most expensive headers. A budget of 0.8 s passes a reader half as fast, and fails a
    quadratic one from a few megabytes on. Bytes read: the header only (API-01), twice, because some readers
    read it again to determine the reason for a rejection.
    """
    size = f.header_size
    f.budget = {
        "seconds": round(2 + 0.8 * size / MEGABYTE, 1),
        "peak_bytes": SLACK + 20 * size,
        "read_bytes": PREFETCH + 2 * size,
    }


def entry(name: str, dtype: str, shape: list[int], begin: int, end: int) -> str:
    return f'"{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{begin},{end}]}}'.replace(" ", "")


@rejects(
    "FRM-06 FRM-04 LIM-02",
    codes=OVER_LIMIT,
    importance="critical",
    over={"100000001": CAP + 1, "2p40": 2**40, "2p63": 2**63},
)
def claimed_header(f: RecipeBuilder, value: int) -> None:
    """A file of sixteen bytes claims a header of $value bytes, and may cost no more than sixteen bytes do.

    A reader that allocates for the claim before it checks the cap and the file size can run out of memory.
    """
    f.length = value
    f.header("{}      ")
    constant_cost(f)


@rejects("FRM-04 LIM-02", codes=PAST_END, importance="critical")
def claimed_header_at_cap(f: RecipeBuilder) -> None:
    """A file of sixteen bytes claims the largest permitted header.

    Only the file size rejects it: allocating a hundred megabytes for each of a few such files is enough to
    crash.
    """
    f.length = CAP
    f.header("{}      ")
    constant_cost(f)


READ = ("open", "read")
"""A reader that compares sizes only when it reads rejects late, and accepts nothing."""


@rejects("OFF-04 LIM-02", codes=BYTES_MISSING, importance="critical", steps=READ, over=powers("2p32", "2p40"))
def claimed_tensor(f: RecipeBuilder, value: int) -> None:
    """A tensor of $value bytes in a file of about a hundred.

    Shape, dtype and range agree, so only the file size shows that the bytes are missing.
    """
    f.header("{", entry("w", "U8", [value], 0, value), "}")
    f.data(SIXTEEN)
    constant_cost(f)


@rejects(
    "OFF-05 LIM-02",
    codes="OFF_SIZE_MISMATCH",
    importance="critical",
    steps=READ,
    over=powers("2p32", "2p40"),
)
def claimed_shape(f: RecipeBuilder, value: int) -> None:
    """A shape of $value elements with a range of sixteen bytes.

    The range is inside the file; the reader must compare before it allocates for the shape.
    """
    f.header("{", entry("w", "F32", [value], 0, 16), "}")
    f.data(SIXTEEN)
    constant_cost(f)


@accepts(
    "SHP-04 LIM-02",
    importance="high",
    steps=("open", "read"),
    over={"behind": [0, 2**40], "before": [2**40, 0], "between": [2**20, 0, 2**20]},
)
def large_dimension_of_nothing(f: RecipeBuilder, value: list[int]) -> None:
    """An empty tensor of shape $value.

    A reader that makes a list for every row makes millions or billions of empty lists.
    """
    f.header("{", entry("w", "F32", value, 0, 0), "}")
    f.align_header()
    f.expect("w", "F32", value, b"")
    constant_cost(f)


@chooses(
    "large-dimension",
    "LIM-02",
    options={"accept": ACCEPT, "reject": reject("SHP_OVERFLOW")},
    importance="high",
)
def dimension_2p63_of_nothing(f: RecipeBuilder) -> None:
    """A tensor of 2^63 empty rows, which must cost nothing."""
    f.header("{", entry("w", "U8", [2**63, 0], 0, 0), "}")
    f.align_header()
    f.expect("w", "U8", [2**63, 0], b"")
    constant_cost(f)


def _far(f: RecipeBuilder, begin: int) -> None:
    f.header(
        "{", entry("near", "U8", [begin], 0, begin), ",", entry("far", "F32", [2], begin, begin + 8), "}"
    )
    f.pad_header(-(-f.header_size // 8) * 8)
    f.data({"zeros": begin}, FAR)
    f.expect("far", "F32", [2], FAR)


@accepts(
    "OFF-14 LIM-07 API-01",
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
    """A tensor begins at byte $value of the data and is the only one requested.

    A position kept in 32 bits, with or without a sign, points into the zeros of the first tensor. Reading the
    first tensor as well would take more memory than the machine has.
    """
    _far(f, value)
    f.ask("far")
    constant_cost(f)


@accepts(
    "LIM-07 API-01 OFF-14",
    importance="high",
    over=powers("2p31", "2p32", "2p40"),
    bugs={"2p31": ("FB-135",), "2p32": ("FB-135",)},
)
def opened_only(f: RecipeBuilder, value: int) -> None:
    """A file with a tensor of $value bytes is opened without reading a tensor.

    Its names, dtypes and shapes are in the first bytes.
    """
    _far(f, value)
    f.expect_count(2, "U8", "F32")
    constant_cost(f)


@accepts("LIM-07 OFF-14 API-01", steps=("slice",), importance="high")
def element_count_beyond_32_bits(f: RecipeBuilder) -> None:
    """A tensor of 2^32 + 2 elements precedes the requested one."""
    count = 2**32 + 2
    f.header(
        "{",
        entry("near", "BF16", [2, count // 2], 0, 2 * count),
        ",",
        entry("far", "F32", [2], 2 * count, 2 * count + 8),
        "}",
    )
    f.data({"zeros": 2 * count}, FAR)
    f.expect("far", "F32", [2], FAR)
    f.ask("far")
    constant_cost(f)


@accepts("LIM-07 OFF-11 OFF-14", steps=("slice",))
def unaligned_behind_2p32(f: RecipeBuilder) -> None:
    """An unaligned tensor follows four gigabytes and a byte."""
    _far(f, 2**32 + 1)
    f.ask("far")
    constant_cost(f)


@rejects("OFF-04 LIM-02 OFF-14", codes=BYTES_MISSING, importance="critical", steps=READ)
def data_shorter_by_2p32(f: RecipeBuilder) -> None:
    """The declared end and the size of the data differ by exactly 2^32.

    In 32 bits the two are equal, and the reader continues far past the end of the file.
    """
    f.header("{", entry("w", "U8", [2**32 + 8], 0, 2**32 + 8), "}")
    f.data(FAR)
    constant_cost(f)


@rejects("OFF-08 OFF-14", codes=("OFF_TRAILING", "OFF_HOLE"), importance="high")
def data_longer_by_2p32(f: RecipeBuilder) -> None:
    """Exactly 2^32 bytes follow the last tensor.

    In 32 bits the file ends where it should, and four gigabytes can hide after it.
    """
    f.header("{", entry("w", "F32", [2], 0, 8), "}")
    f.data(FAR, {"zeros": 2**32})
    constant_cost(f)


@rejects("OFF-07 OFF-14", codes="OFF_HOLE", importance="high")
def hole_of_2p32(f: RecipeBuilder) -> None:
    """Exactly 2^32 bytes between two tensors belong to neither."""
    f.header("{", entry("a", "F32", [2], 0, 8), ",", entry("b", "F32", [2], 2**32 + 8, 2**32 + 16), "}")
    f.data(FAR, {"zeros": 2**32}, FAR)
    constant_cost(f)


@rejects("OFF-04 LIM-07", codes="OFF_OUT_OF_BOUNDS", importance="high", over=powers("2p32", "2p40"))
def one_byte_short(f: RecipeBuilder, value: int) -> None:
    """A file with a tensor of $value bytes lacks its very last byte.

    A size stored as a single-precision float does not show it.
    """
    f.header("{", entry("w", "U8", [value], 0, value), "}")
    f.data({"zeros": value - 1})
    constant_cost(f)


@rejects("OFF-08 LIM-07", codes=("OFF_TRAILING", "OFF_HOLE"), over=powers("2p32", "2p40"))
def one_byte_more(f: RecipeBuilder, value: int) -> None:
    """One byte follows a tensor of $value bytes."""
    f.header("{", entry("w", "U8", [value], 0, value), "}")
    f.data({"zeros": value + 1})
    constant_cost(f)
