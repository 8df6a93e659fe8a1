"""Held-out readers whose bug shows only under a condition, or where two conditions meet. See ``held_out``.

The docstring of a class says what its reader does wrong, and when. ``TWO_CONDITIONS`` names those that go
wrong only where two independent conditions meet.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import prod
from typing import Any

from proof.broken.correct.json import Grammar, Number, Pairs
from proof.broken.correct.reader import FIELDS, READER, Tensor, by_offset, exact_bits
from proof.planted import Planted
from safetensors_corpus.judging.answer import Refused

from .watched import SPELLING, Watched, WatchedGrammar, plant, plant_grammar, raw

WORD = 2**64
PAGE = 4096
SECOND_BYTES = {0xE0: (0xA0, 0xBF), 0xED: (0x80, 0x9F), 0xF0: (0x90, 0xBF), 0xF4: (0x80, 0x8F)}
"""The least and the greatest second byte behind those lead bytes that narrow it."""


def passes(check: Callable[..., object], *given: object) -> bool:
    try:
        check(*given)
    except Refused:
        return False
    return True


class Mending(Watched):
    """A reader that takes some invalid files for valid ones."""

    def mended(self, file: bytes) -> bytes:
        raise NotImplementedError

    def split(self, file: bytes) -> tuple[bytes, bytes]:
        mended = self.mended(file)
        return super().split(
            mended if self.noted(mended != file and passes(READER.content, mended)) else file
        )


@dataclass(frozen=True)
class Valid:
    """A valid file, with the names and the sizes in bytes of its tensors and with its metadata."""

    file: bytes
    sizes: Mapping[str, int]
    metadata: Mapping[str, Any] | None


class Refusing(Watched):
    """A reader that refuses some valid files."""

    def refuses(self, valid: Valid) -> bool:
        raise NotImplementedError

    def content(self, file: bytes) -> dict[str, Any]:
        """Return what a file says. Raises Refused."""
        answer = super().content(file)
        sizes = {tensor["name"]: tensor["nbytes"] for tensor in answer["tensors"]}
        if self.noted(self.refuses(Valid(file, sizes, answer["metadata"]))):
            raise Refused("valid")
        return answer


class Copying(Watched):
    """A reader that copies the bytes of a tensor wrongly."""

    def copied(self, tensor: Tensor, data: bytes) -> bytes:
        raise NotImplementedError

    def described(self, tensor: Tensor, data: bytes) -> dict[str, Any]:
        copied = self.copied(tensor, data)
        self.noted(copied != data[tensor.begin : tensor.end])
        return super().described(replace(tensor, begin=0, end=len(copied)), copied)


# ---- Framing ----


class ShortReadBehindFirstBlock(Mending):
    """Reads the header in blocks of 1024 bytes and notices a short read in the first block only.

    A file that breaks off later, in the padding, passes.
    """

    block = 1024

    def mended(self, file: bytes) -> bytes:
        there = len(file) - 8
        if there < self.block or not there < self.length(file[:8]) <= self.cap:
            return file
        return there.to_bytes(8, "little") + file[8:]


class HalvesOred(Mending):
    """Joins the halves of the header length by ``high << 32 | low`` in 32 bits, where the shift does nothing.

    Shows where every bit of the upper half stands in the lower half too.
    """

    def mended(self, file: bytes) -> bytes:
        length = int.from_bytes(file[:4], "little") | int.from_bytes(file[4:8], "little")
        return file if len(file) < 8 else length.to_bytes(8, "little") + file[8:]


class ZeroLengthMap(Refusing):
    """Maps the data buffer from the page boundary below it, and fails when the map would have no bytes.

    That is so when there is no data and the header ends on a page boundary.
    """

    def refuses(self, valid: Valid) -> bool:
        return len(valid.file) % PAGE == 0 and not any(valid.sizes.values())


class BraceSoughtInTheTail(Refusing):
    """Seeks the closing brace of the header in its last 64 bytes, so it refuses more padding than that."""

    tail = 64

    def refuses(self, valid: Valid) -> bool:
        header, _ = READER.split(valid.file)
        return b"}" not in header[-self.tail :]


class PaddingBehindEightSpaces(Watched):
    """Looks at the first eight bytes behind the object only, since alignment needs no more padding than that.

    Anything passes behind eight spaces.
    """

    checked = " " * 8

    def members(self, header: bytes) -> Pairs:
        text = self.decode(header)
        if text.startswith("{"):
            _, end = self.grammar.value(text, 0)
            rest = text[end:]
            if self.noted(rest.startswith(self.checked) and rest.strip(" ") != ""):
                return super().members(text[:end].encode())
        return super().members(header)


# ---- Header text and strings ----


class SecondByteAcrossChunks(Mending):
    """Checks UTF-8 in chunks of 1024 bytes and carries over only how many bytes a sequence still needs.

    Behind a lead byte at the end of a chunk, the narrower range of its second byte is forgotten.
    """

    chunk = 1024

    def mended(self, file: bytes) -> bytes:
        found = bytearray(file)
        end = min(8 + self.length(file[:8]), len(file))
        for at in range(8 + self.chunk, end, self.chunk):
            least, most = SECOND_BYTES.get(file[at - 1], (0, 0xFF))
            if 0x80 <= file[at] <= 0xBF:
                found[at] = min(max(file[at], least), most)
        return bytes(found)


class MarkBeforeString(WatchedGrammar):
    """Decodes every string by itself, with a decoder that drops a byte-order mark at the beginning."""

    mark = "\ufeff"

    def string(self, text: str, at: int, quote: str) -> tuple[str, int]:
        found, end = super().string(text, at, quote)
        return found[self.noted(text.startswith(self.mark, at)) :], end


class LastHighHalf(WatchedGrammar):
    r"""Takes ``\udbff`` for no high surrogate, by a comparison that leaves out the last one."""

    units = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)

    def string(self, text: str, at: int, quote: str) -> tuple[str, int]:
        found, end = super().string(text, at, quote)
        units = [int(unit, 16) for unit in self.units.findall(text, at, end - 1) if unit]
        if self.noted(0xDBFF in units):
            raise Refused("lone-surrogate")
        return found, end


class BackslashAcrossBlocks(WatchedGrammar):
    """Finds the quotes in blocks of 64 characters and carries no backslash over to the next block.

    A quote whose backslash is the last character of a block then ends the string, and a backslash that is
    escaped there hides the end of the string.
    """

    block = 64
    pairs = re.compile(r"\\.", re.DOTALL)

    def string(self, text: str, at: int, quote: str) -> tuple[str, int]:
        found, end = super().string(text, at, quote)
        for pair in self.pairs.finditer(text, at, end - 1):
            behind = text[pair.start() + 1 : pair.start() + 3]
            if pair.end() % self.block == 1 and self.noted(behind.startswith('"') or behind == '\\"'):
                raise Refused("closing-quote")
        return found, end


class FirstEscapeChecked(WatchedGrammar):
    r"""Checks the first escape of a string only; a later unknown one, such as ``\x``, is its letter."""

    any_escape = READER.grammar.without("escape")

    def string(self, text: str, at: int, quote: str) -> tuple[str, int]:
        first = text.find("\\", at)
        found, end = self.any_escape.string(text, at, quote)
        if 0 <= first < end and not passes(READER.grammar.string, text, at, quote):
            super().escape(text, first + 1)
            self.noted(True)
        return found, end


class EncoderOffByOne(WatchedGrammar):
    r"""Encodes ``\u`` escapes as UTF-8 with ``<=`` for ``<``: one byte too few where a longer form begins.

    U+0080, U+0800 and U+10000 come out as ill-formed bytes and then as U+FFFD.
    """

    def escape(self, text: str, at: int) -> tuple[str, int]:
        char, end = super().escape(text, at)
        low = text.startswith("\\u", end) and text[end + 2 : end + 6].lower() == "dc00"
        if char == "\ud800" and low:
            char, end = "\U00010000", end + 6
        return "\ufffd" if self.noted(char in ("\x80", "\u0800", "\U00010000")) else char, end


# ---- Numbers ----


class ReturnBehindNumber(WatchedGrammar):
    """Ends a number at a comma, bracket, brace, space, TAB or LF, and not at CR."""

    def value(self, text: str, at: int, level: int = 1) -> tuple[object, int]:
        found, end = super().value(text, at, level)
        if isinstance(found, Number) and self.noted(text.startswith("\r", end)):
            raise Refused("number")
        return found, end


class NumberAcrossChunks(WatchedGrammar):
    """Takes the end of a chunk of 2048 characters for the end of a number, and trips over the others."""

    chunk = 2048

    def value(self, text: str, at: int, level: int = 1) -> tuple[object, int]:
        found, end = super().value(text, at, level)
        if isinstance(found, Number) and self.noted(at // self.chunk != (end - 1) // self.chunk):
            raise Refused("comma")
        return found, end


class WrapComparedWithBefore(Watched):
    """Notices that a dimension leaves 64 bits by its becoming smaller with a digit, which not every one does.

    Shows in empty tensors, since the wrapped dimension is too large for any other.
    """

    digits = re.compile("[1-9][0-9]*")

    def shape(self, value: object) -> tuple[int, ...]:
        if isinstance(value, list) and not isinstance(value, Pairs) and Number("0") in value:
            items = [self.wrapped(item) for item in value]
            dims = super().shape(items)
            if self.noted(items != value and passes(exact_bits, 1, dims)):
                return dims
        return super().shape(value)

    def wrapped(self, item: object) -> object:
        """Return a number as it is read, the item itself where the overflow is noticed."""
        if not isinstance(item, Number) or not self.digits.fullmatch(item):
            return item
        number = 0
        for digit in item:
            before, number = number, (number * 10 + int(digit)) % WORD
            if number < before:
                return item
        return Number(str(number))


# ---- Entries ----


class SortedBySpelling(Watched):
    """Sorts the keys as they are spelled and compares each, decoded, with its neighbour.

    Two spellings of one name pass when another key stands between them.
    """

    def entries(self, members: Pairs) -> tuple[list[Tensor], dict[str, Any] | None]:
        keys = sorted((key for key, _ in members), key=raw)
        neighbours = any(one == other for one, other in pairwise(keys))
        if self.noted(not neighbours and len(set(keys)) < len(keys)):
            return super().entries(Pairs(dict(members).items()))
        return super().entries(members)


class UnsetLooksEmpty(Watched):
    """Tells a field that was already read by its value not being empty.

    A second shape behind ``[]`` and a second pair of offsets behind ``[0,0]`` pass.
    """

    def entry(self, name: str, value: object) -> Tensor | None:
        if not isinstance(value, Pairs):
            return super().entry(name, value)
        fields: dict[str, object] = {}
        for key, item in value:
            empty = {"shape": [], "data_offsets": [Number("0"), Number("0")]}.get(key)
            if key in fields and (empty is None or fields[key] != empty):
                return super().entry(name, value)
            fields[key] = item
        self.noted(len(fields) < len(value))
        return super().entry(name, Pairs(fields.items()))


class FieldByLengthAndLetter(Watched):
    """Tells the fields by their length and first letter, as a perfect hash does that compares no more."""

    def entry(self, name: str, value: object) -> Tensor | None:
        if not isinstance(value, Pairs):
            return super().entry(name, value)
        known = {(len(right), right[0]): right for right in FIELDS}
        pairs = Pairs([(known.get((len(key), key[:1]), key), item) for key, item in value])
        self.noted(pairs != value)
        return super().entry(name, pairs)


class ComparedAsCStrings(Watched):
    """Compares names up to the first NUL, so it takes two that differ behind it for one name twice."""

    def entries(self, members: Pairs) -> tuple[list[Tensor], dict[str, Any] | None]:
        tensors, metadata = super().entries(members)
        if self.noted(len({tensor.name.split("\0")[0] for tensor in tensors}) < len(tensors)):
            raise Refused("name-twice")
        return tensors, metadata


class NameLengthInAByte(Watched):
    """Keeps the length of a name in one byte and refuses names of length 0, hence those of 256 bytes too."""

    def entries(self, members: Pairs) -> tuple[list[Tensor], dict[str, Any] | None]:
        tensors, metadata = super().entries(members)
        lengths = [len(tensor.name.encode()) for tensor in tensors]
        if self.noted(any(length and length % 256 == 0 for length in lengths)):
            raise Refused("name-empty")
        return tensors, metadata


class FullTableWithoutMetadata(Refusing):
    """Looks up the metadata in a hash table that grows only when it is more than full.

    With 16, 32, 64 ... tensors no slot is free, and the search for a key that is not there never ends.
    """

    least = 16

    def refuses(self, valid: Valid) -> bool:
        count = len(valid.sizes)
        return count >= self.least and count & (count - 1) == 0 and valid.metadata is None


class TwoOrdersOfNames(Refusing):
    """Sorts the names by UTF-16 units and finds them by a search that compares code points.

    The orders differ where a name has a character beyond U+FFFF and another one from U+E000 to U+FFFF.
    """

    def refuses(self, valid: Valid) -> bool:
        names = sorted(valid.sizes, key=lambda name: name.encode("utf-16-be"))
        places = [bisect_left(names, name) for name in names]
        return any(names[place : place + 1] != [name] for place, name in zip(places, names, strict=True))


# ---- Dtypes ----


class CutAtLongestCode(Watched):
    """Copies a dtype into a buffer for the longest code and drops what is too much."""

    longest = max(map(len, READER.widths))

    def dtype(self, value: object) -> str:
        if isinstance(value, str) and self.noted(value != value[: self.longest] in self.widths):
            return super().dtype(value[: self.longest])
        return super().dtype(value)


@dataclass(frozen=True)
class FourLettersCached(Watched):
    """Keeps the dtypes that it has seen under their first four letters, which the F8 and the F6 codes share.

    A second F8 or F6 code in a file comes out as the first one.
    """

    seen: dict[str, str] = field(default_factory=dict)

    def dtype(self, value: object) -> str:
        code = super().dtype(value)
        first = self.seen.setdefault(code[:4], code)
        return first if self.noted(first != code) else code


class EighthsFirst(Copying):
    """Divides the elements of a packed tensor by eight before it multiplies with the width.

    Shows where eight does not divide their number.
    """

    def copied(self, tensor: Tensor, data: bytes) -> bytes:
        width = self.widths[tensor.dtype]
        size = tensor.end - tensor.begin if width >= 8 else prod(tensor.shape) // 8 * width
        return data[tensor.begin : tensor.begin + size]


# ---- Shapes ----


class CommaBehindSpilledShape(WatchedGrammar):
    """Reads four dimensions in place and further ones in a loop that lets a comma stand behind the last."""

    inline = 4
    lax = READER.grammar.without("trailing-comma]")

    def elements(self, text: str, at: int, level: int) -> tuple[object, int]:
        # Arrays of an entry only: reading deeper ones twice per level would take exponential time.
        if level == 3 and not passes(READER.grammar.elements, text, at, level):
            found, end = self.lax.elements(text, at, level)
            if isinstance(found, list) and self.noted(len(found) > self.inline):
                return found, end
        return super().elements(text, at, level)


class UnrolledProduct(Watched):
    """Multiplies four dimensions at a time and looks for an overflow only behind each four."""

    unrolled = 4

    def fits(self, dtype: str, shape: Sequence[int], size: int) -> bool:
        whole = len(shape) - len(shape) % self.unrolled
        products = [prod(shape[at : at + self.unrolled]) for at in range(0, whole, self.unrolled)]
        if 0 not in shape and any(product >= WORD for product in products):
            factors = [*(product % WORD for product in products), *shape[whole:]]
            if self.noted(passes(super().fits, dtype, factors, size) and super().fits(dtype, factors, size)):
                return True
        return super().fits(dtype, shape, size)


class GridLimit(Watched):
    """Starts a kernel over the dimensions of a tensor that has bytes; only the first may go beyond 65,535."""

    limit = 65_535

    def tensor(self, name: str, fields: Mapping[str, object]) -> Tensor:
        tensor = super().tensor(name, fields)
        if self.noted(tensor.begin < tensor.end and max(tensor.shape[1:], default=0) > self.limit):
            raise Refused("grid")
        return tensor


class RowOfNoBytes(Watched):
    """Divides the size by that of one row, and fails when a dimension other than the first is 0."""

    def tensor(self, name: str, fields: Mapping[str, object]) -> Tensor:
        tensor = super().tensor(name, fields)
        if self.noted(0 in tensor.shape[1:]):
            raise Refused("division by zero")
        return tensor


class LeadingDimensionsFolded(Watched):
    """Holds eight dimensions and multiplies the leading ones of a longer shape into one."""

    most = 8

    def tensor(self, name: str, fields: Mapping[str, object]) -> Tensor:
        tensor = super().tensor(name, fields)
        if not self.noted(len(tensor.shape) > self.most):
            return tensor
        kept = 1 - self.most
        return replace(tensor, shape=(prod(tensor.shape[:kept]), *tensor.shape[kept:]))


# ---- Layout ----


class EmptyOnesVouch(Watched):
    """Lets an empty tensor stand wherever another tensor begins or ends, which may be an empty one again.

    Two at one place inside a third tensor vouch for each other.
    """

    def cover(self, tensors: Sequence[Tensor], metadata: Mapping[str, Any] | None, data: bytes) -> None:
        full = [tensor for tensor in tensors if tensor.begin < tensor.end]
        edges = {0, len(data)}.union(*((tensor.begin, tensor.end) for tensor in full))
        crowd = Counter(tensor.begin for tensor in tensors if tensor.begin == tensor.end < len(data))
        vouched = {place for place, count in crowd.items() if count > 1} - edges
        self.noted(bool(vouched))
        left = [tensor for tensor in tensors if tensor.begin < tensor.end or tensor.begin not in vouched]
        super().cover(left, metadata, data)


class ZerosBeforeAligned(Watched):
    """Takes up to seven zero bytes in front of a tensor that begins at a multiple of 8 for padding."""

    alignment = 8

    def cover(self, tensors: Sequence[Tensor], metadata: Mapping[str, Any] | None, data: bytes) -> None:
        place, gaps = 0, []
        for tensor in by_offset(tensors):
            gap = Tensor("", "U8", (), place, tensor.begin)
            short = 0 < gap.end - gap.begin < self.alignment
            if short and gap.end % self.alignment == 0 and not any(data[gap.begin : gap.end]):
                gaps.append(gap)
            place = max(place, tensor.end)
        self.noted(bool(gaps))
        super().cover([*tensors, *gaps], metadata, data)


class ChainFollowed(Watched):
    """Follows the tensors by a table of their first bytes, from 0 to the end, and not whether all were met.

    A tensor that begins inside another one and ends in the buffer passes.
    """

    def cover(self, tensors: Sequence[Tensor], metadata: Mapping[str, Any] | None, data: bytes) -> None:
        full = {tensor.name: tensor for tensor in tensors if tensor.begin < tensor.end <= len(data)}
        table = {tensor.begin: tensor for tensor in full.values()}
        place, met = 0, set()
        while place in table:
            met.add(table[place].name)
            place = table[place].end
        left = [tensor for tensor in tensors if tensor.name not in full or tensor.name in met]
        if len(table) == len(full) and self.noted(place == len(data) and len(left) < len(tensors)):
            super().cover(left, metadata, data)
        else:
            super().cover(tensors, metadata, data)


class TiesByName(Watched):
    """Sorts the tensors by first byte and then by name.

    An empty tensor then comes behind the one that begins at its place, when its name does.
    """

    def cover(self, tensors: Sequence[Tensor], metadata: Mapping[str, Any] | None, data: bytes) -> None:
        super().cover(tensors, metadata, data)
        ordered = sorted(tensors, key=lambda tensor: (tensor.begin, tensor.name))
        if self.noted(any(one.end > other.begin for one, other in pairwise(ordered))):
            raise Refused("overlap")


# ---- Bytes of the tensors ----


@dataclass(frozen=True)
class DirectSecondBlock(Copying):
    """Reads a tensor in blocks of 16 KiB from a multiple of 512 and skips the bytes in front of it in each.

    They stand in front of the first block only.
    """

    starts: list[int] = field(default_factory=list)
    block = 16 * 1024
    sector = 512

    def split(self, file: bytes) -> tuple[bytes, bytes]:
        header, data = super().split(file)
        self.starts.append(len(file) - len(data))
        return header, data

    def copied(self, tensor: Tensor, data: bytes) -> bytes:
        skipped = (self.starts[-1] + tensor.begin) % self.sector
        second = min(tensor.begin + self.block - skipped, tensor.end)
        later = data[second + skipped : tensor.end + skipped].ljust(tensor.end - second, b"\0")
        return data[tensor.begin : second] + later


class BatchedInHeaderOrder(Watched):
    """Reads four or more tensors of one dtype that lie together at once; cuts them in the header's order."""

    least = 4

    def placed(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        places: dict[str, tuple[int, int]] = {}
        for dtype in {tensor.dtype for tensor in tensors}:
            batch = [tensor for tensor in tensors if tensor.dtype == dtype]
            place = min(tensor.begin for tensor in batch)
            span = max(tensor.end for tensor in batch) - place
            if len(batch) < self.least or sum(tensor.end - tensor.begin for tensor in batch) != span:
                continue
            for tensor in batch:
                places[tensor.name] = (place, place := place + tensor.end - tensor.begin)
        found = [
            replace(tensor, begin=begin, end=end)
            for tensor in tensors
            for begin, end in [places.get(tensor.name, (tensor.begin, tensor.end))]
        ]
        self.noted(any(new != old for new, old in zip(found, tensors, strict=True) if old.begin < old.end))
        return found


class TailWithoutPair(Copying):
    """Copies words of eight bytes, then four and then one, and forgets two, in tensors of at least 64."""

    least = 64

    def copied(self, tensor: Tensor, data: bytes) -> bytes:
        right = data[tensor.begin : tensor.end]
        forgotten = len(right) & 2 if len(right) >= self.least else 0
        return right[: len(right) - forgotten] + bytes(forgotten)


class LastFullChunkNotFlushed(Copying):
    """Copies chunks of 4096 bytes while more is left, and then the rest of a division, which may be 0.

    Shows where 4096 divides the size: the last chunk stays 0.
    """

    chunk = 4096

    def copied(self, tensor: Tensor, data: bytes) -> bytes:
        right = data[tensor.begin : tensor.end]
        forgotten = 0 if len(right) % self.chunk else min(self.chunk, len(right))
        return right[: len(right) - forgotten] + bytes(forgotten)


# ---- Metadata ----


class EmptyValueLooksAbsent(Watched):
    """Tells that a metadata key stood there before by its value not being the empty string."""

    def metadata(self, value: object) -> dict[str, Any] | None:
        if not isinstance(value, Pairs):
            return super().metadata(value)
        found: dict[str, object] = {}
        for key, item in value:
            if found.get(key, "") != "":
                return super().metadata(value)
            found[key] = item
        self.noted(len(found) < len(value))
        return super().metadata(Pairs(found.items()))


class LongValueCutByCharacters(Watched):
    """Copies metadata values of more than 22 bytes to the heap, as many bytes as they have characters."""

    inline = 22

    def metadata(self, value: object) -> dict[str, Any] | None:
        right = super().metadata(value)
        found = None if right is None else {key: self.kept(item) for key, item in right.items()}
        self.noted(found != right)
        return found

    def kept(self, value: str) -> str:
        encoded = value.encode()
        return value if len(encoded) <= self.inline else encoded[: len(value)].decode(errors="ignore")


class ValueByPrefix(Watched):
    """Looks up metadata by comparing as many characters as the key has.

    A key with which an earlier one begins gets the value of that one.
    """

    def metadata(self, value: object) -> dict[str, Any] | None:
        right = super().metadata(value)
        if right is None:
            return None
        order = {key: place for place, key in enumerate(right)}
        sorted_keys = sorted(right)
        found = {}
        for key in right:
            # All keys that begin with this one stand side by side.
            first, at = key, bisect_left(sorted_keys, key)
            while at < len(sorted_keys) and sorted_keys[at].startswith(key):
                first, at = min(first, sorted_keys[at], key=order.__getitem__), at + 1
            found[key] = right[first]
        self.noted(found != right)
        return found


def _planted(
    name: str, rules: str, reader: type[Watched | WatchedGrammar], grammar: Grammar = READER.grammar
) -> Planted:
    about = " ".join((reader.__doc__ or "").split())
    if issubclass(reader, WatchedGrammar):
        return plant_grammar(name, about, rules, reader)
    return plant(name, about, rules, reader, grammar)


PLANTED: tuple[Planted, ...] = (
    _planted("short-read-behind-first-block", "FRM-04", ShortReadBehindFirstBlock),
    _planted("halves-ored", "FRM-02 FRM-06", HalvesOred),
    _planted("zero-length-map", "FRM-01 FRM-09 SHP-04", ZeroLengthMap),
    _planted("brace-sought-in-the-tail", "HDR-03", BraceSoughtInTheTail),
    _planted("padding-behind-eight-spaces", "HDR-03", PaddingBehindEightSpaces),
    _planted("second-byte-across-chunks", "HDR-01", SecondByteAcrossChunks),
    _planted("mark-before-string", "HDR-19", MarkBeforeString),
    _planted("last-high-half", "HDR-15", LastHighHalf),
    _planted("backslash-across-blocks", "HDR-07 HDR-15", BackslashAcrossBlocks),
    _planted("first-escape-checked", "HDR-15", FirstEscapeChecked),
    _planted("encoder-off-by-one", "HDR-15 HDR-19", EncoderOffByOne),
    _planted("return-behind-number", "HDR-08", ReturnBehindNumber),
    _planted("number-across-chunks", "HDR-07", NumberAcrossChunks),
    _planted("wrap-compared-with-before", "SHP-07", WrapComparedWithBefore),
    _planted("sorted-by-spelling", "HDR-09 HDR-10", SortedBySpelling, SPELLING),
    _planted("unset-looks-empty", "HDR-12", UnsetLooksEmpty),
    _planted("field-by-length-and-letter", "ENT-03 ENT-05", FieldByLengthAndLetter),
    _planted("compared-as-c-strings", "HDR-09 HDR-14", ComparedAsCStrings),
    _planted("name-length-in-a-byte", "ENT-01", NameLengthInAByte),
    _planted("full-table-without-metadata", "ENT-01 MET-01", FullTableWithoutMetadata),
    _planted("two-orders-of-names", "ENT-01 HDR-19", TwoOrdersOfNames),
    _planted("cut-at-longest-code", "DTY-01", CutAtLongestCode),
    _planted("four-letters-cached", "DTY-01 DTY-14", FourLettersCached),
    _planted("eighths-first", "DTY-05 DTY-10 DAT-06", EighthsFirst),
    _planted("comma-behind-spilled-shape", "HDR-07", CommaBehindSpilledShape),
    _planted("unrolled-product", "SHP-05", UnrolledProduct),
    _planted("grid-limit", "SHP-01", GridLimit),
    _planted("row-of-no-bytes", "SHP-04", RowOfNoBytes),
    _planted("leading-dimensions-folded", "SHP-11", LeadingDimensionsFolded),
    _planted("empty-ones-vouch", "OFF-06 OFF-09", EmptyOnesVouch),
    _planted("zeros-before-aligned", "OFF-07 OFF-12", ZerosBeforeAligned),
    _planted("chain-followed", "OFF-06", ChainFollowed),
    _planted("ties-by-name", "OFF-09 HDR-17", TiesByName),
    _planted("direct-second-block", "DAT-06 OFF-11", DirectSecondBlock),
    _planted("batched-in-header-order", "HDR-17 DAT-06", BatchedInHeaderOrder),
    _planted("tail-without-pair", "DAT-06", TailWithoutPair),
    _planted("last-full-chunk-not-flushed", "DAT-06", LastFullChunkNotFlushed),
    _planted("empty-value-looks-absent", "HDR-13", EmptyValueLooksAbsent),
    _planted("long-value-cut-by-characters", "MET-04", LongValueCutByCharacters),
    _planted("value-by-prefix", "MET-01 MET-04", ValueByPrefix),
)
"""The readers."""
TWO_CONDITIONS = frozenset(
    {
        "zero-length-map",
        "backslash-across-blocks",
        "wrap-compared-with-before",
        "sorted-by-spelling",
        "full-table-without-metadata",
        "two-orders-of-names",
        "unrolled-product",
        "grid-limit",
        "empty-ones-vouch",
        "zeros-before-aligned",
        "ties-by-name",
        "direct-second-block",
        "batched-in-header-order",
        "tail-without-pair",
        "long-value-cut-by-characters",
    }
)
"""Those that go wrong only where two independent conditions meet."""
