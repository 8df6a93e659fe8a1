"""Broken readers with a fault in the structure of a tensor entry (ENT)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from proof.planted import Planted

from ..correct.json import Number, Pairs, refusing, refusing_result
from ..correct.reader import FIELDS, READER, WIDTHS, SmallReader, Tensor
from ..variant import Panic, named, reading

NO_LAYOUT = ("hole", "trailing")
SNAKE = {"dataOffsets": "data_offsets", "DataOffsets": "data_offsets"}


class EntryPositional(SmallReader):
    """Accepts an array as an entry, and reads its elements by position."""

    def entry(self, name: str, value: object) -> Tensor | None:
        if isinstance(value, list) and not isinstance(value, Pairs):
            self.demand("entry-elements", len(value) >= len(FIELDS))
            value = Pairs(zip(FIELDS, value, strict=False))
        return super().entry(name, value)


class EntryAnyArray(SmallReader, without=NO_LAYOUT):
    """Accepts an array as an entry, and identifies its elements by their form."""

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


SKIPPING: tuple[tuple[str, str, Callable[[object], bool]], ...] = (
    ("skipped", "Skips entries that are not objects.", lambda value: not isinstance(value, Pairs)),
    ("null-skipped", "Skips entries that are null.", lambda value: value is None),
    ("empty-skipped", "Skips entries without fields.", lambda value: value == []),
    ("incomplete-skipped", "Skips entries with a missing field.",
     lambda value: isinstance(value, Pairs) and not set(FIELDS) <= set(dict(value))),
)  # fmt: skip


def _is_array(value: object) -> bool:
    return isinstance(value, list) and not isinstance(value, Pairs)


@dataclass(frozen=True)
class _FlatShape(SmallReader):
    """Uses the range of a tensor as its shape if it cannot read the shape."""

    understands: Callable[[Mapping[str, object]], bool] = lambda fields: "shape" in fields

    def entry(self, name: str, value: object) -> Tensor | None:
        if isinstance(value, Pairs):
            fields = dict(value)
            if not self.understands(fields) and "data_offsets" in fields:
                begin, end = self.offsets(fields["data_offsets"])
                size = (end - begin) * 8 // WIDTHS.get(str(fields.get("dtype")), 8)
                value = Pairs([*(f for f in value if f[0] != "shape"), ("shape", [Number(size)])])
        return super().entry(name, value)


@dataclass(frozen=True)
class _WithoutOffsets(SmallReader):
    """Places tensors without data_offsets one after the other."""

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


class UnknownFieldsKept(SmallReader, without=("field-unknown",)):
    """Returns unknown fields as metadata."""

    def entries(self, members: Pairs) -> tuple[list[Tensor], dict[str, Any] | None]:
        tensors, metadata = super().entries(members)
        for key, value in members:
            for inner, item in value if isinstance(value, Pairs) and key != "__metadata__" else []:
                if inner not in FIELDS:
                    metadata = {**(metadata or {}), inner: item}
        return tensors, metadata


class FieldsByPlace(SmallReader):
    """Ignores the names of the fields."""

    def entry(self, name: str, value: object) -> Tensor | None:
        if isinstance(value, Pairs) and len(value) == len(FIELDS):
            value = Pairs(zip(FIELDS, [item for _, item in value], strict=True))
        return super().entry(name, value)


def _names(change: Callable[[str], str]) -> SmallReader:
    return replace(READER, field_names=change)


def _skipping(skips: Callable[[object], bool]) -> SmallReader:
    return READER.without(*NO_LAYOUT).changed(
        entry=lambda right, name, value: None if skips(value) else right(name, value)
    )


VARIANTS: tuple[Planted, ...] = (
    *named(globals(), "read", SmallReader),
    reading("entry-not-object-crash", "Crashes on an entry that is not an object.",
            READER.changed(entry=refusing(lambda _name, value: not isinstance(value, Pairs), Panic))),
    reading("dtype-optional", "Treats a missing dtype as F32.",
            READER.changed(entry=lambda right, name, value: right(
                name, Pairs([*value, ("dtype", "F32")])
                if isinstance(value, Pairs) and "dtype" not in dict(value) else value))),
    reading("unknown-fields-crash", "Crashes on unknown fields.",
            READER.changed(entry=refusing(lambda _name, value: (
                isinstance(value, Pairs) and any(key not in FIELDS for key, _ in value)), Panic))),
    reading("fields-in-order", "Requires a certain order of the fields.",
            READER.changed(entry=refusing(lambda _name, value: (
                isinstance(value, Pairs) and [key for key, _ in value] != list(FIELDS))))),
    reading("few-tensors", "Rejects more than 256 tensors.",
            READER.changed(entries=refusing(lambda members: len(members) > 256))),
    reading("no-tensors", "Rejects files without tensors.",
            READER.changed(entries=refusing_result(lambda found: not found[0]))),
    reading("old-offsets-count", "Prefers a field named offsets to data_offsets.",
            READER.without("field-unknown", "overlap", "hole", "trailing", "range-size").changed(
                tensor=lambda right, name, fields: right(
                    name, fields | {"data_offsets": fields.get("offsets", fields["data_offsets"])}))),
    reading("any-case-counts", "Lets a field in another case override the correct field.",
            READER.without("field-unknown").changed(tensor=lambda right, name, fields: right(
                name, {key.lower(): value for key, value in fields.items()}))),
    reading("strides-count", "Crashes on a field named strides.",
            READER.without("field-unknown").changed(
                tensor=refusing(lambda _name, fields: "strides" in fields, Panic))),
    *(reading(f"entry-{name}", about, _skipping(skips))
      for name, about, skips in SKIPPING),
    reading("shape-optional", "Treats a missing shape as one flat dimension.", _FlatShape()),
    reading("shape-of-any-type", "Treats a shape that is not an array as one flat dimension.",
            _FlatShape(understands=lambda fields: _is_array(fields.get("shape")))),
    reading("offsets-optional", "Places tensors without offsets one after the other.",
            _WithoutOffsets().without("field-unknown")),
    reading("fields-any-case", "Accepts field names in any case.", _names(str.lower)),
    reading("fields-stripped", "Strips spaces around field names.", _names(str.strip)),
    reading("fields-camel-case", "Accepts field names in camel case.",
            _names(lambda key: SNAKE.get(key, key))),
    reading("fields-of-old", "Accepts the field name offsets.",
            _names(lambda key: "data_offsets" if key == "offsets" else key)),
)  # fmt: skip
