"""Broken loaders: how the text of the index is read, one mistake each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..correct.json import NUMBER, WORDS, Grammar, Pairs, Refused
from ..correct.loader import LOADER, SmallLoader
from ..variant import Variant

GUARD = 1 << 24
"""Largest allocation in bytes that a broken loader really makes."""


class Detects(SmallLoader):
    """Finds out the encoding by itself, as Python's json module does with bytes."""

    def decode(self, raw: bytes) -> str:
        try:
            return raw.decode(json.detect_encoding(raw))
        except UnicodeDecodeError as err:
            raise Refused("encoding") from err


class Latin(SmallLoader):
    """Reads the index in the encoding of the system, which is Latin-1."""

    def decode(self, raw: bytes) -> str:
        return raw.decode("latin-1")


class Replaces(SmallLoader):
    """Leaves out what is not UTF-8."""

    def decode(self, raw: bytes) -> str:
        return raw.decode("utf-8", "ignore")


class EndsAtNul(SmallLoader):
    """Takes the text to end at the first NUL."""

    def decode(self, raw: bytes) -> str:
        return super().decode(raw.partition(b"\0")[0])


class EmptyForUnreadable(SmallLoader):
    """Takes a text that it cannot read for an index without tensors."""

    def members(self, text: str) -> Pairs:
        try:
            return super().members(text)
        except Refused:
            return Pairs()


class FirstWins(SmallLoader):
    """Keeps the first of two entries."""

    def unique(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        return list(dict(reversed(pairs)).items())


class Merges(SmallLoader):
    """Joins several maps into one."""

    def members(self, text: str) -> Pairs:
        members = super().members(text)
        maps = [value for key, value in members if key == "weight_map" and isinstance(value, Pairs)]
        joined = Pairs(dict(pair for pairs in maps for pair in pairs).items())
        return Pairs([*dict(members).items(), ("weight_map", joined)])


class AnyMap(SmallLoader):
    """Searches the whole index for a weight_map, whatever its case, and takes the first."""

    def weight_map(self, members: Mapping[str, object]) -> list[tuple[str, str]]:
        for key, value in members.items():
            if key.lower() == "weight_map":
                return super().weight_map({"weight_map": value})
            if isinstance(value, Pairs) and "weight_map" in dict(value):
                return self.weight_map(dict(value))
        raise Refused("weight-map")


class LastMember(SmallLoader):
    """Takes the last member of the index for the map."""

    def weight_map(self, members: Mapping[str, object]) -> list[tuple[str, str]]:
        self.demand("weight-map", "weight_map" in members)
        return super().weight_map({"weight_map": list(members.values())[-1]})


class Allocates(SmallLoader):
    """Allocates as much as total_size says."""

    def check_metadata(self, members: Mapping[str, object], pairs: Sequence[tuple[str, str]]) -> None:  # noqa: ARG002
        """Allocate. Raises MemoryError."""
        size = self._size(members)
        if size > GUARD:
            raise MemoryError(f"{size} bytes")

    def _size(self, members: Mapping[str, object]) -> int:
        metadata = members.get("metadata")
        value = dict(metadata).get("total_size", 0) if isinstance(metadata, Pairs) else 0
        try:
            return int(float(str(value)))
        except (ValueError, OverflowError) as err:
            raise Refused("total-size") from err


class FillsUp(Allocates):
    """Gives as much data as total_size says: cuts the last tensor, or fills it up."""

    def check_metadata(self, members: Mapping[str, object], pairs: Sequence[tuple[str, str]]) -> None:
        """Compare. Raises TimeoutError where it would never end."""
        size = self._size(members)
        if size < 8 * len(pairs) and size:
            raise TimeoutError(f"waits for {size} bytes")


class OnlyTotalSize(SmallLoader):
    """Refuses metadata that hold anything but total_size."""

    def check_metadata(self, members: Mapping[str, object], pairs: Sequence[tuple[str, str]]) -> None:  # noqa: ARG002
        """Look at the metadata."""
        metadata = members.get("metadata")
        self.demand(
            "metadata-members", not isinstance(metadata, Pairs) or set(dict(metadata)) <= {"total_size"}
        )


def _variant(name: str, loader: SmallLoader, about: str = "") -> Variant:
    about = about or (type(loader).__doc__ or "").partition("\n")[0]
    return Variant(f"loader/{name}", about, "index", lambda: loader)


def _grammar(name: str, about: str, *checks: str, **parts: Any) -> Variant:
    """Return a loader whose grammar has other parts or lacks checks."""
    return _variant(name, replace(LOADER, grammar=Grammar(left_out=frozenset(checks), **parts)), about)


NOT_NUMBERS = {**WORDS, "NaN": 0.0, "Infinity": 0.0}

VARIANTS: tuple[Variant, ...] = (
    _variant("detects-encoding", Detects()),
    _variant("latin-1", Latin()),
    _variant("ignores-bad-bytes", Replaces()),
    _variant("text-ends-at-nul", EndsAtNul()),
    _variant("text-behind", LOADER.without("text-behind"), "Does not look behind the object."),
    _variant("empty-for-unreadable", EmptyForUnreadable().without("weight-map", "weight-map-object")),
    _variant(
        "empty-for-other-type",
        LOADER.without("index-object", "weight-map", "weight-map-object"),
        "Takes other types for an empty object.",
    ),
    _variant(
        "no-map-no-tensors", LOADER.without("weight-map", "weight-map-object"), "Loads nothing without a map."
    ),
    _variant("last-entry-wins", LOADER.without("tensor-twice"), "Keeps the last of two entries."),
    _variant("first-entry-wins", FirstWins().without("tensor-twice")),
    _variant("last-map-wins", LOADER.without("member-twice"), "Keeps the last of two maps."),
    _variant("merges-maps", Merges().without("member-twice")),
    _variant("map-anywhere", AnyMap()),
    _variant("map-is-last", LastMember()),
    _variant("allocates-total-size", Allocates()),
    _variant("waits-for-total-size", FillsUp()),
    _variant("only-total-size", OnlyTotalSize()),
    _grammar("text-cut-off", "Closes open brackets at the end of the text.", "cut-off"),
    _grammar("trailing-commas", "Allows a comma before a bracket.", "trailing-comma}", "trailing-comma]"),
    _grammar("comments", "Skips comments.", space=r"(?:[ \t\n\r]|/\*.*?\*/)*"),
    _grammar("single-quotes", "Allows single quotes.", quotes="\"'"),
    _grammar("not-numbers", "Knows NaN and Infinity.", words=NOT_NUMBERS),
    _grammar(
        "leading-zeros",
        "Allows zeros in front of a number.",
        number=NUMBER.replace("0|[1-9][0-9]*", "[0-9]+"),
    ),
    _grammar("raw-control-characters", "Allows control characters in strings.", raw="\\x00"),
    _grammar("one-line", "Allows no line feeds between tokens.", space="[ ]*"),
    _grammar("no-unicode-escapes", "Knows no escapes by number.", hex4="(?!)"),
)
