"""Header: its first byte, its padding, and the whitespace between its tokens."""

from __future__ import annotations

from ...author.case import ACCEPT, accepts, chooses, reject, rejects
from ...author.file import FileBuilder
from ...author.parts import ENTRY, header_text

START = ("HDR_BAD_START", "HDR_NOT_JSON", "HDR_NOT_OBJECT")
PADDING = ("HDR_BAD_PADDING", "HDR_NOT_JSON")


@rejects("HDR-02 HDR-06", codes=START, smoke=True)
def plain_text(f: FileBuilder) -> None:
    """The header is an ordinary sentence instead of JSON."""
    header_text(f, "Weights of a small model, two floats, little-endian.")


@chooses(
    "leading-whitespace",
    options={"reject": reject("HDR_BAD_START", "HDR_NOT_JSON"), "accept": ACCEPT},
    over={"space": b" ", "tab": b"\t", "line-feed": b"\n", "carriage-return": b"\r", "mixed": b"\r\n\t "},
    issue="https://github.com/safetensors/safetensors/issues/686",
    bugs=("FB-07",),
)
def leading_whitespace(f: FileBuilder, value: bytes) -> None:
    """Whitespace precedes the opening brace ($slug).

    A scanner that identifies files by the brace and a loader that skips whitespace disagree about the file.
    """
    f.before = value
    f.tensor("w", "F32", [2])


@rejects("HDR-02", codes=START, over={"nul": "\0", "form-feed": "\f", "no-break-space": "\xa0"})
@rejects("HDR-05 HDR-02", codes=START, over={"byte-order-mark": "\ufeff"})
def leading_character(f: FileBuilder, value: str) -> None:
    """A character that is not JSON whitespace precedes the opening brace ($slug).

    Unicode-aware trimming, or a decoder that drops a byte-order mark, hides the character.
    """
    f.before = value.encode()
    f.tensor("w", "F32", [2])


@accepts("HDR-03 HDR-04", over=(0, 1, 63, 4096))
def padding_spaces(f: FileBuilder, value: int) -> None:
    """The header is padded with $value spaces after the closing brace."""
    f.padding = b" " * value
    f.tensor("weights", "U8", [8])


@chooses(
    "trailing-whitespace",
    options={"reject": reject(*PADDING), "accept": ACCEPT},
    over={"tab": b"\t", "line-feed": b"\n", "carriage-return": b"\r", "mixed": b"  \r\n\t "},
    issue=dict.fromkeys(("tab", "line-feed"), "https://github.com/ohdearquant/lattice/issues/1468"),
    bugs=dict.fromkeys(("tab", "line-feed"), ("FB-82",)),
)
def trailing_whitespace(f: FileBuilder, value: bytes) -> None:
    """Whitespace other than plain spaces follows the closing brace ($slug)."""
    f.tensor("w", "F32", [2])
    f.padding = b""
    missing = -int.from_bytes(f.render()[:8], "little") % 8
    while missing < len(value):
        missing += 8
    f.padding = (value * 8)[:missing]


@rejects("HDR-05 HDR-03", codes=PADDING, over={"byte-order-mark": b"\xef\xbb\xbf"})
@rejects("HDR-06 HDR-03", codes=PADDING, importance="high", over={"object": b"{}", "object-line": b"\n{}"})
@rejects(
    "HDR-03",
    codes=PADDING,
    issue={"nul": "https://github.com/ruvnet/RuView/issues/1522"},
    over={
        "nul": b"\0" * 6,
        "spaces-nul": b"     \0",
        "form-feed": b"\f",
        "no-break-space": b"\xc2\xa0",
        "letters": b" padding",
        "comma": b",",
    },
)
def trailing_character(f: FileBuilder, value: bytes) -> None:
    """Something that is not padding follows the closing brace ($slug).

    A parser that stops at the end of the first value, or at a NUL, never sees it, so text can be hidden
    there. Parsers of concatenated values or of JSON lines may even return a second object instead of the
    first.
    """
    f.padding = value
    f.tensor("w", "F32", [2])


@rejects("HDR-06", codes=PADDING, issue="https://github.com/safetensors/safetensors/issues/466")
def metadata_behind_object(f: FileBuilder) -> None:
    """A comma and the metadata follow an empty object, as in files without tensors from an old writer."""
    f.padding = b',"__metadata__":{"key":"value"}}'


@rejects("OFF-08 HDR-04", codes=("OFF_TRAILING", "OFF_HOLE"), importance="high", bugs=("FB-03",))
def padding_uncounted(f: FileBuilder) -> None:
    """Spaces pad the header to a multiple of 8, but the length prefix does not include them.

    The spaces become the first data bytes, so every offset points to the wrong position.
    """
    f.padding = b""
    f.gap(6, 0x20)
    f.tensor("w", "F32", [2], begin=0, end=8)


