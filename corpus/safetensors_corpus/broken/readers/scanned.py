"""Broken readers: headers that are picked to pieces instead of parsed (HDR-06, HDR-07)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..correct.json import Number, Pairs, Refused
from ..correct.reader import SmallReader
from ..variant import reading
from .grammar import latin_1


@dataclass(frozen=True)
class Scans(SmallReader):
    """Where it cannot parse the header, looks for the words of an entry and takes what stands behind them."""

    word: str = r'"(?:[^"\\]|\\.)*"|[^\s"\'{}\[\]:,]+'

    def members(self, header: bytes) -> Pairs:
        """Return the members, or those that the words make up."""
        try:
            return super().members(header)
        except Refused:
            return self.scanned(header)

    def scanned(self, header: bytes) -> Pairs:
        """Return the members that the words make up."""
        tokens = [(m[0].strip('"'), m.start()) for m in re.finditer(self.word, self.decode(header))]
        found = Pairs()
        words = [token for token, _ in tokens]
        place = 0
        while "dtype" in words[place:] or "shape" in words[place:]:
            starts = [
                words.index(key, place) for key in ("dtype", "shape", "data_offsets") if key in words[place:]
            ]
            first = min(starts)
            name = words[first - 1] if first > place else ""
            fields, place = self.fields(words, first)
            found.append((name, fields))
        return found

    def fields(self, words: list[str], place: int) -> tuple[Pairs, int]:
        """Return the three fields that begin at ``place`` and the place behind them."""
        fields: dict[str, object] = {}
        while place < len(words) and words[place] not in fields and len(fields) < 3:
            key = words[place]
            place += 1
            if key == "dtype":
                fields[key] = words[place] if place < len(words) else ""
                place += 1
            elif key in ("shape", "data_offsets"):
                numbers = []
                while place < len(words) and re.fullmatch("[0-9]+", words[place]):
                    numbers.append(Number(words[place]))
                    place += 1
                fields[key] = numbers
            elif fields:
                place += 1
            if (
                place < len(words)
                and words[place] not in ("dtype", "shape", "data_offsets")
                and len(fields) < 3
            ):
                place += 1
        return Pairs(fields.items()), place


VARIANTS = (
    reading("json-scanned", "Looks for words and numbers in a header that it cannot parse.", Scans()),
    reading(
        "json-scanned-loosely",
        "Looks for words and numbers in such a header, in any encoding, and takes any dtype.",
        Scans(word=r"[\w+-]+", decode=latin_1).without("dtype-known"),
    ),
)
