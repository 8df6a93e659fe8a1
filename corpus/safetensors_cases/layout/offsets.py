"""Layout: the two offsets of a tensor, ranges at the end of the file, and bytes after the data.

The offsets have the wrong form, spelling or order, or they end past the file or overflow integers. In other
cases, stray bytes or files of other formats follow the data.
"""

from __future__ import annotations

import struct
import zlib

from safetensors_corpus.author.case import accepts, rejects
from safetensors_corpus.author.file import FileBuilder, pattern
from safetensors_corpus.author.parts import PLACES, pad_header, powers, three_tensors

OLLAMA = "ollama/ollama#17148"


@rejects(
    "OFF-01",
    "OFF_BAD_PAIR",
    issue=OLLAMA,
    over={"none": "[]", "one": "[0]"},
    bugs={"none": "FB-87", "one": "FB-43 FB-87"},
)
def offsets_too_few(f: FileBuilder, value: str) -> None:
    """The range of a tensor is $value, so it has $slug of the two offsets.

    A reader that does not check the count may crash when it reads the missing offset, or read whatever
    follows.
    """
    f.tensor("w", "F32", [2], fields={"data_offsets": value})


OFFSETS_FORM = {
    "three-numbers": "[0,8,8]",
    "null": "null",
    "number": "8",
    "string": '"0,8"',
    "empty-object": "{}",
    "object": '{"0":0,"1":8}',
    "begin-and-end": '{"begin":0,"end":8}',
    "nested": "[[0,8]]",
}


@rejects("OFF-01", "OFF_BAD_PAIR ENT_BAD_INTEGER", importance="medium", over=OFFSETS_FORM)
def offsets_form(f: FileBuilder, value: str) -> None:
    """The range of a tensor is not a pair of integers: $slug."""
    f.tensor("w", "F32", [2], fields={"data_offsets": value})


@rejects(
    "OFF-02",
    "ENT_BAD_INTEGER",
    over={
        "point-zero": "[0,8.0]",
        "point-zero-first": "[0.0,8]",
        "exponent": "[0,8e0]",
        "half": "[0,8.5]",
        "minus-zero": "[-0,8]",
    },
    ahead={"half": "OFF-01"},
)
@rejects(
    "OFF-04 SHP-07",
    "ENT_BAD_INTEGER OFF_OUT_OF_BOUNDS",
    importance="medium",
    over={
        "2p64": f"[0,{2**64}]",
        "2p64-plus-8": f"[0,{2**64 + 8}]",
        "both-2p64-more": f"[{2**64},{2**64 + 8}]",
        "60000-digits": "[0," + "1" * 60_000 + "]",
    },
)
@rejects(
    "OFF-04 SHP-07 API-14",
    "ENT_BAD_INTEGER OFF_OUT_OF_BOUNDS",
    importance="medium",
    over={
        "400-digits": "[0," + "1" * 400 + "]",
        "400-digits-twice": "[" + "1" * 400 + "," + "1" * 399 + "9]",
    },
    bugs="FB-116",
)
def offset_spelled(f: FileBuilder, value: str) -> None:
    """An offset is a number but not a plain integer below 2^64: $slug."""
    f.tensor("w", "F32", [2], fields={"data_offsets": value})


OFFSET_TYPE = {
    "strings": ('["0","1"]', 1),
    "booleans": ("[false,true]", 1),
    "null-first": ("[null,1]", 1),
    "null-last": ("[0,null]", 0),
    "array-last": ("[0,[1]]", 1),
}


@rejects("OFF-01", "ENT_BAD_INTEGER OFF_BAD_PAIR", importance="medium", over=OFFSET_TYPE)
def offset_type(f: FileBuilder, offsets: str, size: int) -> None:
    """An offset is not a number: $slug."""
    f.tensor("w", "U8", [size], fields={"data_offsets": offsets})


@rejects("OFF-01", "ENT_BAD_INTEGER", bugs="FB-43 FB-62 FB-85")
def offset_negative(f: FileBuilder) -> None:
    """The range of a tensor is [-8, 0], which is just before the data.

    The range has the right length. A reader that does not check the sign returns the end of the header as
    tensor content.
    """
    f.tensor("w", "F32", [2], b"", fields={"data_offsets": "[-8,0]"})


