"""Faults in names, entries, their fields, dtypes and metadata.

Part of the conditional set; see ``conditional``.
"""

from __future__ import annotations

import json
import unicodedata
from typing import Any

from safetensors_corpus.broken.correct.json import Pairs, Refused
from safetensors_corpus.broken.correct.reader import FIELDS, RESERVED, WIDTHS, Tensor

from ..held_out.watched import SPELLING, Watched, raw
from .planting import by_reader

PACKED = ("F4", "F6_E2M3", "F6_E3M2")

Entries = tuple[list[Tensor], dict[str, Any] | None]


class EscapedTwiceAmongMany(Watched):
    """Accepts a name twice in different spellings, in files of more than eight tensors.

    Keeps up to eight names in a list that it compares decoded, and more in a hash table whose keys are
    the names as they are spelled.
    """

    def entries(self, members: Pairs) -> Entries:
        """Refuse only names that are spelled alike in a file of many tensors."""
        tensors = [(key, value) for key, value in members if key != RESERVED]
        spelled = {raw(key) for key, _ in tensors}
        twice = len({str(key) for key, _ in tensors}) < len(tensors)
        if not self.noted(len(tensors) > 8 and twice and len(spelled) == len(tensors)):
            return super().entries(members)
        # Names that differ by their place take part, and get their own names back.
        found, metadata = super().entries(
            Pairs((key if key == RESERVED else f"{at}", value) for at, (key, value) in enumerate(members))
        )
        names = [str(key) for key, _ in tensors]
        renamed = [
            Tensor(name, tensor.dtype, tensor.shape, tensor.begin, tensor.end)
            for name, tensor in zip(names, found, strict=True)
        ]
        return renamed, metadata


class MetadataTwiceIfEscaped(Watched):
    """Accepts a second metadata key if it is escaped.

    Looks for a second metadata key by its plain spelling and keeps the last map: an escaped one behind
    the first passes.
    """

    def entries(self, members: Pairs) -> Entries:
        """Leave out the earlier maps when the later ones are escaped."""
        keys = [raw(key) for key, _ in members if key == RESERVED]
        if not self.noted(len(keys) > 1 and keys.count(RESERVED) <= 1):
            return super().entries(members)
        last = max(at for at, (key, _) in enumerate(members) if key == RESERVED)
        return super().entries(
            Pairs(pair for at, pair in enumerate(members) if pair[0] != RESERVED or at == last)
        )


class NamesAlikeIn64Characters(Watched):
    """Compares names in a buffer of 64 characters when it looks for repeated ones."""

    def entries(self, members: Pairs) -> Entries:
        """Refuse names that begin with the same 64 characters."""
        names = [key for key, _ in members if key != RESERVED]
        if self.noted(len({name[:64] for name in names}) < len(set(names))):
            raise Refused("name-twice")
        return super().entries(members)


class LongNamesCutAtNul(Watched):
    """Cuts names at a NUL when they are longer than 22 bytes.

    Keeps names of up to 22 bytes in place with their length, and copies longer ones as C strings, which
    end at a NUL.
    """

    def described(self, tensor: Tensor, data: bytes) -> dict[str, Any]:
        """Cut a long name."""
        found = super().described(tensor, data)
        if self.noted(len(tensor.name.encode()) > 22 and "\0" in tensor.name):
            found["name"] = tensor.name.split("\0")[0]
        return found


class DtypeOfTheEntryBefore(Watched):
    """Accepts an entry without dtype behind another entry.

    Reads all entries into one record that it does not clear, so that an entry without dtype has that of
    the entry before it.
    """

    def entries(self, members: Pairs) -> Entries:
        """Put the last dtype into entries that have none."""
        last: object = None
        filled = Pairs()
        for key, value in members:
            if key != RESERVED and isinstance(value, Pairs):
                dtypes = [item for field, item in value if field == "dtype"]
                if self.noted(not dtypes and last is not None):
                    filled.append((key, Pairs([*value, ("dtype", last)])))
                    continue
                last = dtypes[-1] if dtypes else last
            filled.append((key, value))
        return super().entries(filled)


