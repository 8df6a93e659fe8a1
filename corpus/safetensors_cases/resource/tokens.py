"""Cost: single deep or long tokens, and many names, fields, dimensions and metadata keys.

Some tokens are deeply nested, and others are very long numbers, strings or names. Some cases test the length
of error messages.
"""

from __future__ import annotations

from safetensors_corpus.author.case import accepts, chooses, rejects
from safetensors_corpus.author.file import RecipeBuilder

from .budgets import ALL, BYTES_MISSING, LARGE_FIELD, MEGABYTE, READ, counted_byte, entry, linear_cost

COUNTS = {"100000": 100_000, "1000000": 1_000_000}
UNITS = {"arrays": ("[", "]"), "objects": ('{"":', "}")}
DIGITS = {"1mb": MEGABYTE - 100, "10mb": 10 * MEGABYTE}
SMALL_AND_LARGE = {"1mb": MEGABYTE, "25mb": 25 * MEGABYTE}
TOO_DEEP = "HDR_TOO_DEEP HDR_NOT_JSON ENT_UNKNOWN_FIELD"
NEVER_CLOSED = "HDR_NOT_JSON HDR_TOO_DEEP ENT_UNKNOWN_FIELD"
OPEN_ENTRY = '{"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":'


def _repeated(f: RecipeBuilder, text: str, count: int) -> None:
    f.header({"repeat": {"text": text}, "count": count})


def _nested(
    f: RecipeBuilder, before: str, value: str, depth: int, unit: tuple[str, str] = ("[", "]")
) -> None:
    """Write ``value`` inside ``depth`` arrays or objects, after ``before`` and before two braces."""
    f.header(before)
    _repeated(f, unit[0], depth)
    f.header(value)
    _repeated(f, unit[1], depth)
    f.header("}}")


def _one_byte(f: RecipeBuilder) -> None:
    """Pad the header and add the data of the tensor that ``OPEN_ENTRY`` declares."""
    f.align_header()
    f.data(b"*")
    f.expect("w", "U8", [1], b"*")
    linear_cost(f)


@chooses(
    "deep-nesting",
    "LIM-08",
    codes=TOO_DEEP,
    importance="critical",
    over={f"{what}-{slug}": (unit, n) for what, unit in UNITS.items() for slug, n in COUNTS.items()},
)
def nested_in_ignored_field(f: RecipeBuilder, unit: tuple[str, str], depth: int) -> None:
    """An unknown field contains a complete value that is very deeply nested: $slug.

    A parser that recurses once per level overflows the stack while it parses the value or frees the result.
    """
    _nested(f, OPEN_ENTRY, "0", depth, unit)
    _one_byte(f)


NESTED_AND_NEVER_CLOSED = {
    "arrays-100000": ("[", 100_000),
    "arrays-2000000": ("[", 2_000_000),
    "objects-1000000": ('{"":', 1_000_000),
}


@rejects("HDR-07 HDR-16 LIM-08", NEVER_CLOSED, importance="critical", over=NESTED_AND_NEVER_CLOSED)
def nested_and_never_closed(f: RecipeBuilder, text: str, count: int) -> None:
    """An unknown field opens arrays or objects and never closes them: $slug."""
    f.header(OPEN_ENTRY)
    _repeated(f, text, count)
    f.data(b"*")
    linear_cost(f)


@rejects("SHP-01 HDR-16", "SHP_BAD_TYPE HDR_TOO_DEEP", importance="critical", over=COUNTS)
def nested_in_shape(f: RecipeBuilder, value: int) -> None:
    """The only dimension of a shape is inside $value nested arrays.

    A depth limit must not apply only to unknown fields.
    """
    _nested(f, '{"w":{"dtype":"U8","data_offsets":[0,0],"shape":', "0", value)
    linear_cost(f)


