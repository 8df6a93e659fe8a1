"""What names, fields, dimensions and metadata keys cost when there are many of them, or long ones."""

from __future__ import annotations

from ...author.case import ACCEPT, Accept, Reject, accepts, chooses, reject, rejects
from ...author.resource import RecipeBuilder
from .claims import MEGABYTE, entry, linear_cost
from .header import LARGE_FIELD


@chooses(
    "large-ignored-field",
    "LIM-04",
    "LIM-08",
    options=LARGE_FIELD,
    heavy=True,
    over={"1mb": MEGABYTE, "10mb": 10 * MEGABYTE},
)
def distinct_unknown_fields(f: RecipeBuilder, value: int) -> None:
    """One entry holds so many different unknown fields that the header has $value bytes.

    Each must be compared with the ones before it, as a field that comes twice is an error.
    """
    f.header('{"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1],')
    f.fill_header(value, '"x{i}":0', "}}", ",")
    f.data(b"*")
    f.holds("w", "U8", [1], b"*")
    linear_cost(f)


LONG_NAME: dict[str, Accept | Reject] = {
    "accept": ACCEPT,
    "reject": reject("LIM_NAME", "FRM_HEADER_OVER_LIMIT"),
}


@chooses(
    "long-name",
    "LIM-08",
    options=LONG_NAME,
    over={"1mb": MEGABYTE, "5mb": 5 * MEGABYTE, "25mb": 25 * MEGABYTE, "100mb": 100 * MEGABYTE},
)
def long_name(f: RecipeBuilder, value: int) -> None:
    """The name of the only tensor fills a header of $value bytes."""
    f.header('{"')
    f.fill_header(value, "n", '":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}')
    f.data(b"*")
    f.holds_count(1, "U8")
    linear_cost(f)


@rejects(
    "OFF-04",
    "LIM-09",
    codes=("OFF_OUT_OF_BOUNDS", "OFF_SIZE_MISMATCH"),
    over={"1mb": MEGABYTE, "25mb": 25 * MEGABYTE},
)
def long_name_with_far_range(f: RecipeBuilder, value: int) -> None:
    """A tensor whose name fills a header of $value bytes reaches one byte beyond the data.

    The message should say which tensor it is, and yet not hold the whole name, let alone several times.
    """
    f.header('{"')
    f.fill_header(value, "n", '":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}')
    f.data(b"*")
    linear_cost(f)


@rejects(
    "DTY-01",
    "LIM-09",
    "LIM-04",
    codes="DTY_UNKNOWN",
    heavy=True,
    over={"1mb": MEGABYTE, "25mb": 25 * MEGABYTE},
)
def every_entry_broken(f: RecipeBuilder, value: int) -> None:
    """Every entry in a header of $value bytes names a dtype that does not exist.

    A reader that collects all faults should stop collecting at some point, and not print them all.
    """
    f.header("{")
    f.fill_header(value, '"{i}":{"dtype":"U7","shape":[1],"data_offsets":[{i},{next}]}', "}", ",")
    linear_cost(f)


@accepts("LIM-04", "HDR-19", over={"1mb": MEGABYTE, "25mb": 25 * MEGABYTE})
def names_with_long_common_prefix(f: RecipeBuilder, value: int) -> None:
    """Names agree in their first thousand letters and fill a header of $value bytes.

    Hashes of the first letters collide, and every comparison runs through the whole prefix.
    """
    f.header("{")
    text = '"' + "layer." * 166 + '{i}":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
    f.holds_count(f.fill_header(value, text, "}", ","), "U8")
    linear_cost(f)


@chooses(
    "many-tensors",
    "LIM-04",
    options={"accept": ACCEPT, "reject": reject("LIM_TENSORS", "LIM_MEMORY", "LIM_TIME")},
    over={
        "empty-100000": (0, 100_000),
        "empty-1000000": (0, 1_000_000),
        "byte-100000": (1, 100_000),
        "byte-1000000": (1, 1_000_000),
    },
    bugs=("FB-19",),
)
def tensors(f: RecipeBuilder, value: tuple[int, int]) -> None:
    """A hundred thousand or a million tensors, empty or of one byte each: $slug."""
    size, count = value
    offsets = "[{i},{next}]" if size else "[0,0]"
    text = f'"t{{i}}":{{"dtype":"U8","shape":[{size}],"data_offsets":{offsets}}}'
    f.header("{", {"each": text, "count": count, "separator": ","}, "}")
    f.align_header()
    if size:
        f.data({"repeat": {"hex": "2a"}, "count": count})
    f.holds_count(count, "U8")
    linear_cost(f)


@chooses(
    "much-metadata",
    "LIM-04",
    options={"accept": ACCEPT, "reject": reject("LIM_METADATA", "LIM_MEMORY", "LIM_TIME")},
    over={"100000": 100_000, "1000000": 1_000_000},
)
def metadata_keys(f: RecipeBuilder, value: int) -> None:
    """A metadata map of $value keys beside one tensor."""
    f.header('{"__metadata__":{', {"each": '"key{i}":"value"', "count": value, "separator": ","}, "},")
    entry(f, "w", "U8", [1], 0, 1)
    f.header("}")
    f.align_header()
    f.data(b"*")
    f.holds_count(1, "U8")
    linear_cost(f)


@chooses(
    "high-rank",
    "LIM-08",
    options={"accept": ACCEPT, "reject": reject("LIM_RANK")},
    importance="high",
    over={"100000": 100_000, "1000000": 1_000_000},
)
def rank(f: RecipeBuilder, value: int) -> None:
    """A tensor of $value dimensions, each of them 1."""
    f.header('{"w":{"dtype":"U8","shape":[1')
    f.header({"repeat": {"text": ",1"}, "count": value - 1}, '],"data_offsets":[0,1]}}')
    f.align_header()
    f.data(b"*")
    f.holds_count(1, "U8")
    linear_cost(f)
