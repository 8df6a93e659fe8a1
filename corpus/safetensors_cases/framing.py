"""Framing: the length prefix, the sizes of files and headers, and files of other formats.

In some cases, the prefix is missing or misplaced, or contradicts the header or the file. In other cases, the
file or the header is tiny, or its size is at the limit of an integer type or of the first read. A reader that
fetches a file over a network first requests its beginning, and requests the rest of the header only if the
header is longer. The prefix takes up eight bytes of that first read. A reader that does not allow for the
prefix loses the end of headers of certain lengths.
"""

from __future__ import annotations

from safetensors_corpus.author.case import accepts, rejects
from safetensors_corpus.author.file import FileBuilder
from safetensors_corpus.author.parts import ENTRY, card_header, pad_header, powers, stretched_header

CAP = 100_000_000
ONE = f'{{"w":{ENTRY}}}'.encode()
"""Header of a file with one tensor."""
OVER_LIMIT = "FRM_HEADER_OVER_LIMIT FRM_HEADER_PAST_EOF"
PAST_END = "FRM_HEADER_PAST_EOF FRM_HEADER_OVER_LIMIT"
NOT_THERE = "FRM_HEADER_PAST_EOF HDR_NOT_JSON"
COUNTED_WRONG = "HDR_BAD_PADDING HDR_NOT_JSON HDR_NOT_UTF8 OFF_OUT_OF_BOUNDS"
LENGTHS = (*range(65_527, 65_538), *range(99_991, 100_010), *range(131_063, 131_074))
"""Header lengths from nine bytes below each size to one byte above it. For 100,000, the size
that a real reader uses, the lengths extend to nine bytes above it.
"""


def _whole(f: FileBuilder, data: bytes) -> None:
    f.length = int.from_bytes(data[:8], "little")
    f.header = data[8:]


def _byte_tensor(f: FileBuilder, header: int) -> None:
    """Add a tensor of single bytes, which need no alignment, and pad the header to ``header`` bytes."""
    f.tensor("w", "U8", [8])
    pad_header(f, header)


@rejects("FRM-04", NOT_THERE, importance="high", bugs="FB-02")
def length_prefix_alone(f: FileBuilder) -> None:
    """The file ends after a correct length prefix."""
    f.header = b""
    f.length = 64


@rejects("FRM-04", NOT_THERE, importance="high", smoke=True, bugs="FB-02")
def cut_in_header(f: FileBuilder) -> None:
    """The file ends in the middle of its header, as after an interrupted download."""
    f.tensor("w", "F32", [2])
    f.cut = 30


@rejects("FRM-04", NOT_THERE, bugs="FB-02 FB-63")
def length_one_past_end(f: FileBuilder) -> None:
    """The length prefix reaches one byte past the end of the file.

    The header text is complete, so a reader that clips the range to the file does not notice the fault.
    """
    f.length = 9
    f.header = b"{}      "


@rejects("FRM-04", "FRM_HEADER_PAST_EOF HDR_BAD_PADDING HDR_NOT_JSON", bugs="FB-53")
def length_counts_file(f: FileBuilder) -> None:
    """The length prefix is the size of the whole file.

    A check that ignores the eight bytes of the prefix accepts this value, and the reader reads past the end.
    """
    f.tensor("w", "F32", [2])
    f.length = len(f.render())


@rejects("HDR-03 FRM-01", COUNTED_WRONG, importance="high")
def length_counts_prefix(f: FileBuilder) -> None:
    """The length prefix counts its own eight bytes, so the header includes data."""
    f.tensor("w", "F32", [2])
    f.length = len(f.render()) - 8


@rejects("HDR-03 FRM-01", COUNTED_WRONG, importance="high")
def length_one_more(f: FileBuilder) -> None:
    """The length prefix is one too large and includes the first data byte."""
    f.tensor("w", "F32", [2])
    f.length = len(f.render()) - 8 - 8 + 1