@rejects("MET-01 HDR-16", "MET_VALUE_NOT_STRING HDR_TOO_DEEP", importance="critical", over=COUNTS)
def nested_in_metadata(f: RecipeBuilder, value: int) -> None:
    """A metadata value is an empty string inside $value nested arrays."""
    _nested(f, '{"__metadata__":{"key":', '""', value)
    linear_cost(f)


@rejects("SHP-07 LIM-08", "ENT_BAD_INTEGER", importance="high", over=DIGITS)
def digits_in_shape(f: RecipeBuilder, value: int) -> None:
    """A dimension is a number of $value digits.

    Converting decimal digits to a long integer takes quadratic time, unless the parser stops at the twentieth
    digit.
    """
    f.header('{"w":{"dtype":"U8","data_offsets":[0,0],"shape":[0,')
    _repeated(f, "9", value)
    f.header("]}}")
    linear_cost(f)


@rejects(
    "OFF-04 SHP-07 LIM-08",
    "ENT_BAD_INTEGER OFF_OUT_OF_BOUNDS OFF_BAD_PAIR",
    importance="high",
    steps=READ,
    over=DIGITS,
)
def digits_in_offset(f: RecipeBuilder, value: int) -> None:
    """The end of a range is a number of $value digits."""
    f.header('{"w":{"dtype":"U8","shape":[0],"data_offsets":[0,')
    _repeated(f, "9", value)
    f.header("]}}")
    linear_cost(f)


@chooses(
    "long-number", "HDR-18", codes="HDR_NOT_JSON ENT_UNKNOWN_FIELD LIM_TIME", importance="high", over=DIGITS
)
def digits_in_ignored_field(f: RecipeBuilder, value: int) -> None:
    """An integer in an unknown field has $value digits.

    The reader does not need the number, but a general parser converts it.
    """
    f.header(OPEN_ENTRY)
    _repeated(f, "9", value)
    f.header("}}")
    _one_byte(f)


@chooses("large-ignored-field", "LIM-08 HDR-18", codes=LARGE_FIELD, over={"1mb": MEGABYTE - 100})
def decimals_in_ignored_field(f: RecipeBuilder, value: int) -> None:
    """A number in an unknown field has $value zeros between its decimal point and its last digit.

    The number is close to zero, so a reader must not reject it as out of range. Rounding it correctly
    requires all digits.
    """
    f.header(OPEN_ENTRY + "0.")
    _repeated(f, "0", value)
    f.header("1}}")
    _one_byte(f)


@accepts(
    "LIM-08 HDR-15 MET-04",
    over={
        "unicode": ("\\u0041", MEGABYTE),
        "pairs": ("\\ud83d\\ude00", MEGABYTE),
        "backslashes": ("\\\\", MEGABYTE),
        "unicode-25mb": ("\\u00e9", 25 * MEGABYTE),
    },
)
def escapes(f: RecipeBuilder, unit: str, size: int) -> None:
    """A metadata value consists of escapes: $slug.

    If a parser appends each character to an immutable string, it copies the string every time.
    """
    f.header('{"__metadata__":{"key":"')
    f.fill_header(size, unit, '"}}')
    f.expect_count(0)
    linear_cost(f)


@rejects("HDR-07 LIM-08", "HDR_NOT_JSON", over=SMALL_AND_LARGE)
def string_without_end(f: RecipeBuilder, value: int) -> None:
    """A metadata value that is never closed fills a header of $value bytes.

    A search for the closing quote that starts again at every backslash takes quadratic time.
    """
    f.header('{"__metadata__":{"key":"')
    f.fill_header(value, "\\\\", "")
    linear_cost(f)


@chooses(
    "large-ignored-field",
    "LIM-04 LIM-08",
    codes=LARGE_FIELD,
    heavy=True,
    over={"1mb": MEGABYTE, "10mb": 10 * MEGABYTE},
)
def distinct_unknown_fields(f: RecipeBuilder, value: int) -> None:
    """Different unknown fields of one entry fill a header of $value bytes.

    A reader must compare each field with the previous fields, since a duplicate field is an error.
    """
    f.header('{"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1],')
    f.fill_header(value, '"x{i}":0', "}}", ",")
    f.data(b"*")
    f.expect("w", "U8", [1], b"*")
    linear_cost(f)