@rejects(
    "HDR-07 OFF-02", "HDR_NOT_JSON ENT_BAD_INTEGER", over={"leading-zero": "[0,08]", "plus-sign": "[0,+8]"}
)
def offset_outside_json(f: FileBuilder, value: str) -> None:
    """An offset has a spelling that JSON does not allow: $slug."""
    f.tensor("w", "F32", [2], fields={"data_offsets": value})


@rejects(
    "OFF-03",
    "OFF_REVERSED OFF_SIZE_MISMATCH OFF_HOLE",
    bugs="FB-43 FB-53 FB-62 FB-87",
    issue=OLLAMA,
    over=PLACES,
)
def offsets_swapped(f: FileBuilder, value: int) -> None:
    """The begin and end offsets of the $slug of three tensors are swapped."""
    three_tensors(f, value, begin=8 * value + 8, end=8 * value)


@rejects(
    "OFF-03 OFF-13",
    "OFF_REVERSED OFF_OUT_OF_BOUNDS OFF_SIZE_MISMATCH",
    bugs="FB-43 FB-53 FB-62",
    over={
        "2p64-less-8-to-0": (2**64 - 8, 0),
        "2p64-less-4-to-4": (2**64 - 4, 4),
        "2p32-less-8-to-0": (2**32 - 8, 0),
    },
)
def reversed_wraps_to_size(f: FileBuilder, begin: int, end: int) -> None:
    """Subtracting the begin offset from the end offset wraps around to the size of the tensor: $slug.

    The end offset is inside the file. As a signed number, the begin offset is just before the data.
    """
    f.tensor("w", "F32", [2], begin=begin, end=end)


OFFSET_NUMBER = {
    "begin-zero-exponent": "[0e5,8]",
    "begin-minus-zero-point": "[-0.0,8]",
    "end-exponent-plus": "[0,8E+0]",
    "end-exponent-minus": "[0,80e-1]",
    "end-many-zeros": "[0,8." + "0" * 100 + "]",
    "end-nearly-eight": "[0,7.9999999999999999999]",
}


@rejects("OFF-02", "ENT_BAD_INTEGER", ahead={"end-nearly-eight": "OFF-01"}, over=OFFSET_NUMBER)
def offset_number(f: FileBuilder, value: str) -> None:
    """An offset is a number that is valid in JSON but not in a range: $slug.

    Converted to a double, the number is exactly the right offset.
    """
    f.tensor("w", "F32", [2], fields={"data_offsets": value})


OFFSET_NUMBER_IN_ONE_OF_THREE = {
    "begin-first": (0, "[0.0,8]"),
    "begin-middle": (1, "[8.0,16]"),
    "begin-last": (2, "[16.0,24]"),
    "end-first": (0, "[0,8.0]"),
    "end-middle": (1, "[8,1.6e1]"),
    "end-last": (2, "[16,2.4e1]"),
}


@rejects("OFF-02", "ENT_BAD_INTEGER", over=OFFSET_NUMBER_IN_ONE_OF_THREE)
def offset_number_in_one_of_three(f: FileBuilder, place: int, offsets: str) -> None:
    """One offset in a file with three tensors has a decimal point or an exponent: $slug."""
    three_tensors(f, place, fields={"data_offsets": offsets})


OFFSET_TEXT = {
    "begin-two-zeros": "[00,8]",
    "begin-minus-alone": "[-,8]",
    "end-point-last": "[0,8.]",
    "end-exponent-empty": "[0,8e]",
    "end-hexadecimal": "[0,0x8]",
    "end-infinity": "[0,Infinity]",
    "end-missing": "[0,]",
}


@rejects("HDR-07 OFF-02", "HDR_NOT_JSON ENT_BAD_INTEGER OFF_BAD_PAIR", over=OFFSET_TEXT)
def offset_text(f: FileBuilder, value: str) -> None:
    """An offset is not a valid JSON number: $slug."""
    f.tensor("w", "F32", [2], fields={"data_offsets": value})


