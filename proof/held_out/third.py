"""Held-out readers whose bug could occur in real code, most of them under one condition. See ``held_out``.

The docstring of a class describes the bug of its reader and the condition under which it shows.
"""

# ruff: noqa: D205 - a docstring is the description of one bug, in one sentence

from __future__ import annotations

import hashlib
import re
import struct
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Any

from proof.broken.correct.json import Number, Pairs
from proof.broken.correct.reader import PLAIN, READER, RESERVED, Tensor, by_offset, exact_bits
from proof.planted import Planted
from safetensors_corpus.judging.answer import Refused

from .watched import SPELLING, Watched, WatchedGrammar, planted, product, raw

HEX4 = re.compile("[0-9a-fA-F]{4}")
STRING_BODY = re.compile(r'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
CONTROL = re.compile(r"[\x00-\x1f]")
ESCAPED_CONTROL = re.compile(r"\\[\x00-\x1f]")
C_SPACE = re.compile(r"[ \t\n\v\f\r]*")
DIGITS = re.compile("[0-9]+")


def number_of(header_length: bytes) -> int:
    return int.from_bytes(header_length, "little")


def chained(tensors: Sequence[Tensor], size: int) -> bool:
    """Return whether the ranges cover exactly ``size`` bytes."""
    try:
        READER.check_layout(tensors, size)
    except Refused:
        return False
    return True


def with_bytes(tensors: Sequence[Tensor]) -> list[Tensor]:
    return [tensor for tensor in tensors if tensor.end > tensor.begin]


def repeated(names: Sequence[str]) -> bool:
    return len(set(names)) < len(names)


def cut(text: str, most: int) -> str:
    """Return the beginning of a text, at most ``most`` bytes of UTF-8."""
    return text.encode()[:most].decode(errors="ignore")


class Copying(Watched):
    """A reader that copies the bytes of each tensor in a method of its own."""

    @cached_property
    def cache(self) -> dict[object, bytes]:
        return {}

    def content(self, file: bytes) -> dict[str, Any]:
        self.cache.clear()
        return super().content(file)

    def copied(self, tensor: Tensor, right: bytes) -> bytes:  # noqa: ARG002
        """Return the copy of the bytes of a tensor; ``right`` is the correct copy."""
        return right

    def described(self, tensor: Tensor, data: bytes) -> dict[str, Any]:
        copy = self.copied(tensor, data[tensor.begin : tensor.end])
        digest = hashlib.sha256(copy).hexdigest()
        return super().described(tensor, data) | {"nbytes": len(copy), "sha256": digest}


class Remembering(Watched):
    """A reader that keeps something of the previous entry while it reads the entries of one file."""

    @cached_property
    def last(self) -> list[Any]:
        return []

    def entries(self, members: Pairs) -> tuple[list[Tensor], dict[str, Any] | None]:
        self.last.clear()
        return super().entries(members)


# Header and framing.


class ShiftBy32(Watched):
    """Joins the two halves of the header length with ``high << 32 | low``, as in JavaScript, where a shift
    by 32 does nothing, so the high half is merged into the low half; shows if the high half is not zero and
    all its bits are set in the low half.
    """

    def split(self, file: bytes) -> tuple[bytes, bytes]:
        if len(file) >= 8:
            low, high = struct.unpack("<II", file[:8])
            if self.noted(high != 0 and low | high <= len(file) - 8):
                file = struct.pack("<Q", low | high) + file[8:]
        return super().split(file)


class SecondByteSigned(Watched):
    """Puts the header length together from signed bytes, as in Java, and forgets ``& 0xff`` on the second
    byte; a header whose length has bit 15 set gets a negative length and is refused.
    """

    def split(self, file: bytes) -> tuple[bytes, bytes]:
        if len(file) >= 8 and self.noted(file[1] >= 0x80):
            raise Refused("header-empty")
        return super().split(file)


class NextBlockNeeded(Watched):
    """Reads the header through blocks of 4096 bytes and fetches the next block as soon as one is used up,
    where the end of the file is an error; refuses a file without data whose header ends at a block limit.
    """

    def split(self, file: bytes) -> tuple[bytes, bytes]:
        header, data = super().split(file)
        if self.noted(len(file) % 4096 == 0 and not data):
            raise Refused("header-past-end")
        return header, data


class PastEndForgetsPrefix(Watched):
    """Compares the header length with the size of the file, without the 8 bytes of the length itself, and
    reads what is there; accepts a header that is cut short by at most 8 bytes if only padding is missing.
    """

    def split(self, file: bytes) -> tuple[bytes, bytes]:
        length = number_of(file[:8])
        if len(file) >= 8 and self.noted(length <= min(len(file), self.cap) and len(file) < 8 + length):
            return file[8:], b""
        return super().split(file)


class HeaderAsCString(Watched):
    """Gives the header to a JSON parser that takes a C string, so everything from the first zero byte on is
    ignored; shows if the header contains a zero byte after the JSON text.
    """

    def members(self, header: bytes) -> Pairs:
        if self.noted(b"\0" in header):
            header = header.partition(b"\0")[0]
        return super().members(header)


class PaddingLastByte(Watched):
    """Checks the padding only by the last byte of the header, which must be a brace or a space; accepts
    other characters between the JSON text and that last byte.
    """

    def members(self, header: bytes) -> Pairs:
        text = self.decode(header)
        self.demand("first-brace", text.startswith("{"))
        _, end = self.grammar.value(text, 0)
        if self.noted(bool(text[end:].strip(" ")) and text[-1] in "} "):
            header = text[:end].encode()
        return super().members(header)


class DecoderDropsBom(Watched):
    """Decodes the header with a decoder that drops a byte-order mark by default, as TextDecoder in
    JavaScript and ``utf-8-sig`` in Python do; accepts a header that begins with a byte-order mark.
    """

    def members(self, header: bytes) -> Pairs:
        if self.noted(header.startswith(b"\xef\xbb\xbf")):
            header = header[3:]
        return super().members(header)


class SecondRequestShort(Watched):
    """Fetches the first 16384 bytes and, for a longer header, requests the bytes 8 to N instead of 8 to
    8 + N; refuses a header that does not fit into the first request and ends with fewer than 8 spaces.
    """

    def split(self, file: bytes) -> tuple[bytes, bytes]:
        header, data = super().split(file)
        if 8 + len(header) > 16384 and self.noted(bool(header[-8:].strip(b" "))):
            header = header[:-8]
        return header, data


# JSON text.


class HexByInt(WatchedGrammar):
    """Converts the four characters of a ``u`` escape with a general integer parser, which also takes signs,
    spaces, underscores and ``0x``; accepts an escape with such characters among the four.
    """

    def escape(self, text: str, at: int) -> tuple[str, int]:
        digits = text[at + 1 : at + 5]
        if text[at : at + 1] == "u" and len(digits) == 4:
            try:
                code = int(digits, 16)
            except ValueError:
                code = -1
            if self.noted(code >= 0 and HEX4.fullmatch(digits) is None):
                return chr(code), at + 5
        return super().escape(text, at)


class LowHalfUnchecked(WatchedGrammar):
    """Joins an escaped high surrogate with whatever escape follows, without checking that it is a low
    surrogate; accepts a high surrogate that is followed by the escape of any other character.
    """

    def escape(self, text: str, at: int) -> tuple[str, int]:
        char, end = super().escape(text, at)
        if "\ud800" <= char <= "\udbff" and text.startswith("\\u", end):
            low, end = super().escape(text, end + 1)
            self.noted(not "\udc00" <= low <= "\udfff")
            char = chr(0x10000 + ((ord(char) & 0x3FF) << 10 | ord(low) & 0x3FF))
        return char, end


class ControlInTail(WatchedGrammar):
    """Looks for control characters with vector instructions in whole blocks of 16 bytes and forgets the rest
    of the string; accepts a raw control character in the last, partial block of a string of 16 bytes or more.
    """

    def string(self, text: str, at: int, quote: str) -> tuple[str, int]:
        match = STRING_BODY.match(text, at)
        body = match[0] if match else ""
        whole = len(body.encode()) // 16 * 16
        if whole and text.startswith(quote, at + len(body)):
            first = CONTROL.search(body)
            in_tail = first is not None and len(body[: first.start()].encode()) >= whole
            if self.noted(in_tail and ESCAPED_CONTROL.search(body) is None):
                escaped = CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", body)
                return super().string(escaped + quote, 0, quote)[0], at + len(body) + 1
        return super().string(text, at, quote)


class CSpaceAfterComma(WatchedGrammar):
    """Skips the space after a comma with ``isspace`` of C, while other places list the four characters of
    JSON; accepts a vertical tab or form feed after a comma.
    """

    def after(self, text: str, at: int, closing: str) -> tuple[int, bool]:
        at, more = super().after(text, at, closing)
        match = C_SPACE.match(text, at)
        if more and match is not None and self.noted(match.end() > at):
            at = match.end()
        return at, more


class LeadingZeros(WatchedGrammar):
    """Reads an integer as a run of digits and does not treat a zero at its start specially; accepts numbers
    with leading zeros.
    """

    def value(self, text: str, at: int, level: int = 1) -> tuple[object, int]:
        match = DIGITS.match(text, at)
        if match is not None and self.noted(len(match[0]) > 1 and match[0].startswith("0")):
            return self.convert(match[0].lstrip("0") or "0"), match.end()
        return super().value(text, at, level)


class SpacedTrailingComma(WatchedGrammar):
    """Detects a trailing comma by looking at the character right after the comma, before it skips white
    space; accepts a trailing comma that is separated from the closing bracket by white space.
    """

    def after(self, text: str, at: int, closing: str) -> tuple[int, bool]:
        match = self.patterns["comma"].match(text, at)
        if match is not None:
            trailing = text.startswith(closing, match.end())
            if self.noted(trailing and not match[0].endswith(",")):
                return match.end() + 1, False
        return super().after(text, at, closing)


class DepthLeaks(WatchedGrammar):
    """Counts the depth of nesting up to 64, but the early return for an empty array does not count down
    again; refuses a header with about 60 or more scalar tensors.
    """

    @cached_property
    def leaked(self) -> list[int]:
        return []

    def members(self, text: str, at: int, level: int) -> tuple[object, int]:
        if level == 1:
            self.leaked.clear()
        return super().members(text, at, level)

    def elements(self, text: str, at: int, level: int) -> tuple[object, int]:
        if self.noted(bool(self.leaked) and level + len(self.leaked) > 64):
            raise Refused("depth")
        if text.startswith("]", self.skip(text, at)):
            self.leaked.append(at)
        return super().elements(text, at, level)


class ScratchBuffer(WatchedGrammar):
    """Returns strings without escapes as they are, but decodes strings with escapes into a buffer of 256
    bytes; a string that has an escape and more than 255 bytes loses its end.
    """

    def string(self, text: str, at: int, quote: str) -> tuple[str, int]:
        decoded, end = super().string(text, at, quote)
        if "\\" in text[at:end] and self.noted(len(decoded.encode()) > 255):
            decoded = cut(decoded, 255)
        return decoded, end


class RareEscapes(WatchedGrammar):
    r"""Has no case for ``\b`` and ``\f`` in the switch over escapes, whose default returns the letter
    itself; a string with one of these two escapes is decoded wrongly.
    """

    def escape(self, text: str, at: int) -> tuple[str, int]:
        letter = text[at : at + 1]
        if self.noted(letter in ("b", "f")):
            return letter, at + 1
        return super().escape(text, at)


class NumberAcrossChunks(WatchedGrammar):
    """Reads the header in chunks of 4096 characters and ends a number token at the end of a chunk; refuses a
    header in which a number of several digits lies across a chunk limit.
    """

    def value(self, text: str, at: int, level: int = 1) -> tuple[object, int]:
        match = self.patterns["number"].match(text, at)
        if match is not None and self.noted(at // 4096 != (match.end() - 1) // 4096):
            raise Refused("comma")
        return super().value(text, at, level)


# Names and metadata.


class DuplicatesBySpelling(Watched):
    """Looks for repeated tensor names among the raw bytes of the keys, before escapes are decoded; accepts
    a name that appears twice in different spellings, and the last entry wins.
    """

    def entries(self, members: Pairs) -> tuple[list[Tensor], dict[str, Any] | None]:
        keys = [key for key, _ in members if key != RESERVED]
        if self.noted(repeated(keys) and not repeated([raw(key) for key in keys])):
            last = {key: at for at, (key, _) in enumerate(members)}
            members = Pairs(
                [pair for at, pair in enumerate(members) if pair[0] == RESERVED or last[pair[0]] == at]
            )
        return super().entries(members)


class CanonicalEquality(Watched):
    """Compares names by canonical equivalence, as the strings of Swift do; refuses a file with two names
    that differ only in Unicode normalisation.
    """

    def entries(self, members: Pairs) -> tuple[list[Tensor], dict[str, Any] | None]:
        keys = [key for key, _ in members]
        if self.noted(not repeated(keys) and repeated([unicodedata.normalize("NFC", key) for key in keys])):
            raise Refused("name-twice")
        return super().entries(members)


class NameCutAtNul(Watched):
    """Keeps names as C strings; a name that contains an escaped NUL character is returned only up to it."""

    def tensor(self, name: str, fields: Mapping[str, object]) -> Tensor:
        if self.noted("\0" in name):
            name = name.partition("\0")[0]
        return super().tensor(name, fields)


class Name63(Watched):
    """Copies names into a field of 64 bytes with ``strncpy``; a name of more than 63 bytes is cut."""

    def tensor(self, name: str, fields: Mapping[str, object]) -> Tensor:
        if self.noted(len(name.encode()) > 63):
            name = cut(name, 63)
        return super().tensor(name, fields)


class MetadataFirstValue(Watched):
    """Checks the type of the first metadata value only and reads the others lazily as text; accepts a value
    that is not a string after a first value that is one.
    """

    def metadata(self, value: object) -> dict[str, Any] | None:
        if isinstance(value, Pairs):
            texts = [type(item) is str for _, item in value]
            if self.noted(texts[:1] == [True] and not all(texts)):
                value = Pairs([(key, item if type(item) is str else "") for key, item in value])
        return super().metadata(value)


class MetadataNeighbours(Watched):
    """Compares each metadata key with the one before it only, because writers sort the keys; accepts a
    repeated key if another key stands between the two, and the last value wins.
    """

    def metadata(self, value: object) -> dict[str, Any] | None:
        if isinstance(value, Pairs):
            keys = [key for key, _ in value]
            side_by_side = any(one == other for one, other in pairwise(keys))
            if self.noted(repeated(keys) and not side_by_side):
                value = Pairs(dict(value).items())
        return super().metadata(value)


class ReservedByPrefix(Watched):
    """Recognises the metadata with ``strncmp`` over the length of ``__metadata__``; takes a tensor whose name
    only begins with this text for metadata, and refuses it.
    """

    def entries(self, members: Pairs) -> tuple[list[Tensor], dict[str, Any] | None]:
        if self.noted(any(key.startswith(RESERVED) and key != RESERVED for key, _ in members)):
            members = Pairs([(RESERVED if key.startswith(RESERVED) else key, item) for key, item in members])
        return super().entries(members)


class MetadataTruthy(Watched):
    """Copies a metadata value with ``if (value)``, for which an empty string is false; metadata keys with an
    empty value are lost.
    """

    def metadata(self, value: object) -> dict[str, Any] | None:
        found = super().metadata(value)
        if found is not None and self.noted("" in found.values()):
            found = {key: text for key, text in found.items() if text != ""}
        return found


class SecondMetadata(Watched):
    """Tests ``if metadata`` to see whether metadata was read before, which is false for an empty map; accepts
    a second ``__metadata__`` if the first one is empty.
    """

    def entries(self, members: Pairs) -> tuple[list[Tensor], dict[str, Any] | None]:
        places = [at for at, (key, _) in enumerate(members) if key == RESERVED]
        empty = [isinstance(members[at][1], Pairs) and not members[at][1] for at in places]
        if places and self.noted(len(places) > 1 and all(empty[:-1])):
            members = Pairs([pair for at, pair in enumerate(members) if at not in places[:-1]])
        return super().entries(members)


class DuplicateOfEmpty(Watched):
    """Looks a name up with ``sizes.get(name)`` and takes a size of 0 for "not seen yet"; accepts a repeated
    name if the earlier entry has no bytes, and the last entry wins.
    """

    def entries(self, members: Pairs) -> tuple[list[Tensor], dict[str, Any] | None]:
        last = {key: at for at, (key, _) in enumerate(members)}
        kept = Pairs()
        for at, (key, value) in enumerate(members):
            again = key != RESERVED and last[key] != at
            earlier = self.entry(key, value) if again else None
            if not self.noted(earlier is not None and earlier.begin == earlier.end):
                kept.append((key, value))
        return super().entries(kept)


# Dtypes.


class DtypeByPrefix(Watched):
    """Compares a dtype with each known code over the length of the code only; accepts a known code with more
    characters behind it, such as ``F8_E4M3FN``.
    """

    def dtype(self, value: object) -> str:
        if type(value) is str:
            known = [code for code in self.widths if value.startswith(code)]
            if self.noted(value not in self.widths and bool(known)):
                return max(known, key=len)
        return super().dtype(value)


class SixBitRoundsUp(Watched):
    """Rounds the size of a tensor of six-bit elements up to whole bytes, although it checks four-bit elements
    correctly; accepts an F6 tensor whose bits do not fill whole bytes.
    """

    def fits(self, dtype: str, shape: Sequence[int], size: int) -> bool:
        if dtype.startswith("F6_"):
            bits = exact_bits(6, shape)
            if self.noted(bits % 8 != 0 and size == (bits + 7) // 8):
                return True
        return super().fits(dtype, shape, size)


class PackedRows(Watched):
    """Computes the size of an F4 tensor as rows of whole bytes; refuses an F4 tensor with an odd last
    dimension and an even number of elements.
    """

    def fits(self, dtype: str, shape: Sequence[int], size: int) -> bool:
        right = super().fits(dtype, shape, size)
        if dtype != "F4" or not shape:
            return right
        expected = (shape[-1] + 1) // 2 * product(shape[:-1])
        self.noted((size == expected) != right)
        return size == expected


class UnknownDtypeKeepsWidth(Remembering):
    """The lookup of an unknown dtype leaves the width in its output variable unchanged and its result is
    ignored; accepts an unknown dtype in a later entry whose size fits the width of the dtype before it.
    """

    def dtype(self, value: object) -> str:
        if type(value) is str and self.noted(value not in self.widths and bool(self.last)):
            return value
        self.last[:] = [super().dtype(value)]
        return str(self.last[0])

    def fits(self, dtype: str, shape: Sequence[int], size: int) -> bool:
        return super().fits(dtype if dtype in self.widths else self.last[0], shape, size)


class BoolNormalised(Copying):
    """Copies BOOL tensors through the boolean type of the language; bytes other than 0 and 1 become 1."""

    def copied(self, tensor: Tensor, right: bytes) -> bytes:
        if tensor.dtype == "BOOL" and self.noted(any(byte > 1 for byte in right)):
            return bytes(min(byte, 1) for byte in right)
        return right


class FnuzDropped(Watched):
    """Maps the dtype codes to an enum that has no FNUZ variants, so they share the plain 8-bit kinds; an
    F8_E4M3FNUZ or F8_E5M2FNUZ tensor is returned with the dtype without FNUZ.
    """

    def dtype(self, value: object) -> str:
        found = super().dtype(value)
        return found.removesuffix("FNUZ") if self.noted(found.endswith("FNUZ")) else found


# Shapes.


class BytesUnchecked(Watched):
    """Checks the product of the dimensions for overflow, but not its product with the element width; accepts
    a shape whose element count fits into 64 bits and whose byte count wraps to the size of the range.
    """

    def fits(self, dtype: str, shape: Sequence[int], size: int) -> bool:
        width = self.widths[dtype]
        if width > 8:
            count = exact_bits(1, shape)
            wrapped = count * (width // 8) % 2**64
            if self.noted(count * width >= 2**64 and size == wrapped):
                return True
        return super().fits(dtype, shape, size)


class WrapByComparison(Watched):
    """Takes a product for overflowed if it is smaller than before the multiplication, as would be right for
    a sum; accepts dimensions whose product wraps to a number that is not smaller.
    """

    def fits(self, dtype: str, shape: Sequence[int], size: int) -> bool:
        if len(shape) > 1 and 0 not in shape:
            count, caught = 1, False
            for dim in shape:
                wrapped = count * dim % 2**64
                caught |= wrapped < count
                count = wrapped
            fitting = not caught and count * self.widths[dtype] == size * 8
            if self.noted(fitting and count != product(shape)):
                return True
        return super().fits(dtype, shape, size)


class DimsAfterZero(Watched):
    """Leaves the loop over the dimensions at the first 0, since the tensor is empty then; accepts anything
    as a dimension after a dimension of 0.
    """

    def shape(self, value: object) -> tuple[int, ...]:
        if not isinstance(value, list) or isinstance(value, Pairs):
            return super().shape(value)
        dims: list[int] = []
        for item in value:
            try:
                dims.append(self.dimension(item))
            except Refused:
                if not self.noted(0 in dims):
                    raise
                dims.append(0)
        self.noted(False)
        return tuple(dims)


class RankAboveEight(Watched):
    """Stores dimensions in an array of 8 and refuses tensors with more than 8 dimensions."""

    def shape(self, value: object) -> tuple[int, ...]:
        dims = super().shape(value)
        if self.noted(len(dims) > 8):
            raise Refused("rank")
        return dims


class LeadingOnesDropped(Watched):
    """Knows tensors of at most 4 dimensions and drops leading dimensions of 1 from those with more; the shape
    of a tensor with more than 4 dimensions that begins with 1 is returned without it.
    """

    def tensor(self, name: str, fields: Mapping[str, object]) -> Tensor:
        found = super().tensor(name, fields)
        dims = found.shape
        while len(dims) > 4 and dims[0] == 1:
            dims = dims[1:]
        self.noted(dims != found.shape)
        return replace(found, shape=dims)


class DimensionAsDouble(Watched):
    """Stores dimensions in double precision, as JavaScript does; a dimension above 2^53 that has no exact
    double, in a tensor without bytes, is returned rounded.
    """

    def tensor(self, name: str, fields: Mapping[str, object]) -> Tensor:
        found = super().tensor(name, fields)
        dims = tuple(int(float(dim)) for dim in found.shape)
        self.noted(dims != found.shape)
        return replace(found, shape=dims)


class DimensionInt32(Watched):
    """Reads dimensions into a signed 32-bit integer and refuses one of 2^31 or more, which is valid next to a
    dimension of 0.
    """

    def shape(self, value: object) -> tuple[int, ...]:
        dims = super().shape(value)
        if self.noted(any(dim >= 2**31 for dim in dims)):
            raise Refused("integer-range")
        return dims


class MissingShapeKept(Remembering):
    """Decodes all entries into one variable that is not cleared, as in Go; accepts an entry without a shape
    after another entry if the shape of that entry fits.
    """

    def entry(self, name: str, value: object) -> Tensor | None:
        if isinstance(value, Pairs):
            shapes = [item for key, item in value if key == "shape"]
            if self.noted(not shapes and bool(self.last)):
                value = Pairs([*value, ("shape", self.last[0])])
            self.last[:] = shapes or self.last
        return super().entry(name, value)


# Offsets and layout.


class SumOfSizes(Watched):
    """Checks the layout by totals: the sizes must add up to the data and the largest end must be its end;
    accepts a hole and an overlap of the same size.
    """

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        filled = with_bytes(tensors)
        total = sum(tensor.end - tensor.begin for tensor in filled)
        largest = max((tensor.end for tensor in filled), default=0)
        if not self.noted(total == size == largest and not chained(filled, size)):
            super().check_layout(tensors, size)


class EmptySkipped(Watched):
    """Skips tensors without bytes in the check of the layout; accepts an empty tensor at an offset inside
    another tensor or behind the data.
    """

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        filled = with_bytes(tensors)
        if len(filled) < len(tensors):
            self.noted(chained(filled, size) and not chained(tensors, size))
        super().check_layout(filled, size)


class SortByBegin(Watched):
    """Sorts the tensors by their begin only, with a stable sort; refuses a file in which an empty tensor
    starts at the same offset as a tensor with bytes and stands behind it in the header.
    """

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        if self.noted(sorted(tensors, key=lambda tensor: tensor.begin) != by_offset(tensors)):
            raise Refused("overlap")
        super().check_layout(tensors, size)


class TextSort(Watched):
    """Sorts the begins as text, which is the default in JavaScript, but only if the header is not in order
    yet; refuses tensors out of order whose begins sort differently as text.
    """

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        begins = [tensor.begin for tensor in tensors]
        if begins != sorted(begins) and self.noted(sorted(begins, key=str) != sorted(begins)):
            raise Refused("hole")
        super().check_layout(tensors, size)


class TrailingZeros(Watched):
    """Allows for padding at the end of the file, which an old writer added; accepts up to 7 zero bytes after
    the last tensor.
    """

    def cover(self, tensors: Sequence[Tensor], metadata: Mapping[str, Any] | None, data: bytes) -> None:
        end = max((tensor.end for tensor in tensors), default=0)
        rest = data[end:]
        if not self.noted(0 < len(rest) < 8 and not any(rest) and chained(tensors, end)):
            super().cover(tensors, metadata, data)


class ChainFromFirst(Watched):
    """Starts the check for holes with the begin of the first tensor instead of 0; accepts a hole before the
    first tensor.
    """

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        first = min((tensor.begin for tensor in tensors), default=0)
        moved = [replace(tensor, begin=tensor.begin - first, end=tensor.end - first) for tensor in tensors]
        if not self.noted(first > 0 and chained(moved, size - first)):
            super().check_layout(tensors, size)


class OffsetByFloat(Watched):
    """Reads offsets as floating-point numbers and checks that they are whole; accepts an offset that is
    written with a fraction of zero or an exponent.
    """

    def offsets(self, value: object) -> tuple[int, int]:
        if isinstance(value, list) and not isinstance(value, Pairs):
            value = [self.whole(item) for item in value]
        return super().offsets(value)

    def whole(self, item: object) -> object:
        if not isinstance(item, Number):
            return item
        spelled = "." in item or "e" in item.lower()
        found = float(item) if spelled else -1.0
        wrong = found.is_integer() and 0 <= found < 2**53 and PLAIN.fullmatch(item) is None
        return Number(str(int(found))) if self.noted(wrong) else item


class Offsets32(Watched):
    """Stores offsets in 32 bits; accepts an offset of 2^32 or more whose low 32 bits fit."""

    def offsets(self, value: object) -> tuple[int, int]:
        begin, end = super().offsets(value)
        self.noted(max(begin, end) >= 2**32)
        return begin % 2**32, end % 2**32


class SortedTestShort(Watched):
    """Sorts the tensors only if they are not in order, but the loop that tests this misses the last pair;
    refuses a file in which only the last two tensors are out of order.
    """

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        keys = [(tensor.begin, tensor.end) for tensor in tensors]
        ordered = [one <= other for one, other in pairwise(keys)]
        if ordered and self.noted(all(ordered[:-1]) and not ordered[-1]):
            raise Refused("hole")
        super().check_layout(tensors, size)


class UnalignedDoubles(Watched):
    """Makes views of 64-bit elements directly on the data and refuses a tensor with 64-bit elements whose
    begin is not a multiple of 8.
    """

    def tensor(self, name: str, fields: Mapping[str, object]) -> Tensor:
        found = super().tensor(name, fields)
        if self.widths[found.dtype] == 64 and self.noted(found.begin % 8 != 0):
            raise Refused("alignment")
        return found


class EmptyAtEnd(Watched):
    """Checks ``begin < size`` for every tensor, as for an index; refuses an empty tensor at the very end of
    the data.
    """

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        if self.noted(any(tensor.begin == size for tensor in tensors)):
            raise Refused("past-end")
        super().check_layout(tensors, size)


class LastEntryBound(Watched):
    """Checks that the file is long enough only for the last entry of the header, as the one with the largest
    end, and a read past the end returns fewer bytes; accepts cut data if the tensor that stands last in the
    header is whole.
    """

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        end = max((tensor.end for tensor in tensors), default=0)
        if tensors and self.noted(tensors[-1].end <= size < end and chained(tensors, end)):
            return
        super().check_layout(tensors, size)


# Data copied.


class LastBlockLost(Copying):
    """Copies in blocks of 4096 bytes and then the remainder, with the last block counted as the remainder; if
    the size is a multiple of 4096, the remainder is 0 and the last block stays zero.
    """

    def copied(self, tensor: Tensor, right: bytes) -> bytes:  # noqa: ARG002
        if self.noted(len(right) % 4096 == 0 and any(right[-4096:])):
            return right[:-4096] + bytes(4096)
        return right


class CacheByHead(Copying):
    """Shares equal tensors by a key of their size and first 16 bytes; a tensor with the same size and first
    16 bytes as an earlier one, and other bytes after them, gets the bytes of the earlier one.
    """

    def copied(self, tensor: Tensor, right: bytes) -> bytes:  # noqa: ARG002
        found = self.cache.setdefault((len(right), right[:16]), right)
        self.noted(found != right)
        return found


class CacheByBegin(Copying):
    """Keeps the bytes that were read in a cache with the begin as its key; a tensor gets no bytes if an empty
    tensor with the same begin stands before it in the header.
    """

    def copied(self, tensor: Tensor, right: bytes) -> bytes:
        found = self.cache.setdefault(tensor.begin, right)[: len(right)]
        self.noted(found != right)
        return found


class NanQuieted(Copying):
    """Copies F32 elements through floating-point registers, which make a signalling NaN quiet; F32 data with
    a signalling NaN changes.
    """

    def copied(self, tensor: Tensor, right: bytes) -> bytes:
        if tensor.dtype != "F32":
            return right
        words = struct.unpack(f"<{len(right) // 4}I", right)
        quiet = [
            word | 0x400000 if word & 0x7F800000 == 0x7F800000 and word & 0x7FFFFF else word for word in words
        ]
        copy = struct.pack(f"<{len(quiet)}I", *quiet)
        self.noted(copy != right)
        return copy


class WindowEdge(Copying):
    """Reads tensors of at most 256 bytes from a window of 1024 bytes that begins at a multiple of 1024; the
    bytes of such a small tensor behind the end of its window stay zero.
    """

    def copied(self, tensor: Tensor, right: bytes) -> bytes:
        inside = 1024 - tensor.begin % 1024
        if 0 < len(right) <= 256 and self.noted(any(right[inside:])):
            return right[:inside] + bytes(len(right) - inside)
        return right


class LongsAsDoubles(Copying):
    """Converts I64 and U64 elements to double precision and back; elements that have no exact double, above
    2^53, change.
    """

    def copied(self, tensor: Tensor, right: bytes) -> bytes:
        if tensor.dtype not in ("I64", "U64"):
            return right
        form = f"<{len(right) // 8}{'q' if tensor.dtype == 'I64' else 'Q'}"
        rounded = [int(float(item)) % 2**64 for item in struct.unpack(form, right)]
        copy = struct.pack(f"<{len(rounded)}Q", *rounded)
        self.noted(copy != right)
        return copy


PLANTED: tuple[Planted, ...] = (
    planted("third-shift-by-32", "FRM-02 FRM-06", ShiftBy32),
    planted("third-second-byte-signed", "FRM-02 FRM-05", SecondByteSigned),
    planted("third-next-block-needed", "FRM-01", NextBlockNeeded),
    planted("third-past-end-forgets-prefix", "FRM-04", PastEndForgetsPrefix),
    planted("third-header-as-c-string", "HDR-03", HeaderAsCString),
    planted("third-padding-last-byte", "HDR-03 HDR-06", PaddingLastByte),
    planted("third-decoder-drops-bom", "HDR-05", DecoderDropsBom),
    planted("third-second-request-short", "LIM-10", SecondRequestShort),
    planted("third-hex-by-int", "HDR-15", HexByInt),
    planted("third-low-half-unchecked", "HDR-15", LowHalfUnchecked),
    planted("third-control-in-tail", "HDR-14", ControlInTail),
    planted("third-c-space-after-comma", "HDR-07 HDR-08", CSpaceAfterComma),
    planted("third-leading-zeros", "HDR-07 SHP-02 OFF-02", LeadingZeros),
    planted("third-spaced-trailing-comma", "HDR-07", SpacedTrailingComma),
    planted("third-depth-leaks", "HDR-16 SHP-03 ENT-11", DepthLeaks),
    planted("third-scratch-buffer", "HDR-15 ENT-10", ScratchBuffer),
    planted("third-rare-escapes", "HDR-15", RareEscapes),
    planted("third-number-across-chunks", "HDR-07", NumberAcrossChunks),
    planted("third-duplicates-by-spelling", "HDR-09 HDR-10", DuplicatesBySpelling, SPELLING),
    planted("third-canonical-equality", "HDR-19", CanonicalEquality),
    planted("third-name-cut-at-nul", "ENT-08 HDR-14", NameCutAtNul),
    planted("third-name-63", "ENT-10", Name63),
    planted("third-metadata-first-value", "MET-01", MetadataFirstValue),
    planted("third-metadata-neighbours", "HDR-13", MetadataNeighbours),
    planted("third-reserved-by-prefix", "MET-05", ReservedByPrefix),
    planted("third-metadata-truthy", "MET-04", MetadataTruthy),
    planted("third-second-metadata", "HDR-11", SecondMetadata),
    planted("third-duplicate-of-empty", "HDR-09", DuplicateOfEmpty),
    planted("third-dtype-by-prefix", "DTY-01", DtypeByPrefix),
    planted("third-six-bit-rounds-up", "DTY-09", SixBitRoundsUp),
    planted("third-packed-rows", "DTY-12 DTY-09", PackedRows),
    planted("third-unknown-dtype-keeps-width", "DTY-01 DTY-06", UnknownDtypeKeepsWidth),
    planted("third-bool-normalised", "DAT-05 DAT-06", BoolNormalised),
    planted("third-fnuz-dropped", "DTY-01 DTY-13", FnuzDropped),
    planted("third-bytes-unchecked", "SHP-05", BytesUnchecked),
    planted("third-wrap-by-comparison", "SHP-05", WrapByComparison),
    planted("third-dims-after-zero", "SHP-01 SHP-02", DimsAfterZero),
    planted("third-rank-above-eight", "SHP-10", RankAboveEight),
    planted("third-leading-ones-dropped", "SHP-11", LeadingOnesDropped),
    planted("third-dimension-as-double", "SHP-08", DimensionAsDouble),
    planted("third-dimension-int32", "SHP-08", DimensionInt32),
    planted("third-missing-shape-kept", "ENT-03", MissingShapeKept),
    planted("third-sum-of-sizes", "OFF-06 OFF-07", SumOfSizes),
    planted("third-empty-skipped", "OFF-09", EmptySkipped),
    planted("third-sort-by-begin", "OFF-09 OFF-10", SortByBegin),
    planted("third-text-sort", "HDR-17", TextSort),
    planted("third-trailing-zeros", "OFF-08", TrailingZeros),
    planted("third-chain-from-first", "OFF-07", ChainFromFirst),
    planted("third-offset-by-float", "OFF-02", OffsetByFloat),
    planted("third-offsets-32", "OFF-04 OFF-14", Offsets32),
    planted("third-sorted-test-short", "HDR-17", SortedTestShort),
    planted("third-unaligned-doubles", "OFF-11", UnalignedDoubles),
    planted("third-empty-at-end", "OFF-09", EmptyAtEnd),
    planted("third-last-entry-bound", "OFF-04 HDR-17", LastEntryBound),
    planted("third-last-block-lost", "DAT-06", LastBlockLost),
    planted("third-cache-by-head", "DAT-06", CacheByHead),
    planted("third-cache-by-begin", "DAT-06 OFF-09", CacheByBegin),
    planted("third-nan-quieted", "DAT-04", NanQuieted),
    planted("third-window-edge", "DAT-06", WindowEdge),
    planted("third-longs-as-doubles", "DAT-06", LongsAsDoubles),
)
"""The readers."""
