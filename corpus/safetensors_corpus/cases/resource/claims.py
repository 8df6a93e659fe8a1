"""Cost: what a file may make a reader spend, and claims that must not be believed.

The budgets are for a small machine (two slow cores) and generous: they are there to tell a cost that grows
with the file from one that does not, and a linear one from a quadratic one.
"""

from __future__ import annotations

from ...author.case import ACCEPT, accepts, chooses, reject, rejects
from ...author.resource import RecipeBuilder

CAP = 100_000_000
MEGABYTE = 1_000_000
SLACK = 16 << 20
"""Bytes of memory that any file may cost: buffers, caches and what an allocator takes in advance."""
PREFETCH = (1 << 20) + (64 << 10)
"""Bytes that a reader may read beyond what it needs: one generous read-ahead, and what stands around it.

Buffered readers ask for 4 KiB to 1 MiB at once, whatever they need: 8 KiB in Rust and Java, 128 KiB in recent
Python. Of 38 readers most take 8 to 4,096 bytes for a refusal, scanners up to 86,016. With a buffer of a
mebibyte the length prefix, read before it, must not make the difference, nor a page of a system file. Who
reads a large header that should be refused by its length is beyond this a hundredfold."""
OVER_LIMIT = ("FRM_HEADER_OVER_LIMIT", "FRM_HEADER_PAST_EOF")
PAST_END = ("FRM_HEADER_PAST_EOF", "FRM_HEADER_OVER_LIMIT")


def constant_cost(f: RecipeBuilder) -> None:
    """Allow what a file may cost that is refused, or opened, without looking at a large part of it.

    A refusal of this kind takes microseconds; two seconds leave room for a process that is just warming up.
    """
    f.budget = {"seconds": 2, "peak_bytes": SLACK, "read_bytes": PREFETCH}


def linear_cost(f: RecipeBuilder, *, more: int = 0) -> None:
    """Allow what a header may cost, and ``more`` bytes of data.

    Memory: LIM-03 suggests less than twenty times the header. Time: the dearest headers take the official
    library about 0.4 s for each megabyte; 0.8 s passes a reader half as fast, and fails one that is
    quadratic from a few megabytes on. Reading: the header alone (API-01), and once more for a reader
    that looks for the reason of a refusal.
    """
    size = f.header_size
    f.budget = {
        "seconds": round(2 + 0.8 * size / MEGABYTE, 1),
        "peak_bytes": SLACK + 20 * size + more,
        "read_bytes": PREFETCH + 2 * size + more,
    }


def entry(f: RecipeBuilder, name: str, dtype: str, shape: list[int], begin: int, end: int) -> None:
    """Add the text of an ordinary entry to the header, without punctuation around it."""
    f.header(
        f'"{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{begin},{end}]}}'.replace(" ", "")
    )


@rejects(
    "FRM-06",
    "FRM-04",
    "LIM-02",
    codes=OVER_LIMIT,
    importance="critical",
    over={"100000001": CAP + 1, "2p40": 2**40, "2p63": 2**63},
)
def claimed_header(f: RecipeBuilder, value: int) -> None:
    """Sixteen bytes of file claim a header of $value bytes, and may cost no more than sixteen bytes do.

    Whoever takes memory for the claim before looking at the cap and at the file can be brought down by it.
    """
    f.length = value
    f.header("{}      ")
    constant_cost(f)


@rejects("FRM-04", "LIM-02", codes=PAST_END, importance="critical")
def claimed_header_at_cap(f: RecipeBuilder) -> None:
    """Sixteen bytes of file claim the largest permitted header.

    Only the size of the file stops it: a hundred megabytes taken for each of a few such files are enough.
    """
    f.length = CAP
    f.header("{}      ")
    constant_cost(f)


@rejects(
    "OFF-04",
    "LIM-02",
    codes=("OFF_OUT_OF_BOUNDS", "OFF_SIZE_MISMATCH"),
    importance="critical",
    over={"2p32": 2**32, "2p40": 2**40},
)
def claimed_tensor(f: RecipeBuilder, value: int) -> None:
    """A tensor of $value bytes in a file of about a hundred.

    Shape, dtype and range agree, so only a look at the end of the file shows that the bytes are not there.
    """
    f.header("{")
    entry(f, "w", "U8", [value], 0, value)
    f.header("}")
    f.data(bytes(range(1, 17)))
    constant_cost(f)


@rejects(
    "OFF-05", "LIM-02", codes="OFF_SIZE_MISMATCH", importance="critical", over={"2p32": 2**32, "2p40": 2**40}
)
def claimed_shape(f: RecipeBuilder, value: int) -> None:
    """A shape of $value elements over a range of sixteen bytes.

    The range lies in the file; memory taken for the shape before the comparison does not.
    """
    f.header("{")
    entry(f, "w", "F32", [value], 0, 16)
    f.header("}")
    f.data(bytes(range(1, 17)))
    constant_cost(f)


@accepts(
    "SHP-04",
    "LIM-02",
    importance="high",
    steps=("open", "read"),
    over={"behind": [0, 2**40], "before": [2**40, 0], "between": [2**20, 0, 2**20]},
)
def large_dimension_of_nothing(f: RecipeBuilder, value: list[int]) -> None:
    """An empty tensor of shape $value.

    A reader that makes a list for every row makes millions or billions of empty lists.
    """
    f.header("{")
    entry(f, "w", "F32", value, 0, 0)
    f.header("}")
    f.align_header()
    f.holds("w", "F32", value, b"")
    constant_cost(f)


@chooses(
    "large-dimension",
    "LIM-02",
    options={"accept": ACCEPT, "reject": reject("SHP_OVERFLOW")},
    importance="high",
)
def dimension_2p63_of_nothing(f: RecipeBuilder) -> None:
    """A tensor of 2^63 rows without bytes, which must cost nothing."""
    f.header("{")
    entry(f, "w", "U8", [2**63, 0], 0, 0)
    f.header("}")
    f.align_header()
    f.holds("w", "U8", [2**63, 0], b"")
    constant_cost(f)