class FieldsByLengthAndFirstLetter(Watched):
    """Accepts other names for the fields if length and first letter agree.

    Tells the three fields apart by the length and the first letter of their names, as a perfect hash
    over the known names does that never compares them.
    """

    def entry(self, name: str, value: object) -> Tensor | None:
        """Take every name of the right length and first letter for the field."""
        if isinstance(value, Pairs):
            value = Pairs((self.known(key), item) for key, item in value)
        return super().entry(name, value)

    def known(self, key: str) -> str:
        """Return the field that a name is taken for."""
        for field in FIELDS:
            if len(key) == len(field) and key[0] == field[0]:
                self.noted(key != field)
                return field
        return key


class DtypeComparedInEightBytes(Watched):
    """Compares dtypes as words of eight bytes, so that of a longer code the rest may be anything."""

    def dtype(self, value: object) -> str:
        """Return the code that begins with the same eight characters."""
        if isinstance(value, str) and value not in WIDTHS and len(value) > 8:
            alike = [code for code in WIDTHS if len(code) > 8 and code[:8] == value[:8]]
            if self.noted(bool(alike)):
                return alike[0]
        return super().dtype(value)


class DtypeCacheByPrefix(Watched):
    """Takes a dtype for another that begins alike and was met before it.

    Keeps the codes that it has met in a table that is searched by their first seven characters: of two
    codes that begin alike the later is taken for the earlier.
    """

    def entries(self, members: Pairs) -> Entries:
        """Give tensors the code that was met first."""
        tensors, metadata = super().entries(members)
        met: dict[str, str] = {}
        for at, tensor in enumerate(tensors):
            code = met.setdefault(tensor.dtype[:7], tensor.dtype)
            if self.noted(code != tensor.dtype):
                tensors[at] = Tensor(tensor.name, code, tensor.shape, tensor.begin, tensor.end)
        return tensors, metadata


class PackedOffsetsBeforeShape(Watched):
    """Refuses packed tensors whose offsets stand before their shape.

    Checks the range of a tensor as soon as it has been read; for the packed dtypes it needs the shape
    for that, and takes one that comes later for missing.
    """

    def entry(self, name: str, value: object) -> Tensor | None:
        """Refuse packed tensors whose offsets come before their shape."""
        tensor = super().entry(name, value)
        assert isinstance(value, Pairs)
        fields = [key for key, _ in value]
        early = fields.index("data_offsets") < fields.index("shape")
        if self.noted(tensor is not None and tensor.dtype in PACKED and early):
            raise Refused("field-missing")
        return tensor


class ScalarBeforeItsDtype(Watched):
    """Refuses scalars whose dtype is the last field.

    Checks an entry when its dtype is read, if the other two fields are there; a dtype that comes last
    finds a shape without elements, which counts as not read yet.
    """

    def entry(self, name: str, value: object) -> Tensor | None:
        """Refuse scalars whose dtype is the last field."""
        tensor = super().entry(name, value)
        assert isinstance(value, Pairs)
        if self.noted(tensor is not None and not tensor.shape and value[-1][0] == "dtype"):
            raise Refused("field-missing")
        return tensor


class MetadataBetweenTensors(Watched):
    """Takes the metadata off the front or the back of the header and everything between for tensors."""

    def entries(self, members: Pairs) -> Entries:
        """Refuse metadata with tensors on both sides."""
        keys = [key for key, _ in members]
        if self.noted(RESERVED in keys[1:-1] and keys[0] != RESERVED):
            raise Refused("field-missing")
        return super().entries(members)


class EmptyMetadataNotFirst(Watched):
    """Refuses empty metadata behind a tensor.

    Reads metadata at the front by code of its own; behind a tensor the common code reads them, for which
    an object without members is an entry that lacks its fields.
    """

    def entries(self, members: Pairs) -> Entries:
        """Refuse an empty map behind a tensor."""
        late = [value for at, (key, value) in enumerate(members) if at and key == RESERVED]
        if self.noted(any(isinstance(value, Pairs) and not value for value in late)):
            raise Refused("field-missing")
        return super().entries(members)


class MetadataKeyLikeATensor(Watched):
    """Puts the names of tensors and the keys of the metadata into one table of strings, which must differ."""

    def entries(self, members: Pairs) -> Entries:
        """Refuse a key that is also a name."""
        tensors, metadata = super().entries(members)
        if self.noted(any(tensor.name in (metadata or {}) for tensor in tensors)):
            raise Refused("name-twice")
        return tensors, metadata