@chooses("long-name", "LIM-08", codes="LIM_NAME FRM_HEADER_OVER_LIMIT", over=ALL)
def long_name(f: RecipeBuilder, value: int) -> None:
    """The name of the only tensor fills a header of $value bytes."""
    f.header('{"')
    f.fill_header(value, "n", '":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}')
    counted_byte(f)


@rejects("OFF-04 LIM-09", BYTES_MISSING, importance="medium", steps=READ, over=SMALL_AND_LARGE)
def long_name_with_far_range(f: RecipeBuilder, value: int) -> None:
    """The range of a tensor ends one byte past the data, and its name fills a header of $value bytes.

    The error message should identify the tensor without repeating its whole name.
    """
    f.header('{"')
    f.fill_header(value, "n", '":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}')
    f.data(b"*")
    linear_cost(f)


@rejects("DTY-01 LIM-09 LIM-04", "DTY_UNKNOWN", heavy=True, over=SMALL_AND_LARGE)
def every_entry_broken(f: RecipeBuilder, value: int) -> None:
    """Every entry in a header of $value bytes has a dtype that does not exist.

    A reader that collects all faults should stop at some point instead of printing all of them.
    """
    f.header("{")
    f.fill_header(value, '"{i}":{"dtype":"U7","shape":[1],"data_offsets":[{i},{next}]}', "}", ",")
    linear_cost(f)


@accepts("LIM-04 HDR-19", over=SMALL_AND_LARGE)
def names_with_long_common_prefix(f: RecipeBuilder, value: int) -> None:
    """Names that share their first thousand characters fill a header of $value bytes.

    Hashes that cover only the first characters collide, and every comparison scans the whole shared prefix.
    """
    f.header("{")
    text = '"' + "layer." * 166 + '{i}":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
    f.expect_count(f.fill_header(value, text, "}", ","), "U8")
    linear_cost(f)


@chooses(
    "many-tensors",
    "LIM-04",
    codes="LIM_TENSORS LIM_MEMORY LIM_TIME",
    over={
        "empty-100000": (0, 100_000),
        "empty-1000000": (0, 1_000_000),
        "byte-100000": (1, 100_000),
        "byte-1000000": (1, 1_000_000),
    },
    bugs="FB-19",
)
def tensors(f: RecipeBuilder, size: int, count: int) -> None:
    """The file has a hundred thousand or a million tensors, which are empty or have one byte: $slug."""
    offsets = "[{i},{next}]" if size else "[0,0]"
    text = f'"t{{i}}":{{"dtype":"U8","shape":[{size}],"data_offsets":{offsets}}}'
    f.header("{", {"each": text, "count": count, "separator": ","}, "}")
    f.align_header()
    if size:
        f.data({"repeat": {"hex": "2a"}, "count": count})
    f.expect_count(count, "U8")
    linear_cost(f)


@chooses("much-metadata", "LIM-04", codes="LIM_METADATA LIM_MEMORY LIM_TIME", over=COUNTS)
def metadata_keys(f: RecipeBuilder, value: int) -> None:
    """The header has one tensor and a metadata map with $value keys."""
    f.header('{"__metadata__":{', {"each": '"key{i}":"value"', "count": value, "separator": ","}, "},")
    f.header(entry("w", "U8", [1], 0, 1), "}")
    f.align_header()
    counted_byte(f)


@chooses("high-rank", "LIM-08", codes="LIM_RANK", importance="high", over=COUNTS)
def rank(f: RecipeBuilder, value: int) -> None:
    """A tensor has $value dimensions, all of which are 1."""
    f.header('{"w":{"dtype":"U8","shape":[1')
    f.header({"repeat": {"text": ",1"}, "count": value - 1}, '],"data_offsets":[0,1]}}')
    f.align_header()
    counted_byte(f)
