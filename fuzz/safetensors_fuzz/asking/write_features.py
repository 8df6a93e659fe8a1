"""Features of writes that need not be refused: how tensors lie in memory, metadata, and what stands there."""

from __future__ import annotations

from collections.abc import Callable

from ..features.feature import Feature, change, feature
from .question import Plan
from .tensor_features import PLAIN, TENSORS, Row, become, dull, forget_memory
from .write_rules import is_contiguous

MANY = 5

WRITES: list[Feature[Plan]] = []


def _own_memory(plan: Plan, chosen: Callable[[Row], object]) -> bool:
    return change(plan["tensors"], chosen, lambda row: become(plan, row, row["dtype"], row["shape"]))


@feature(WRITES, "WRT-08")
def big_endian(plan: Plan) -> bool:
    """Elements with their highest byte first."""
    return _own_memory(plan, lambda row: row["byteorder"] == "big")


@feature(WRITES, "WRT-07")
def strided(plan: Plan) -> bool:
    """A view that is not contiguous."""
    return _own_memory(plan, lambda row: not is_contiguous(row))


@feature(WRITES, "WRT-16")
def shared(plan: Plan) -> bool:
    """Several tensors in one memory."""
    places = [row["storage"] for row in plan["tensors"]]
    return _own_memory(plan, lambda row: places.count(row["storage"]) > 1)


@feature(WRITES, "WRT-07")
def views(plan: Plan) -> bool:
    """A view into a larger memory, or one with strides."""
    return _own_memory(plan, lambda row: row["strides"] is not None or row["offset"])


@feature(WRITES, "DAT-04")
def values(plan: Plan) -> bool:
    """Values that a conversion would change."""
    plain = {row["storage"] for row in plan["tensors"] if row["dtype"] == "BOOL"}
    return change(
        [storage for name, storage in plan["storages"].items() if name not in plain],
        lambda storage: storage["fill"],
        lambda storage: storage.update(fill=""),
    )


@feature(WRITES, "WRT-13")
def saved_again(plan: Plan) -> bool:
    """A file that is loaded and saved again."""
    again: bool = plan["target"] == "input"
    if again:
        rows, plan["before"], plan["target"] = plan["before"], [], "new"
        plan["tensors"] = [{**row, "storage": ""} for row in rows]
        _own_memory(plan, lambda _: True)
    return again


@feature(WRITES, "WRT-15")
def link(plan: Plan) -> bool:
    """A link in the place of the file."""
    found: bool = plan["target"] == "link"
    if found:
        plan["target"] = "file"
        plan["properties"] = [name for name in plan["properties"] if name != "keeps-link"]
    return found


@feature(WRITES, "WRT-14")
def file_before(plan: Plan) -> bool:
    """A file that stands there."""
    found = plan["target"] in ("file", "link")
    if found:
        plan["target"], plan["before"], plan["properties"] = "new", [], []
    return found


@feature(WRITES, "WRT-19")
def missing_folder(plan: Plan) -> bool:
    """A folder that does not exist."""
    found: bool = plan["target"] == "missing-folder"
    plan["target"] = "new" if found else plan["target"]
    return found


def _pairs(plan: Plan) -> list[list[str]]:
    pairs: list[list[str]] = [] if plan["metadata"] is None else plan["metadata"]["items"]
    return pairs


@feature(WRITES, "MET-04")
def metadata_texts(plan: Plan) -> bool:
    """A metadata text that is not letters, digits, dots and underscores."""
    texts = [(pair, place) for pair in _pairs(plan) for place in (0, 1)]
    keys = [key for key, _ in _pairs(plan)]
    free = (name for name in (f"k{number}" for number in range(2 * len(texts) + 1)) if name not in keys)

    def rename(at: tuple[list[str], int]) -> None:
        at[0][at[1]] = next(free)

    return change(texts, lambda at: not dull(at[0][at[1]]), rename)


@feature(WRITES, "MET-10")
def several_keys(plan: Plan) -> bool:
    """Several keys in the metadata."""
    several = len(_pairs(plan)) > 1
    del _pairs(plan)[1:]
    return several


@feature(WRITES, "MET-03")
def empty_metadata(plan: Plan) -> bool:
    """An empty metadata map."""
    empty = plan["metadata"] is not None and not _pairs(plan)
    if empty:
        plan["metadata"] = {"items": [["a", "a"]]}
    return empty


@feature(WRITES, "MET-01")
def metadata(plan: Plan) -> bool:
    """Metadata."""
    given, plan["metadata"] = plan["metadata"] is not None, None
    return given


@feature(WRITES, "WRT-05")
def no_tensors(plan: Plan) -> bool:
    """No tensors."""
    none = not plan["tensors"] and plan["target"] != "input"
    if none:
        plan["tensors"] = [{"name": "a", "dtype": PLAIN, "shape": [1], "storage": ""}]
        _own_memory(plan, lambda _: True)
    return none


WRITES += TENSORS


def _keep(plan: Plan, count: int) -> bool:
    more = len(plan["tensors"]) > count
    plan["tensors"] = plan["tensors"][:count]
    forget_memory(plan)
    return more


@feature(WRITES, "ENT-11")
def many(plan: Plan) -> bool:
    """Many tensors."""
    return len(plan["tensors"]) >= MANY and _keep(plan, 2)


@feature(WRITES, "ENT-11")
def second(plan: Plan) -> bool:
    """A second tensor."""
    return _keep(plan, 1)
