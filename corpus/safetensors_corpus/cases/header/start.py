"""Header: its bytes from the first to the last: encoding, opening brace, padding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...author.case import ACCEPT, accepts, chooses, reject, rejects
from ...author.parts import ENTRY, header_text

if TYPE_CHECKING:
    from ...author.file import FileBuilder

START = ("HDR_BAD_START", "HDR_NOT_JSON", "HDR_NOT_OBJECT")
PADDING = ("HDR_BAD_PADDING", "HDR_NOT_JSON")


# Encoding


@rejects(
    "HDR-01",
    codes=("HDR_NOT_UTF8", "HDR_NOT_JSON"),
    over={
        "ff": b"\xff",
        "sequence-cut": b"\xe2\x82",
        "overlong-slash": b"\xc0\xaf",
        "overlong-nul": b"\xc0\x80",
        "surrogate": b"\xed\xa0\x80",
        "surrogate-pair": b"\xed\xa0\xbd\xed\xb8\x80",
        "above-10ffff": b"\xf4\x90\x80\x80",
    },
)
def name_bytes(f: FileBuilder, value: bytes) -> None:
    """A tensor name with bytes that are not UTF-8 ($slug).

    A decoder that drops or replaces such bytes gives the tensor another name, perhaps that of a neighbour.
    """
    header_text(f, b'{"' + value + b'":ENTRY}')


@rejects("HDR-01", codes=("HDR_NOT_UTF8", "ENT_UNKNOWN_FIELD", "HDR_NOT_JSON"))
def ignored_field_bytes(f: FileBuilder) -> None:
    """Bytes that are not UTF-8 in a field that nobody needs."""
    header_text(f, ENTRY.join(('{"w":', "}")).encode().replace(b"}}", b',"x":"\xff"}}'))


@rejects("HDR-01", codes=("HDR_NOT_UTF8", *PADDING))
def sequence_cut_at_end(f: FileBuilder) -> None:
    """The last header byte begins a UTF-8 sequence that the data would have to finish."""
    f.tensor("w", "F32", [2])
    f.padding = b" \xc3"


@rejects(
    "HDR-01",
    "HDR-05",
    codes=("HDR_NOT_UTF8", *START),
    over={"byte-order-mark-little-endian": b"\xff\xfe", "byte-order-mark-big-endian": b"\xfe\xff"},
)
@rejects("HDR-07", "HDR-01", codes=("HDR_NOT_JSON", "HDR_NOT_UTF8"), over={"little-endian": b""})
@rejects("HDR-02", "HDR-01", codes=(*START, "HDR_NOT_UTF8"), over={"big-endian": b"\0"})
def utf16(f: FileBuilder, value: bytes) -> None:
    """The header text in UTF-16 ($slug).

    Libraries that guess the encoding of JSON read it without complaint.
    """
    big = value in (b"\0", b"\xfe\xff")
    text = f'{{"w":{ENTRY}}}'.encode("utf-16-be" if big else "utf-16-le")
    header_text(f, value + text if len(value) == 2 else text)


# First byte and padding


@rejects("HDR-02", "HDR-06", codes=START, smoke=True)
def plain_text(f: FileBuilder) -> None:
    """The header is an ordinary sentence, not JSON."""
    header_text(f, "Weights of a small model, two floats, little-endian.")


@chooses(
    "leading-whitespace",
    options={"reject": reject("HDR_BAD_START", "HDR_NOT_JSON"), "accept": ACCEPT},
    over={"space": b" ", "tab": b"\t", "line-feed": b"\n", "carriage-return": b"\r", "mixed": b"\r\n\t "},
    issue="https://github.com/safetensors/safetensors/issues/686",
    bugs=("FB-07",),
)
def leading_whitespace(f: FileBuilder, value: bytes) -> None:
    """Whitespace in front of the opening brace ($slug).

    A scanner that identifies files by the brace and a loader that skips whitespace disagree here.
    """
    f.before = value
    f.tensor("w", "F32", [2])


@rejects("HDR-02", codes=START, over={"nul": "\0", "form-feed": "\f", "no-break-space": "\xa0"})
@rejects("HDR-05", "HDR-02", codes=START, over={"byte-order-mark": "\ufeff"})
def leading_character(f: FileBuilder, value: str) -> None:
    """A character that is no JSON whitespace before the opening brace ($slug).

    Trimming with a library function for all of Unicode, or decoding that drops a mark, hides it.
    """
    f.before = value.encode()
    f.tensor("w", "F32", [2])


@accepts("HDR-03", "HDR-04", over={str(n): n for n in (0, 1, 63, 4096)})
def padding_spaces(f: FileBuilder, value: int) -> None:
    """A header padded with this number of spaces behind the closing brace: $value."""
    f.padding = b" " * value
    f.tensor("weights", "U8", [8])


@chooses(
    "trailing-whitespace",
    options={"reject": reject(*PADDING), "accept": ACCEPT},
    over={"tab": b"\t", "line-feed": b"\n"},
    issue="https://github.com/ohdearquant/lattice/issues/1468",
    bugs=("FB-82",),
)
@chooses(
    "trailing-whitespace",
    options={"reject": reject(*PADDING), "accept": ACCEPT},
    over={"carriage-return": b"\r", "mixed": b"  \r\n\t "},
)
def trailing_whitespace(f: FileBuilder, value: bytes) -> None:
    """Whitespace other than spaces alone behind the closing brace ($slug)."""
    f.tensor("w", "F32", [2])
    f.padding = b""
    missing = -int.from_bytes(f.render()[:8], "little") % 8
    while missing < len(value):
        missing += 8
    f.padding = (value * 8)[:missing]


@rejects(
    "HDR-03",
    codes=PADDING,
    over={"nul": b"\0" * 6},
    issue="https://github.com/ruvnet/RuView/issues/1522",
)
@rejects("HDR-05", "HDR-03", codes=PADDING, over={"byte-order-mark": b"\xef\xbb\xbf"})
@rejects("HDR-06", "HDR-03", codes=PADDING, importance="high", over={"object": b"{}", "object-line": b"\n{}"})
@rejects(
    "HDR-03",
    codes=PADDING,
    over={
        "spaces-nul": b"     \0",
        "form-feed": b"\f",
        "no-break-space": b"\xc2\xa0",
        "letters": b" padding",
        "comma": b",",
    },
)
def trailing_character(f: FileBuilder, value: bytes) -> None:
    """Something that is no padding behind the closing brace ($slug).

    A parser that stops at the end of the first value, or at a NUL, never sees it: a place to hide text.
    Parsers of concatenated values or of JSON lines may even take a second object for the first.
    """
    f.padding = value
    f.tensor("w", "F32", [2])


@rejects("HDR-06", codes=PADDING, issue="https://github.com/safetensors/safetensors/issues/466")
def metadata_behind_object(f: FileBuilder) -> None:
    """An empty object, a comma and then the metadata, as an old writer made it without tensors."""
    f.padding = b',"__metadata__":{"key":"value"}}'


@rejects("HDR-04", codes=("OFF_TRAILING", "OFF_HOLE"), importance="high", bugs=("FB-03",))
def padding_uncounted(f: FileBuilder) -> None:
    """Spaces bring the header to a multiple of 8, but the length prefix leaves them out.

    They become the first data bytes, and every offset points at the wrong place.
    """
    f.padding = b""
    f.gap(6, 0x20)
    f.tensor("w", "F32", [2], begin=0, end=8)
