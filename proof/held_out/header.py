"""Held-out readers with a bug in framing or in repeated keys (FRM, HDR). See ``held_out``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from proof.broken.correct.json import Pairs
from proof.broken.correct.reader import READER, RESERVED, Tensor
from safetensors_corpus.judging.answer import Refused

from .watched import SPELLING, Watched, plant, raw

NAMES_TWICE = READER.without("name-twice")
FIRST_READ = 256
"""Number of header bytes in the buffer of the reader that does not check padding after the buffer."""


class SignDropped(Watched):
    """Reads the length as a signed number and makes it positive."""

    def split(self, file: bytes) -> tuple[bytes, bytes]:
        if self.noted(len(file) >= 8 and file[7] >= 0x80):
            file = file[:7] + bytes([file[7] & 0x7F]) + file[8:]
        return super().split(file)


class PrefixForgotten(Watched):
    """Compares the length with the size of the file without the prefix, and uses the available bytes."""

    def split(self, file: bytes) -> tuple[bytes, bytes]:
        length = int.from_bytes(file[:8], "little")
        if self.noted(8 < len(file) < 8 + length <= len(file) + 8):
            return file[8:], b""
        return super().split(file)


class NothingToCover(Watched):
    """Treats a file with metadata and no tensors as a container of metadata only."""

    def cover(self, tensors: Sequence[Tensor], metadata: Mapping[str, Any] | None, data: bytes) -> None:
        if not self.noted(not tensors and metadata is not None and data != b""):
            super().cover(tensors, metadata, data)


class AlignedStart(Watched):
    """Casts the bytes of 64-bit elements in place, which requires an aligned data buffer."""

    def content(self, file: bytes) -> dict[str, Any]:
        found = super().content(file)
        length = int.from_bytes(file[:8], "little")
        wide = any(row["nbytes"] and self.widths[row["dtype"]] == 64 for row in found["tensors"])
        if self.noted(length % 8 != 0 and wide):
            raise Refused("alignment")
        return found


class PaddingInBuffer(Watched):
    """Checks the padding only up to the end of its first read."""

    def members(self, header: bytes) -> Pairs:
        try:
            found = super().members(header)
        except Refused as err:
            start = self.first_read(header) if str(err) == "padding" else None
            if start is None:
                raise
            return start
        self.noted(False)
        return found

    def first_read(self, header: bytes) -> Pairs | None:
        """Return the members that the start of the header contains, or None if they are incomplete."""
        try:
            found = super().members(header[:FIRST_READ])
        except Refused:
            self.noted(False)
            return None
        self.noted(True)
        return found


class MarkWithPadding(Watched):
    """Skips a byte-order mark in the code that strips the padding."""

    def members(self, header: bytes) -> Pairs:
        marked = self.noted(header.startswith(b"\xef\xbb\xbf") and header.endswith(b" "))
        return super().members(header[3:] if marked else header)


class NulPadding(Watched):
    """Accepts NUL bytes that pad the header to a multiple of eight, because one writer pads with NUL."""

    def members(self, header: bytes) -> Pairs:
        rest = header.rstrip(b"\0")
        filled = 0 < len(header) - len(rest) < 8 and len(header) % 8 == 0
        return super().members(rest if self.noted(filled and rest.endswith(b"}")) else header)


class ApartTwice(Watched):
    """Compares each name only with the previous name."""

    def entries(self, members: Pairs) -> tuple[list[Tensor], dict[str, Any] | None]:
        names = [name for name, _ in members if name != RESERVED]
        twice = len(set(names)) < len(names)
        if self.noted(twice and not any(a == b for a, b in pairwise(names))):
            return NAMES_TWICE.entries(members)
        return super().entries(members)


class SpelledTwice(Watched):
    """Compares names in their escaped form."""

    def entries(self, members: Pairs) -> tuple[list[Tensor], dict[str, Any] | None]:
        names = [name for name, _ in members if name != RESERVED]
        twice = len(set(names)) < len(names)
        if self.noted(twice and len(set(map(raw, names))) == len(names)):
            return NAMES_TWICE.entries(members)
        return super().entries(members)


class SameValueTwice(Watched):
    """Treats a repeated metadata key as harmless if its value is the same."""

    def metadata(self, value: object) -> dict[str, Any] | None:
        if isinstance(value, Pairs) and all(type(item) is str for _, item in value):
            once = Pairs(dict.fromkeys(value))
            value = once if self.noted(len(once) < len(value)) else value
        return super().metadata(value)


class SecondAfterEmpty(Watched):
    """Detects a second metadata map only if the first one is not empty."""

    def entries(self, members: Pairs) -> tuple[list[Tensor], dict[str, Any] | None]:
        maps = [value for name, value in members if name == RESERVED]
        if self.noted(len(maps) > 1 and all(isinstance(m, Pairs) and not m for m in maps[:-1])):
            tensors = [(name, value) for name, value in members if name != RESERVED]
            members = Pairs([*tensors, (RESERVED, maps[-1])])
        return super().entries(members)


class ShapeAfterScalar(Watched):
    """Detects a second shape only if the first one is not empty."""

    def entry(self, name: str, value: object) -> Tensor | None:
        if isinstance(value, Pairs):
            shapes = [item for key, item in value if key == "shape"]
            empty = all(isinstance(s, list) and not isinstance(s, Pairs) and not s for s in shapes[:-1])
            if self.noted(len(shapes) > 1 and empty):
                others = [(key, item) for key, item in value if key != "shape"]
                value = Pairs([*others, ("shape", shapes[-1])])
        return super().entry(name, value)


PLANTED = (
    plant(
        "length-sign-dropped",
        "Ignores the highest bit of the header length, and so reads a file whose length has that bit set.",
        "FRM-05 FRM-06",
        SignDropped,
    ),
    plant(
        "prefix-not-counted",
        "Accepts a header length that is up to eight bytes too large if the header ends the file.",
        "FRM-04",
        PrefixForgotten,
    ),
    plant(
        "data-without-tensors",
        "Ignores the data buffer if there is metadata but no tensor.",
        "FRM-09 OFF-08",
        NothingToCover,
    ),
    plant(
        "wide-data-aligned",
        "Rejects 64-bit elements if the header length is not a multiple of eight.",
        "FRM-08 OFF-11",
        AlignedStart,
    ),
    plant(
        "padding-in-first-read",
        "Accepts anything after the closing brace from byte 256 of the header on.",
        "HDR-03",
        PaddingInBuffer,
    ),
    plant(
        "mark-with-padding",
        "Skips a byte-order mark if the header ends in padding.",
        "HDR-05",
        MarkWithPadding,
    ),
    plant(
        "nul-to-multiple-of-eight",
        "Accepts NUL padding that fills the header up to a multiple of eight.",
        "HDR-03",
        NulPadding,
    ),
    plant(
        "name-twice-apart",
        "Accepts a repeated name if another tensor is listed in between.",
        "HDR-09",
        ApartTwice,
    ),
    plant(
        "name-twice-spelled-anew",
        "Accepts a repeated name if one of the two is written with escapes.",
        "HDR-10",
        SpelledTwice,
        SPELLING,
    ),
    plant(
        "metadata-key-twice-same-value",
        "Accepts a repeated metadata key if the value is the same.",
        "HDR-13",
        SameValueTwice,
    ),
    plant(
        "metadata-after-empty",
        "Accepts a second metadata map if the first one is empty.",
        "HDR-11",
        SecondAfterEmpty,
    ),
    plant(
        "shape-after-empty",
        "Accepts a second shape in an entry if the first one is empty.",
        "HDR-12",
        ShapeAfterScalar,
    ),
)