@rejects(
    "HDR-06 HDR-02",
    codes=("HDR_NOT_OBJECT", "HDR_BAD_START", "HDR_NOT_JSON"),
    over={"minus": "-1", "true": "true", "false": "false", **{f"digit-{d}": f"{d}0" for d in range(1, 10)}},
)
def value_for_object(f: FileBuilder, value: str) -> None:
    """The header is the JSON value `$value` instead of an object.

    Software that uses the brace to tell a header from other JSON must know every way a JSON value can begin.
    """
    f.header = value.encode()


@rejects("HDR-01 HDR-02", codes=("HDR_NOT_UTF8", "HDR_BAD_START", "HDR_NOT_JSON"))
def first_byte_outside_utf8(f: FileBuilder) -> None:
    """The byte 0xFF, which never occurs in UTF-8, precedes the opening brace."""
    header_text(f, b'\xff{"w":ENTRY}')


SPACE_OF_ANOTHER_KIND = {
    "vertical-tab": "\v",
    "file-separator": "\x1c",
    "zero-width-space": "\u200b",
    "word-joiner": "\u2060",
    "ideographic-space": "\u3000",
    "backslash-line-feed": "\\\n",
}


@rejects("HDR-07 HDR-08", codes="HDR_NOT_JSON", over=SPACE_OF_ANOTHER_KIND)
def space_of_another_kind(f: FileBuilder, value: str) -> None:
    """A colon is followed by a character that JSON does not count as whitespace: $slug.

    Functions that trim or split text treat several of these characters as spaces.
    """
    header_text(f, f'{{"w":{value}ENTRY}}')


@rejects(
    "HDR-07 HDR-08",
    codes=("HDR_NOT_JSON", "SHP_BAD_TYPE"),
    over={"form-feed": "\f", "no-break-space": "\xa0"},
)
def space_of_another_kind_in_empty_shape(f: FileBuilder, value: str) -> None:
    """An empty shape contains a character that is not JSON whitespace: $slug."""
    f.tensor("w", "F32", [], fields={"shape": f"[{value}]"})


@accepts("HDR-08", over={"space": " ", "line-feed": "\n", "carriage-return": "\r"})
def one_space_between_tokens(f: FileBuilder, value: str) -> None:
    """The same whitespace character separates all tokens: $slug."""
    tokens = '{ "w" : { "dtype" : "F32" , "shape" : [ 2 ] , "data_offsets" : [ 0 , 8 ] } }'
    header_text(f, tokens.replace(" ", value))


@accepts("HDR-08")
def long_space_between_tokens(f: FileBuilder) -> None:
    """Ten thousand line feeds, tabs and spaces separate two tokens."""
    header_text(f, '{"w":' + "\n\t " * 10_000 + "ENTRY}")


@accepts("HDR-08 MET-03 SHP-03 SHP-01")
def space_in_empty_containers(f: FileBuilder) -> None:
    """An empty metadata map and an empty shape have whitespace between their brackets."""
    f.metadata({}, raw="{ \t\r\n}")
    f.tensor("w", "F32", [], fields={"shape": "[ \t\r\n]"})


@accepts("HDR-08 MET-01")
def space_around_metadata(f: FileBuilder) -> None:
    """Whitespace separates all tokens of the metadata."""
    f.metadata({"a": "b", "c": "d"}, raw=' \n{\t"a" \r: "b"\n,\t"c" :\r"d" } ')
    f.tensor("w", "F32", [2])


@accepts("HDR-19 ENT-08")
def space_inside_strings_only(f: FileBuilder) -> None:
    """Names consist of spaces or no-break spaces, or have spaces at both ends, and must stay unchanged."""
    for name in (" ", "  ", "\xa0", " a ", "\u3000", "\\n"):
        f.tensor(name, "U8", [4])


@rejects("HDR-07 HDR-08", codes=("HDR_NOT_JSON", "SHP_BAD_TYPE"))
def space_inside_a_word(f: FileBuilder) -> None:
    """A line break splits a number in two.

    Whitespace separates tokens, so the two halves are two numbers without a comma between them.
    """
    f.tensor("w", "U8", [10], fields={"shape": "[1\n0]"})


@rejects("HDR-14", codes=("HDR_NOT_JSON", "ENT_MISSING_FIELD", "ENT_UNKNOWN_FIELD"))
def line_break_in_field_name(f: FileBuilder) -> None:
    """A field name contains a line break."""
    header_text(f, '{"w":' + ENTRY.replace("data_", "data_\n") + "}")
