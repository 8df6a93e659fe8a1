"""Header: surrogate pairs in every spelling of their digits, and escapes that only look like pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...author.case import accepts, chooses, rejects
from ...author.parts import LONE_OPTIONS, header_text, named_with_escapes

if TYPE_CHECKING:
    from ...author.file import FileBuilder


@accepts(
    "HDR-15",
    "HDR-19",
    over={
        "upper-dc00": ("\U0001f400", r"\uD83D\uDC00"),
        "upper-dfff": ("\U0010ffff", r"\uDBFF\uDFFF"),
        "upper-deaa": ("\U0001f6aa", r"\uD83D\uDEAA"),
        "lower-deaa": ("\U0001f6aa", r"\ud83d\udeaa"),
        "upper-ddff": ("\U0001f5ff", r"\uD83D\uDDFF"),
        "lower-de99": ("\U0001f699", r"\ud83d\ude99"),
    },
)
def digits_of_pair(f: FileBuilder, value: tuple[str, str]) -> None:
    """A tensor name that is one surrogate pair, written with these digits: $slug.

    A table of hexadecimal digits with a gap turns a valid name into a fault, or into another name.
    """
    f.tensor(value[0], "F32", [2], key=f'"{value[1]}"')


@accepts(
    "HDR-15", "HDR-19", over={"last-before": ("\ud7ff", r"\ud7ff"), "first-behind": ("\ue000", r"\ue000")}
)
def escape_beside_surrogates(f: FileBuilder, value: tuple[str, str]) -> None:
    """A tensor name that is the character next to the surrogates, as an escape ($slug).

    A range with its end one too far refuses a valid name.
    """
    f.tensor(value[0], "F32", [2], key=f'"{value[1]}"')


@chooses(
    "lone-surrogates",
    options=LONE_OPTIONS,
    over={
        "two-low": r"\udc00\udc00",
        "last-before-surrogates": r"\ud7ff\udc00",
        "escaped-letter": r"\u0041\udc00",
    },
)
def low_surrogate_without_high(f: FileBuilder, value: str) -> None:
    """A low surrogate behind an escape that is no high surrogate ($slug).

    Taking any two escapes for a pair computes a character from them that nobody wrote.
    """
    named_with_escapes(f, "", value)


@rejects("HDR-14", codes="HDR_NOT_JSON")
def six_raw_tabs_in_name(f: FileBuilder) -> None:
    r"""Six unescaped tabs in a tensor name, as many bytes as a \u escape has."""
    header_text(f, '{"a\t\t\t\t\t\tb":ENTRY}')
