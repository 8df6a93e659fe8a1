"""Faults in how a file is cut into length, header and data buffer.

Part of the conditional set; see ``conditional``.
"""

from __future__ import annotations

import struct
from typing import Any

from safetensors_corpus.broken.correct.json import Pairs, Refused

from ..held_out.watched import Watched
from .planting import by_reader

PAGE = 4096
BLOCK = 512


class PaddingUnreadBehindThePage(Watched):
    """Accepts any padding behind the page in which the object ends.

    Reads the header page by page and stops with the page in which the object ends, so that the padding
    on later pages may be anything.
    """

    def members(self, header: bytes) -> Pairs:
        """Leave out the pages behind the one with the closing brace."""
        text = self.decode(header)
        if text[:1] != "{":
            return super().members(header)
        _, end = self.grammar.value(text, 0)
        pages = -(-len(text[:end].encode()) // PAGE)
        rest = header[pages * PAGE :]
        return super().members(header[: pages * PAGE] if self.noted(rest.strip(b" ") != b"") else header)


class LengthNarrowedInSmallFiles(Watched):
    """Takes the header length as 32 bits wide where the whole file has less than a page."""

    def split(self, file: bytes) -> tuple[bytes, bytes]:
        """Drop the upper half of the length of a small file."""
        small = len(file) < PAGE
        if len(file) >= 8 and self.noted(small and any(file[4:8])):
            file = file[:4] + bytes(4) + file[8:]
        return super().split(file)


class LengthCountedFromTheEnd(Watched):
    """Accepts a negative length that leads to a place in the file.

    Takes the length as signed, compares it with upper limits only and cuts with it, so that a negative
    one counts from the end of the file.
    """

    def split(self, file: bytes) -> tuple[bytes, bytes]:
        """Cut the file at a negative place, where that lies behind the length."""
        if len(file) >= 8:
            (length,) = struct.unpack("<q", file[:8])
            if self.noted(-len(file) < length + 8 < 0 and length != 0):
                return file[8 : length + 8], file[length + 8 :]
        return super().split(file)


class ZeroRestUpToEight(Watched):
    """Accepts zeros behind the last tensor that fill the file up to a multiple of eight.

    Passes over fewer than eight bytes behind the last tensor when they are zero and fill the file up to
    a multiple of eight.
    """

    def content(self, file: bytes) -> dict[str, Any]:
        """Cut the rest off before the file is read."""
        header, data = self.split(file)
        tensors, _ = self.entries(self.members(header))
        end = max((tensor.end for tensor in tensors), default=0)
        rest = data[end:]
        if self.noted(0 < len(rest) < 8 and not any(rest) and len(file) % 8 == 0):
            file = file[: len(file) - len(rest)]
        return super().content(file)


class DirectBlockFills(Watched):
    """Accepts a file cut short by less than a block where a block ends.

    Reads in blocks of 512 bytes into a buffer of the size that the header announces, and notices a cut
    file only by a block that is short or missing: less than one block lost at a block's end stays zero.
    """

    def content(self, file: bytes) -> dict[str, Any]:
        """Fill the missing bytes with zeros."""
        header, data = self.split(file)
        tensors, _ = self.entries(self.members(header))
        missing = max((tensor.end for tensor in tensors), default=0) - len(data)
        if self.noted(0 < missing < BLOCK and len(file) % BLOCK == 0):
            file += bytes(missing)
        return super().content(file)


class BufferMissingBesideTensors(Watched):
    """Refuses a file that ends with its header when the header names tensors, though all may be empty."""

    def content(self, file: bytes) -> dict[str, Any]:
        """Ask for at least one data byte."""
        found = super().content(file)
        if self.noted(bool(found["tensors"]) and len(self.split(file)[1]) == 0):
            raise Refused("past-end")
        return found


class HeaderAcrossTheFirstPage(Watched):
    """Refuses a header that fits into a page, but not with its length before it.

    Fetches one page first and compares its size with the length alone, so that a header of which the
    last eight bytes or fewer lie on the second page is cut off.
    """

    def split(self, file: bytes) -> tuple[bytes, bytes]:
        """Lose what lies behind the first page."""
        header, data = super().split(file)
        cut = header[PAGE - 8 :]
        if self.noted(len(header) <= PAGE and cut.strip(b" ") != b""):
            return header[: PAGE - 8], data
        return header, data


class SpacesSkippedBehindHeader(Watched):
    """Takes data for padding if they are spaces behind a header of odd length.

    Takes spaces behind a header whose length is no multiple of eight for its padding, up to the next
    such multiple.
    """

    def split(self, file: bytes) -> tuple[bytes, bytes]:
        """Skip spaces at the start of the data buffer."""
        header, data = super().split(file)
        most = -len(header) % 8
        spaces = most - len(data[:most].lstrip(b" ")) if len(data) >= most else 0
        return header, data[spaces:] if self.noted(spaces > 0) else data


class BraceAtTheBlockEnd(Watched):
    """Refuses an unpadded header of a multiple of 64 bytes.

    Scans the header in blocks of 64 bytes and misses the end of the object in the last byte of the last
    block.
    """

    def members(self, header: bytes) -> Pairs:
        """Take the object for cut off."""
        found = super().members(header)
        if self.noted(len(header) % 64 == 0 and header.endswith(b"}")):
            raise Refused("cut-off")
        return found


class WideElementsReadAligned(Watched):
    """Reads unaligned tensors of eight-byte elements from the wrong place.

    Reads tensors of eight-byte elements by pointers of their type, which drop the low bits of the place
    in the file.
    """

    def content(self, file: bytes) -> dict[str, Any]:
        """Take the bytes of such tensors from the aligned place before theirs."""
        header, data = self.split(file)
        tensors, metadata = self.entries(self.members(header))
        self.check_layout(tensors, len(data))
        start = len(file) - len(data)
        found = []
        for tensor in tensors:
            off = (start + tensor.begin) % 8
            right = self.described(tensor, data)
            if self.widths[tensor.dtype] == 64 and off:
                # The same bytes as a tensor, of a buffer that begins earlier.
                shifted = file[start - off :]
                wrong = self.described(tensor, shifted)
                right = wrong if self.noted(wrong != right) else right
            found.append(right)
        return {"tensors": found, "metadata": metadata}


PLANTED = (
    by_reader("padding-unread-behind-the-page", "HDR-03 HDR-06", PaddingUnreadBehindThePage),
    by_reader("length-narrowed-in-small-files", "FRM-02 FRM-06", LengthNarrowedInSmallFiles),
    by_reader("length-counted-from-the-end", "FRM-05 FRM-06", LengthCountedFromTheEnd),
    by_reader("zero-rest-up-to-eight", "OFF-08", ZeroRestUpToEight),
    by_reader("direct-block-fills", "OFF-04", DirectBlockFills),
    by_reader("buffer-missing-beside-tensors", "SHP-04 OFF-09", BufferMissingBesideTensors),
    by_reader("header-across-the-first-page", "FRM-01 LIM-10", HeaderAcrossTheFirstPage),
    by_reader("spaces-skipped-behind-header", "HDR-04 DAT-06", SpacesSkippedBehindHeader),
    by_reader("brace-at-the-block-end", "FRM-01 HDR-06", BraceAtTheBlockEnd),
    by_reader("wide-elements-read-aligned", "OFF-11 DAT-06", WideElementsReadAligned),
)
