"""Header: characters between its tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...author.case import accepts, rejects
from ...author.parts import ENTRY, header_text

if TYPE_CHECKING:
    from ...author.file import FileBuilder

NOT_JSON = ("HDR_NOT_JSON",)


@rejects(
    "HDR-07",
    "HDR-08",
    codes=NOT_JSON,
    over={
        "vertical-tab": "\v",
        "file-separator": "\x1c",
        "zero-width-space": "\u200b",
        "word-joiner": "\u2060",
        "ideographic-space": "\u3000",
        "backslash-line-feed": "\\\n",
    },
)
def space_of_another_kind(f: FileBuilder, value: str) -> None:
    """A character that JSON does not count as whitespace stands behind a colon: $slug.

    Functions that trim or split text take several of these for spaces.
    """
    header_text(f, f'{{"w":{value}ENTRY}}')


@rejects(
    "HDR-07",
    "HDR-08",
    codes=("HDR_NOT_JSON", "SHP_BAD_TYPE"),
    over={"form-feed": "\f", "no-break-space": "\xa0"},
)
def space_of_another_kind_in_empty_shape(f: FileBuilder, value: str) -> None:
    """The brackets of an empty shape hold a character that is no JSON whitespace: $slug."""
    f.tensor("w", "F32", [], fields={"shape": f"[{value}]"})


@accepts("HDR-08", over={"space": " ", "line-feed": "\n", "carriage-return": "\r"})
def one_space_between_tokens(f: FileBuilder, value: str) -> None:
    """One whitespace character of the same kind stands between any two tokens: $slug."""
    tokens = '{ "w" : { "dtype" : "F32" , "shape" : [ 2 ] , "data_offsets" : [ 0 , 8 ] } }'
    header_text(f, tokens.replace(" ", value))


@accepts("HDR-08")
def long_space_between_tokens(f: FileBuilder) -> None:
    """Ten thousand line feeds, tabs and spaces stand between two tokens."""
    header_text(f, '{"w":' + "\n\t " * 10_000 + "ENTRY}")


@accepts("HDR-08", "MET-03", "SHP-03", "SHP-01")
def space_in_empty_containers(f: FileBuilder) -> None:
    """An empty metadata map and an empty shape have whitespace between their brackets."""
    f.metadata({}, raw="{ \t\r\n}")
    f.tensor("w", "F32", [], fields={"shape": "[ \t\r\n]"})


@accepts("HDR-08", "MET-01")
def space_around_metadata(f: FileBuilder) -> None:
    """Whitespace stands between any two tokens of the metadata."""
    f.metadata({"a": "b", "c": "d"}, raw=' \n{\t"a" \r: "b"\n,\t"c" :\r"d" } ')
    f.tensor("w", "F32", [2])


@accepts("HDR-19", "ENT-08")
def space_inside_strings_only(f: FileBuilder) -> None:
    """Names of spaces alone, of no-break spaces and with spaces at both ends come back untouched."""
    for name in (" ", "  ", "\xa0", " a ", "\u3000", "\\n"):
        f.tensor(name, "U8", [4])


@rejects("HDR-07", "HDR-08", codes=("HDR_NOT_JSON", "SHP_BAD_TYPE"))
def space_inside_a_word(f: FileBuilder) -> None:
    """A line break splits a number in two.

    Whitespace separates tokens; inside one it makes two tokens without a comma.
    """
    f.tensor("w", "U8", [10], fields={"shape": "[1\n0]"})


@rejects("HDR-14", codes=("HDR_NOT_JSON", "ENT_MISSING_FIELD", "ENT_UNKNOWN_FIELD"))
def line_break_in_field_name(f: FileBuilder) -> None:
    """A field name is broken over two lines."""
    header_text(f, '{"w":' + ENTRY.replace("data_", "data_\n") + "}")