@rejects("OFF-04 FRM-01", "OFF_OUT_OF_BOUNDS", bugs="FB-03")
def length_one_more_blank(f: FileBuilder) -> None:
    """The length prefix is one too large, and the data byte it includes looks like padding.

    The header is still well-formed. The only fault is that the last tensor now ends one byte past the end of
    the file.
    """
    f.tensor("w", "U8", [8], b" seven..")
    f.length = len(f.render()) - 8 - 8 + 1


@rejects("HDR-07 FRM-01", "HDR_NOT_JSON OFF_TRAILING OFF_HOLE", importance="high")
def length_one_less(f: FileBuilder) -> None:
    """The length prefix is one too small, so the closing brace becomes part of the data."""
    f.padding = b""
    f.tensor("w", "F32", [2])
    f.length = len(f.render()) - 8 - 8 - 1


@rejects("FRM-02", OVER_LIMIT, importance="high")
def length_prefix_big_endian(f: FileBuilder) -> None:
    """The length prefix is written with its most significant byte first."""
    f.tensor("w", "F32", [2])
    length = len(f.render()) - 8 - 8
    f.length = int.from_bytes(length.to_bytes(8, "big"), "little")


@rejects("FRM-02", OVER_LIMIT, importance="medium")
def length_prefix_4_bytes(f: FileBuilder) -> None:
    """The length prefix has only four bytes, and the header text follows immediately."""
    _whole(f, len(ONE).to_bytes(4, "little") + ONE + bytes(8))


@rejects("FRM-02 FRM-05", OVER_LIMIT, over=(32, 63))
def length_bit_added(f: FileBuilder, value: int) -> None:
    """Bit $value is set in the otherwise correct length prefix.

    A reader that keeps only 32 bits, or drops the sign, sees a valid file.
    """
    f.tensor("w", "F32", [2])
    f.length = len(f.render()) - 8 - 8 + 2**value


@rejects(
    "FRM-04 FRM-05",
    OVER_LIMIT,
    over=powers("2p63-less-1", "2p63", "2p64-less-8", "2p64-less-1"),
    issue=dict.fromkeys(("2p63-less-1", "2p63"), "ollama/ollama#16190") | {"2p64-less-1": "antirez/ds4#542"},
    bugs=dict.fromkeys(("2p63-less-1", "2p63", "2p64-less-8"), "FB-55 FB-86")
    | {"2p64-less-1": "FB-55 FB-57 FB-86"},
)
def length_prefix_huge(f: FileBuilder, value: int) -> None:
    """The length prefix claims $value bytes.

    As a signed number, the length is negative or the largest possible. Adding 8 to the length may make it
    wrap around.
    """
    f.tensor("w", "F32", [2])
    f.length = value


@rejects(
    "FRM-06 FRM-04 LIM-02",
    OVER_LIMIT,
    over={"100000001": CAP + 1, "2p31": 2**31, "2p32": 2**32, "2p40": 2**40},
    bugs="FB-78 FB-86 FB-91 FB-130",
)
def length_over_cap(f: FileBuilder, value: int) -> None:
    """A file of sixteen bytes has a length prefix that claims a header of $value bytes.

    A reader must compare the claimed length with the cap and the file size before it allocates memory.
    """
    f.header = b"{}      "
    f.length = value


@rejects("FRM-04 LIM-02", PAST_END, bugs="FB-78 FB-130")
def length_at_cap(f: FileBuilder) -> None:
    """A file of sixteen bytes has a length prefix that claims the largest permitted header.

    The length does not exceed the cap, so only a comparison with the file size rejects the file.
    """
    f.header = b"{}      "
    f.length = CAP


@rejects(
    "FRM-07",
    "FRM_HEADER_EMPTY HDR_NOT_JSON HDR_NOT_OBJECT HDR_BAD_START",
    over={"alone": b"", "before-data": bytes(8), "before-object": b"{}      "},
)
def length_zero(f: FileBuilder, value: bytes) -> None:
    """The header length is zero ($slug).

    An empty header is not an empty object. A reader that checks the first byte of the header reads out of
    bounds.
    """
    f.header = b""
    f.trailer = value


