"""Broken readers: the metadata map (MET)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..correct.json import Pairs, Refused
from ..correct.reader import READER, RESERVED, SmallReader, Tensor
from ..variant import Panic, reading

LAX = READER.without("metadata-map", "metadata-value")


def _reserved(same: Callable[[str], bool]) -> SmallReader:
    return replace(READER, reserved=same)


class Dropped(SmallReader):
    """Loses the map."""

    def metadata(self, value: object) -> dict[str, Any] | None:
        super().metadata(value)
        return None


class Unchecked(SmallReader):
    """Does not look at the metadata at all."""

    def metadata(self, value: object) -> dict[str, Any] | None:  # noqa: ARG002
        return None


class NullIsText(SmallReader):
    """Turns null into a map of its own making."""

    def metadata(self, value: object) -> dict[str, Any] | None:
        return {"": "null"} if value is None else super().metadata(value)


class NullCrashes(SmallReader):
    """Follows a null pointer where the map should be."""

    def metadata(self, value: object) -> dict[str, Any] | None:
        if value is None:
            raise Panic("null pointer")
        return super().metadata(value)


class AsText(SmallReader):
    """Turns every value into text."""

    def metadata(self, value: object) -> dict[str, Any] | None:
        if isinstance(value, Pairs):
            value = Pairs([(key, item if type(item) is str else str(item)) for key, item in value])
        return super().metadata(value)


class OnlyStrings(SmallReader):
    """Keeps the values that are strings and drops the others."""

    def metadata(self, value: object) -> dict[str, Any] | None:
        if isinstance(value, Pairs):
            value = Pairs([(key, item) for key, item in value if type(item) is str])
        return super().metadata(value)


class Demanding(SmallReader):
    """Refuses files whose metadata is not as it expects."""

    def entries(self, members: Pairs) -> tuple[list[Tensor], dict[str, Any] | None]:
        tensors, metadata = super().entries(members)
        self.demand("metadata-format", metadata is None or "format" in metadata)
        return tensors, metadata


class First(SmallReader):
    """Looks for the metadata in the first place only; elsewhere it is no tensor either."""

    def entries(self, members: Pairs) -> tuple[list[Tensor], dict[str, Any] | None]:
        self.demand("metadata-first", all(key != RESERVED for key, _ in members[1:]))
        return super().entries(members)


class AsTensor(SmallReader):
    """Takes what looks like a tensor for a tensor, whatever its key."""

    def entries(self, members: Pairs) -> tuple[list[Tensor], dict[str, Any] | None]:
        for key, value in members:
            if key == RESERVED and isinstance(value, Pairs) and "data_offsets" in dict(value):
                return replace(READER, reserved=lambda _: False).entries(members)
        return super().entries(members)


class LooksAlikeCrash(AsTensor):
    """As before, and relies on what it finds."""

    def entries(self, members: Pairs) -> tuple[list[Tensor], dict[str, Any] | None]:
        try:
            return super().entries(members)
        except Refused as err:
            looks = any(key == RESERVED and isinstance(value, Pairs) and value for key, value in members)
            if looks and str(err) in ("offsets-array", "shape-array"):
                raise Panic("no array") from err
            raise


class Obeys(SmallReader):
    """Lets the map decide about the tensors."""

    def entries(self, members: Pairs) -> tuple[list[Tensor], dict[str, Any] | None]:
        tensors, metadata = super().entries(members)
        said = metadata or {}
        return [
            replace(t, name=said.get(t.name, t.name), dtype=said.get("dtype", t.dtype)) for t in tensors
        ], metadata


class Converts(SmallReader):
    """Reads values that hold JSON as what they hold."""

    def metadata(self, value: object) -> dict[str, Any] | None:
        found = super().metadata(value)
        for key, text in (found or {}).items():
            if text[:1] in ("{", "["):
                return {**(found or {}), key: self.grammar.value(text, 0)[0]}
        return found


class FromFormat(SmallReader):
    """Refuses files that another framework wrote."""

    def metadata(self, value: object) -> dict[str, Any] | None:
        found = super().metadata(value)
        self.demand("metadata-format", (found or {}).get("format", "np") == "np")
        return found


class Spills(SmallReader):
    """Takes the map for part of the header: its keys are names."""

    def entries(self, members: Pairs) -> tuple[list[Tensor], dict[str, Any] | None]:
        inner = [m for key, value in members if key == RESERVED and isinstance(value, Pairs) for m in value]
        names = [key for key, _ in members]
        self.demand("name-twice", not any(key in names for key, _ in inner))
        return super().entries(members)


def _no_entry(value: object) -> bool:
    return isinstance(value, Pairs) and all(type(item) is str for _, item in value)


class StringMapsSkipped(SmallReader):
    """Takes every map of strings for metadata, whatever its key."""

    def entry(self, name: str, value: object) -> Tensor | None:
        return None if _no_entry(value) else super().entry(name, value)


class KeysLimited(SmallReader):
    """Has room for few keys and short values."""

    limits: tuple[int, int] = (100, 4096)

    def metadata(self, value: object) -> dict[str, Any] | None:
        found = super().metadata(value)
        keys, length = self.limits
        self.demand("metadata-limit", len(found or {}) <= keys)
        return {key: text[:length] for key, text in found.items()} if found is not None else None


class EmptyIsEntry(SmallReader):
    """Takes an empty map for an entry, which it is not."""

    def metadata(self, value: object) -> dict[str, Any] | None:
        return super().metadata(value if value != [] else None)


@dataclass(frozen=True)
class OneOf(SmallReader):
    """Checks one value of the map only, the first or the last."""

    which: int = 0

    def metadata(self, value: object) -> dict[str, Any] | None:
        if isinstance(value, Pairs) and value:
            self.demand("metadata-value", type(value[self.which][1]) is str)
            return LAX.metadata(value)
        return super().metadata(value)


VARIANTS = (
    reading("metadata-dropped", "Does not return the metadata.", Dropped()),
    reading("metadata-unchecked", "Does not look at the metadata.", Unchecked().without("metadata-twice")),
    reading("metadata-any-type", "Takes metadata that is no object.", READER.without("metadata-map")),
    reading("metadata-any-value", "Takes values of every type.", READER.without("metadata-value")),
    reading("metadata-first-value-checked", "Checks the first value only.", OneOf()),
    reading("metadata-last-value-checked", "Checks the last value only.", OneOf(which=-1)),
    reading("metadata-values-as-text", "Turns values of every type into text.", AsText()),
    reading("metadata-strings-only", "Drops values that are no strings.", OnlyStrings()),
    reading("metadata-null-as-text", "Turns null into a map.", NullIsText()),
    reading("metadata-null-pointer", "Crashes on null.", NullCrashes()),
    reading("metadata-needs-format", "Refuses metadata without the key format.",
            Demanding()),
    reading("metadata-must-be-first", "Refuses metadata that is not in front.", First()),
    reading("metadata-as-tensor", "Takes an entry under the metadata key for a tensor.", AsTensor()),
    reading("metadata-like-tensor-crash", "Crashes on metadata that looks like an entry.", LooksAlikeCrash()),
    reading("metadata-not-reserved", "Knows no metadata key.", _reserved(lambda _: False)),
    reading("metadata-empty-as-tensor", "Takes an empty map for an entry.", EmptyIsEntry()),
    reading("metadata-key-any-case", "Takes the metadata key in any case.",
            _reserved(lambda key: key.lower() == RESERVED)),
    reading("metadata-key-stripped", "Takes the metadata key with spaces or NUL around it.",
            _reserved(lambda key: key.strip(" \0") == RESERVED)),
    reading("metadata-key-prefix", "Takes every key that begins like the metadata key.",
            _reserved(lambda key: key.startswith(RESERVED))),
    reading("metadata-key-any-underscores", "Takes every key of two underscores for metadata.",
            _reserved(lambda key: key.startswith("__") and key.endswith("__"))),
    reading("metadata-string-maps-skipped", "Passes over every map of strings.", StringMapsSkipped()),
    reading("metadata-obeyed", "Lets the map decide on names and dtypes.", Obeys()),
    reading("metadata-json-read", "Parses values that hold JSON.", Converts()),
    reading("metadata-format-obeyed", "Refuses files whose map names another framework.", FromFormat()),
    reading("metadata-keys-as-names", "Compares the keys of the map with tensor names.", Spills()),
    reading("metadata-limited", "Refuses more than 100 keys and cuts long values.", KeysLimited()),
)  # fmt: skip
