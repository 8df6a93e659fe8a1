"""Header: its strings, with control characters and escapes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...author.case import accepts, chooses, rejects
from ...author.parts import LONE_OPTIONS, header_text, named_with_escapes

if TYPE_CHECKING:
    from ...author.file import FileBuilder


@rejects("HDR-14", codes="HDR_NOT_JSON", over={"nul": "\0", "tab": "\t", "line-feed": "\n", "1f": "\x1f"})
def raw_control_in_name(f: FileBuilder, value: str) -> None:
    """A tensor name with an unescaped control character ($slug)."""
    header_text(f, f'{{"a{value}b":ENTRY}}')


@accepts(
    "HDR-14", "HDR-15", over={"nul": ("\0w", r"\u0000w"), "short": ('"\\/\b\f\n\r\t', r"\"\\\/\b\f\n\r\t")}
)
@accepts(
    "HDR-15",
    over={
        "code-point": ("w", r"\u0077"),
        "upper-case-hex": ("\xea", r"\u00EA"),
        "pair": ("\U0001f600", r"\uD83D\uDE00"),
        "highest-pair": ("\U0010ffff", r"\udbff\udfff"),
    },
)
def escape_in_name(f: FileBuilder, value: tuple[str, str]) -> None:
    """A tensor name written with JSON escapes ($slug)."""
    f.tensor(value[0], "F32", [2], key=f'"{value[1]}"')


@accepts("HDR-15", "HDR-10")
def escape_in_field_names(f: FileBuilder) -> None:
    """The field names of an entry written with escapes."""
    f.tensor("w", "F32", [2], value=r'{"\u0064type":"F32","sh\u0061pe":[2],"data\u005foffsets":[0,8]}')


@chooses(
    "lone-surrogates",
    options=LONE_OPTIONS,
    over={
        "high-surrogate": r"\ud800",
        "low-surrogate": r"\udc00",
        "surrogates-reversed": r"\ude00\ud83d",
    },
)
@rejects(
    "HDR-15",
    codes=("HDR_NOT_JSON", "HDR_NOT_UTF8"),
    over={
        "hex-byte": r"\x41",
        "upper-case-u": r"\U0041",
        "three-digits": r"\u041",
        "plus-sign": r"\u+041",
    },
)
@rejects("HDR-07", "HDR-15", codes=("HDR_NOT_JSON", "HDR_NOT_UTF8"), over={"quote-missing": "\\"})
def escape_text(f: FileBuilder, value: str) -> None:
    """A tensor name that ends in `$value`, which JSON does not know or gives no meaning.

    Readers that replace, drop or keep it give the tensor different names.
    """
    named_with_escapes(f, "w", value)
