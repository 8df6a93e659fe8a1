"""Indexes: a folder with shards, and an index that maps tensors to them.

A plan holds ``shards`` (``name`` relative to the checkpoint's folder, ``tensors`` with ``name``, ``dtype``
and ``shape``, ``metadata``, and ``fault``, None for nothing wrong), ``map`` (pairs of tensor and shard, as
they stand in the text), ``metadata`` (JSON text of the index's metadata, ``$n`` for the bytes of all tensors;
None for none), ``text`` (how the text is laid out, or what is wrong with it) and ``others`` (pairs of name
and kind: further files of the folder).
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

from safetensors_corpus.author.file import filled
from safetensors_corpus.author.index import INDEX_NAME, IndexBuilder, ShardBuilder
from safetensors_corpus.author.shard_faults import break_shard
from safetensors_corpus.manifest import ROOT_MARK
from safetensors_reference.rules.dtypes import DTYPE_BITS

from ..question import Asking, Fault, Plan, PlanError, PlanQuestion, asked
from ..shrink import changed, dtypes, fewer, rows, shapes, texts
from . import plans as index_plans
from .rules import SHARD_FAULTS, look, metadata_text, resolved
from .text import CHOICES, FAULTY, LAYOUTS, Parts

LARGEST = 4096
"""Elements of one tensor at most."""
LAST = "\u00a7"
"""Name of the tensor that is wrong in a broken shard."""
PAST_ANY_END = 60_000
"""Header length in bytes that no shard has."""
RESERVED = "__metadata__"
USUAL = '{"total_size":$n}'
PICKLE = pickle.dumps({"b": [1.0, 2.0]}, protocol=2)
OTHERS = {
    "junk": b"no safetensors file",
    "object": b"{}",
    "pickle": PICKLE,
    "index": b'{"metadata":{},"weight_map":{"a":"other.safetensors","b":"other.safetensors"}}',
}
"""Kind of another file -> what it holds."""


class Indexes(Asking):
    """Loading a checkpoint of several shards."""

    step = "index"

    def plan(self, rng: random.Random) -> Plan:
        """Return a random plan."""
        return index_plans.plan(rng)

    def question(self, plan: Plan) -> PlanQuestion:
        """Return what a plan asks. Raises PlanError."""
        _check(plan)
        shards = {shard["name"]: shard for shard in plan["shards"]}
        total = _total(plan, shards)
        loaded = look(plan, shards, total)
        builder = IndexBuilder()
        for name, shard in shards.items():
            _add_shard(builder, name, shard)
        for name, kind in plan["others"]:
            builder.file(name, OTHERS[kind])
        text = _text(plan, total)
        mark = ROOT_MARK.decode() in str(plan["map"])
        builder.index(dict(loaded.found), raw=text, template=mark)
        builder.finds(*loaded.found)
        builder.finds(*loaded.found, *loaded.surplus, option="load")
        return asked(self, plan, builder, loaded.aim)

    def simpler(self, plan: Plan) -> Iterator[Plan]:
        """Yield simpler plans."""
        for shards in fewer(plan["shards"]):
            kept = {shard["name"] for shard in shards}
            gone = {shard["name"] for shard in plan["shards"]} - kept
            yield changed(plan, shards=shards, map=[pair for pair in plan["map"] if pair[1] not in gone])
            yield changed(plan, shards=shards)
        for pairs in fewer(plan["map"]):
            yield changed(plan, map=pairs)
        for others in fewer(plan["others"]):
            yield changed(plan, others=others)
        if plan["text"] != "plain":
            yield changed(plan, text="plain")
        if plan["metadata"] != USUAL:
            yield changed(plan, metadata=USUAL)
        for shards in rows(plan["shards"], "tensors", _tensors):
            yield changed(plan, shards=shards)
        for at, shard in enumerate(plan["shards"]):
            for key in ("metadata", "fault"):
                if shard[key] is not None:
                    yield changed(plan, shards=_with(plan["shards"], at, **{key: None}))
        yield from _without_tensor(plan)
        yield from _renamed(plan)


def _check(plan: Plan) -> None:
    """Look at the plan as a whole. Raises PlanError."""
    names = [shard["name"] for shard in plan["shards"]] + [name for name, _ in plan["others"]]
    if len({*names, INDEX_NAME}) != len(names) + 1:
        raise PlanError("a file stands twice")
    if plan["text"] not in {*LAYOUTS, *CHOICES, *FAULTY}:
        raise PlanError(f"unknown text {plan['text']!r}")
    for shard in plan["shards"]:
        if not _is_path(shard["name"]):
            raise PlanError(f"no file can be called {shard['name']!r}")
        tensors = [tensor["name"] for tensor in shard["tensors"]]
        if len({*tensors, RESERVED, LAST}) != len(tensors) + 2:
            raise PlanError("a tensor stands twice in its shard, or is reserved")
        if shard["fault"] is not None and shard["fault"] not in SHARD_FAULTS:
            raise PlanError(f"unknown fault {shard['fault']!r}")
    for name, kind in plan["others"]:
        if not _is_path(name) or kind not in OTHERS:
            raise PlanError(f"no file {name!r} of kind {kind!r}")
    if any(a != b and b.startswith(a + "/") for a in names for b in names):
        raise PlanError("a file where a folder is")


def _is_path(name: str) -> bool:
    """Tell whether a file can be made there: below the folder, or in one beside it."""
    parts = name.removeprefix("../").split("/")
    if name.startswith("../") and parts[0] == "model":
        return False
    return len(name) < 200 and "\0" not in name and all(part not in ("", ".", "..") for part in parts)


def _total(plan: Plan, shards: Mapping[str, Mapping[str, Any]]) -> int:
    """Return the bytes of all tensors mapped that are in their shards. Raises PlanError."""
    sizes = {}
    for name, shard in shards.items():
        for tensor in shard["tensors"]:
            bits = prod(tensor["shape"]) * DTYPE_BITS[tensor["dtype"]]
            if bits % 8 or min(tensor["shape"], default=0) < 0 or prod(tensor["shape"]) > LARGEST:
                raise PlanError(f"{tensor['shape']} is no shape for a small file")
            sizes[name, tensor["name"]] = bits // 8
    where = {(tensor, str(name)): resolved(name, shards) for tensor, name in plan["map"]}
    return sum(sizes.get((w[0], t), 0) for (t, _), w in where.items() if not isinstance(w, Fault))


def _text(plan: Plan, total: int) -> str | bytes:
    parts = Parts([(tensor, shard) for tensor, shard in plan["map"]], metadata_text(plan, total), total)
    if plan["text"] in FAULTY:
        return FAULTY[plan["text"]][1](parts)
    return {**LAYOUTS, **CHOICES}[plan["text"]](parts)


def _add_shard(builder: IndexBuilder, name: str, shard: Mapping[str, Any]) -> None:
    if shard["fault"] in ("empty-file", "pickle"):
        builder.file(name, PICKLE if shard["fault"] == "pickle" else b"")
        return
    made = builder.shard(name)
    for tensor in shard["tensors"]:
        dtype, shape = tensor["dtype"], tensor["shape"]
        size = prod(shape) * DTYPE_BITS[dtype] // 8
        data = filled(f"{name}: {tensor['name']}", dtype, size) if dtype == "BOOL" else None
        made.tensor(tensor["name"], dtype, shape, data)
    if shard["metadata"] is not None:
        made.metadata(shard["metadata"])
    if shard["fault"] is not None:
        _break(made, shard["fault"], [tensor["name"] for tensor in shard["tensors"]])


def _break(shard: ShardBuilder, fault: str, names: list[str]) -> None:
    """Give a shard another tensor and a fault. Raises PlanError where there is nothing to break."""
    if (fault == "name-twice" and not names) or (fault == "overlap" and shard.position < 4):
        raise PlanError("nothing to break")
    break_shard(shard, fault, first=names[0] if names else LAST, last=LAST, length=PAST_ANY_END)


def _with(shards: list[Plan], at: int, **values: Any) -> list[Plan]:
    return [*shards[:at], {**shards[at], **values}, *shards[at + 1 :]]


def _tensors(tensors: list[Plan]) -> Iterator[list[Plan]]:
    yield from fewer(tensors)
    yield from rows(tensors, "shape", shapes)
    yield from rows(tensors, "dtype", dtypes)


def _without_tensor(plan: Plan) -> Iterator[Plan]:
    """Yield plans with a tensor left out everywhere."""
    for name in sorted({tensor["name"] for shard in plan["shards"] for tensor in shard["tensors"]}):
        shards = [
            {**shard, "tensors": [t for t in shard["tensors"] if t["name"] != name]}
            for shard in plan["shards"]
        ]
        yield changed(plan, shards=shards, map=[pair for pair in plan["map"] if pair[0] != name])


def _renamed(plan: Plan) -> Iterator[Plan]:
    """Yield plans with shorter names of tensors and shards, the same everywhere."""
    tensors = {tensor["name"] for shard in plan["shards"] for tensor in shard["tensors"]}
    for name in sorted(tensors | {tensor for tensor, _ in plan["map"]}):
        for other in texts(name):
            shards = [
                {
                    **shard,
                    "tensors": [{**t, "name": other} if t["name"] == name else t for t in shard["tensors"]],
                }
                for shard in plan["shards"]
            ]
            pairs = [[other if t == name else t, shard] for t, shard in plan["map"]]
            yield changed(plan, shards=shards, map=pairs)
    for at, shard in enumerate(plan["shards"]):
        for other in ("a.safetensors", "b.safetensors"):
            if (len(other), other) >= (len(shard["name"]), shard["name"]):
                break
            pairs = [[t, other if name == shard["name"] else name] for t, name in plan["map"]]
            yield changed(plan, shards=_with(plan["shards"], at, name=other), map=pairs)