@accepts(
    "FRM-08 OFF-11", over=range(1, 8), importance="high", issue="ggml-org/llama.cpp#18282", bugs="FB-106"
)
def length_mod_8(f: FileBuilder, value: int) -> None:
    """The header is not padded, and its length modulo 8 is $value.

    A reader that rounds the start of the data up to a boundary returns shifted values.
    """
    f.padding = b""
    f.tensor("w" * (1 + (value - len(ONE)) % 8), "F32", [2])


@rejects("OFF-08 FRM-01 HDR-04", "OFF_TRAILING OFF_HOLE", bugs="FB-03")
def data_start_rounded_up(f: FileBuilder) -> None:
    """Zeros after the header align the data to a multiple of 64, but the header length does not include them.

    Offsets count from the end of the header, so readers that do not round up return different bytes.
    """
    f.padding = b""
    f.gap(-(8 + len(ONE)) % 64)
    f.tensor("w", "F32", [2], begin=0, end=8)


@rejects("FRM-01", PAST_END, importance="high", over={"nul": b"\0", "line-feed": b"\n"})
@rejects("FRM-01", OVER_LIMIT, importance="high", over={"byte-order-mark": b"\xef\xbb\xbf"})
def prefix_byte(f: FileBuilder, value: bytes) -> None:
    """An extra character precedes the length prefix of an otherwise valid file ($slug)."""
    f.tensor("w", "F32", [2])
    f.prefix = value


@rejects("HDR-02 FRM-01", "HDR_BAD_START HDR_NOT_JSON HDR_NOT_OBJECT")
def length_prefix_twice(f: FileBuilder) -> None:
    """The length prefix appears twice."""
    f.tensor("weights", "F32", [2])
    f.prefix = f.render()[:8]


HEADER_COMES_FIRST = {
    "empty-tensor": b'{"w":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}',
    "metadata": b'{"__metadata__":{"format":"pt"},"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}ab',
    "padded": b'{"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}     abcd',
}


@rejects("FRM-01", OVER_LIMIT, over=HEADER_COMES_FIRST)
def header_comes_first(f: FileBuilder, value: bytes) -> None:
    """The file starts with a header that has no length prefix ($slug)."""
    _whole(f, value)


@rejects("FRM-01", OVER_LIMIT)
def no_length_prefix(f: FileBuilder) -> None:
    """The file starts with the header text instead of a length prefix."""
    _whole(f, ONE + bytes(8))


@rejects(
    "FRM-04 FRM-05",
    OVER_LIMIT,
    over=powers(
        "2p31-less-8",
        "2p31-less-1",
        "2p32-less-8",
        "2p32-less-1",
        "2p63-less-8",
        "2p64-less-9",
        "2p64-less-7",
    ),
)
def length_before_wrap(f: FileBuilder, value: int) -> None:
    """The length prefix claims $slug bytes, and adding 8 to this length reaches or passes a power of two.

    The computed end of the header then becomes zero, one, negative or the largest integer.
    """
    f.tensor("w", "F32", [2])
    f.length = value


@rejects("FRM-02 FRM-04", PAST_END, over=(16, 24))
@rejects("FRM-02 FRM-05", OVER_LIMIT, over=(31, 40, 62))
def length_and_bit(f: FileBuilder, value: int) -> None:
    """Bit $value is set in addition to the bits of the correct length prefix.

    A reader that keeps only the low bytes sees a valid file.
    """
    f.tensor("w", "F32", [2])
    f.length = len(f.render()) - 16 + 2**value


@accepts("FRM-01 DAT-06", smoke=True)
def one_tensor(f: FileBuilder) -> None:
    """The smallest ordinary file has one tensor of two floats."""
    f.tensor("w", "F32", [2])


@accepts("FRM-09 FRM-04", over={"bare": b"", "padded": b" " * 6})
def empty_container(f: FileBuilder, value: bytes) -> None:
    """The file has an empty header object, no tensors and no data ($slug).

    Code that computes the minimum of all offsets, or maps the data buffer, may fail if there are no tensors.
    """
    f.padding = value