OFFSET_WRAPS = {
    "begin-minus-2p64": f"[{-(2**64)},8]",
    "begin-minus-2p32": f"[{-(2**32)},8]",
    "end-minus-2p64-plus-8": f"[0,{8 - 2**64}]",
    "end-minus-8": "[0,-8]",
    "both-minus": "[-16,-8]",
}


@rejects("OFF-01", "ENT_BAD_INTEGER", over=OFFSET_WRAPS)
def offset_wraps(f: FileBuilder, value: str) -> None:
    """An offset is outside 0 to 2^64 - 1, but truncating or wrapping makes it plausible: $slug."""
    f.tensor("w", "F32", [2], fields={"data_offsets": value})


@rejects("OFF-01", "OFF_BAD_PAIR", over=PLACES)
def one_offset_in_one_of_three(f: FileBuilder, value: int) -> None:
    """The $slug of three tensors is empty and has one offset instead of two."""
    three_tensors(f, value, usual=("U8", [4]), shape=[0], fields={"data_offsets": f"[{4 * value}]"})


@accepts("HDR-08 OFF-01 OFF-02")
def offsets_of_five_digits(f: FileBuilder) -> None:
    """Offsets have one to five digits, and one pair contains spaces and a line break.

    Zeros inside and at the end of a number are not leading zeros.
    """
    f.tensor("a", "U8", [10])
    f.tensor("b", "U8", [90])
    f.tensor("c", "U8", [900], fields={"data_offsets": "[ 100 ,\n 1000 ]"})
    f.tensor("d", "U8", [19_000])


ACROSS = "OFF_OUT_OF_BOUNDS OFF_OVERLAP"
FAR = "OFF_OUT_OF_BOUNDS OFF_HOLE"
HEADER = 128
"""Header length for cases that need to know positions in the file in advance."""
MLX_SHORT = "ml-explore/mlx#3409"
PDF = b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\nstartxref\n0\n%%EOF\n"
HTML = b"<!DOCTYPE html><html><body><script>document.title='run'</script></body></html>"
SHELL = b"#!/bin/sh\necho run\nexit 0\n"
ELF = b"\x7fELF\x02\x01\x01\x00" + bytes(8) + struct.pack("<HHI", 2, 62, 1) + bytes(40)
PICKLE = b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x8c\x05print\x94\x8c\x03run\x94."
GGUF = b"GGUF\x03\x00\x00\x00" + bytes(16)
GZIP = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\x01\x07\x00\xf8\xffpayload" + struct.pack(
    "<II", zlib.crc32(b"payload"), 7
)
"""A file without compression, so that every machine builds the same bytes."""


@rejects("OFF-09 OFF-04", FAR, over={"1": 9, **powers("2p32", "2p63", "2p64-less-1")})
def empty_tensor_past_end(f: FileBuilder, value: int) -> None:
    """The offset of an empty tensor is $value, which is past the end of the file."""
    f.tensor("a", "F32", [2])
    f.tensor("empty", "F32", [0], begin=value, end=value)


@rejects(
    "OFF-04",
    "OFF_OUT_OF_BOUNDS",
    bugs="FB-03 FB-53 FB-71 FB-203 FB-218 FB-219",
    issue=MLX_SHORT,
    over={"1-byte": 1, "1-element": 4, "last-tensor": 8, "all-but-1-byte": 23, "all-data": 24},
)
def data_lacks(f: FileBuilder, value: int) -> None:
    """The end of a file with three tensors is missing: $slug.

    Shapes and ranges agree with each other. Only the size of the file shows that data is missing.
    """
    three_tensors(f, -1)
    f.cut = value


@rejects("OFF-04", ACROSS, over={"first": 0, "middle": 1}, bugs="FB-53")
def end_past_file(f: FileBuilder, value: int) -> None:
    """The $slug of three ranges ends past the end of the file and covers the ranges after it.

    A reader that checks only the range that the header lists last does not notice the fault.
    """
    three_tensors(f, value, usual=("U8", [8]), shape=[100], size=8, end=8 * value + 100)


