"""Model of numbers: the spelling of one number in an entry, and its place."""

from __future__ import annotations

from ...author.file import FileBuilder, filled
from .model import Exclusion, Model, Property, Row, Topic
from .scene import FIELD_ORDERS, padding

PROPERTIES = {
    "number": Property("which number", {"adim": "", "abegin": "as a begin", "anend": "as an end"}),
    "dims": Property(
        "dimensions of the tensor",
        {"solitary": "", "leading": "before another dimension", "trailing": "after another dimension"},
    ),
    "tensor": Property(
        "which tensor",
        {"onetensor": "", "firsttensor": "in the first of three", "lasttensor": "in the last of three"},
    ),
    "digits": Property(
        "digits of the correct number",
        {"few": "", "five": "in place of five digits", "zero": "in place of zero"},
    ),
    "space": Property(
        "space beside numbers", {"nospace": "", "blanks": "between spaces", "lines": "between line feeds"}
    ),
    "fields": Property("order of the fields", {"dso": "", "osd": "offsets first"}),
    "metadata": Property("metadata", {"bare": "", "mfirst": "after metadata"}),
    "padding": Property("where the header ends", {"pad8": "", "tight": "header not padded"}),
}
EXCLUSIONS = (
    Exclusion(
        ("number", "tensor", "digits"),
        lambda r: r["number"] == "abegin" and (r["digits"] == "zero") != (r["tensor"] != "lasttensor"),
        "the first begin is zero, the others are not",
    ),
)
_SPACES = {"nospace": "", "blanks": "  ", "lines": "\n"}


def _write(row: Row, f: FileBuilder, spell: str, beside: int = 1) -> None:
    """Write one or three U8 tensors, with one number spelled as in ``spell``."""
    subject = 2 if row["tensor"] == "lasttensor" else 0
    size = {"few": 8, "five": 10_000, "zero": 0}[row["digits"]]
    for index in range(1 if row["tensor"] == "onetensor" else 3):
        # The begin of the last tensor is the size of those before it.
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
        fields = {
            "shape": f"[{','.join(numbers[:-2])}]",
            "data_offsets": f"[{','.join(numbers[-2:])}]",
        }
        order = FIELD_ORDERS[row["fields"]]
        data = filled(str(index), "U8", count) if count <= 4096 else bytes([index + 1]) * count
        f.tensor("abc"[index], "U8", shape, data, fields=fields, order=order)
    if row["metadata"] == "mfirst":
        f.metadata({"format": "pt"}, at=0)
    f.padding = padding(row, f.header_size)


_VALID_BY = {
    "blanks": "HDR-08",
    "lines": "HDR-08",
    "zero": "SHP-04",
    "osd": "ENT-06",
    "tight": "OFF-11",
    "mfirst": "MET-01",
}
"""Level -> the rule that permits it."""


def _valid_by(row: Row) -> tuple[str, ...]:
    rules = (rule for level, rule in _VALID_BY.items() if level in row.values())
    return tuple(dict.fromkeys((*rules, "SHP-01")))


_RULES = {
    "grammar": (("HDR-07",), ("HDR-07",)),
    "value": (("SHP-01",), ("OFF-01",)),
    "kind": (("SHP-01",), ("OFF-01",)),
    "range": (("SHP-07",), ("OFF-02",)),
}
"""Kind of mistake -> rules for a dimension, rules for an offset."""


_CODES = {
    "grammar": (
        ("HDR_NOT_JSON", "ENT_BAD_INTEGER", "SHP_BAD_TYPE"),
        ("HDR_NOT_JSON", "ENT_BAD_INTEGER", "OFF_BAD_PAIR"),
    ),
    "value": (("ENT_BAD_INTEGER", "SHP_BAD_TYPE"), ("ENT_BAD_INTEGER", "OFF_BAD_PAIR")),
    "kind": (("SHP_BAD_TYPE", "ENT_BAD_INTEGER"), ("ENT_BAD_INTEGER", "OFF_BAD_PAIR")),
    "range": (
        ("ENT_BAD_INTEGER", "SHP_BAD_TYPE", "SHP_OVERFLOW", "OFF_SIZE_MISMATCH"),
        ("ENT_BAD_INTEGER", "OFF_BAD_PAIR", "OFF_OUT_OF_BOUNDS", "OFF_SIZE_MISMATCH"),
    ),
}
"""Kind of mistake -> matching codes for a dimension, for an offset."""


def _topic(about: str, spell: str, kind: str) -> Topic:
    # With an exponent, zero remains zero, which is an integer.
    only = {"digits": ("few", "five")} if spell.endswith("e-9") else {}
    return Topic(
        f"{about} as a number",
        lambda row, f: _write(row, f, spell),
        lambda row: _RULES[kind][int(row["number"] != "adim")],
        lambda row: _CODES[kind][int(row["number"] != "adim")],
        only,
    )


NUMBERS = Model(
    "numbers",
    PROPERTIES,
    EXCLUSIONS,
    {
        "number": Topic("a valid number", lambda row, f: _write(row, f, "{n}"), _valid_by),
        "number-wide": Topic(
            "a dimension of 2^50 beside a zero",
            lambda row, f: _write(row, f, "{n}", beside=1 << 50),
            ("SHP-04", "SHP-11"),
            only={"number": ("adim",), "dims": ("leading", "trailing"), "digits": ("zero",)},
        ),
        **{
            f"number-{name}": _topic(about, spell, kind)
            for name, spell, kind, about in (
                ("plus", "+{n}", "grammar", "digits after a plus sign"),
                ("zero-first", "0{n}", "grammar", "digits after a zero"),
                ("hex", "0x{n}", "grammar", "hexadecimal digits"),
                ("dot-last", "{n}.", "grammar", "digits before a dot"),
                ("dot-first", ".{n}", "grammar", "digits after a dot"),
                ("exponent-open", "{n}e", "grammar", "digits before an e"),
                ("underscore", "{n}_0", "grammar", "digits with an underscore"),
                ("suffix", "{n}n", "grammar", "digits before an n"),
                ("minus-twice", "--{n}", "grammar", "digits after two minus signs"),
                ("arabic", "٣", "grammar", "an Arabic digit"),
                ("arabic-last", "{n}٠", "grammar", "digits before an Arabic digit"),
                ("fullwidth", "８", "grammar", "a fullwidth digit"),
                ("two", "{n} {n}", "grammar", "two numbers without a comma"),
                ("nan", "NaN", "grammar", "NaN"),
                ("infinity", "Infinity", "grammar", "Infinity"),
                ("half", "{n}.5", "value", "a fraction"),
                ("small", "{n}e-9", "value", "a negative exponent"),
                ("minus", "-1{n}", "value", "a number below zero"),
                ("true", "true", "kind", "true"),
                ("null", "null", "kind", "null"),
                ("text", '"{n}"', "kind", "a string"),
                ("array", "[{n}]", "kind", "an array"),
                ("object", "{}", "kind", "an object"),
                ("2p64", "18446744073709551616", "range", "2^64"),
                ("huge", "9" * 40, "range", "forty digits"),
            )
        },
    },
)
