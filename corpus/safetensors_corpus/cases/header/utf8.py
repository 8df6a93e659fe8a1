"""Header: its encoding, bytes that are not UTF-8 and characters at the edges of UTF-8."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING

from ...author.case import accepts, rejects
from ...author.parts import ENTRY, header_text

if TYPE_CHECKING:
    from ...author.file import FileBuilder

BAD = ("HDR_NOT_UTF8", "HDR_NOT_JSON")
START = ("HDR_BAD_START", "HDR_NOT_JSON", "HDR_NOT_OBJECT", "HDR_NOT_UTF8")
EDGES = "\x7f\x80\u07ff\u0800\ud7ff\ue000\ufffd\U00010000\U0010ffff"
"""First and last characters of each length in UTF-8, and those next to the surrogates."""


@rejects(
    "HDR-01",
    codes=BAD,
    over={
        "continuation-alone": b"\x80",
        "two-bytes-cut": b"\xc3",
        "three-bytes-cut-to-one": b"\xe2",
        "four-bytes-cut-to-three": b"\xf0\x9f\xa4",
        "four-bytes-interrupted": b"\xf0\x9f\xa4a\x97",
        "overlong-three-bytes": b"\xe0\x80\xaf",
        "overlong-quote": b"\xc0\xa2",
        "windows-1252-quotes": b"\x93\x94",
        "latin-1-letter": b"\xe9a",
    },
)
def bytes_in_name(f: FileBuilder, value: bytes) -> None:
    """A tensor name holds bytes that are not UTF-8: $slug.

    Decoders that replace, skip or guess give the tensor different names.
    """
    header_text(f, b'{"w' + value + b'":ENTRY}')


@rejects(
    "HDR-01",
    codes=(*BAD, "ENT_MISSING_FIELD", "ENT_UNKNOWN_FIELD", "DTY_UNKNOWN"),
    over={
        "dtype": ENTRY.encode().replace(b"F32", b"F32\xff"),
        "field-name": ENTRY.encode().replace(b"shape", b"shap\xe9"),
        "between-tokens": ENTRY.encode().replace(b":[2]", b":\xa0[2]"),
        "digit-overlong": ENTRY.encode().replace(b"[2]", b"[\xc0\xb2]"),
        "escape": ENTRY.encode().replace(b"F32", b"\\u00\xe53"),
    },
)
def bytes_in_entry(f: FileBuilder, value: bytes) -> None:
    """A tensor entry holds bytes that are not UTF-8: $slug."""
    header_text(f, b'{"w":' + value + b"}")


@rejects("HDR-01", codes=(*BAD, "HDR_BAD_PADDING"), over={"ff": b"\xff", "no-break-space": b"\xa0"})
def bytes_in_padding(f: FileBuilder, value: bytes) -> None:
    """A byte that is not UTF-8 stands in the padding: $slug."""
    f.padding = b"  " + value
    f.tensor("w", "F32", [2])


@rejects("HDR-07", "HDR-01", codes=BAD[::-1], over={"little-endian": "utf-32-le"})
@rejects("HDR-02", "HDR-01", codes=START, over={"big-endian": "utf-32-be"})
@rejects("HDR-01", "HDR-05", codes=("HDR_NOT_UTF8", *START[:3]), over={"with-mark": "utf-32-le-mark"})
def utf32(f: FileBuilder, value: str) -> None:
    """The header text in UTF-32: $slug."""
    raw = f'{{"w":{ENTRY}}}'.encode(value.removesuffix("-mark"))
    header_text(f, (b"\xff\xfe\0\0" if value.endswith("-mark") else b"") + raw)


@rejects("HDR-02", codes=START)
def utf7(f: FileBuilder) -> None:
    """The header text in UTF-7, whose braces are spelled in letters."""
    letters = b64encode(f'{{"w":{ENTRY}}}'.encode("utf-16-be")).rstrip(b"=")
    header_text(f, b"+" + letters + b"-")


@rejects("HDR-01", "HDR-02", codes=("HDR_NOT_UTF8", *START[:3]))
def ebcdic(f: FileBuilder) -> None:
    """The header text in EBCDIC."""
    header_text(f, f'{{"w":{ENTRY}}}'.encode("cp037"))


@rejects("HDR-14", "HDR-01", codes=("HDR_NOT_JSON", "HDR_NOT_UTF8"), over={"little": "le", "big": "be"})
def utf16_in_name(f: FileBuilder, value: str) -> None:
    """One tensor name is written in UTF-16, all the rest in UTF-8: $slug-endian.

    The bytes are UTF-8 as well, but every second one is a raw NUL.
    """
    header_text(f, b'{"' + "weight".encode(f"utf-16-{value}") + b'":ENTRY}')


@accepts("HDR-01", "ENT-08")
def edges_of_utf8_in_name(f: FileBuilder) -> None:
    """A name holds the first and last characters of each length in UTF-8.

    Wrong limits in a hand-written decoder show at the edges.
    """
    f.tensor(EDGES, "F32", [2])


@accepts("HDR-01", "MET-04")
def edges_of_utf8_in_metadata(f: FileBuilder) -> None:
    """Metadata key and value hold the first and last characters of each length in UTF-8."""
    f.metadata({EDGES: EDGES[::-1]})
    f.tensor("w", "F32", [2])


@accepts(
    "HDR-19",
    "HDR-01",
    over={
        "utf-7": "+AHc-",
        "mojibake": "\xc3\xa9",
    },
)
def name_like_decoding_fault(f: FileBuilder, value: str) -> None:
    """A name that looks as if it had been decoded wrongly: $slug.

    It is valid text; a reader that repairs it renames the tensor.
    """
    f.tensor(value, "F32", [2])
