"""Header: values that JSON does not know in fields that readers ignore, and unusual ones that it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...author.case import ACCEPT, chooses, reject, rejects
from ...author.parts import RARE

if TYPE_CHECKING:
    from ...author.file import FileBuilder

IGNORED = ("HDR_NOT_JSON", "ENT_UNKNOWN_FIELD")


@rejects(
    "HDR-07",
    codes=IGNORED,
    over={
        "true-capitalised": "True",
        "undefined": "undefined",
        "quote-alone": '"',
        "star": "*",
        "nul": "\0",
        "string-and-word": '"a"b',
        "array-of-array-without-comma": "[3[4]]",
    },
)
def ignored_word(f: FileBuilder, value: str) -> None:
    """An unknown field of an entry holds something that is no JSON value: $slug.

    The grammar holds for values that nobody uses as well.
    """
    f.tensor("w", "F32", [2], fields={"x": value})


@rejects(
    "HDR-07",
    "HDR-18",
    codes=IGNORED,
    over={
        "minus-alone": "-",
        "minus-leading-zero": "-01",
        "point-before-exponent": "2.e3",
        "exponent-sign-alone": "1e+",
        "underscore": "1_000",
        "wide-digit": "\uff11",
    },
)
def ignored_digits(f: FileBuilder, value: str) -> None:
    """An unknown field of an entry holds a number that JSON does not know: $slug."""
    f.tensor("w", "F32", [2], fields={"x": value})


@chooses(
    "long-number",
    "HDR-18",
    "API-14",
    options={"reject": reject(*IGNORED), "skip": ACCEPT},
    over={"5000-digits": "9" * 5000, "minus-5000-digits": "-" + "9" * 5000},
)
def ignored_integer(f: FileBuilder, value: str) -> None:
    """An unknown field of an entry holds an integer of so many digits: $slug.

    Python converts no more than 4,300 digits and raises an error of its own.
    """
    f.tensor("w", "F32", [2], fields={"x": value})


@chooses(
    "rare-ignored-values",
    "HDR-18",
    options=RARE,
    over={
        "zero-to-a-power": "0e+1",
        "underflow": "123.456e-789",
        "eighty-decimals": "0." + "0" * 79 + "1",
        "exponent-with-zeros": "1E0000000002",
        "minus-2p63-less-1": str(-(2**63) - 1),
    },
    importance="low",
)
@chooses(
    "number-range",
    options={"reject": reject(*IGNORED), "accept": ACCEPT},
    over={"minus-1e9999": "-1e+9999", "fraction-to-a-high-power": "0.4e006699999999999999"},
    importance="low",
)
def ignored_number_form(f: FileBuilder, value: str) -> None:
    """An unknown field of an entry holds a number in a rare form that JSON allows: $slug."""
    f.tensor("w", "F32", [2], fields={"x": value})


@chooses(
    "rare-ignored-values",
    "HDR-07",
    "HDR-15",
    options=RARE,
    over={
        "every-kind": '[null,true,false,0,-1.5e3,"",{},[],{"":[{"a":[]}]}]',
        "every-escape": r'"\"\\\/\b\f\n\r\t\u0000\uD83D\uDE00"',
        "every-space": "[ \t\r\n1 \t\r\n, \t\r\n2 \t\r\n]",
    },
    importance="low",
)
def ignored_value(f: FileBuilder, value: str) -> None:
    """An unknown field of an entry holds valid JSON with much variety: $slug."""
    f.tensor("w", "F32", [2], fields={"x": value})
