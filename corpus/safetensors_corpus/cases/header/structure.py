"""Header: commas, colons, braces and quotes in the wrong place, at every level of the header object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...author.case import accepts, rejects
from ...author.parts import header_text

if TYPE_CHECKING:
    from ...author.file import FileBuilder

START = ("HDR_BAD_START", "HDR_NOT_JSON", "HDR_NOT_OBJECT")
PADDING = ("HDR_BAD_PADDING", "HDR_NOT_JSON")


@rejects(
    "HDR-07",
    codes="HDR_NOT_JSON",
    over={
        "two-colons": '{"w"::ENTRY}',
        "comma-for-colon": '{"w",ENTRY}',
        "wide-colon": '{"w"\uff1aENTRY}',
        "semicolon-for-comma": '{"__metadata__":{};"w":ENTRY}',
        "leading-comma": '{,"w":ENTRY}',
        "no-key": "{:ENTRY}",
        "no-value": '{"__metadata__":,"w":ENTRY}',
        "key-alone-at-end": '{"w":ENTRY,"__metadata__"}',
        "null-for-key": "{null:ENTRY}",
        "string-open-at-end": '{"w":ENTRY,"',
        "curly-quotes": "{\u201cw\u201d:ENTRY}",
        "backquotes": "{`w`:ENTRY}",
        "escaped-quotes": '{\\"w\\":ENTRY}',
        "escaped-space-before-key": '{\\u0020"w":ENTRY}',
        "brace-twice": '{{"w":ENTRY}}',
        "number-behind-value": '{"w":ENTRY 123}',
        "comment-unclosed": '{"w":ENTRY/*}',
        "comma-for-closing-brace": '{"w":ENTRY,',
    },
)
def structure(f: FileBuilder, value: str) -> None:
    """The members of the header object are joined in a way that JSON does not know: $slug.

    Parsers that repair what they read repair it differently, so one file gets several meanings.
    """
    header_text(f, value)


FIELDS = '"dtype":"F32","shape":[2],"data_offsets":[0,8]'


@rejects(
    "HDR-07",
    codes=("HDR_NOT_JSON", "SHP_BAD_TYPE", "OFF_BAD_PAIR", "DTY_BAD_TYPE", "ENT_MISSING_FIELD"),
    over={
        "no-value": FIELDS.replace('"F32"', ""),
        "dtype-unclosed": FIELDS.replace('"F32"', '"F32'),
        "shape-unclosed": FIELDS.replace("[2]", "[2"),
        "shape-closed-by-brace": FIELDS.replace("[2]", "[2}"),
        "shape-in-parentheses": FIELDS.replace("[2]", "(2)"),
        "shape-with-leading-comma": FIELDS.replace("[2]", "[,2]"),
        "offsets-with-dots": FIELDS.replace("[0,8]", "[0..8]"),
    },
)
def entry_structure(f: FileBuilder, value: str) -> None:
    """The fields of a tensor entry are joined in a way that JSON does not know: $slug."""
    f.tensor("w", "F32", [2], value="{" + value + "}")


@rejects(
    "HDR-03",
    codes=PADDING,
    over={
        "brace": b"}",
        "block-comment": b"/**/",
        "delete": b"\x7f",
        "end-of-file-character": b"\x1a",
        "next-line": b"\xc2\x85",
        "ideographic-space": b"\xe3\x80\x80",
        "nul-and-text": b"\0 hidden text",
    },
)
def behind_object(f: FileBuilder, value: bytes) -> None:
    """The header goes on behind its closing brace: $slug.

    Only spaces may stand there; a parser that stops at the end of the object does not see the rest.
    """
    f.padding = value
    f.tensor("w", "F32", [2])


@rejects(
    "HDR-02",
    codes=START,
    over={
        "next-line": b"\xc2\x85",
        "line-separator": b"\xe2\x80\xa8",
        "zero-width-space": b"\xe2\x80\x8b",
        "block-comment": b"/**/",
        "guard-against-script-inclusion": b")]}'\n",
    },
)
@rejects("HDR-01", "HDR-02", codes=("HDR_NOT_UTF8", *START), over={"two-bytes-of-mark": b"\xef\xbb"})
def before_object(f: FileBuilder, value: bytes) -> None:
    """Something that is no JSON whitespace stands before the opening brace: $slug."""
    f.before = value
    f.tensor("w", "F32", [2])


@accepts("HDR-07")
def json_extensions_inside_strings(f: FileBuilder) -> None:
    """Comments, trailing commas, NaN and single quotes stand in strings, where they are plain text.

    A program that strips comments or repairs commas before it parses changes the names.
    """
    f.metadata({"a/*b*/c": "d//e#f,}", "[1,]": "{'a':NaN,}"})
    f.tensor("/* not a comment */", "F32", [1])
    f.tensor("// 'w',]", "F32", [1])


@accepts("FRM-01", "HDR-06")
def object_at_start_of_data(f: FileBuilder) -> None:
    """The data begins, right behind the closing brace, with the text of a second object.

    The length prefix alone says where the header ends; reading on as long as JSON goes on is wrong.
    """
    f.padding = b""
    f.tensor("w", "U8", [8], b'{"x":{}}')


@accepts(
    "HDR-08",
    "HDR-02",
    over={
        "line-feed": "\n",
    },
)
def behind_opening_brace(f: FileBuilder, value: str) -> None:
    """The opening brace is the first byte, whitespace ($slug) the second.

    A test for the two bytes of a brace and a quote refuses it.
    """
    header_text(f, "{" + value + '"w":ENTRY}')
