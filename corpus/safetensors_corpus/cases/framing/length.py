"""Framing: the length prefix, missing, misplaced, or other than the header and the file."""

from __future__ import annotations

from ...author.case import accepts, rejects
from ...author.file import FileBuilder, json_text

CAP = 100_000_000
ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
OVER_LIMIT = ("FRM_HEADER_OVER_LIMIT", "FRM_HEADER_PAST_EOF")
PAST_END = ("FRM_HEADER_PAST_EOF", "FRM_HEADER_OVER_LIMIT")
COUNTED_WRONG = ("HDR_BAD_PADDING", "HDR_NOT_JSON", "HDR_NOT_UTF8", "OFF_OUT_OF_BOUNDS")


def _whole(f: FileBuilder, data: bytes) -> None:
    """Make ``data`` the whole file, whatever its first eight bytes say."""
    f.length = int.from_bytes(data[:8], "little")
    f.header = data[8:]


@rejects("FRM-04", codes=("FRM_HEADER_PAST_EOF", "HDR_NOT_JSON"), importance="high", bugs=("FB-02",))
def length_prefix_alone(f: FileBuilder) -> None:
    """A correct length prefix, and nothing behind it."""
    f.header = b""
    f.length = 64


@rejects(
    "FRM-04", codes=("FRM_HEADER_PAST_EOF", "HDR_NOT_JSON"), importance="high", smoke=True, bugs=("FB-02",)
)
def cut_in_header(f: FileBuilder) -> None:
    """The file stops in the middle of its header, as after a broken download."""
    f.tensor("w", "F32", [2])
    f.cut = 30


@rejects(
    "FRM-04", codes=("FRM_HEADER_PAST_EOF", "HDR_NOT_JSON"), importance="critical", bugs=("FB-02", "FB-63")
)
def length_one_past_end(f: FileBuilder) -> None:
    """The length prefix reaches one byte beyond the end of the file.

    The header text itself is complete, so a reader that clips the range notices nothing.
    """
    f.length = 9
    f.header = b"{}      "


@rejects(
    "FRM-04",
    codes=("FRM_HEADER_PAST_EOF", "HDR_BAD_PADDING", "HDR_NOT_JSON"),
    importance="critical",
    bugs=("FB-53",),
)
def length_counts_file(f: FileBuilder) -> None:
    """The length prefix holds the size of the whole file.

    A comparison that forgets the eight bytes of the prefix lets it pass and reads past the end.
    """
    f.tensor("w", "F32", [2])
    f.length = len(f.render())


@rejects("HDR-03", "FRM-01", codes=COUNTED_WRONG, importance="high")
def length_counts_prefix(f: FileBuilder) -> None:
    """The length prefix counts its own eight bytes, which makes the data a part of the header."""
    f.tensor("w", "F32", [2])
    f.length = len(f.render()) - 8


@rejects("HDR-03", "FRM-01", codes=COUNTED_WRONG, importance="high")
def length_one_more(f: FileBuilder) -> None:
    """The length prefix is one too large and takes in the first data byte."""
    f.tensor("w", "F32", [2])
    f.length = len(f.render()) - 8 - 8 + 1


@rejects("OFF-04", "FRM-01", codes="OFF_OUT_OF_BOUNDS", importance="critical", bugs=("FB-03",))
def length_one_more_blank(f: FileBuilder) -> None:
    """The length prefix is one too large, and the data byte it takes in looks like padding.

    The header stays well-formed; only the last tensor now reaches one byte past the end of the file.
    """
    f.tensor("w", "U8", [8], b" seven..")
    f.length = len(f.render()) - 8 - 8 + 1


@rejects("HDR-07", "FRM-01", codes=("HDR_NOT_JSON", "OFF_TRAILING", "OFF_HOLE"), importance="high")
def length_one_less(f: FileBuilder) -> None:
    """The length prefix is one too small and leaves the closing brace to the data."""
    f.padding = b""
    f.tensor("w", "F32", [2])
    f.length = len(f.render()) - 8 - 8 - 1


@rejects("FRM-02", codes=OVER_LIMIT, importance="high")
def length_prefix_big_endian(f: FileBuilder) -> None:
    """The length prefix is written with its most significant byte first."""
    f.tensor("w", "F32", [2])
    length = len(f.render()) - 8 - 8
    f.length = int.from_bytes(length.to_bytes(8, "big"), "little")


@rejects("FRM-02", codes=OVER_LIMIT)
def length_prefix_4_bytes(f: FileBuilder) -> None:
    """The length prefix has only four bytes, the header text follows at once."""
    header = json_text({"w": ENTRY}).encode()
    _whole(f, len(header).to_bytes(4, "little") + header + bytes(8))


@rejects(
    "FRM-02",
    "FRM-05",
    codes=OVER_LIMIT,
    importance="critical",
    over={"32": 32, "63": 63},
)
def length_bit_added(f: FileBuilder, value: int) -> None:
    """The length prefix is the true length with bit $value set as well.

    A reader that keeps 32 bits, or drops the sign, sees a perfect file.
    """
    f.tensor("w", "F32", [2])
    f.length = len(f.render()) - 8 - 8 + 2**value