SIZES = powers("2p22", "2p31", "2p32", "2p32-plus-8", "2p40", "2p63-less-1", "2p63", "2p64-less-1")


@rejects(
    "OFF-04 OFF-13",
    "OFF_OUT_OF_BOUNDS SHP_OVERFLOW",
    bugs=dict.fromkeys(SIZES, "FB-03 FB-53 FB-63 FB-219") | {"2p64-less-1": "FB-03 FB-53 FB-63"},
    issue=MLX_SHORT,
    over=SIZES,
)
def end_far(f: FileBuilder, value: int) -> None:
    """The shape and the range claim $value bytes, but the file contains only eight of them.

    If the end is truncated to 32 bits, or read as a signed number, it may appear to be inside the file.
    """
    f.tensor("w", "U8", [value], pattern("w", 8), end=value)


BEGINS = {"just-behind": 8, **powers("2p31-less-8", "2p32", "2p40", "2p63-less-8", "2p63", "2p64-less-9")}


@rejects(
    "OFF-04 OFF-13",
    FAR,
    bugs=dict.fromkeys(BEGINS, "FB-53 FB-63 FB-85 FB-219") | {"2p64-less-9": "FB-53 FB-63 FB-85"},
    over=BEGINS,
)
def range_far(f: FileBuilder, value: int) -> None:
    """The range of the second tensor has the right size, but begins outside the file: $slug.

    A reader that checks only the difference between the two offsets reads memory far outside the file.
    """
    f.tensor("a", "F32", [2])
    f.tensor("b", "F32", [2], b"", begin=value, end=value + 8)


POSITIONS = powers("2p32", "2p63-less-9", "2p63", "2p64-less-9", "2p64-less-8", "2p64")


@rejects("OFF-13 OFF-04", FAR, over=POSITIONS)
def position_in_file(f: FileBuilder, value: int) -> None:
    """A range of eight bytes begins $slug bytes after the start of the file.

    The sum of the offset, 8 and the header length overflows, or wraps around to the start of the file.
    """
    begin = value - 8 - HEADER
    f.tensor("a", "F32", [2])
    f.tensor("b", "F32", [2], b"", begin=begin, end=begin + 8)
    pad_header(f, HEADER)


@rejects(
    "OFF-13",
    "OFF_OUT_OF_BOUNDS SHP_OVERFLOW",
    bugs="FB-03 FB-15",
    issue="https://github.com/safetensors/safetensors/pull/808",
)
def chain_up_to_the_largest_integer(f: FileBuilder) -> None:
    """Nine contiguous ranges extend to 2^64 - 1, but the file has no data.

    Adding the header length to the end of the last range overflows.
    """
    begin = 0
    for index, size in enumerate([2**61 - 1] * 8 + [7]):
        f.tensor(f"t{index}", "U8", [size], b"", begin=begin, end=begin + size)
        begin += size


@rejects("OFF-13 OFF-06", "OFF_OUT_OF_BOUNDS OFF_OVERLAP SHP_OVERFLOW")
def sizes_wrap_to_size_of_data(f: FileBuilder) -> None:
    """The file has sixteen ranges of 2^60 bytes and one of eight bytes, which add up to 2^64 + 8.

    The sum wraps around to the size of the data.
    """
    f.tensor("w", "U8", [8])
    for index in range(16):
        f.tensor(f"t{index}", "U8", [2**60], b"", begin=0, end=2**60)


@rejects("OFF-07 OFF-04 OFF-01", "OFF_HOLE OFF_OUT_OF_BOUNDS")
def offsets_from_start_of_file(f: FileBuilder) -> None:
    """The offsets count from the start of the file instead of the start of the data."""
    f.tensor("w", "F32", [2], begin=8 + HEADER, end=8 + HEADER + 8)
    pad_header(f, HEADER)


