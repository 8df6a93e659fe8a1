"""Header: long arrays of numbers in fields that a reader ignores, and numbers out of range below them.

Readers that skip ignored values, or keep long ones as text, have a second path that must be as strict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...author.case import ACCEPT, accepts, chooses, reject, rejects
from ...author.parts import ENTRY, RARE, header_text

if TYPE_CHECKING:
    from ...author.file import FileBuilder

IGNORED = ("HDR_NOT_JSON", "ENT_UNKNOWN_FIELD")
NUMBERS = ["12345678"] * 600


@chooses(
    "rare-ignored-values",
    "HDR-08",
    options=RARE,
    importance="low",
    over={"compact": ",", "spaced": ", ", "lines": "\n,\t"},
)
def ignored_long_array(f: FileBuilder, value: str) -> None:
    """An unknown field of an entry holds an array of 600 numbers ($slug)."""
    f.tensor("w", "F32", [2], fields={"x": f"[{value.join(NUMBERS)}]"})


@rejects(
    "HDR-07",
    "HDR-18",
    codes=IGNORED,
    over={
        "no-commas": f"[{' '.join(NUMBERS)}]",
        "comma-missing-at-end": f"[{','.join(NUMBERS)} 1]",
        "comma-at-end": f"[{','.join(NUMBERS)},]",
        "two-commas-at-end": f"[{','.join(NUMBERS)},,1]",
        "leading-zero-at-end": f"[{','.join(NUMBERS)},01]",
        "word-at-end": f"[{','.join(NUMBERS)},NaN]",
        "closed-by-brace": f"[{','.join(NUMBERS)}}}",
    },
)
def ignored_long_array_text(f: FileBuilder, value: str) -> None:
    """A long array in an unknown field is written in a way that JSON does not allow ($slug).

    The fault stands several thousand bytes behind the point up to which a sample would look.
    """
    f.tensor("w", "F32", [2], fields={"x": value})


@rejects("HDR-07", "SHP-01", codes=("HDR_NOT_JSON", "SHP_BAD_TYPE"))
def long_shape_without_commas(f: FileBuilder) -> None:
    """A shape of 2,500 ones between spaces, without any comma."""
    header_text(f, f'{{"w":{ENTRY.replace("[2]", "[" + "1 " * 2500 + "2]")}}}')


@chooses(
    "number-range",
    options={"reject": reject(*IGNORED), "accept": ACCEPT},
    importance="low",
    over={
        "in-array": "[1e999]",
        "in-object": '{"a":1e999}',
        "nested": '[[],{"a":[0,{"b":1e999}]}]',
        "at-end-of-long-array": f"[{','.join(NUMBERS)},1e999]",
    },
)
def ignored_number_out_of_range(f: FileBuilder, value: str) -> None:
    """An unknown field holds a number beyond double precision inside other values ($slug)."""
    f.tensor("w", "F32", [2], fields={"x": value})


@rejects(
    "HDR-07",
    "HDR-18",
    codes=IGNORED,
    over={
        "two-minus-signs": "--1",
        "two-exponent-signs": "1e+-5",
        "two-exponents": "1e5e5",
        "two-fractions": "1.2.3",
    },
)
def ignored_signs(f: FileBuilder, value: str) -> None:
    """An unknown field holds a number in which a part stands twice ($slug)."""
    f.tensor("w", "F32", [2], fields={"x": value})


@accepts("MET-04")
def numbers_as_metadata_text(f: FileBuilder) -> None:
    """A metadata value that is the text of a long array of numbers stays a string."""
    f.metadata({"numbers": f"[{','.join(NUMBERS)}]"})
    f.tensor("w", "F32", [2])
