"""Framing: header lengths at which the first piece of a file, fetched in advance, ends.

Readers that fetch over a network ask for the beginning of the file first and for the rest of the header only
when it is longer. The length prefix counts for eight bytes of the first piece: where a reader forgets them,
headers of certain lengths arrive without their end.
"""

from __future__ import annotations

from ...author.case import accepts, rejects
from ...author.file import FileBuilder

ENTRY = '{"dtype":"U8","shape":[8],"data_offsets":[0,8]}'
"""Entry of the only tensor: single bytes, which lie well wherever the data begins."""
PIECES = (65_536, 100_000, 131_072)
"""Sizes of a first piece that real readers fetch, or that a buffer has."""
LENGTHS = {str(n): n for n in (*range(65_527, 65_538), *range(99_991, 100_010), *range(131_063, 131_074))}
"""Header lengths from nine bytes before to one byte behind each, and further behind the one in use."""


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