@rejects("OFF-08 FRM-09", "OFF_TRAILING OFF_HOLE", bugs="FB-03")
def empty_container_one_byte(f: FileBuilder) -> None:
    """One data byte follows an empty header object.

    A check that runs once per tensor never runs for this file.
    """
    f.gap(1)


@rejects("FRM-03", "FRM_TOO_SHORT", smoke=True, bugs="FB-02")
def no_bytes(f: FileBuilder) -> None:
    """An empty file does not have a length prefix."""
    f.header = b""
    f.cut = 8


@rejects("FRM-03", "FRM_TOO_SHORT", over=(1, 4, 7), bugs="FB-02")
def short_file(f: FileBuilder, value: int) -> None:
    """A file of $value bytes ends inside the length prefix.

    If a reader does not check how many bytes it received, zeros or stale memory fill the rest of the prefix.
    """
    f.header = b""
    f.length = 2
    f.cut = 8 - value


@accepts("FRM-09 HDR-03 FRM-03 FRM-07", over=(*range(3, 8), *range(9, 17)))
def small_header(f: FileBuilder, value: int) -> None:
    """A file without tensors has a header of $value bytes, which consists of two braces and spaces.

    Readers that require a larger header or a larger file reject it.
    """
    f.header = b"{}".ljust(value)


OTHER_START = {"2-braces-exchanged": b"}{", "8-nul": bytes(8)}
SMALL_BROKEN = {
    "1-brace": b"{",
    "3-brace-first": b"{  ",
    "5-key-alone": b'{"a"}',
    "6-no-value": b'{"a":}',
    "7-name-unclosed": b'{"abcde',
}


@rejects("HDR-07 HDR-06", "HDR_NOT_JSON", over=SMALL_BROKEN)
@rejects("HDR-06 HDR-02", "HDR_NOT_OBJECT HDR_BAD_START HDR_NOT_JSON", over={"1-space": b" "})
@rejects("HDR-02 HDR-06", "HDR_BAD_START HDR_NOT_OBJECT HDR_NOT_JSON", over=OTHER_START)
def small_header_of(f: FileBuilder, value: bytes) -> None:
    """The header is too short to be an object, or is something other than an object: $slug.

    A reader that checks the last or second byte before it checks the length reads outside the header.
    """
    f.header = value


@accepts("FRM-05 FRM-02", over=(128, 256))
@accepts("FRM-05 FRM-02", over=(32768,), importance="low")
@accepts("FRM-08 FRM-05 FRM-02", over=(127, 255))
@accepts("FRM-08 FRM-05 FRM-02", over=(32767,), importance="low")
def header_size(f: FileBuilder, value: int) -> None:
    """A header of $value bytes precedes one tensor.

    Around these lengths, the top bit of a prefix byte changes, or a prefix byte carries into the next byte.
    The data consists of single bytes, which are aligned at any position.
    """
    _byte_tensor(f, value)


@accepts("FRM-09 FRM-04 FRM-06 LIM-02")
def header_fills_file(f: FileBuilder) -> None:
    """A file of 64 KiB consists only of a prefix and a header.

    The claimed length is large but correct. A length that is one byte larger would be wrong.
    """
    f.header = b"{}".ljust(65_536 - 8)


@rejects("FRM-04 LIM-02", PAST_END)
def header_fills_file_and_one(f: FileBuilder) -> None:
    """The length prefix of a file of 64 KiB claims one byte more than the file contains."""
    f.header = b"{}".ljust(65_536 - 8)
    f.length = 65_536 - 7


@accepts("LIM-10 FRM-08 FRM-01", importance="high", over=LENGTHS)
def stretched_header_of(f: FileBuilder, value: int) -> None:
    """A header of $value bytes has an opening brace, many spaces, one entry and the closing brace.

    Without its last byte, the header is not valid JSON.
    """
    stretched_header(f, value)


@accepts("LIM-10 FRM-08 MET-04", importance="high")
def metadata_up_to_the_first_piece(f: FileBuilder) -> None:
    """A long model card in the metadata makes the header 99,997 bytes long.

    The first 99,993 bytes of the header end inside the entry of the only tensor.
    """
    card_header(f, 99_997)


