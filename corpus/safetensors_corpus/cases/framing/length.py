"""Framing: header lengths from the smallest on, and sums with the length that leave the integers."""

from __future__ import annotations

from ...author.case import accepts, rejects
from ...author.file import FileBuilder

OVER_LIMIT = ("FRM_HEADER_OVER_LIMIT", "FRM_HEADER_PAST_EOF")
PAST_END = ("FRM_HEADER_PAST_EOF", "FRM_HEADER_OVER_LIMIT")


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


@accepts(
    "FRM-02",
    "FRM-10",
    over={
        "pickle-4": b"\x80\x04",
        "pickle-5": b"\x80\x05",
        "shell-script": b"#!",
        "windows-program": b"MZ",
        "gzip": b"\x1f\x8b",
    },
)
def length_starts_like(f: FileBuilder, value: bytes) -> None:
    """The bytes of the length prefix begin like a file of another format: $slug.

    A loader that chooses by the first bytes hands this file to the wrong program.
    """
    f.padding = b""
    f.tensor("w", "U8", [8])
    f.padding = b" " * (int.from_bytes(value, "little") - (len(f.render()) - 16))


@rejects(
    "FRM-01",
    "FRM-06",
    codes=OVER_LIMIT,
    over={
        "numpy": b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }",
        "html": b"<!DOCTYPE html><title>404</title>",
        "lfs-pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 8\n",
        "json": b'{"error":"Entry not found","status":404}',
    },
)
def content_of_other_kind(f: FileBuilder, value: bytes) -> None:
    """The file holds something else altogether: $slug.

    Error pages, pointers and renamed files end up in model folders; none of them may open.
    """
    f.length = int.from_bytes(value[:8], "little")
    f.header = value[8:]
