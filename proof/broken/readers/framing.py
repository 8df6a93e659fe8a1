"""Broken readers with a fault in the length prefix or in the boundaries of header and data (FRM)."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from proof.planted import Planted
from safetensors_corpus.judging.answer import Refused

from ..correct.json import Pairs
from ..correct.reader import READER, SmallReader, utf8
from ..variant import named, reading
from .layout import last_end

GUARD = 1 << 24
"""Largest allocation in bytes that a broken reader actually makes; a larger one counts as exhausted memory.
"""


def allocate(size: int) -> bytearray:
    """Return a zeroed buffer, as a reader that trusts the length does. Raises MemoryError and ValueError."""
    if size > GUARD:
        raise MemoryError(f"{size} bytes")
    return bytearray(size)


class _AllocatesFirst(SmallReader):
    """Allocates as much memory as the prefix says before it checks the cap and the file size."""

    def split(self, file: bytes) -> tuple[bytes, bytes]:
        allocate(self.length(file[:8]))
        return super().split(file)


class LengthShortRead(SmallReader):
    """Fills a truncated header with zeros.

    It reads into a zeroed buffer and does not notice that it received fewer bytes; its text ends at the first
    NUL.
    """

    def split(self, file: bytes) -> tuple[bytes, bytes]:
        length = self.length(file[:8])
        self.demand("header-cap", length <= self.cap)
        header = allocate(length)
        header[: len(file) - 8] = file[8 : 8 + length]
        return bytes(header).split(b"\0")[0] or b"{}", file[8 + length :]


class _WrappingEnd(SmallReader):
    """Computes the end of the header in 64-bit arithmetic without first checking the cap."""

    def split(self, file: bytes) -> tuple[bytes, bytes]:
        length = self.length(file[:8])
        self.demand("header-past-end", (8 + length) % 2**64 <= len(file))
        allocate(length)
        return super().split(file)


class OtherFormats(SmallReader):
    """Passes files with an unusual prefix to another loader, and finds no tensors.

    It assumes that a file whose header it cannot read has another format.
    """

    def content(self, file: bytes) -> dict[str, Any]:
        try:
            header = self.split(file)[0]
        except Refused:
            header = b""
        return super().content(file) if header else {"tensors": [], "metadata": None}


class LengthIgnored(SmallReader):
    """Finds the end of the header by its braces.

    The header ends after its object and the spaces that follow it.
    """

    def split(self, file: bytes) -> tuple[bytes, bytes]:
        self.demand("length-prefix", len(file) > 8)
        text = file[8:].decode("utf-8", "surrogateescape")
        _, end = self.grammar.value(text, 0)
        while text[end : end + 1] == " ":
            end += 1
        header = text[:end].encode("utf-8", "surrogateescape")
        return header, file[8 + len(header) :]


class _DataBehindBrace(SmallReader):
    """Reads the header by its length, but starts the data after the closing brace and the spaces."""

    def split(self, file: bytes) -> tuple[bytes, bytes]:
        header, data = super().split(file)
        shown = header[: header.rfind(b"}") + 1]
        spaces = re.compile(b" *").match(header, len(shown))
        return header, header[spaces.end() if spaces else 0 :] + data


class LengthFromBrace(SmallReader, without=("past-end",)):
    """Counts the length of the header from the first brace."""

    def split(self, file: bytes) -> tuple[bytes, bytes]:
        header, _ = super().split(file)
        blank = len(header) - len(header.lstrip(b" \t\n\r"))
        return header[blank:], file[8 + blank + len(header) :]


class DataStartRounded(SmallReader):
    """Rounds the start of the data up to a multiple of 8."""

    def split(self, file: bytes) -> tuple[bytes, bytes]:
        header, _ = super().split(file)
        return header, file[(8 + len(header) + 7) // 8 * 8 :]


class LengthCountsPrefix(SmallReader):
    """Assumes that the length includes its own eight bytes."""

    def split(self, file: bytes) -> tuple[bytes, bytes]:
        length = self.length(file[:8])
        self.demand("header-past-end", length <= len(file))
        return file[8:length], file[length:]


class BareJson(SmallReader):
    """Recognises a file without a length prefix by its opening brace."""

    def split(self, file: bytes) -> tuple[bytes, bytes]:
        if file[:1] == b"{":
            end = file.rfind(b"}") + 1
            return file[:end], file[end:].lstrip(b" ")
        return super().split(file)


def _either_order(prefix: bytes) -> int:
    return min(int.from_bytes(prefix, "little"), int.from_bytes(prefix, "big"))


def _multiple_of_eight(prefix: bytes) -> int:
    length = int.from_bytes(prefix, "little")
    if length % 8 != 0:
        raise Refused("length-aligned")
    return length


def _not_magic(prefix: bytes) -> int:
    if prefix.startswith((b"PK", b"\x80\x02", b"\x80\x04", b"GGUF")):
        raise Refused("other-format")
    return int.from_bytes(prefix, "little")


NO_CAP = 2**64


VARIANTS: tuple[Planted, ...] = (
    *named(globals(), "read", SmallReader),
    reading("data-from-the-end", "Reads only as far as the tensors extend.",
            READER.changed(check_layout=lambda right, tensors, size: right(
                tensors, min(size, last_end(tensors))))),
    reading("header-past-end-empty", "Treats a missing header as an empty one.",
            replace(READER, cap=NO_CAP).without("header-past-end", "header-empty").changed(
                members=lambda right, header: right(header) if header else Pairs())),
    reading("length-signed", "Reads the header length as a signed number.",
            _AllocatesFirst(length=lambda prefix: int.from_bytes(prefix, "little", signed=True))),
    reading("length-32-bits", "Reads only the low half of the header length.",
            SmallReader(length=lambda prefix: int.from_bytes(prefix[:4], "little"))),
    reading("length-63-bits", "Drops the highest bit of the length.",
            SmallReader(length=lambda prefix: int.from_bytes(prefix, "little") % 2**63)),
    reading("length-big-endian", "Reads the length in big-endian order.",
            SmallReader(length=lambda prefix: int.from_bytes(prefix, "big"))),
    reading("length-either-order", "Uses the byte order in which the length fits.",
            SmallReader(length=_either_order)),
    reading("length-multiple-of-8", "Rejects odd header lengths.", SmallReader(length=_multiple_of_eight)),
    reading("length-wraps", "Adds eight to the length in 64-bit arithmetic, without checking the cap.",
            _WrappingEnd(cap=NO_CAP)),
    reading("length-allocated", "Allocates the header before it checks the length.", _AllocatesFirst()),
    reading("header-past-end", "Accepts a truncated header as it is.", READER.without("header-past-end")),
    reading("header-of-no-bytes", "Treats a header length of zero as a file without tensors.",
            READER.changed(split=lambda right, file: (b"{}", b"") if file[:8] == bytes(8) else right(file))),
    reading("header-blank", "Treats a header that contains only spaces as a file without tensors.",
            SmallReader(decode=lambda header: utf8(header).strip(" ") or "{}") .without("length-prefix")),
    reading("short-file-empty", "Treats a file that is shorter than its prefix as an empty file.",
            READER.changed(split=lambda right, file: (b"{}", b"") if len(file) < 8 else right(file))),
    reading("refuses-magic", "Rejects lengths that look like another format.",
            SmallReader(length=_not_magic)),
    reading("searches-brace", "Searches the file for the header.",
            READER.changed(split=lambda right, file: right(file[max(file.find(b"{") - 8, 0) :]))),
    reading("data-behind-brace", "Treats padding as data.",
            _DataBehindBrace(padding=r"[ \t\n\r]*").without("trailing")),
    *(
        reading(f"cap-{name}", f"Rejects headers above {cap:,} bytes.", replace(READER, cap=cap))
        for name, cap in (("1-kib", 1 << 10), ("8-kib", 1 << 13), ("32-kib", 1 << 15))
    ),
)  # fmt: skip
