"""Framing: files of other formats, and length prefixes that spell the marks of those."""

from __future__ import annotations

from ...author.case import accepts, rejects
from ...author.file import FileBuilder

SHORT_PICKLE = b"\x93."
"""Pickle opcodes that look up an object on the stack, and stop."""
OVER_LIMIT = ("FRM_HEADER_OVER_LIMIT", "FRM_HEADER_PAST_EOF")


def _header_size(f: FileBuilder, size: int) -> None:
    """Add one tensor of single bytes, which lie well anywhere, and pad the header to ``size`` bytes."""
    f.tensor("w", "U8", [8])
    f.padding = b""
    f.padding = b" " * (size - (len(f.render()) - 8 - 8))


@rejects(
    "FRM-01",
    "FRM-06",
    codes=("FRM_HEADER_OVER_LIMIT", "FRM_HEADER_PAST_EOF"),
    over={
        "zip": b"PK\x05\x06" + bytes(18),
        "pickle": b"\x80\x02}q\x00X\x01\x00\x00\x00wq\x01K\x01s.",
        "gguf": b"GGUF\x03\x00\x00\x00" + bytes(16),
    },
    bugs={"pickle": ("FB-122",)},
)
def other_format(f: FileBuilder, value: bytes) -> None:
    """A complete small file of another format ($slug), as after renaming it."""
    f.length = int.from_bytes(value[:8], "little")
    f.header = value[8:]


@accepts(
    "FRM-02",
    "FRM-10",
    over={"pickle": int.from_bytes(b"\x80\x02", "little"), "zip": int.from_bytes(b"PK", "little")},
)
def length_spells_magic(f: FileBuilder, value: int) -> None:
    """The bytes of the length prefix ($value) begin like those of another format ($slug).

    The format has no magic number; a reader that guesses from the first bytes hands this file elsewhere.
    """
    _header_size(f, value)


@accepts("FRM-02", "FRM-10", issue="https://github.com/promptfoo/modelaudit/pull/1612")
def length_is_short_pickle(f: FileBuilder) -> None:
    """The first two bytes of the length prefix are a pickle without a protocol mark, to its end.

    A program that tries formats one after the other stops at the wrong one and scans something else.
    """
    _header_size(f, int.from_bytes(SHORT_PICKLE, "little"))


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
