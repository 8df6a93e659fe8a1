"""Cost of headers of 1, 5, 25 and 100 megabytes with the most expensive content.

With the same content in four sizes, the results show whether time and memory grow in proportion to the size.
"""

from __future__ import annotations

from collections.abc import Callable

from ...author.case import ACCEPT, Options, accepts, chooses, reject, rejects
from ...author.resource import RecipeBuilder
from ..framing import CAP
from .claims import MEGABYTE, SLACK, constant_cost, linear_cost

Filling = Callable[[RecipeBuilder, int], None]
"""Function that fills a header up to the given size in bytes."""
DEMANDED = {"1mb": MEGABYTE, "5mb": 5 * MEGABYTE, "25mb": 25 * MEGABYTE}
"""Sizes that every reader should accept (LIM-01)."""
ALL = DEMANDED | {"100mb": CAP}
HEADER_CAP: Options = {"accept": ACCEPT, "reject": reject("FRM_HEADER_OVER_LIMIT")}
LARGE_FIELD: Options = {
    "ignore": ACCEPT,
    "reject": reject("ENT_UNKNOWN_FIELD", "FRM_HEADER_OVER_LIMIT", "LIM_MEMORY", "LIM_TIME"),
}


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
def filled_with(f: RecipeBuilder, value: tuple[Filling, int]) -> None:
    """The header is large and valid: $slug.

    Its cost must grow in proportion to its size. The cost grows faster if a reader looks up each name in a
    list of all others or copies the rest of the text for each token. It is too high if a reader keeps an
    object of a kilobyte for each entry.
    """
    _filled(f, *value)


@chooses(
    "header-cap",
    "LIM-03 LIM-04",
    options=HEADER_CAP,
    importance="high",
    over={f"{what}-100mb": (fill, CAP) for what, fill in FILLINGS.items()}
    | {
        "spaces-25mb-and-1": (spaces, 25 * MEGABYTE + 1),
        "metadata-string-50mb": (metadata_string, 50 * MEGABYTE),
    },
)
def filled_with_more(f: RecipeBuilder, value: tuple[Filling, int]) -> None:
    """The header is larger than what every reader must accept, but within the official cap: $slug.

    Rejecting it by its length costs nothing. Reading it must not cost more per byte than reading a smaller
    header.
    """
    _filled(f, *value)


OVER_CAP = {
    "spaces-by-1": (spaces, CAP + 1),
    "metadata-string-by-1": (metadata_string, CAP + 1),
    "tensors-by-1": (many_tensors, CAP + 1),
    "spaces-100mib": (spaces, 100 << 20),
}


@rejects("FRM-06 LIM-01", codes="FRM_HEADER_OVER_LIMIT", importance="high", over=OVER_CAP)
def over_cap(f: RecipeBuilder, value: tuple[Filling, int]) -> None:
    """A complete and valid header exceeds the cap: $slug.

    The reader must reject the file by its header length, without reading the header or allocating memory for
    it.
    """
    fill, size = value
    f.expect_count(0)
    fill(f, size)
    constant_cost(f)


@chooses(
    "high-rank",
    "LIM-03 LIM-04",
    options={"accept": ACCEPT, "reject": reject("LIM_RANK", "FRM_HEADER_OVER_LIMIT", "LIM_MEMORY")},
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
    "large-ignored-field",
    "ENT-04 LIM-03 LIM-04",
    options=LARGE_FIELD,
    importance="high",
    heavy=True,
    over=ALL,
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
    options={
        "reject": reject("HDR_DUP_KEY", "OFF_OVERLAP", "FRM_HEADER_OVER_LIMIT"),
        "last-wins": ACCEPT,
        "first-wins": ACCEPT,
    },
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
    options={"reject": reject("ENT_NOT_OBJECT", "FRM_HEADER_OVER_LIMIT"), "accept": ACCEPT},
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


@rejects(
    "LIM-05 OFF-06",
    codes="OFF_OVERLAP",
    importance="critical",
    over=(1000, 100_000, 1_000_000),
    bugs=("FB-01",),
)
def names_on_one_range(f: RecipeBuilder, value: int) -> None:
    """$value names share one range of half a megabyte.

    A reader that creates each tensor before it compares the ranges needs memory for all of them.
    """
    f.header("{")
    text = '"{i}":{"dtype":"U8","shape":[524288],"data_offsets":[0,524288]}'
    f.header({"each": text, "count": value, "separator": ","}, "}")
    f.data({"repeat": {"hex": "2a"}, "count": 524_288})
    linear_cost(f)
    f.budget["peak_bytes"] = SLACK + 20 * f.header_size


@accepts("OFF-09 LIM-05 OFF-10 LIM-04", importance="high", heavy=True, over=(10_000, 100_000))
def empty_names_on_one_range(f: RecipeBuilder, value: int) -> None:
    """$value empty tensors share the range from 0 to 0, which does not overlap with anything."""
    f.header("{")
    text = '"{i}":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
    f.header({"each": text, "count": value, "separator": ","}, "}")
    f.expect_count(value, "U8")
    linear_cost(f)
