"""Writers with one mistake each: names and metadata."""

from __future__ import annotations

import json
import random
import unicodedata
from collections.abc import Sequence
from typing import Any

from ...writing import GivenTensor
from ..correct.writer import RESERVED, Row, SmallWriter, variants


class ReservedNameWritten(SmallWriter):
    """Writes a tensor under the reserved name."""

    def reserved(self, value: Any) -> None:
        pass


class NamesTurnedIntoText(SmallWriter):
    """Turns names that are no strings into text."""

    def name(self, value: Any) -> str:
        return super().name(value if isinstance(value, str) else str(value))


class SurrogatesReplaced(SmallWriter):
    """Writes a question mark for half a surrogate pair."""

    def text(self, value: Any) -> str:
        return super().text(value.encode("utf-8", "replace").decode() if isinstance(value, str) else value)


class SurrogatesAsBytes(SmallWriter):
    """Writes half a surrogate pair as three bytes."""

    def text(self, value: Any) -> str:
        return value if isinstance(value, str) else super().text(value)

    def json(self, members: Any) -> bytes:
        text = json.dumps(members, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "surrogatepass")


class NamesEndAtNul(SmallWriter):
    """Cuts names and metadata at the first NUL."""

    def text(self, value: Any) -> str:
        return super().text(value).split("\0")[0]


class NamesStripped(SmallWriter):
    """Strips blanks and control characters around names, and what stands before a slash."""

    def written_name(self, name: str) -> str:
        return name.rsplit("/", 1)[-1].strip() or "unnamed"


class NamesNormalised(SmallWriter):
    """Writes names and metadata composed and in lower case."""

    def text(self, value: Any) -> str:
        return unicodedata.normalize("NFKC", super().text(value)).lower()


class AsciiOnly(SmallWriter):
    """Refuses what is not printable ASCII in names and metadata."""

    def text(self, value: Any) -> str:
        text = super().text(value)
        if not (text.isascii() and text.isprintable()):
            raise ValueError("not ASCII")
        return text


class WordsRefused(SmallWriter):
    """Refuses names and keys that are empty or mean something elsewhere, and what looks like JSON."""

    WORDS = (
        "",
        "dtype",
        "__proto__",
        "__metadata___",
        "__METADATA__",
        "__metadata__ ",
        "0",
        "null",
        "format",
        "t",
        RESERVED,
    )

    def written_name(self, name: str) -> str:
        if name in self.WORDS[:7] or any(c in name for c in '\\"/'):
            raise ValueError("name")
        return name

    def metadata_key(self, value: Any) -> str:
        if value in self.WORDS:
            raise ValueError("key")
        return super().metadata_key(value)


class ShortBuffers(SmallWriter):
    """Writes at most 255 bytes of a name, and at most a hundred metadata keys and tensors."""

    def written_name(self, name: str) -> str:
        return name[:255]

    def metadata_order(self, metadata: dict[str, str]) -> dict[str, str]:
        return dict(sorted(metadata.items())[:100])

    def order(self, rows: list[Row]) -> list[Row]:
        return super().order(rows)[:100]


class LastNameWins(SmallWriter):
    """Takes tensors into a map, where the last of one name stays."""

    def rows(self, tensors: Sequence[GivenTensor]) -> list[Row]:
        return super().rows(list({repr(t.name): t for t in tensors}.values()))


class MetadataTurnedIntoText(SmallWriter):
    """Turns metadata that are no strings into text."""

    def metadata_value(self, value: Any) -> str:
        return self.text(value if isinstance(value, str) else str(value))

    def metadata_key(self, value: Any) -> str:
        return self.metadata_value(value)


class AnyMetadata(SmallWriter):
    """Writes what is given as metadata without looking at it, if it is a map, and leaves it out if not."""

    def checked_metadata(self, metadata: Any) -> dict[str, str] | None:
        return metadata if isinstance(metadata, dict) else None


class NullMetadata(SmallWriter):
    """Writes null in the place of the metadata."""

    def header(self, rows: list[Row], metadata: dict[str, str] | None) -> bytes:  # noqa: ARG002 - lost
        text = super().header(rows, None)
        return b'{"__metadata__":null' + (b"," if rows else b"") + text[1:]


class MetadataDropped(SmallWriter):
    """Does not write metadata."""

    def checked_metadata(self, metadata: Any) -> dict[str, str] | None:
        super().checked_metadata(metadata)
        return None


class EmptyMetadataBeside(SmallWriter):
    """Puts the metadata behind the object when there are no tensors and no keys."""

    def header(self, rows: list[Row], metadata: dict[str, str] | None) -> bytes:
        if rows or metadata != {}:
            return super().header(rows, metadata)
        return b'{},"__metadata__":{}}'


class RandomMetadataOrder(SmallWriter):
    """Writes metadata keys in another order each time."""

    def metadata_order(self, metadata: dict[str, str]) -> dict[str, str]:
        items = list(metadata.items())
        random.shuffle(items)
        return dict(items)


VARIANTS = variants(globals(), __name__)
