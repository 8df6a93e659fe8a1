"""For each feature of plans what a slicer, writer or loader is like that does not take it.

A test is given the plan and what it asks; it looks for the feature with means of its own. The rule stands
here a second time, as a person would look it up in the rule book.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from math import prod
from typing import Any

from safetensors_fuzz.asking.question import Plan, Question
from safetensors_reference import DTYPE_BITS, rule_book

Refuses = Callable[[Plan, Question], object]
Fakes = dict[str, tuple[str, Refuses]]


def _tensors(plan: Plan) -> list[dict[str, Any]]:
    if "shards" in plan:
        return [row for shard in plan["shards"] for row in shard["tensors"]]
    return [*plan["tensors"], *plan["before"]]


def _any(test: Callable[[dict[str, Any]], object]) -> Refuses:
    return lambda plan, _: any(test(row) for row in _tensors(plan))


def _text(test: Callable[[str], object]) -> Refuses:
    return _any(lambda row: test(row["name"]))


TENSORS: Fakes = {
    "an empty name": ("ENT-07", _text(lambda name: name == "")),
    "a long name": ("ENT-10", _text(lambda name: len(name) >= 61)),
    "a name with a control character, a quote, a backslash or a character beyond ASCII": (
        "ENT-08",
        _text(lambda name: json.dumps(name) != f'"{name}"' or "\x7f" in name),
    ),
    "a name that looks like a path, a number or code": (
        "ENT-09",
        _text(lambda name: "/" in name or name.startswith("__") or name in ("0", "dtype", "metadata")),
    ),
    "an empty tensor": ("SHP-04", _any(lambda row: prod(row["shape"]) == 0)),
    "a tensor without dimensions": ("SHP-03", _any(lambda row: row["shape"] == [])),
    "several dimensions": ("SHP-10", _any(lambda row: row["shape"][1:])),
    "a tensor of more than 64 elements": ("SHP-09", _any(lambda row: prod(row["shape"]) >= 65)),
}


def _of_dtype(dtype: str) -> Refuses:
    return _any(lambda row: row["dtype"] == dtype)


TENSORS |= {f"dtype {dtype}": ("DTY-05", _of_dtype(dtype)) for dtype in DTYPE_BITS if dtype != "F32"}


def _falls_under(choice: str) -> Refuses:
    return lambda _, question: choice in question.parts


def _packed(plan: Plan, _: Question) -> bool:
    return any(row["name"] == plan["ask"] and row["dtype"][:2] in ("F4", "F6") for row in plan["tensors"])


SLICES: Fakes = {
    "elements that share bytes": ("API-08", _packed),
    "an index": ("API-05", lambda plan, _: plan["index"]),
}
for _choice in rule_book().choices.values():
    if _choice.id.startswith("slice-"):
        SLICES[f"an index of the choice {_choice.id}"] = (_choice.rule, _falls_under(_choice.id))


def _repeated(plan: Plan) -> bool:
    return max(Counter(row["storage"] for row in plan["tensors"]).values(), default=0) > 1


def _metadata(plan: Plan) -> list[list[str]] | None:
    return None if plan["metadata"] is None else plan["metadata"]["items"]


def _odd_text(text: str) -> bool:
    return any(not (c.isascii() and (c.isalnum() or c in "._")) for c in text) or not text


WRITES: Fakes = {
    "elements with their highest byte first": ("WRT-08", _falls_under("big-endian")),
    "a view that is not contiguous": ("WRT-07", _falls_under("non-contiguous")),
    "several tensors in one memory": ("WRT-16", lambda plan, _: _repeated(plan)),
    "a view into a larger memory, or one with strides": (
        "WRT-07",
        lambda plan, _: any(row["offset"] or row["strides"] is not None for row in plan["tensors"]),
    ),
    "values that a conversion would change": (
        "DAT-04",
        lambda plan, _: any(
            plan["storages"][row["storage"]]["fill"] for row in plan["tensors"] if row["dtype"] != "BOOL"
        ),
    ),
    "a file that is loaded and saved again": ("WRT-13", lambda plan, _: plan["target"] == "input"),
    "a link in the place of the file": ("WRT-15", lambda plan, _: plan["target"] == "link"),
    "a file that stands there": ("WRT-14", lambda plan, _: plan["before"] and plan["target"] != "input"),
    "a folder that does not exist": ("WRT-19", _falls_under("missing-folder")),
    "a metadata text that is not letters, digits, dots and underscores": (
        "MET-04",
        lambda plan, _: any(_odd_text(text) for pair in _metadata(plan) or () for text in pair),
    ),
    "several keys in the metadata": ("MET-10", lambda plan, _: len(_metadata(plan) or ()) > 1),
    "an empty metadata map": ("MET-03", lambda plan, _: _metadata(plan) == []),
    "metadata": ("MET-01", lambda plan, _: _metadata(plan) is not None),
    "no tensors": ("WRT-05", lambda plan, _: not plan["tensors"] and plan["target"] != "input"),
    "many tensors": ("ENT-11", lambda plan, _: len(plan["tensors"]) > 4),
    "a second tensor": ("ENT-11", lambda plan, _: len(plan["tensors"]) > 1),
    **TENSORS,
}


def _homes(plan: Plan) -> dict[str, list[str]]:
    out: dict[str, list[str]] = {}
    for shard in plan["shards"]:
        for row in shard["tensors"]:
            out.setdefault(row["name"], []).append(shard["name"])
    return out


def _mapped(plan: Plan) -> set[str]:
    return {shard for _, shard in plan["map"]}


INDEXES: Fakes = {
    "another map in the metadata": ("IDX-02", lambda plan, _: plan["text"] == "map-in-metadata"),
    "metadata beyond the total size": ("IDX-02", lambda plan, _: plan["metadata"] != '{"total_size":$n}'),
    "a shard that is named with the folder in front": ("IDX-04", _falls_under("index-dot-slash")),
    "a shard in a folder below": ("IDX-04", _falls_under("index-subfolder")),
    "a shard that is not named by number": (
        "IDX-15",
        lambda plan, _: any("model-0" not in shard for shard in _mapped(plan)),
    ),
    "another index in the folder": ("IDX-16", _falls_under("index-several")),
    "a file in the folder that the index does not name": (
        "IDX-15",
        lambda plan, _: (
            plan["map"]
            and (
                plan["others"]
                or {shard["name"] for shard in plan["shards"]} - {s.split("./")[-1] for s in _mapped(plan)}
            )
        ),
    ),
    "a tensor that two shards hold": (
        "IDX-11",
        lambda plan, _: any(len(_homes(plan).get(tensor, ())) > 1 for tensor, _ in plan["map"]),
    ),
    "a tensor that the index does not name": (
        "IDX-10",
        lambda plan, _: plan["map"] and set(_homes(plan)) - {tensor for tensor, _ in plan["map"]},
    ),
    "an index that names no tensor": ("IDX-01", _falls_under("index-empty-map")),
    "metadata in a shard": ("MET-01", lambda plan, _: any(s["metadata"] is not None for s in plan["shards"])),
    "a tensor that is named like a shard": (
        "ENT-09",
        lambda plan, _: {tensor for tensor, _ in plan["map"]} & {shard["name"] for shard in plan["shards"]},
    ),
    "a second shard": ("IDX-01", lambda plan, _: len(_mapped(plan)) > 1),
    **TENSORS,
}


def _laid_out(name: str) -> Refuses:
    return lambda plan, _: plan["text"] == name


for _name in ("pretty", "spaced", "map-first", "escapes"):
    INDEXES[f"an index written in another way ({_name})"] = ("IDX-01", _laid_out(_name))
for _name in ("index-bom", "index-flat-map", "index-unknown-members"):
    INDEXES[f"an index of the choice {_name}"] = ("IDX-01", _laid_out(_name))
for _id in ("metadata", "metadata-type", "total-size", "total-size-type"):
    INDEXES[f"metadata of the choice index-{_id}"] = (
        "IDX-03" if "total" in _id else "IDX-02",
        _falls_under(f"index-{_id}"),
    )

FAKES = {"slice": SLICES, "write": WRITES, "index": INDEXES}
"""Step -> what a feature is called -> its rule, and whether one that does not take it refuses a plan."""