@rejects(
    "FRM-04",
    "FRM-05",
    codes=OVER_LIMIT,
    importance="critical",
    over={"2p63-less-1": 2**63 - 1, "2p63": 2**63},
    issue="https://github.com/ollama/ollama/issues/16190",
    bugs=("FB-55", "FB-86"),
)
@rejects(
    "FRM-04",
    "FRM-05",
    codes=OVER_LIMIT,
    importance="critical",
    over={"2p64-less-8": 2**64 - 8},
    bugs=("FB-55", "FB-86"),
)
@rejects(
    "FRM-04",
    "FRM-05",
    codes=OVER_LIMIT,
    importance="critical",
    over={"2p64-less-1": 2**64 - 1},
    issue="https://github.com/antirez/ds4/issues/542",
    bugs=("FB-55", "FB-57", "FB-86"),
)
def length_prefix_huge(f: FileBuilder, value: int) -> None:
    """The length prefix claims $value bytes.

    Read as a signed number it is negative or the largest possible; added to 8 it may wrap around.
    """
    f.tensor("w", "F32", [2])
    f.length = value


@rejects(
    "FRM-06",
    "FRM-04",
    "LIM-02",
    codes=OVER_LIMIT,
    importance="critical",
    over={"100000001": CAP + 1, "2p31": 2**31, "2p32": 2**32, "2p40": 2**40},
    bugs=("FB-78", "FB-86", "FB-91", "FB-130"),
)
def length_over_cap(f: FileBuilder, value: int) -> None:
    """Sixteen bytes of file whose length prefix claims a header of $value bytes.

    Memory for the header must not be taken before the claim is compared with the cap and the file size.
    """
    f.header = b"{}      "
    f.length = value


@rejects("FRM-04", "LIM-02", codes=PAST_END, importance="critical", bugs=("FB-78", "FB-130"))
def length_at_cap(f: FileBuilder) -> None:
    """Sixteen bytes of file whose length prefix claims exactly the largest permitted header.

    The cap alone does not stop it: only a look at the file size does.
    """
    f.header = b"{}      "
    f.length = CAP


@rejects(
    "FRM-07",
    codes=("FRM_HEADER_EMPTY", "HDR_NOT_JSON", "HDR_NOT_OBJECT", "HDR_BAD_START"),
    importance="high",
    over={"alone": b"", "before-data": bytes(8), "before-object": b"{}      "},
)
def length_zero(f: FileBuilder, value: bytes) -> None:
    """A header length of zero ($slug).

    An empty header is not an empty object; a reader that looks at its first byte looks outside it.
    """
    f.header = b""
    f.trailer = value


@accepts(
    "FRM-08",
    "OFF-11",
    over={str(n): n for n in range(1, 8)},
    importance="high",
    issue="https://github.com/ggml-org/llama.cpp/issues/18282",
    bugs=("FB-106",),
)
def length_mod_8(f: FileBuilder, value: int) -> None:
    """An unpadded header whose length leaves a remainder of $value when divided by 8.

    A reader that rounds the start of the data up to a boundary returns shifted values.
    """
    shortest = len(json_text({"w": ENTRY}))
    f.padding = b""
    f.tensor("w" * (1 + (value - shortest) % 8), "F32", [2])


@rejects("OFF-08", "FRM-01", "HDR-04", codes=("OFF_TRAILING", "OFF_HOLE"), importance="high", bugs=("FB-03",))
def data_start_rounded_up(f: FileBuilder) -> None:
    """Zero bytes that no length counts bring the data to a multiple of 64.

    Offsets count from the end of the header, so readers that do not round see other bytes.
    """
    f.padding = b""
    header = json_text({"w": ENTRY}).encode()
    f.gap(-(8 + len(header)) % 64)
    f.tensor("w", "F32", [2], begin=0, end=8)


@rejects("FRM-01", codes=PAST_END, importance="high", over={"nul": b"\0", "line-feed": b"\n"})
@rejects("FRM-01", codes=OVER_LIMIT, importance="high", over={"byte-order-mark": b"\xef\xbb\xbf"})
def prefix_byte(f: FileBuilder, value: bytes) -> None:
    """An otherwise perfect file with something in front of its length prefix ($slug)."""
    f.tensor("w", "F32", [2])
    f.prefix = value


@rejects("HDR-02", "FRM-01", codes=("HDR_BAD_START", "HDR_NOT_JSON", "HDR_NOT_OBJECT"))
def length_prefix_twice(f: FileBuilder) -> None:
    """The length prefix stands in the file twice."""
    f.tensor("weights", "F32", [2])
    f.prefix = f.render()[:8]


@rejects("FRM-01", codes=OVER_LIMIT)
def no_length_prefix(f: FileBuilder) -> None:
    """The file starts with the header text, the length prefix is missing."""
    _whole(f, json_text({"w": ENTRY}).encode() + bytes(8))


@rejects(
    "FRM-04",
    "FRM-05",
    codes=OVER_LIMIT,
    importance="critical",
    over={
        "2p31-less-8": 2**31 - 8,
        "2p31-less-1": 2**31 - 1,
        "2p32-less-8": 2**32 - 8,
        "2p32-less-1": 2**32 - 1,
        "2p63-less-8": 2**63 - 8,
        "2p64-less-9": 2**64 - 9,
        "2p64-less-7": 2**64 - 7,
    },
)
def length_before_wrap(f: FileBuilder, value: int) -> None:
    """The length prefix claims a header of $slug bytes, so that 8 more meet or pass a power of two.

    The end of the header then comes out as zero, one, negative or the largest integer.
    """
    f.tensor("w", "F32", [2])
    f.length = value


@rejects("FRM-02", "FRM-04", codes=PAST_END, importance="critical", over={"16": 16, "24": 24})
@rejects("FRM-02", "FRM-05", codes=OVER_LIMIT, importance="critical", over={"31": 31, "40": 40, "62": 62})
def length_and_bit(f: FileBuilder, value: int) -> None:
    """The length prefix is the true length with bit $value set as well.

    A reader that keeps only the low bytes sees a perfect file.
    """
    f.tensor("w", "F32", [2])
    f.length = len(f.render()) - 16 + 2**value
