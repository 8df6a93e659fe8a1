"""Model of numbers: the spelling of one number in an entry, and its position."""

from __future__ import annotations

from functools import partial

from safetensors_corpus.author.file import FileBuilder, filled

from .model import Levels, Model, Property, Row, Topic, excludes, permitting
from .scene import FIELD_ORDERS, padding

PROPERTIES = {
    "number": Property(
        "kind of number",
        {"adim": "", "abegin": "as the begin offset", "anend": "as the end offset"},
    ),
    "dims": Property(
        "dimensions of the tensor",
        {"solitary": "", "leading": "before another dimension", "trailing": "after another dimension"},
    ),
    "tensor": Property(
        "tensor that contains the number",
        {
            "onetensor": "",
            "firsttensor": "in the first of three tensors",
            "lasttensor": "in the last of three tensors",
        },
    ),
    "digits": Property(
        "digits of the correct number",
        {"few": "", "five": "correct number has five digits", "zero": "correct number is zero"},
    ),
    "space": Property(
        "whitespace around numbers",
        {"nospace": "", "blanks": "between spaces", "lines": "between line feeds"},
    ),
    "fields": Property("order of the fields", {"dso": "", "osd": "offsets as the first field"}),
    "metadata": Property("metadata", {"bare": "", "mfirst": "after metadata"}),
    "padding": Property("where the header ends", {"pad8": "", "tight": "unpadded header"}),
}
EXCLUSIONS = (
    excludes("only the first tensor begins at zero", number="abegin", tensor="lasttensor", digits="zero"),
    excludes(
        "only the first tensor begins at zero",
        number="abegin",
        tensor="onetensor firsttensor",
        digits="few five",
    ),
)
_SPACES = {"nospace": "", "blanks": "  ", "lines": "\n"}


def _write(row: Row, f: FileBuilder, spell: str, beside: int = 1) -> None:
    """Write one or three U8 tensors, with one number written as in ``spell``."""
    subject = 2 if row["tensor"] == "lasttensor" else 0
    size = {"few": 8, "five": 10_000, "zero": 0}[row["digits"]]
    for index in range(1 if row["tensor"] == "onetensor" else 3):
        # The begin offset of the last tensor is the total size of the previous tensors.
        count = size if index == subject or row["number"] == "abegin" else 4
        begin = f.position
        other = beside if index == subject else 1
        shape = {"solitary": [count], "leading": [count, other], "trailing": [other, count]}[row["dims"]]
        numbers = [*map(str, shape), str(begin), str(begin + count)]
        if index == subject:
            at = {"adim": int(row["dims"] == "trailing"), "abegin": len(shape), "anend": len(shape) + 1}
            place = at[row["number"]]
            numbers[place] = spell.replace("{n}", numbers[place])
        blank = _SPACES[row["space"]]
        numbers = [f"{blank}{number}{blank}" for number in numbers]
        fields = {"shape": f"[{','.join(numbers[:-2])}]", "data_offsets": f"[{','.join(numbers[-2:])}]"}
        order = FIELD_ORDERS[row["fields"]]
        data = filled(str(index), "U8", count) if count <= 4096 else bytes([index + 1]) * count
        f.tensor("abc"[index], "U8", shape, data, fields=fields, order=order)
    if row["metadata"] == "mfirst":
        f.metadata({"format": "pt"}, at=0)
    f.padding = padding(row, f.header_size)


LEVELS = {
    "blanks": "whitespace between tokens",
    "lines": "whitespace between tokens",
    "zero": "a tensor of zero bytes",
    "osd": "fields in an unusual order",
    "tight": "OFF-11",
    "mfirst": "metadata",
}
"""Level -> the feature that it adds, or the rule that permits it."""
_BREACHES = {
    "grammar": (
        ("HDR-07", "HDR_NOT_JSON ENT_BAD_INTEGER SHP_BAD_TYPE"),
        ("HDR-07", "HDR_NOT_JSON ENT_BAD_INTEGER OFF_BAD_PAIR"),
    ),
    "value": (("SHP-01", "ENT_BAD_INTEGER SHP_BAD_TYPE"), ("OFF-01", "ENT_BAD_INTEGER OFF_BAD_PAIR")),
    "kind": (("SHP-01", "SHP_BAD_TYPE ENT_BAD_INTEGER"), ("OFF-01", "ENT_BAD_INTEGER OFF_BAD_PAIR")),
    "range": (
        ("SHP-07", "ENT_BAD_INTEGER SHP_BAD_TYPE SHP_OVERFLOW OFF_SIZE_MISMATCH"),
        ("OFF-02", "ENT_BAD_INTEGER OFF_BAD_PAIR OFF_OUT_OF_BOUNDS OFF_SIZE_MISMATCH"),
    ),
}
"""Kind of mistake -> rule and matching codes for a dimension, and for an offset."""


