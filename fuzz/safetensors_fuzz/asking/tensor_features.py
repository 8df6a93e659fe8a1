"""Features of the tensors in a plan: names, shapes and dtypes, whether they are written or in shards."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from safetensors_reference.dtypes import DTYPE_BITS

from ..features.feature import Feature, change, feature
from .question import Plan

PLAIN = "F32"
"""The dtype that takes the place of all others."""
LONG = 60
"""Characters that are more than a short name has."""
MUCH = 64
"""Elements that are more than a small tensor has."""
WORDS = frozenset({"dtype", "shape", "data_offsets", "null", "metadata", "weight_map", "total_size"})
"""Names that mean something elsewhere."""

Lose = Callable[[Plan], bool]
Row = dict[str, Any]
"""One tensor of a plan."""

TENSORS: list[Feature[Plan]] = []


def tensors_of(plan: Plan) -> list[Row]:
    """Return the tensors of a plan, wherever they are."""
    if "shards" in plan:
        return [row for shard in plan["shards"] for row in shard["tensors"]]
    return [*plan["tensors"], *plan["before"]]


def become(plan: Plan, row: Row, dtype: str, shape: list[int]) -> None:
    """Give a tensor another dtype and shape; one that is written gets memory of its own."""
    row["dtype"], row["shape"] = dtype, shape
    if "storages" in plan and "storage" in row:
        number = 0
        while f"own {number}" in plan["storages"]:
            number += 1
        size = prod(shape) * DTYPE_BITS[dtype] // 8
        fill = "0001" if dtype == "BOOL" else ""
        plan["storages"][f"own {number}"] = {"size": size, "fill": fill, "guard": False}
        row |= {"storage": f"own {number}", "offset": 0, "strides": None, "byteorder": "little"}
        row["nbytes"] = None
        forget_memory(plan)


def forget_memory(plan: Plan) -> None:
    """Leave out storages without a tensor, and what is demanded only where foreign memory lies around."""
    used = {row["storage"] for row in plan["tensors"]}
    plan["storages"] = {name: storage for name, storage in plan["storages"].items() if name in used}
    left = plan["storages"].values()
    if not any(storage["guard"] for storage in left) or any(storage["fill"] for storage in left):
        plan["properties"] = [name for name in plan["properties"] if name != "no-foreign-bytes"]


def dull(text: str) -> bool:
    """Return whether a text is letters, digits, dots and underscores, and begins with a letter."""
    return text.isascii() and text.replace("_", "a").replace(".", "a").isalnum() and text[:1].isalpha()


def _rename(plan: Plan, chosen: Callable[[str], object]) -> bool:
    """Give tensors plain names, the same everywhere."""
    rows = tensors_of(plan)
    names = list(dict.fromkeys([*(row["name"] for row in rows), *(t for t, _ in plan.get("map", ()))]))
    free = (name for name in (f"n{number}" for number in range(2 * len(names) + 1)) if name not in names)
    new = {name: next(free) for name in names if chosen(name)}
    for row in rows:
        row["name"] = new.get(row["name"], row["name"])
    for pair in plan.get("map", ()):
        pair[0] = new.get(pair[0], pair[0])
    return bool(new)


@feature(TENSORS, "ENT-07")
def empty_names(plan: Plan) -> bool:
    """An empty name."""
    return _rename(plan, lambda name: not name)


@feature(TENSORS, "ENT-10")
def long_names(plan: Plan) -> bool:
    """A long name."""
    return _rename(plan, lambda name: len(name) > LONG)


@feature(TENSORS, "ENT-08")
def unusual_names(plan: Plan) -> bool:
    """A name with a control character, a quote, a backslash or a character beyond ASCII."""
    return _rename(plan, lambda name: any(not " " <= c <= "~" or c in '"\\' for c in name))


@feature(TENSORS, "ENT-09")
def active_names(plan: Plan) -> bool:
    """A name that looks like a path, a number or code."""
    return _rename(plan, lambda name: name in WORDS or not dull(name))


def _few(row: Row) -> list[int]:
    return [8] if DTYPE_BITS[row["dtype"]] % 8 else [1]


def _reshape(plan: Plan, chosen: Callable[[Row], object], shape: Callable[[Row], list[int]]) -> bool:
    return change(tensors_of(plan), chosen, lambda row: become(plan, row, row["dtype"], shape(row)))


@feature(TENSORS, "SHP-04")
def empty_tensors(plan: Plan) -> bool:
    """An empty tensor."""
    return _reshape(plan, lambda row: 0 in row["shape"], _few)


@feature(TENSORS, "SHP-03")
def scalars(plan: Plan) -> bool:
    """A tensor without dimensions."""
    return _reshape(plan, lambda row: not row["shape"], _few)


@feature(TENSORS, "SHP-10")
def ranks(plan: Plan) -> bool:
    """Several dimensions."""
    return _reshape(plan, lambda row: len(row["shape"]) > 1, lambda row: [prod(row["shape"])])


@feature(TENSORS, "SHP-09")
def large_tensors(plan: Plan) -> bool:
    """A tensor of more than 64 elements."""
    return _reshape(plan, lambda row: prod(row["shape"]) > MUCH, _few)


def _of_dtype(dtype: str) -> Lose:
    def lose(plan: Plan) -> bool:
        return change(
            tensors_of(plan),
            lambda row: row["dtype"] == dtype,
            lambda row: become(plan, row, PLAIN, row["shape"]),
        )

    lose.__doc__ = f"Dtype {dtype}."
    return lose


for _dtype in DTYPE_BITS:
    if _dtype != PLAIN:
        feature(TENSORS, "DTY-05")(_of_dtype(_dtype))
