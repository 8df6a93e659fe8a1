"""Metadata: the text of the map, its JSON in keys and in values, permitted and not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...author.case import accepts, chooses, rejects
from ...author.parts import LONE_OPTIONS, metadata_with_escapes

if TYPE_CHECKING:
    from ...author.file import FileBuilder

KEY = '"__metadata__"'
BAD_STRING = ("HDR_NOT_JSON", "HDR_NOT_UTF8")


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


@rejects(
    "HDR-07",
    codes=("HDR_NOT_JSON", "MET_VALUE_NOT_STRING", "MET_NOT_MAP"),
    over={
        "two-commas": b'{"a":"b",,"c":"d"}',
        "no-value": b'{"a":}',
        "value-unclosed": b'{"a":"b}',
        "value-of-two-strings": b'{"a":"b""c"}',
        "curly-quotes": "{\u201ca\u201d:\u201cb\u201d}".encode(),
        "space-of-another-kind": "{\xa0}".encode(),
    },
)
@rejects(
    "HDR-14",
    "MET-04",
    codes="HDR_NOT_JSON",
    over={
        "raw-tab": b'{"a":"b\tc"}',
        "raw-control-in-key": b'{"a\x1f":"b"}',
    },
)
@rejects(
    "HDR-15",
    "MET-04",
    codes=BAD_STRING,
    over={
        "escape-letter-a": rb'{"a":"\a"}',
        "escape-line-break": b'{"a":"b\\\nc"}',
        "escape-of-two-digits": rb'{"a\u41":"b"}',
        "escape-in-windows-path": rb'{"path":"C:\models\w"}',
    },
)
@chooses(
    "lone-surrogates",
    "MET-04",
    options=LONE_OPTIONS,
    over={
        "surrogate-then-letter": rb'{"a":"\ud800b"}',
        "surrogates-reversed-in-key": rb'{"\ude00\ud83d":"b"}',
    },
)
@rejects(
    "HDR-01",
    "MET-04",
    codes=("HDR_NOT_UTF8", "HDR_NOT_JSON"),
    over={
        "four-bytes-cut": b'{"a":"\xf0\x9f\xa4"}',
        "overlong-quote": b'{"a":"b\xc0\xa2,"}',
    },
)
def map_form(f: FileBuilder, value: bytes) -> None:
    """The metadata is written in a way that JSON or UTF-8 does not allow or gives no meaning: $slug.

    Metadata often comes from text pasted together by hand, and loaders tend to skip it unread.
    """
    metadata_with_escapes(f, value)


@accepts(
    "MET-04",
    "MET-01",
    over={
        "noncharacters": {"\ufffe": "\uffff\ufdd0\U0001ffff"},
        "all-controls": {"".join(map(chr, range(32))): "".join(map(chr, range(31, -1, -1)))},
        "beyond-bmp": {"\U0001f917": "\U0010fffd\U00020000"},
        "line-separators": {"a\u2028b": "c\u2029d"},
        "bidirectional": {"\u202ekey": "\u2066value\u2069"},
        "object-members": {"__proto__": "a", "constructor": "b", "__class__": "c", "hasOwnProperty": "d"},
        "code-points-behind-nul": {"a\0b": "1", "a\0c": "2", "a": "3"},
        "long-key": {"k" * 20_000: "value"},
        "four-byte-characters": {"key": "\U0001f917" * 5000},
    },
)
def text_of(f: FileBuilder, value: dict[str, str]) -> None:
    """Metadata keys and values of unusual but permitted characters: $slug.

    The map must come back character for character, with every key in it.
    """
    f.metadata(value)
    f.tensor("w", "F32", [2])


@accepts(
    "MET-04",
    "HDR-15",
    over={
        "all-controls": ("".join(map(chr, range(32))), "".join(f"\\u{n:04X}" for n in range(32))),
        "pairs": ("\U0001f917\U0010ffff", r"\ud83e\udd17\udbff\udfff"),
        "backslash-before-u": ("\\u0041", r"\\u0041"),
        "every-letter": ("value", r"\u0076\u0061\u006c\u0075\u0065"),
    },
)
def text_with_escapes(f: FileBuilder, value: tuple[str, str]) -> None:
    """Metadata key and value are written with escapes: $slug."""
    plain, escaped = value
    f.metadata({plain: plain}, raw=f'{{"{escaped}":"{escaped}"}}')
    f.tensor("w", "F32", [2])