def _topic(about: str, spell: str, kind: str) -> Topic:
    breaches = _BREACHES[kind]
    return Topic(
        about,
        partial(_write, spell=spell),
        lambda row: breaches[row["number"] != "adim"][0],
        lambda row: breaches[row["number"] != "adim"][1],
        # Zero with an exponent is still zero, which is an integer.
        {"digits": ("few", "five")} if spell.endswith("e-9") else {},
    )


BESIDE_ZERO: Levels = {"number": ("adim",), "dims": ("leading", "trailing"), "digits": ("zero",)}
NUMBERS = Model(
    "numbers",
    PROPERTIES,
    EXCLUSIONS,
    {
        "number": Topic("a valid number", partial(_write, spell="{n}"), permitting(LEVELS, "SHP-01")),
        **{
            f"number-wide{name}": Topic(
                f"a dimension of {about} next to a dimension of zero",
                partial(_write, spell="{n}", beside=wide),
                rules,
                only=BESIDE_ZERO,
            )
            for name, about, wide, rules in (
                ("", "2^50", 1 << 50, "SHP-04 SHP-11"),
                ("-odd", "2^53 + 1", (1 << 53) + 1, "SHP-04 SHP-08"),
                ("-nines", "seventeen nines", 10**17 - 1, "SHP-04 SHP-08"),
            )
        },
        "number-wide-text": Topic(
            "a dimension of 2^53 + 1 inside a string next to a dimension of zero",
            partial(_write, spell=f'"{(1 << 53) + 1}"', beside=0),
            "SHP-01",
            "SHP_BAD_TYPE ENT_BAD_INTEGER",
            BESIDE_ZERO,
        ),
        **{
            f"number-{name}": _topic(about, spell, kind)
            for name, spell, kind, about in (
                ("plus", "+{n}", "grammar", "a number with a plus sign"),
                ("zero-first", "0{n}", "grammar", "a number with a leading zero"),
                ("hex", "0x{n}", "grammar", "a number with the prefix 0x"),
                ("dot-last", "{n}.", "grammar", "a number that ends with a dot"),
                ("dot-first", ".{n}", "grammar", "a number that begins with a dot"),
                ("exponent-open", "{n}e", "grammar", "a number that ends with an e"),
                ("underscore", "{n}_0", "grammar", "a number with an underscore"),
                ("suffix", "{n}n", "grammar", "a number with the suffix n"),
                ("minus-twice", "--{n}", "grammar", "a number with two minus signs"),
                ("arabic", "٣", "grammar", "an Arabic digit in place of a number"),
                ("arabic-last", "{n}٠", "grammar", "a number that ends with an Arabic digit"),
                ("fullwidth", "８", "grammar", "a fullwidth digit in place of a number"),
                ("two", "{n} {n}", "grammar", "two numbers without a comma between them"),
                ("nan", "NaN", "grammar", "NaN in place of a number"),
                ("infinity", "Infinity", "grammar", "Infinity in place of a number"),
                ("half", "{n}.5", "value", "a number with a fractional part"),
                ("small", "{n}e-9", "value", "a number with a negative exponent"),
                ("minus", "-1{n}", "value", "a negative number"),
                ("true", "true", "kind", "true in place of a number"),
                ("null", "null", "kind", "null in place of a number"),
                ("text", '"{n}"', "kind", "a number inside a string"),
                ("array", "[{n}]", "kind", "a number inside an array"),
                ("object", "{}", "kind", "an object in place of a number"),
                ("2p64", "18446744073709551616", "range", "2^64 in place of a number"),
                ("huge", "9" * 40, "range", "a number of forty digits"),
            )
        },
    },
)
