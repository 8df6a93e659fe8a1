"""Broken readers: the form of a shape, and shapes that are returned changed (SHP-01, SHP-10, SHP-11)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..correct.json import Grammar, Number, Pairs
from ..correct.reader import READER, SmallReader, whole_bytes
from ..variant import reading


@dataclass(frozen=True)
class Reshaping(SmallReader):
    """Changes shapes after they are checked."""

    reshape: Callable[[tuple[int, ...]], tuple[int, ...]] = tuple

    def content(self, file: bytes) -> dict[str, Any]:
        """Return the content with other shapes."""
        found = super().content(file)
        rows = [row | {"shape": list(self.reshape(tuple(row["shape"])))} for row in found["tensors"]]
        return found | {"tensors": rows}


RESHAPING: tuple[tuple[str, str, Callable[[tuple[int, ...]], tuple[int, ...]]], ...] = (
    ("squeezed", "Drops dimensions of one.", lambda shape: tuple(dim for dim in shape if dim != 1)),
    ("leading-one-dropped", "Drops a leading dimension of one.", lambda s: s[1:] if s[:1] == (1,) else s),
    ("flattened", "Returns flat shapes.", lambda shape: (math.prod(shape[:100]),)),
    ("reversed", "Turns the order of dimensions round.", lambda shape: shape[::-1]),
    ("scalar-as-vector", "Returns scalars with one dimension.", lambda shape: shape or (1,)),
    ("empty-as-nothing", "Returns all empty tensors with one shape.", lambda s: (0,) if 0 in s else s),
    ("four-dimensions", "Keeps the first four dimensions.", lambda shape: shape[:4]),
    ("sixteen-dimensions", "Keeps the first sixteen dimensions.", lambda shape: shape[:16]),
)


@dataclass(frozen=True)
class AnyShape(SmallReader):
    """Takes what is no array for a shape."""

    convert: Callable[[object], object] = lambda value: value

    def shape(self, value: object) -> tuple[int, ...]:
        """Return the dimensions."""
        return super().shape(self.convert(value))


def _from_text(value: object) -> object:
    return Grammar().value(value, 0)[0] if type(value) is str and value[:1] == "[" else value


def _wrap_number(value: object) -> object:
    return [value] if isinstance(value, Number) or (type(value) is str and value.isdigit()) else value


def _nothing(value: object) -> object:
    return [] if value is None or isinstance(value, Pairs) or value is True or value is False else value


def _members(value: object) -> object:
    return [item for _, item in value] if isinstance(value, Pairs) else value


def _only_numbers(value: object) -> object:
    if isinstance(value, list):
        return [item for item in value if isinstance(item, Number)]
    return value if type(value) is not bool and value is not None else []


def _zero_for_others(value: object) -> object:
    if isinstance(value, list):
        return [item if isinstance(item, Number) else Number("0") for item in value]
    return value


SHAPES: tuple[tuple[str, str, Callable[[object], object]], ...] = (
    ("from-text", "Parses a shape inside a string.", _from_text),
    ("number", "Takes a number for a shape of one dimension.", _wrap_number),
    ("nothing", "Takes null, objects and booleans for the shape of a scalar.", _nothing),
    ("members", "Takes the values of an object for dimensions.", _members),
    ("zero-for-others", "Takes a dimension that is no number for zero.", _zero_for_others),
    ("numbers-only", "Passes over dimensions that are no numbers.", _only_numbers),
)


def _rank(limit: int) -> SmallReader:
    def checked(width: int, shape: Sequence[int]) -> int:
        READER.demand("rank", len(shape) <= limit)
        return whole_bytes(width, shape)

    return replace(READER, size=checked)


VARIANTS = (
    *(reading(f"shape-{name}", about, Reshaping(reshape=change)) for name, about, change in RESHAPING),
    *(reading(f"shape-{name}", about, AnyShape(convert=change)) for name, about, change in SHAPES),
    *(
        reading(f"shape-rank-{limit}", f"Refuses more than {limit} dimensions.", _rank(limit))
        for limit in (4, 7, 31)
    ),
)
