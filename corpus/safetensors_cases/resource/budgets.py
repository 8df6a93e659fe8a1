"""Cost: limits on memory, time and bytes read, false claims, and sparse files.

The budgets are generous and suit a small machine with two slow cores. The budgets distinguish costs that grow
with the file from constant costs, and quadratic costs from linear costs. Sparse files have offsets beyond 32
bits, and contain tensors that a reader can read without reading the others. Headers of 1, 5, 25 and 100
megabytes contain whatever is most expensive to read, to show whether time and memory grow in proportion to
the size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from safetensors_corpus.author.case import accepts, chooses, rejects
from safetensors_corpus.author.file import RecipeBuilder, pattern
from safetensors_corpus.author.parts import powers

from ..framing import CAP, OVER_LIMIT, PAST_END

MEGABYTE = 1_000_000
SLACK = 16 << 20
"""Memory in bytes that any file may require, for buffers, caches and allocator overhead."""
PREFETCH = (1 << 20) + (64 << 10)
"""Bytes that a reader may read beyond what it needs. The limit allows one generous read-ahead and some slack.

Buffered readers read 4 KiB to 1 MiB at a time, however little they need: 8 KiB in Rust and Java, 128 KiB in
recent Python. Of 38 readers, most read 8 to 4,096 bytes before they reject a file, and scanners read up to
86,016. A reader with a buffer of 1 MiB also reads the length prefix first, and perhaps a page of a system
file. These extra bytes must not make such a reader fail. A reader that reads a large header instead of
rejecting the file because of its length exceeds the limit a hundredfold.
"""
BYTES_MISSING = "OFF_OUT_OF_BOUNDS OFF_SIZE_MISMATCH"
SIXTEEN = bytes(range(1, 17))
FAR = pattern("far", 8)


def constant_cost(f: RecipeBuilder) -> None:
    """Set the budget for a file that can be rejected, or opened, without reading a large part of it.

    Such a rejection takes microseconds. The two seconds allow for starting a process.
    """
    f.budget = {"seconds": 2, "peak_bytes": SLACK, "read_bytes": PREFETCH}


def linear_cost(f: RecipeBuilder) -> None:
    """Set the budget for reading a header.

    Memory: LIM-03 suggests less than twenty times the header size. Time: the official library needs about 0.4
    s per megabyte for the most expensive headers. With a budget of 0.8 s, a reader that takes twice as long
    passes, and a reader with quadratic cost fails for headers of a few megabytes or more. Bytes read: only
    the header (API-01), but twice, because some readers read it again to determine why they reject the file.
    """
    size = f.header_size
    f.budget = {
        "seconds": round(2 + 0.8 * size / MEGABYTE, 1),
        "peak_bytes": SLACK + 20 * size,
        "read_bytes": PREFETCH + 2 * size,
    }


def entry(name: str, dtype: str, shape: list[int], begin: int, end: int) -> str:
    return f'"{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{begin},{end}]}}'.replace(" ", "")


def cheap(f: RecipeBuilder, *entries: str, data: Sequence[bytes | dict[str, Any]] = ()) -> None:
    """Write a header of one or two entries, then the data, and set the constant budget."""
    f.header("{", entries[0], *(part for text in entries[1:] for part in (",", text)), "}")
    f.data(*data)
    constant_cost(f)


@rejects("FRM-06 FRM-04 LIM-02", OVER_LIMIT, over={"100000001": CAP + 1, "2p40": 2**40, "2p63": 2**63})
def claimed_header(f: RecipeBuilder, value: int) -> None:
    """A file of sixteen bytes claims a header of $value bytes, but must not cost more than its real size.

    A reader that allocates the claimed size before it checks the cap and the file size can run out of memory.
    """
    f.length = value
    f.header("{}      ")
    constant_cost(f)


@rejects("FRM-04 LIM-02", PAST_END)
def claimed_header_at_cap(f: RecipeBuilder) -> None:
    """A file of sixteen bytes claims the largest permitted header.

    Only a comparison with the file size rejects the file. If a reader allocates a hundred megabytes for each
    of a few such files, it may crash.
    """
    f.length = CAP
    f.header("{}      ")
    constant_cost(f)


READ = ("open", "read")
"""Steps that include a read, because some readers compare the sizes only when they read a tensor."""


@rejects("OFF-04 LIM-02", BYTES_MISSING, steps=READ, over=powers("2p32", "2p40"))
def claimed_tensor(f: RecipeBuilder, value: int) -> None:
    """A tensor claims $value bytes in a file of about a hundred bytes.

    Shape, dtype and range agree, so only the file size shows that the bytes are missing.
    """
    cheap(f, entry("w", "U8", [value], 0, value), data=[SIXTEEN])


@rejects("OFF-05 LIM-02", "OFF_SIZE_MISMATCH", steps=READ, over=powers("2p32", "2p40"))
def claimed_shape(f: RecipeBuilder, value: int) -> None:
    """A shape has $value elements, but the range has only sixteen bytes.

    The range is inside the file. The reader must compare the two sizes before it allocates memory for the
    shape.
    """
    cheap(f, entry("w", "F32", [value], 0, 16), data=[SIXTEEN])


@accepts(
    "SHP-04 LIM-02",
    importance="high",
    steps=READ,
    over={"behind": [0, 2**40], "before": [2**40, 0], "between": [2**20, 0, 2**20]},
)
def large_dimension_of_nothing(f: RecipeBuilder, value: list[int]) -> None:
    """An empty tensor has the shape $value.

    A reader that creates a list for every row creates millions or billions of empty lists.
    """
    f.header("{", entry("w", "F32", value, 0, 0), "}")
    f.align_header()
    f.expect("w", "F32", value, b"")
    constant_cost(f)


@chooses("large-dimension", "LIM-02", codes="SHP_OVERFLOW", importance="high")
def dimension_2p63_of_nothing(f: RecipeBuilder) -> None:
    """A tensor has 2^63 empty rows, which must not cost anything."""
    f.header("{", entry("w", "U8", [2**63, 0], 0, 0), "}")
    f.align_header()
    f.expect("w", "U8", [2**63, 0], b"")
    constant_cost(f)


def _far(f: RecipeBuilder, begin: int) -> None:
    f.header(
        "{", entry("near", "U8", [begin], 0, begin), ",", entry("far", "F32", [2], begin, begin + 8), "}"
    )
    f.align_header()
    f.data({"zeros": begin}, FAR)
    f.expect("far", "F32", [2], FAR)
    constant_cost(f)


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
    bugs={"2p31": "FB-133 FB-135", "2p32": "FB-133 FB-135"},
)
def tensor_behind(f: RecipeBuilder, value: int) -> None:
    """The only tensor that the case requests begins at byte $value of the data.

    If a reader stores the position in 32 bits, with or without a sign, it reads zeros of the first tensor
    instead. Reading the first tensor too would use far more memory than the case permits.
    """
    _far(f, value)
    f.ask("far")


@accepts(
    "LIM-07 API-01 OFF-14",
    importance="high",
    over=powers("2p31", "2p32", "2p40"),
    bugs={"2p31": "FB-135", "2p32": "FB-135"},
)
def opened_only(f: RecipeBuilder, value: int) -> None:
    """A file with a tensor of $value bytes is opened, but no tensor is read.

    All names, dtypes and shapes are in the header, at the beginning of the file.
    """
    _far(f, value)
    f.expect_count(2, "U8", "F32")


@accepts("LIM-07 OFF-14 API-01", steps=("slice",), importance="high")
def element_count_beyond_32_bits(f: RecipeBuilder) -> None:
    """A tensor of 2^32 + 2 elements precedes the requested tensor."""
    count = 2**32 + 2
    near = entry("near", "BF16", [2, count // 2], 0, 2 * count)
    far = entry("far", "F32", [2], 2 * count, 2 * count + 8)
    cheap(f, near, far, data=[{"zeros": 2 * count}, FAR])
    f.expect("far", "F32", [2], FAR)
    f.ask("far")


@accepts("LIM-07 OFF-11 OFF-14", steps=("slice",))
def unaligned_behind_2p32(f: RecipeBuilder) -> None:
    """An unaligned tensor begins after 2^32 + 1 bytes of data."""
    _far(f, 2**32 + 1)
    f.ask("far")


@rejects("OFF-04 LIM-02 OFF-14", BYTES_MISSING, steps=READ)
def data_shorter_by_2p32(f: RecipeBuilder) -> None:
    """The end of the range is exactly 2^32 bytes past the end of the data.

    To a reader that uses 32-bit integers, the two ends are equal, so the reader continues far past the end of
    the file.
    """
    cheap(f, entry("w", "U8", [2**32 + 8], 0, 2**32 + 8), data=[FAR])


@rejects("OFF-08 OFF-14", "OFF_TRAILING OFF_HOLE")
def data_longer_by_2p32(f: RecipeBuilder) -> None:
    """Exactly 2^32 bytes follow the last tensor.

    To a reader that uses 32-bit integers, the file seems to end where it should, so four gigabytes can be
    hidden after the last tensor.
    """
    cheap(f, entry("w", "F32", [2], 0, 8), data=[FAR, {"zeros": 2**32}])


@rejects("OFF-07 OFF-14", "OFF_HOLE")
def hole_of_2p32(f: RecipeBuilder) -> None:
    """Exactly 2^32 bytes between two tensors belong to neither of them."""
    second = entry("b", "F32", [2], 2**32 + 8, 2**32 + 16)
    cheap(f, entry("a", "F32", [2], 0, 8), second, data=[FAR, {"zeros": 2**32}, FAR])


@rejects("OFF-04 LIM-07", "OFF_OUT_OF_BOUNDS", importance="high", over=powers("2p32", "2p40"))
def one_byte_short(f: RecipeBuilder, value: int) -> None:
    """The last byte is missing from a file with a tensor of $value bytes.

    A reader that stores the size as a single-precision float does not find the fault.
    """
    cheap(f, entry("w", "U8", [value], 0, value), data=[{"zeros": value - 1}])


@rejects("OFF-08 LIM-07", "OFF_TRAILING OFF_HOLE", importance="medium", over=powers("2p32", "2p40"))
def one_byte_more(f: RecipeBuilder, value: int) -> None:
    """One byte follows a tensor of $value bytes."""
    cheap(f, entry("w", "U8", [value], 0, value), data=[{"zeros": value + 1}])


Filling = Callable[[RecipeBuilder, int], None]
"""Function that fills a header up to the given size in bytes."""
DEMANDED = {"1mb": MEGABYTE, "5mb": 5 * MEGABYTE, "25mb": 25 * MEGABYTE}
"""Sizes that every reader should accept (LIM-01)."""
ALL = DEMANDED | {"100mb": CAP}
LARGE_FIELD = "ENT_UNKNOWN_FIELD FRM_HEADER_OVER_LIMIT LIM_MEMORY LIM_TIME"


def spaces(f: RecipeBuilder, size: int) -> None:
    f.header("{}")
    f.pad_header(size)


def metadata_string(f: RecipeBuilder, size: int) -> None:
    f.header('{"__metadata__":{"key":"')
    f.fill_header(size, "a", '"}}')


def many_tensors(f: RecipeBuilder, size: int) -> None:
    f.header("{")
    text = '"{i}":{"dtype":"U8","shape":[1],"data_offsets":[{i},{next}]}'
    count = f.fill_header(size, text, "}", ",")
    f.data({"repeat": {"hex": "2a"}, "count": count})
    f.expect_count(count, "U8")


def many_metadata_keys(f: RecipeBuilder, size: int) -> None:
    f.header('{"__metadata__":{')
    f.fill_header(size, '"{i}":""', "}}", ",")


FILLINGS: dict[str, Filling] = {
    "spaces": spaces,
    "metadata-string": metadata_string,
    "tensors": many_tensors,
    "metadata-keys": many_metadata_keys,
}
FILLED = {f"{what}-{slug}": (fill, n) for what, fill in FILLINGS.items() for slug, n in DEMANDED.items()}
SLOW = {"metadata-keys-1mb": FILLED.pop("metadata-keys-1mb")}
"""Kinds of content that are too slow to test in every run, although their files are small enough."""


def counted_byte(f: RecipeBuilder) -> None:
    """Add the data of a one-byte tensor, expect one tensor of any name, and set the header budget."""
    f.data(b"*")
    f.expect_count(1, "U8")
    linear_cost(f)


def _filled(f: RecipeBuilder, fill: Filling, size: int) -> None:
    f.expect_count(0)
    fill(f, size)
    linear_cost(f)


@accepts("LIM-01 LIM-03 LIM-04 LIM-08", importance="high", over=FILLED)
@accepts("LIM-01 LIM-03 LIM-04", importance="high", heavy=True, over=SLOW)
def filled_with(f: RecipeBuilder, fill: Filling, size: int) -> None:
    """The header is large and valid: $slug.

    The cost of reading such a header must grow in proportion to its size. The cost grows faster if a reader
    looks up each name in a list of all others or copies the rest of the text for each token. The cost is too
    high if a reader keeps an object of a kilobyte for each entry.
    """
    _filled(f, fill, size)


@chooses(
    "header-cap",
    "LIM-03 LIM-04",
    codes="FRM_HEADER_OVER_LIMIT",
    importance="high",
    over={f"{what}-100mb": (fill, CAP) for what, fill in FILLINGS.items()}
    | {
        "spaces-25mb-and-1": (spaces, 25 * MEGABYTE + 1),
        "metadata-string-50mb": (metadata_string, 50 * MEGABYTE),
    },
)
def filled_with_more(f: RecipeBuilder, fill: Filling, size: int) -> None:
    """The header is larger than what every reader must accept, but within the official cap: $slug.

    Rejecting this header because of its length costs nothing. Reading the header must not cost more per byte
    than reading a smaller one.
    """
    _filled(f, fill, size)


OVER_CAP = {
    "spaces-by-1": (spaces, CAP + 1),
    "metadata-string-by-1": (metadata_string, CAP + 1),
    "tensors-by-1": (many_tensors, CAP + 1),
    "spaces-100mib": (spaces, 100 << 20),
}


@rejects("FRM-06 LIM-01", "FRM_HEADER_OVER_LIMIT", importance="high", over=OVER_CAP)
def over_cap(f: RecipeBuilder, fill: Filling, size: int) -> None:
    """A complete and valid header exceeds the cap: $slug.

    The reader must reject the file because of its header length, without reading the header or allocating
    memory for it.
    """
    f.expect_count(0)
    fill(f, size)
    constant_cost(f)


@chooses(
    "high-rank",
    "LIM-03 LIM-04",
    codes="LIM_RANK FRM_HEADER_OVER_LIMIT LIM_MEMORY",
    importance="high",
    heavy=True,
    over=ALL,
)
def one_long_shape(f: RecipeBuilder, value: int) -> None:
    """A shape whose dimensions are all 1 fills a header of $value bytes.

    Every two bytes of text become a number, which takes eight bytes in memory, or far more in some languages.
    """
    f.header('{"w":{"dtype":"U8","shape":[')
    f.fill_header(value, "1,", '1],"data_offsets":[0,1]}}')
    counted_byte(f)


@chooses(
    "large-ignored-field", "ENT-04 LIM-03 LIM-04", codes=LARGE_FIELD, importance="high", heavy=True, over=ALL
)
def ignored_array(f: RecipeBuilder, value: int) -> None:
    """An array of numbers in an unknown field fills a header of $value bytes.

    The reader does not need the numbers, but a general JSON parser creates an object for each.
    """
    f.header('{"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":[')
    f.fill_header(value, "7,", "7]}}")
    counted_byte(f)


@chooses(
    "duplicate-tensor-names",
    "LIM-03 LIM-04",
    codes="HDR_DUP_KEY OFF_OVERLAP FRM_HEADER_OVER_LIMIT",
    importance="high",
    heavy=True,
    over=ALL,
)
def one_name_again_and_again(f: RecipeBuilder, value: int) -> None:
    """The same entry is repeated until it fills a header of $value bytes.

    The second entry already makes the file invalid. A reader that lists every repetition should stop at some
    point.
    """
    f.header("{")
    text = '"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}'
    f.fill_header(value, text + ",", text + "}")
    f.data(b"*")
    f.expect("w", "U8", [1], b"*")
    linear_cost(f)


@chooses(
    "entry-as-array",
    "LIM-03 LIM-04",
    codes="ENT_NOT_OBJECT FRM_HEADER_OVER_LIMIT",
    importance="high",
    heavy=True,
    over=ALL,
)
def entries_as_arrays(f: RecipeBuilder, value: int) -> None:
    """Entries in the shorter array form fill a header of $value bytes.

    The official library uses more memory for this content than for any other: nineteen times the header size.
    """
    f.header("{")
    count = f.fill_header(value, '"{i}":["U8",[1],[{i},{next}]]', "}", ",")
    f.data({"repeat": {"hex": "2a"}, "count": count})
    f.expect_count(count, "U8")
    linear_cost(f)


@rejects("LIM-05 OFF-06", "OFF_OVERLAP", over=(1000, 100_000, 1_000_000), bugs="FB-01")
def names_on_one_range(f: RecipeBuilder, value: int) -> None:
    """$value names share one range of half a megabyte.

    A reader that creates each tensor before it compares the ranges needs memory for all of them.
    """
    f.header("{")
    text = '"{i}":{"dtype":"U8","shape":[524288],"data_offsets":[0,524288]}'
    f.header({"each": text, "count": value, "separator": ","}, "}")
    f.data({"repeat": {"hex": "2a"}, "count": 524_288})
    linear_cost(f)


@accepts("OFF-09 LIM-05 OFF-10 LIM-04", importance="high", heavy=True, over=(10_000, 100_000))
def empty_names_on_one_range(f: RecipeBuilder, value: int) -> None:
    """$value empty tensors share the range from 0 to 0, which does not overlap with anything."""
    f.header("{")
    text = '"{i}":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
    f.header({"each": text, "count": value, "separator": ","}, "}")
    f.expect_count(value, "U8")
    linear_cost(f)
