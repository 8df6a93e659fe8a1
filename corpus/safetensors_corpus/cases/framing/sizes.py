"""Framing: files and headers of few bytes, and headers at the edges of integers and of first pieces.

Readers that fetch over a network ask for the beginning of the file first and for the rest of the header only
when it is longer. The length prefix counts for eight bytes of the first piece: where a reader forgets them,
headers of certain lengths arrive without their end.
"""

from __future__ import annotations

from ...author.case import accepts, rejects
from ...author.file import FileBuilder

PAST_END = ("FRM_HEADER_PAST_EOF", "FRM_HEADER_OVER_LIMIT")
ENTRY = '{"dtype":"U8","shape":[8],"data_offsets":[0,8]}'
"""Entry of the only tensor: single bytes, which lie well wherever the data begins."""
PIECES = (65_536, 100_000, 131_072)
"""Sizes of a first piece that real readers fetch, or that a buffer has."""
LENGTHS = {str(n): n for n in (*range(65_527, 65_538), *range(99_991, 100_010), *range(131_063, 131_074))}
"""Header lengths from nine bytes before to one byte behind each, and further behind the one in use."""


@accepts("FRM-01", "DAT-06", smoke=True)
def one_tensor(f: FileBuilder) -> None:
    """The smallest ordinary file: one tensor of two floats."""
    f.tensor("w", "F32", [2])


@accepts("FRM-09", "FRM-04", over={"bare": b"", "padded": b" " * 6})
def empty_container(f: FileBuilder, value: bytes) -> None:
    """An empty header object and no data: a container without tensors ($slug).

    Code that takes the minimum of all offsets, or maps the data buffer, meets nothing here.
    """
    f.padding = value


@rejects("FRM-09", "OFF-08", codes=("OFF_TRAILING", "OFF_HOLE"), importance="high", bugs=("FB-03",))
def empty_container_one_byte(f: FileBuilder) -> None:
    """An empty header object followed by one data byte.

    A check that runs once per tensor never looks at the end of this file.
    """
    f.gap(1)


@rejects("FRM-03", codes="FRM_TOO_SHORT", importance="high", smoke=True, bugs=("FB-02",))
def no_bytes(f: FileBuilder) -> None:
    """An empty file has no length prefix."""
    f.header = b""
    f.cut = 8


@rejects("FRM-03", codes="FRM_TOO_SHORT", importance="high", over={"1": 1, "4": 4, "7": 7}, bugs=("FB-02",))
def short_file(f: FileBuilder, value: int) -> None:
    """A file of size $value ends inside the length prefix.

    Reading eight bytes without looking at the count fills the rest with zeros or old memory.
    """
    f.header = b""
    f.length = 2
    f.cut = 8 - value


@accepts("FRM-09", "HDR-03", "FRM-03", "FRM-07", over={str(n): n for n in (*range(3, 8), *range(9, 17))})
def small_header(f: FileBuilder, value: int) -> None:
    """A file without tensors whose header has $value bytes: two braces and spaces.

    Readers that expect a certain smallest size of header or file refuse it.
    """
    f.header = b"{}".ljust(value)


SMALL_BROKEN = {
    "1-brace": b"{",
    "3-brace-first": b"{  ",
    "5-key-alone": b'{"a"}',
    "6-no-value": b'{"a":}',
    "7-name-unclosed": b'{"abcde',
}


OTHER_START = {"2-braces-exchanged": b"}{", "8-nul": bytes(8)}


@rejects("HDR-07", "HDR-06", codes="HDR_NOT_JSON", over=SMALL_BROKEN)
@rejects(
    "HDR-06", "HDR-02", codes=("HDR_NOT_OBJECT", "HDR_BAD_START", "HDR_NOT_JSON"), over={"1-space": b" "}
)
@rejects("HDR-02", "HDR-06", codes=("HDR_BAD_START", "HDR_NOT_OBJECT", "HDR_NOT_JSON"), over=OTHER_START)
def small_header_of(f: FileBuilder, value: bytes) -> None:
    """The whole header is too short to be an object, or is none: $slug.

    Looking at the last byte, or at the second, without a look at the length reads outside the header.
    """
    f.header = value


