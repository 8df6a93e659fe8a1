"""Broken readers with a fault in the metadata map (MET)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from proof.planted import Planted
from safetensors_corpus.judging.answer import Refused

from ..correct.json import Pairs, refusing, refusing_result
from ..correct.reader import READER, RESERVED, SmallReader, Tensor
from ..variant import Panic, named, reading

LAX = READER.without("metadata-map", "metadata-value")


def _reserved(same: Callable[[str], bool]) -> SmallReader:
    return replace(READER, reserved=same)


class MetadataDropped(SmallReader):
    """Does not return the metadata."""

    def metadata(self, value: object) -> dict[str, Any] | None:
        super().metadata(value)
        return None


class MetadataAsTensor(SmallReader):
    """Returns an entry under the metadata key as a tensor."""

    def entries(self, members: Pairs) -> tuple[list[Tensor], dict[str, Any] | None]:
        for key, value in members:
            if key == RESERVED and isinstance(value, Pairs) and "data_offsets" in dict(value):
                return replace(READER, reserved=lambda _: False).entries(members)
        return super().entries(members)


class MetadataLikeTensorCrash(MetadataAsTensor):
    """Crashes on metadata that looks like an entry.

    It treats the metadata as a tensor and relies on its fields.
    """

    def entries(self, members: Pairs) -> tuple[list[Tensor], dict[str, Any] | None]:
        try:
            return super().entries(members)
        except Refused as err:
            looks = any(key == RESERVED and isinstance(value, Pairs) and value for key, value in members)
            if looks and str(err) in ("offsets-array", "shape-array"):
                raise Panic("no array") from err
            raise


class MetadataObeyed(SmallReader):
    """Replaces names and dtypes with those in the metadata map."""

    def entries(self, members: Pairs) -> tuple[list[Tensor], dict[str, Any] | None]:
        tensors, metadata = super().entries(members)
        said = metadata or {}
        return [
            replace(t, name=said.get(t.name, t.name), dtype=said.get("dtype", t.dtype)) for t in tensors
        ], metadata


class MetadataJsonRead(SmallReader):
    """Parses values that contain JSON."""

    def metadata(self, value: object) -> dict[str, Any] | None:
        found = super().metadata(value)
        for key, text in (found or {}).items():
            if text[:1] in ("{", "["):
                return {**(found or {}), key: self.grammar.value(text, 0)[0]}
        return found


class MetadataKeysAsNames(SmallReader):
    """Compares the keys of the metadata map with the tensor names."""

    def entries(self, members: Pairs) -> tuple[list[Tensor], dict[str, Any] | None]:
        inner = [m for key, value in members if key == RESERVED and isinstance(value, Pairs) for m in value]
        names = [key for key, _ in members]
        self.demand("name-twice", not any(key in names for key, _ in inner))
        return super().entries(members)


def _no_entry(value: object) -> bool:
    return isinstance(value, Pairs) and all(type(item) is str for _, item in value)


class MetadataLimited(SmallReader):
    """Rejects more than 100 keys, and truncates long values."""

    limits: tuple[int, int] = (100, 4096)

    def metadata(self, value: object) -> dict[str, Any] | None:
        found = super().metadata(value)
        keys, length = self.limits
        self.demand("metadata-limit", len(found or {}) <= keys)
        return {key: text[:length] for key, text in found.items()} if found is not None else None


@dataclass(frozen=True)
class _OneOf(SmallReader):
    """Checks only one value of the map, either the first or the last."""

    which: int = 0

    def metadata(self, value: object) -> dict[str, Any] | None:
        if isinstance(value, Pairs) and value:
            self.demand("metadata-value", type(value[self.which][1]) is str)
            return LAX.metadata(value)
        return super().metadata(value)


def _of_items(change: Callable[[Pairs], list[tuple[str, object]]]) -> SmallReader:
    return READER.changed(
        metadata=lambda right, value: right(Pairs(change(value)) if isinstance(value, Pairs) else value)
    )


VARIANTS: tuple[Planted, ...] = (
    *named(globals(), "read", SmallReader),
    reading("metadata-null-pointer", "Crashes on metadata that is null.",
            READER.changed(metadata=refusing(lambda value: value is None, Panic))),
    reading("metadata-values-as-text", "Converts values of every type to strings.",
            _of_items(lambda value: [(key, v if type(v) is str else str(v)) for key, v in value])),
    reading("metadata-strings-only", "Drops values that are not strings.",
            _of_items(lambda value: [(key, v) for key, v in value if type(v) is str])),
    reading("metadata-needs-format", "Rejects metadata without a key named format.",
            READER.changed(entries=refusing_result(
                lambda found: found[1] is not None and "format" not in found[1]))),
    # Metadata that is not first is not treated as a tensor either.
    reading("metadata-must-be-first", "Rejects metadata that is not the first entry.",
            READER.changed(entries=refusing(
                lambda members: any(key == RESERVED for key, _ in members[1:])))),
    reading("metadata-format-obeyed", "Rejects files whose metadata names another framework.",
            READER.changed(metadata=refusing_result(
                lambda found: (found or {}).get("format", "np") != "np"))),
    reading("metadata-unchecked", "Ignores the metadata.",
            READER.without("metadata-twice").changed(metadata=lambda _, _value: None)),
    reading("metadata-any-type", "Accepts metadata that is not an object.", READER.without("metadata-map")),
    reading("metadata-any-value", "Accepts metadata values of every type.", READER.without("metadata-value")),
    reading("metadata-first-value-checked", "Checks only the first value.", _OneOf()),
    reading("metadata-last-value-checked", "Checks only the last value.", _OneOf(which=-1)),
    reading("metadata-null-as-text", "Converts null to a map.",
            READER.changed(metadata=lambda right, value: {"": "null"} if value is None else right(value))),
    reading("metadata-not-reserved", "Does not know the metadata key.", _reserved(lambda _: False)),
    reading("metadata-empty-as-tensor", "Treats an empty map as a tensor entry.",
            READER.changed(metadata=lambda right, value: right(value if value != [] else None))),
    reading("metadata-key-any-case", "Accepts the metadata key in any case.",
            _reserved(lambda key: key.lower() == RESERVED)),
    reading("metadata-key-stripped", "Accepts the metadata key with spaces or NUL around it.",
            _reserved(lambda key: key.strip(" \0") == RESERVED)),
    reading("metadata-key-prefix", "Treats every key that begins with the metadata key as that key.",
            _reserved(lambda key: key.startswith(RESERVED))),
    reading("metadata-key-any-underscores",
            "Treats every key between double underscores as the metadata key.",
            _reserved(lambda key: key.startswith("__") and key.endswith("__"))),
    reading("metadata-string-maps-skipped", "Skips every entry that is a map of strings.",
            READER.changed(
                entry=lambda right, name, value: None if _no_entry(value) else right(name, value))),
)  # fmt: skip
