"""Metadata: the text of the map, permitted and not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...author.case import accepts, chooses, rejects
from ...author.parts import LONE_OPTIONS, metadata_with_escapes

if TYPE_CHECKING:
    from ...author.file import FileBuilder

KEY = '"__metadata__"'


@accepts(
    "MET-04",
    "MET-01",
    over={
        "empty-key": {"": "value"},
        "empty-value": {"key": ""},
        "nul": {"a\0b": "c\0d"},
        "line-feed": {"a\nb": "c\r\n\td"},
        "non-ascii": {"größe": "千"},
        "byte-order-mark": {"\ufeffkey": "\ufeffvalue"},
        "normal-forms": {"\xe9": "composed", "e\u0301": "decomposed"},
    },
)
def text(f: FileBuilder, value: dict[str, str]) -> None:
    """Metadata with unusual but permitted text in keys and values ($slug).

    Strings that end at a NUL, are trimmed or normalised come back changed.
    """
    f.metadata(value)
    f.tensor("w", "F32", [2])


@accepts("HDR-15", "MET-04")
def text_escaped(f: FileBuilder) -> None:
    """Metadata whose key and value are written with escapes."""
    f.metadata({"a/b": '\U0001f600"\\\xe9'}, raw=r'{"a\/\u0062":"\ud83d\ude00\"\\\u00E9"}')
    f.tensor("w", "F32", [2])


@rejects(
    "HDR-07",
    codes=("HDR_NOT_JSON", "MET_VALUE_NOT_STRING"),
    over={
        "trailing-comma": b'{"a":"b",}',
        "no-comma": b'{"a":"b" "c":"d"}',
        "bare-key": b'{a:"b"}',
        "bare-value": b'{"a":b}',
        "single-quotes": b"{'a':'b'}",
        "block-comment": b'{/* none */"a":"b"}',
        "no-closing-brace": b'{"a":"b"',
    },
)
@rejects("HDR-14", codes="HDR_NOT_JSON", over={"raw-line-feed": b'{"a":"b\nc"}', "raw-nul": b'{"a\0b":"c"}'})
@rejects(
    "HDR-15",
    codes=("HDR_NOT_JSON", "HDR_NOT_UTF8"),
    over={
        "hex-escape": rb'{"a":"\x41"}',
    },
)
@chooses(
    "lone-surrogates",
    "MET-04",
    options=LONE_OPTIONS,
    over={"lone-surrogate": rb'{"a":"\ud800"}', "lone-surrogate-key": rb'{"\udc00":"b"}'},
)
@rejects(
    "HDR-01",
    codes=("HDR_NOT_UTF8", "HDR_NOT_JSON"),
    over={
        "ff-byte": b'{"a":"\xff"}',
        "overlong-key": b'{"\xc1\xa1":"b"}',
        "encoded-surrogate": b'{"a":"\xed\xa0\x80"}',
    },
)
def map_text(f: FileBuilder, value: bytes) -> None:
    """The metadata map is written in a way that JSON does not allow or gives no meaning ($slug).

    Metadata is where people edit by hand; a relaxed parser passes their mistakes on.
    """
    metadata_with_escapes(f, value)