@accepts("FRM-05", "FRM-02", over={str(n): n for n in (128, 256)})
@accepts("FRM-05", "FRM-02", over={"32768": 32768}, importance="low")
@accepts("FRM-08", "FRM-05", "FRM-02", over={str(n): n for n in (127, 255)})
@accepts("FRM-08", "FRM-05", "FRM-02", over={"32767": 32767}, importance="low")
def header_size(f: FileBuilder, value: int) -> None:
    """A header of $value bytes in front of one tensor.

    Around such lengths a byte of the prefix changes its top bit or is carried into the next. Single bytes as
    data are well placed wherever they begin.
    """
    f.padding = b""
    f.tensor("w", "U8", [8])
    f.padding = b" " * (value - (len(f.render()) - 16))


@accepts("FRM-09", "FRM-04", "FRM-06", "LIM-02")
def header_fills_file(f: FileBuilder) -> None:
    """A file of 64 KiB that is all header, to the last byte.

    The claimed length is large and true; only one byte more would be a lie.
    """
    f.header = b"{}".ljust(65_536 - 8)


@rejects("FRM-04", "LIM-02", codes=PAST_END, importance="critical")
def header_fills_file_and_one(f: FileBuilder) -> None:
    """A file of 64 KiB whose header is claimed to have one byte more than the file holds."""
    f.header = b"{}".ljust(65_536 - 8)
    f.length = 65_536 - 7


def _pad(f: FileBuilder, length: int) -> None:
    f.tensor("w", "U8", [8])
    f.padding = b""
    f.padding = b" " * (length - (len(f.render()) - 8 - 8))


def _stretch(f: FileBuilder, length: int) -> None:
    """Make the header ``length`` bytes long, with spaces behind its first byte and a brace as its last."""
    f.tensor("w", "U8", [8])
    member = f'"w":{ENTRY}}}'.encode()
    f.header = b"{" + b" " * (length - 1 - len(member)) + member


@accepts(
    "LIM-10",
    "FRM-08",
    "FRM-01",
    importance="high",
    over=LENGTHS,
)
def stretched_header_of(f: FileBuilder, value: int) -> None:
    """A header of $value bytes: an opening brace, many spaces, one entry and the closing brace.

    When a single byte at the end of the header is missing, it is no JSON any more.
    """
    _stretch(f, value)


@accepts("LIM-10", "FRM-08", "MET-04", importance="high")
def metadata_up_to_the_first_piece(f: FileBuilder) -> None:
    """A header of 99,997 bytes, as a long model card in the metadata makes it.

    Cut at 99,993 bytes it ends inside the entry of the only tensor.
    """
    f.padding = b""
    f.metadata({"card": "-" * (99_997 - len('{"__metadata__":{"card":""},"w":}') - len(ENTRY))})
    f.tensor("w", "U8", [8])


@accepts(
    "LIM-10",
    "FRM-08",
    "FRM-01",
    over={str(n): n for n in (65_529, 65_535, 65_536, 65_537, 99_993, 99_999, 100_000, 100_001, 131_072)},
)
def padded_header_of(f: FileBuilder, value: int) -> None:
    """A header of $value bytes, most of which are spaces behind the object.

    The end of such a header can be lost without anybody noticing; the data then begins too early.
    """
    _pad(f, value)


@rejects(
    "FRM-04",
    "LIM-10",
    codes=("FRM_HEADER_PAST_EOF", "HDR_NOT_JSON", "OFF_OUT_OF_BOUNDS"),
    importance="high",
    over={str(n): n for n in (65_530, 65_536, 99_993, 99_994, 100_000, 100_001, 131_072)},
)
def header_cut_by_one_byte_of(f: FileBuilder, value: int) -> None:
    """The file ends one byte before the end of its header of $value bytes, with the padding of the header.

    A reader that takes whatever the second request brings does not notice that the file is too short.
    """
    f.header = b"{}" + b" " * (value - 2)
    f.cut = 1


@rejects(
    "OFF-04",
    "LIM-10",
    codes="OFF_OUT_OF_BOUNDS",
    importance="high",
    over={str(n): n for n in PIECES},
)
def data_cut_behind_header_of(f: FileBuilder, value: int) -> None:
    """Header and prefix fill a first piece of $value bytes exactly, and the data behind it lacks a byte."""
    _pad(f, value - 8)
    f.cut = 1
