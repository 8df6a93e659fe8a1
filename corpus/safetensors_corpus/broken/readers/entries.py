"""Broken readers: what a tensor entry consists of (ENT)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..correct.json import Number, Pairs
from ..correct.reader import FIELDS, READER, WIDTHS, SmallReader, Tensor
from ..variant import Panic, reading

SNAKE = {"dataOffsets": "data_offsets", "DataOffsets": "data_offsets"}


@dataclass(frozen=True)
class Patching(SmallReader):
    """Changes the fields of an entry before it reads them."""

    patch: Callable[[dict[str, object]], dict[str, object]] = dict

    def tensor(self, name: str, fields: Mapping[str, object]) -> Tensor:
        return super().tensor(name, self.patch(dict(fields)))


class Positional(SmallReader):
    """Takes an entry written as an array."""

    def entry(self, name: str, value: object) -> Tensor | None:
        if isinstance(value, list) and not isinstance(value, Pairs):
            self.demand("entry-elements", len(value) >= len(FIELDS))
            value = Pairs(zip(FIELDS, value, strict=False))
        return super().entry(name, value)


class AnyArray(SmallReader):
    """Takes an entry written as an array, and each element for the field that it looks like."""

    def entry(self, name: str, value: object) -> Tensor | None:
        if isinstance(value, list) and not isinstance(value, Pairs):
            inner = [item for item in value if isinstance(item, Pairs)]
            if inner:
                return super().entry(name, inner[0])
            arrays = [item for item in value if isinstance(item, list)]
            dtypes = [item for item in value if type(item) is str]
            if len(arrays) < 2 or not dtypes:
                return None
            value = Pairs(zip(FIELDS, (dtypes[0], arrays[0], arrays[-1]), strict=True))
        return super().entry(name, value)


@dataclass(frozen=True)
class Skipping(SmallReader):
    """Passes over entries that it does not understand, and does not ask whom their bytes belong to."""

    skips: Callable[[object], bool] = bool

    def entry(self, name: str, value: object) -> Tensor | None:
        return None if self.skips(value) else super().entry(name, value)


def _incomplete(value: object) -> bool:
    return isinstance(value, Pairs) and not set(FIELDS) <= set(dict(value))


SKIPPING: tuple[tuple[str, str, Callable[[object], bool]], ...] = (
    ("skipped", "Passes over entries that are no objects.", lambda value: not isinstance(value, Pairs)),
    ("null-skipped", "Passes over entries that are null.", lambda value: value is None),
    ("empty-skipped", "Passes over entries without fields.", lambda value: value == []),
    ("incomplete-skipped", "Passes over entries that lack a field.", _incomplete),
)


class NotAnObjectCrashes(SmallReader):
    """Looks for fields in whatever the entry is."""

    def entry(self, name: str, value: object) -> Tensor | None:
        if not isinstance(value, Pairs):
            raise Panic("no object")
        return super().entry(name, value)


def _is_array(value: object) -> bool:
    return isinstance(value, list) and not isinstance(value, Pairs)


@dataclass(frozen=True)
class FlatShape(SmallReader):
    """Takes the range of a tensor for its shape where there is none that it understands."""

    understands: Callable[[Mapping[str, object]], bool] = lambda fields: "shape" in fields

    def entry(self, name: str, value: object) -> Tensor | None:
        if isinstance(value, Pairs):
            fields = dict(value)
            if not self.understands(fields) and "data_offsets" in fields:
                begin, end = self.offsets(fields["data_offsets"])
                size = (end - begin) * 8 // WIDTHS.get(str(fields.get("dtype")), 8)
                value = Pairs([*(f for f in value if f[0] != "shape"), ("shape", [Number(size)])])
        return super().entry(name, value)


class WithoutDtype(SmallReader):
    """Takes a missing dtype for F32."""

    def entry(self, name: str, value: object) -> Tensor | None:
        if isinstance(value, Pairs) and "dtype" not in dict(value):
            value = Pairs([*value, ("dtype", "F32")])
        return super().entry(name, value)


@dataclass(frozen=True)
class WithoutOffsets(SmallReader):
    """Lays out tensors without data_offsets one after the other."""

    end: list[int] = field(default_factory=lambda: [0])

    def content(self, file: bytes) -> dict[str, Any]:
        self.end[0] = 0
        return super().content(file)

    def entry(self, name: str, value: object) -> Tensor | None:
        if isinstance(value, Pairs) and {"dtype", "shape"} <= (fields := dict(value)).keys():
            if "data_offsets" not in fields:
                shape = self.shape(fields["shape"])
                end = self.end[0] + self.size(self.widths[self.dtype(fields["dtype"])], shape)
                value = Pairs([*value, ("data_offsets", [Number(self.end[0]), Number(end)])])
            found = super().entry(name, value)
            self.end[0] = found.end if found is not None else self.end[0]
            return found
        return super().entry(name, value)


class KeepsUnknown(SmallReader):
    """Reports unknown fields as metadata."""

    def entries(self, members: Pairs) -> tuple[list[Tensor], dict[str, Any] | None]:
        tensors, metadata = super().entries(members)
        for key, value in members:
            for inner, item in value if isinstance(value, Pairs) and key != "__metadata__" else []:
                if inner not in FIELDS:
                    metadata = {**(metadata or {}), inner: item}
        return tensors, metadata


class UnknownCrashes(SmallReader):
    """Has no place for a field that it does not know."""

    def entry(self, name: str, value: object) -> Tensor | None:
        if isinstance(value, Pairs) and any(key not in FIELDS for key, _ in value):
            raise Panic("unknown field")
        return super().entry(name, value)


class FieldsInOrder(SmallReader):
    """Takes fields in one order only."""

    def entry(self, name: str, value: object) -> Tensor | None:
        if isinstance(value, Pairs):
            self.demand("field-order", [key for key, _ in value] == list(FIELDS))
        return super().entry(name, value)


class FieldsByPlace(SmallReader):
    """Takes the fields by their place and not by their names."""

    def entry(self, name: str, value: object) -> Tensor | None:
        if isinstance(value, Pairs) and len(value) == len(FIELDS):
            value = Pairs(zip(FIELDS, [item for _, item in value], strict=True))
        return super().entry(name, value)


class FewTensors(SmallReader):
    """Has room for few tensors."""

    def entries(self, members: Pairs) -> tuple[list[Tensor], dict[str, Any] | None]:
        self.demand("few-tensors", len(members) <= 256)
        return super().entries(members)


class NoTensors(SmallReader):
    """Refuses a file without tensors."""

    def entries(self, members: Pairs) -> tuple[list[Tensor], dict[str, Any] | None]:
        tensors, metadata = super().entries(members)
        self.demand("no-tensors", bool(tensors))
        return tensors, metadata


def _old_name(key: str) -> str:
    return "data_offsets" if key == "offsets" else key


def _old_name_counts(fields: dict[str, object]) -> dict[str, object]:
    return fields | {"data_offsets": fields.get("offsets", fields["data_offsets"])}


def _any_case_counts(fields: dict[str, object]) -> dict[str, object]:
    return {key.lower(): value for key, value in fields.items()}


def _strides_count(fields: dict[str, object]) -> dict[str, object]:
    if "strides" in fields:
        raise Panic("elements outside the data")
    return fields


def _names(change: Callable[[str], str]) -> SmallReader:
    return replace(READER, field_names=change)


NO_LAYOUT = ("hole", "trailing")
VARIANTS = (
    reading("entry-positional", "Takes an array for an entry, by position.", Positional()),
    reading("entry-any-array", "Takes an array for an entry, by the look of its elements.",
            AnyArray().without(*NO_LAYOUT)),
    *(reading(f"entry-{name}", about, Skipping(skips=skips).without(*NO_LAYOUT))
      for name, about, skips in SKIPPING),
    reading("entry-not-object-crash", "Crashes on an entry that is no object.", NotAnObjectCrashes()),
    reading("shape-optional", "Takes a missing shape for a flat one.", FlatShape()),
    reading("shape-of-any-type", "Takes a shape that is no array for a flat one.",
            FlatShape(understands=lambda fields: _is_array(fields.get("shape")))),
    reading("dtype-optional", "Takes a missing dtype for F32.", WithoutDtype()),
    reading("offsets-optional", "Lays out tensors without offsets in a row.",
            WithoutOffsets().without("field-unknown")),
    reading("fields-any-case", "Takes field names in any case.", _names(str.lower)),
    reading("fields-stripped", "Strips field names.", _names(str.strip)),
    reading("fields-camel-case", "Takes field names in camel case.", _names(lambda key: SNAKE.get(key, key))),
    reading("fields-of-old", "Takes the field name offsets.", _names(_old_name)),
    reading("fields-in-order", "Demands one order of the fields.", FieldsInOrder()),
    reading("fields-by-place", "Does not look at the names of the fields.", FieldsByPlace()),
    reading("old-offsets-count", "Prefers a field named offsets.", replace(Patching(
        patch=_old_name_counts)).without("field-unknown", "overlap", "hole", "trailing", "range-size")),
    reading("any-case-counts", "Lets a field in another case override.", Patching(patch=_any_case_counts)
            .without("field-unknown")),
    reading("strides-count", "Counts the bytes of a field named strides as elements.",
            Patching(patch=_strides_count)
            .without("field-unknown")),
    reading("unknown-fields-kept", "Reports unknown fields as metadata.",
            KeepsUnknown().without("field-unknown")),
    reading("unknown-fields-crash", "Crashes on unknown fields.", UnknownCrashes()),
    reading("few-tensors", "Refuses more than 256 tensors.", FewTensors()),
    reading("no-tensors", "Refuses files without tensors.", NoTensors()),
)  # fmt: skip
