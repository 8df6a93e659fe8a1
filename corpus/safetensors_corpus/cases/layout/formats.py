"""Layout: files that are, or contain, something of another format as well."""

from __future__ import annotations

import struct
import zlib

from ...author.case import accepts, rejects
from ...author.file import FileBuilder

HTML = b"<!DOCTYPE html><html><body><script>document.title='run'</script></body></html>"
SHELL = b"#!/bin/sh\necho run\nexit 0\n"
ELF = b"\x7fELF\x02\x01\x01\x00" + bytes(8) + struct.pack("<HHI", 2, 62, 1) + bytes(40)
PICKLE = b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x8c\x05print\x94\x8c\x03run\x94."
GGUF = b"GGUF\x03\x00\x00\x00" + bytes(16)
GZIP = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\x01\x07\x00\xf8\xffpayload" + struct.pack(
    "<II", zlib.crc32(b"payload"), 7
)
"""Uncompressed, so that every machine builds the same file."""


def _inner() -> bytes:
    inner = FileBuilder()
    inner.tensor("inner", "F32", [2])
    return inner.render()


def _tar() -> bytes:
    """Return a tar archive of one file with seven bytes."""
    block = bytearray(b"payload.txt".ljust(100, b"\0") + b"0000644\0" + b"0000000\0" * 2)
    block += b"00000000007\0" + b"00000000000\0" + b" " * 8 + b"0" + bytes(100) + b"ustar\x0000" + bytes(247)
    block[148:156] = f"{sum(block):06o}\0 ".encode()
    return bytes(block) + b"payload".ljust(512, b"\0") + bytes(1024)


def _record() -> bytes:
    """Return a record as in TFRecord files, its checksums left zero."""
    return struct.pack("<Q", 7) + bytes(4) + b"payload" + bytes(4)


FORMATS = {
    "tar": _tar(),
    "elf": ELF,
    "html": HTML,
    "pickle": PICKLE,
    "safetensors": _inner(),
    "shell-script": b"\n" + SHELL,
    "gguf": GGUF,
}


@rejects(
    "OFF-08", codes="OFF_TRAILING", importance="high", over={**FORMATS, "gzip": GZIP, "tfrecord": _record()}
)
def appended(f: FileBuilder, value: bytes) -> None:
    """Something of another format follows the last tensor: $slug.

    Whatever it is, these bytes belong to no tensor, and the file has two meanings.
    """
    f.tensor("w", "F32", [2])
    f.trailer = value


@accepts("DAT-06", "OFF-08", importance="high", over=FORMATS)
def last_tensor_holds(f: FileBuilder, value: bytes) -> None:
    """The last tensor holds something of another format: $slug.

    The content of a tensor is not judged; every byte has its owner and the file is valid.
    """
    f.tensor("a", "F32", [2])
    f.tensor("b", "U8", [len(value)], value)


@accepts("DAT-06", "OFF-07", importance="high", over={"html": HTML, "elf": ELF})
def first_tensor_holds(f: FileBuilder, value: bytes) -> None:
    """The first of two tensors holds something of another format: $slug."""
    f.tensor("a", "U8", [len(value)], value)
    f.tensor("b", "U8", [8])


@rejects("OFF-07", codes="OFF_HOLE", importance="high", over={"html": HTML, "safetensors": _inner()})
def hole_holds(f: FileBuilder, value: bytes) -> None:
    """A hole before the first tensor holds something of another format: $slug."""
    f.gap(0)
    f.tensor("w", "F32", [2], value + bytes(8), begin=len(value), end=len(value) + 8)
