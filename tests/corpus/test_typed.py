"""Typed models of documents: what is wrong with a value in words, and the schema of a model."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any, Literal

import pytest
from jsonschema import Draft202012Validator
from msgspec import Meta, Struct

from safetensors_corpus.typed import MisfitError, json_schema, typed


class Inner(Struct, frozen=True, forbid_unknown_fields=True):
    """A row."""

    name: Annotated[str, Meta(min_length=1)]
    kind: Literal["cat", "dog"] = "cat"


class Outer(Struct, forbid_unknown_fields=True):
    """A document
    of rows.

    Attributes:
        rows: What it holds, in
            order.
        count: Number of ``rows``.
    """

    rows: tuple[Inner, ...] = ()
    count: Annotated[int, Meta(ge=0)] = 0
    colours: str = ""
    time: float | None = None
    day: dt.date | None = None
    sums: dict[str, Annotated[int, Meta(ge=0)]] = {}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([], "must be an object, not a list"),
        ({"colour": 1}, "unknown key 'colour'; did you mean 'colours'?"),
        ({"zz": 1}, "unknown key 'zz'; there are colours, count, day, rows, sums,"),
        ({"\ud800\n\x1b": 1}, "unknown key '\\ufffd\\n\\x1b'; there are colours, count, day, rows, sums,"),
        ({"rows": [{}]}, "rows[0]: has no 'name'"),
        ({"rows": [{"name": "x", "nam": 1}]}, "rows[0]: unknown key 'nam'; did you mean 'name'?"),
        ({"rows": [{"name": ""}]}, "rows[0].name: must be a string of length >= 1, not ''"),
        ({"rows": [{"name": "x", "kind": "cow"}]}, "rows[0].kind: must be cat or dog, not 'cow'"),
        ({"rows": [{"name": "x", "kind": "\ud800"}]}, "rows[0].kind: must be cat or dog, not '\\ufffd'"),
        ({"rows": [{"name": "x"}, {"name": 1}]}, "rows[1].name: must be a string, not 1"),
        ({"count": -1}, "count: must be a whole number >= 0, not -1"),
        ({"count": True}, "count: must be a whole number, not true"),
        ({"count": 1.5}, "count: must be a whole number, not 1.5"),
        ({"time": "soon"}, "time: must be a number or null, not 'soon'"),
        ({"time": 10**5000}, "time: number out of range"),
        ({"day": "2026-01-01"}, "day: must be a date like 2027-06-01 or null, not '2026-01-01'"),
        ({"day": dt.datetime(2026, 1, 1, tzinfo=dt.UTC)}, "day: must be a date like 2027-06-01 or null, not"),
        ({"sums": {"\ud800": -1}}, "sums[...]: must be a whole number >= 0"),
        ({"sums": {1: 1}}, "a key of sums: must be a string, not a whole number"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_place(value: object, said: str) -> None:
    with pytest.raises(MisfitError) as caught:
        typed(value, Outer)
    assert str(caught.value).removesuffix(" a date with a time").removesuffix(" time") == said


def test_what_a_model_takes() -> None:
    rows = [{"name": "\ud800", "kind": "dog"}]
    others: dict[str, Any] = {"count": 10**5000, "day": dt.date(2026, 1, 1), "sums": {"\ud800": 1}}
    assert typed({"rows": rows, **others}, Outer) == Outer((Inner("\ud800", "dog"),), **others)


def test_a_nest_is_no_traceback() -> None:
    nest: dict[str, Any] = {}
    inner = nest
    for _ in range(100_000):
        inner["rows"] = inner = {}
    for value in (nest, {"\ud800": nest}):
        with pytest.raises(MisfitError):
            typed(value, Outer)


def test_the_schema_takes_its_descriptions_from_docstrings() -> None:
    made = json_schema("outer", "Outer, version 1", Outer)
    Draft202012Validator.check_schema(made)
    assert made["description"] == "A document of rows."
    assert made["properties"]["rows"]["description"] == "What it holds, in order."
    count = {"description": "Number of `rows`.", "type": "integer", "minimum": 0}
    assert made["properties"]["count"] == count
    assert made["$defs"]["inner"]["required"] == ["name"]
    assert made["additionalProperties"] is False