@accepts(
    "LIM-10 FRM-08 FRM-01", over=(65_529, 65_535, 65_536, 65_537, 99_993, 99_999, 100_000, 100_001, 131_072)
)
def padded_header_of(f: FileBuilder, value: int) -> None:
    """The header has $value bytes, most of which are spaces after the object.

    A reader that loses the end of such a header may not notice, and may start reading the data too early.
    """
    _byte_tensor(f, value)


@rejects(
    "FRM-04 LIM-10",
    "FRM_HEADER_PAST_EOF HDR_NOT_JSON OFF_OUT_OF_BOUNDS",
    importance="high",
    over=(65_530, 65_536, 99_993, 99_994, 100_000, 100_001, 131_072),
)
def header_cut_by_one_byte_of(f: FileBuilder, value: int) -> None:
    """The file ends inside the padding, one byte before the end of its header of $value bytes.

    A reader that does not check the length of the second response does not notice that the file is too short.
    """
    f.header = b"{}" + b" " * (value - 2)
    f.cut = 1


@rejects("OFF-04 LIM-10", "OFF_OUT_OF_BOUNDS", importance="high", over=(65_536, 100_000, 131_072))
def data_cut_behind_header_of(f: FileBuilder, value: int) -> None:
    """The prefix and the header exactly fill a first read of $value bytes, and the data is one byte short."""
    _byte_tensor(f, value - 8)
    f.cut = 1


OTHER_FORMAT = {
    "zip": b"PK\x05\x06" + bytes(18),
    "pickle": b"\x80\x02}q\x00X\x01\x00\x00\x00wq\x01K\x01s.",
    "gguf": b"GGUF\x03\x00\x00\x00" + bytes(16),
}


@rejects("FRM-01 FRM-06", OVER_LIMIT, over=OTHER_FORMAT, bugs={"pickle": "FB-122"})
def other_format(f: FileBuilder, value: bytes) -> None:
    """The file is a complete small file of another format ($slug), as if someone had renamed it."""
    _whole(f, value)


@accepts(
    "FRM-02 FRM-10",
    over={"pickle": int.from_bytes(b"\x80\x02", "little"), "zip": int.from_bytes(b"PK", "little")},
)
def length_spells_magic(f: FileBuilder, value: int) -> None:
    """The bytes of the length prefix ($value) begin like those of another format ($slug).

    Safetensors has no magic number. A reader that guesses from the first bytes misidentifies this file.
    """
    _byte_tensor(f, value)


@accepts("FRM-02 FRM-10", issue="https://github.com/promptfoo/modelaudit/pull/1612")
def length_is_short_pickle(f: FileBuilder) -> None:
    """The first two bytes of the length prefix are a complete pickle without a protocol opcode.

    A program that tries one format after another stops at the wrong format and misreads the file.
    """
    _byte_tensor(f, int.from_bytes(b"\x93.", "little"))


@accepts(
    "FRM-02 FRM-10",
    over={
        "pickle-4": b"\x80\x04",
        "pickle-5": b"\x80\x05",
        "shell-script": b"#!",
        "windows-program": b"MZ",
        "gzip": b"\x1f\x8b",
    },
)
def length_starts_like(f: FileBuilder, value: bytes) -> None:
    """The length prefix begins like a file of another format: $slug.

    A loader that selects a parser by the first bytes passes this file to the wrong parser.
    """
    _byte_tensor(f, int.from_bytes(value, "little"))


CONTENT_OF_OTHER_KIND = {
    "numpy": b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }",
    "html": b"<!DOCTYPE html><title>404</title>",
    "lfs-pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 8\n",
    "json": b'{"error":"Entry not found","status":404}',
}


@rejects("FRM-01 FRM-06", OVER_LIMIT, over=CONTENT_OF_OTHER_KIND)
def content_of_other_kind(f: FileBuilder, value: bytes) -> None:
    """The file has entirely different content: $slug.

    Error pages, pointers and renamed files end up in model folders, and a reader must reject all of them.
    """
    _whole(f, value)