class NameBeginsLikeTheReservedKey(Watched):
    """Refuses tensors whose name begins with the reserved key.

    Compares as many characters as the reserved key has, and so takes a tensor for metadata whose name
    begins with it.
    """

    def entries(self, members: Pairs) -> Entries:
        """Check such entries as metadata maps, too."""
        for key, value in members:
            if self.noted(key.startswith(RESERVED) and key != RESERVED):
                self.metadata(value)
        return super().entries(members)


class MetadataValuesFirstOnly(Watched):
    """Looks at the type of the first metadata value and takes the others to be like it."""

    def metadata(self, value: object) -> dict[str, Any] | None:
        """Take the text of numbers and words behind a first string."""
        if isinstance(value, Pairs) and value and type(value[0][1]) is str:
            other = [item for _, item in value[1:] if not isinstance(item, list) and type(item) is not str]
            if self.noted(bool(other)):
                value = Pairs((key, item if type(item) is str else str(item)) for key, item in value)
        return super().metadata(value)


class MetadataKeysComposed(Watched):
    """Brings the keys of the metadata into the composed form of Unicode."""

    def metadata(self, value: object) -> dict[str, Any] | None:
        """Compose the keys of the map that was read."""
        found = super().metadata(value)
        if found is None:
            return None
        composed = {unicodedata.normalize("NFC", key): text for key, text in found.items()}
        return composed if self.noted(list(composed) != list(found)) else found


class NestedJsonRewritten(Watched):
    """Changes metadata values that hold JSON with whitespace in it.

    Parses metadata values that hold JSON objects or arrays and gives them out as it writes JSON itself,
    without whitespace.
    """

    def metadata(self, value: object) -> dict[str, Any] | None:
        """Write such values anew."""
        found = super().metadata(value)
        return None if found is None else {key: self.rewritten(text) for key, text in found.items()}

    def rewritten(self, text: str) -> str:
        """Return a value as it is written anew, or the value itself if it holds no JSON."""
        if text[:1] not in ("{", "["):
            return text
        try:
            again = json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False)
        except (ValueError, RecursionError):
            return text
        return again if self.noted(again != text) else text


class ValueLengthInOneByte(Watched):
    """Cuts metadata values of 256 characters and more.

    Keeps the length of a metadata value in one byte, so that of one with 256 characters and more only
    the rest of its length modulo 256 is left.
    """

    def metadata(self, value: object) -> dict[str, Any] | None:
        """Cut the values."""
        found = super().metadata(value)
        if found is None:
            return None
        return {
            key: text[: len(text) % 256] if self.noted(len(text) > 255) else text
            for key, text in found.items()
        }


PLANTED = (
    by_reader("escaped-twice-among-many", "HDR-09 HDR-10", EscapedTwiceAmongMany, SPELLING),
    by_reader("metadata-twice-if-escaped", "HDR-11 MET-06", MetadataTwiceIfEscaped, SPELLING),
    by_reader("names-alike-in-64-characters", "HDR-09 HDR-19", NamesAlikeIn64Characters),
    by_reader("long-names-cut-at-nul", "HDR-19", LongNamesCutAtNul),
    by_reader("dtype-of-the-entry-before", "ENT-03", DtypeOfTheEntryBefore),
    by_reader("fields-by-length-and-first-letter", "ENT-03", FieldsByLengthAndFirstLetter),
    by_reader("dtype-compared-in-eight-bytes", "DTY-01", DtypeComparedInEightBytes),
    by_reader("dtype-cache-by-prefix", "DTY-01", DtypeCacheByPrefix),
    by_reader("packed-offsets-before-shape", "ENT-06", PackedOffsetsBeforeShape),
    by_reader("scalar-before-its-dtype", "ENT-06 SHP-03", ScalarBeforeItsDtype),
    by_reader("metadata-between-tensors", "HDR-17", MetadataBetweenTensors),
    by_reader("empty-metadata-not-first", "MET-03 HDR-17", EmptyMetadataNotFirst),
    by_reader("metadata-key-like-a-tensor", "MET-08", MetadataKeyLikeATensor),
    by_reader("name-begins-like-the-reserved-key", "MET-05", NameBeginsLikeTheReservedKey),
    by_reader("metadata-values-first-only", "MET-01", MetadataValuesFirstOnly),
    by_reader("metadata-keys-composed", "HDR-19", MetadataKeysComposed),
    by_reader("nested-json-rewritten", "HDR-19 MET-04", NestedJsonRewritten),
    by_reader("value-length-in-one-byte", "MET-04", ValueLengthInOneByte),
)
