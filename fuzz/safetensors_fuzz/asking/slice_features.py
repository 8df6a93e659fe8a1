"""Features of slices that need not be refused: which choices an index falls under, and what it picks from."""

from __future__ import annotations

from typing import Any

from safetensors_corpus.slice_builder import index_items
from safetensors_reference.dtypes import DTYPE_BITS
from safetensors_reference.rules import rule_book

from ..features.feature import Feature, feature
from .question import Plan, PlanError
from .slice_rules import CHOICES, read_index
from .tensor_features import PLAIN, Lose, Row

WHOLE = {"start": None, "stop": None, "step": None}
"""The index item of a whole dimension."""

SLICES: list[Feature[Plan]] = []


def _asked_for(plan: Plan) -> Row:
    row: Row = next(row for row in plan["tensors"] if row["name"] == plan["ask"])
    return row


def _choices(plan: Plan, items: list[Any]) -> set[str]:
    try:
        return read_index(_asked_for(plan)["shape"], index_items(items)).choices
    except PlanError:
        return set()


def _plain(item: Any) -> list[Any]:
    """Return what takes the place of an index item: nothing where it has no dimension of its own."""
    return [] if item is None or isinstance(item, bool) else [WHOLE]


def _of_choice(name: str) -> Lose:
    def lose(plan: Plan) -> bool:
        items = plan["index"]
        if name not in _choices(plan, items):
            return False
        left: list[Any] = []
        for at, item in enumerate(items):
            others = [[*_plain(o)] if o != "..." else [o] for o in items]
            alone = [i for part in [*others[:at], [item], *others[at + 1 :]] for i in part]
            left += _plain(item) if item != "..." and name in _choices(plan, alone) else [item]
        plan["index"] = left if name not in _choices(plan, left) else []
        return True

    lose.__doc__ = f"An index of the choice {name}."
    return lose


for _name in CHOICES:
    feature(SLICES, rule_book().choices[_name].rule)(_of_choice(_name))


@feature(SLICES, "API-08")
def packed(plan: Plan) -> bool:
    """Elements that share bytes."""
    row = _asked_for(plan)
    found = DTYPE_BITS[row["dtype"]] % 8 != 0
    row["dtype"] = PLAIN if found else row["dtype"]
    return found


@feature(SLICES, "API-05")
def any_index(plan: Plan) -> bool:
    """An index."""
    given, plan["index"] = bool(plan["index"]), []
    return given