def _zip(content: bytes) -> bytes:
    sizes = struct.pack("<IIIHH", zlib.crc32(content), len(content), len(content), 1, 0)
    fields = struct.pack("<HHHHH", 20, 0, 0, 0, 0x21) + sizes
    local = b"PK\x03\x04" + fields + b"x" + content
    central = b"PK\x01\x02" + struct.pack("<H", 20) + fields + bytes(14) + b"x"
    end = struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central), len(local), 0)
    return local + central + b"PK\x05\x06" + end


@accepts("DAT-06 OFF-08", importance="high", over={"zip": _zip(b"payload"), "pdf": PDF})
def other_format_in_last_tensor(f: FileBuilder, value: bytes) -> None:
    """The last tensor contains a complete $slug file, which some programs find at the end of the file.

    Tensor content is not validated, so scanners must expect such files.
    """
    f.tensor("a", "F32", [2])
    f.tensor("b", "U8", [len(value)], value)


TRAILERS = {"line-feed": b"\n", "32-kib": b"A" * 32768, "zip": _zip(b"payload"), "pdf": PDF}


@rejects("OFF-08", "OFF_TRAILING", bugs="FB-03 FB-107 FB-117", over=TRAILERS)
def trailing(f: FileBuilder, value: bytes) -> None:
    """Bytes follow the last tensor: $slug.

    Programs for formats that are read from the end of the file may find their content there.
    """
    f.tensor("w", "F32", [2])
    f.trailer = value


@rejects("OFF-08", "OFF_TRAILING", bugs="FB-03 FB-49 FB-107 FB-117", issue="syoyo/safetensors-cpp#1")
def trailing_4_bytes(f: FileBuilder) -> None:
    """Four zero bytes follow the last tensor, as in a widely used real checkpoint."""
    f.tensor("w", "F32", [2])
    f.trailer = bytes(4)


def _inner() -> bytes:
    inner = FileBuilder()
    inner.tensor("inner", "F32", [2])
    return inner.render()


def _tar() -> bytes:
    block = bytearray(b"payload.txt".ljust(100, b"\0") + b"0000644\0" + b"0000000\0" * 2)
    block += b"00000000007\0" + b"00000000000\0" + b" " * 8 + b"0" + bytes(100) + b"ustar\x0000" + bytes(247)
    block[148:156] = f"{sum(block):06o}\0 ".encode()
    return bytes(block) + b"payload".ljust(512, b"\0") + bytes(1024)


RECORD = struct.pack("<Q", 7) + bytes(4) + b"payload" + bytes(4)
"""Record of a TFRecord file, with checksums of zero."""
FORMATS = {
    "tar": _tar(),
    "elf": ELF,
    "html": HTML,
    "pickle": PICKLE,
    "safetensors": _inner(),
    "shell-script": b"\n" + SHELL,
    "gguf": GGUF,
}


@rejects("OFF-08", "OFF_TRAILING", over={**FORMATS, "gzip": GZIP, "tfrecord": RECORD})
def appended(f: FileBuilder, value: bytes) -> None:
    """Data of another format follows the last tensor: $slug.

    These bytes belong to no tensor, and different programs interpret the file differently.
    """
    f.tensor("w", "F32", [2])
    f.trailer = value


@accepts("DAT-06 OFF-08", importance="high", over=FORMATS)
def last_tensor_holds(f: FileBuilder, value: bytes) -> None:
    """The last tensor contains data of another format: $slug.

    Tensor content is not validated. The file is valid because every byte belongs to a tensor.
    """
    f.tensor("a", "F32", [2])
    f.tensor("b", "U8", [len(value)], value)


@accepts("DAT-06 OFF-07", importance="high", over={"html": HTML, "elf": ELF})
def first_tensor_holds(f: FileBuilder, value: bytes) -> None:
    """The first of two tensors contains data of another format: $slug."""
    f.tensor("a", "U8", [len(value)], value)
    f.tensor("b", "U8", [8])


@rejects("OFF-07", "OFF_HOLE", over={"html": HTML, "safetensors": _inner()})
def hole_holds(f: FileBuilder, value: bytes) -> None:
    """A hole before the first tensor contains data of another format: $slug."""
    f.gap(0)
    f.tensor("w", "F32", [2], value + bytes(8), begin=len(value), end=len(value) + 8)
