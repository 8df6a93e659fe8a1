"""Writes: what is handed to a writer, and where the file goes.

A plan holds ``storages`` (name -> ``size`` in bytes, ``fill``: hexadecimal bytes that repeat, empty for a
pattern, ``guard``: whether foreign memory lies around), ``tensors`` (as in the manifest; ``offset`` counts
behind the guard, ``nbytes`` is None for what the shape needs), ``metadata`` (None, ``{"items": pairs}``, or
``{"value": v}`` for something that is no map), ``target``, ``before`` (``name``, ``dtype``, ``shape`` of the
tensors of the file that stands there), ``properties`` and ``file_size_limit``.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from safetensors_corpus import recipe
from safetensors_corpus.author.file import pattern
from safetensors_corpus.author.write import WriteBuilder
from safetensors_reference.rules.dtypes import DTYPE_BITS

from ..question import Asking, Plan, PlanError, PlanQuestion, asked
from ..shrink import changed, dtypes, each, fewer, numbers, rows, shapes, texts
from . import plans as write_plans
from .rules import MUST, RESERVED, SHOULD, aim_at, check_foreign, check_limit, check_place, keepers, sharing

CANARY = b"foreign memory! " * 4
"""Stands around what is given, so that a writer that reads past it gives itself away."""
LARGEST = 48 << 10
"""Bytes of all memory of a plan at most."""
TARGETS = ("new", "file", "link", "input", "missing-folder")


class Writes(Asking):
    """Saving tensors and metadata."""

    step = "write"

    def plan(self, rng: random.Random) -> Plan:
        """Return a random plan."""
        return write_plans.plan(rng)

    def question(self, plan: Plan) -> PlanQuestion:
        """Return what a plan asks. Raises PlanError."""
        _check(plan)
        own = {name: _memory(name, storage) for name, storage in plan["storages"].items()}
        for tensor in plan["tensors"]:
            if tensor["storage"] not in own:
                raise PlanError(f"no storage {tensor['storage']!r}")
            check_place(tensor, own[tensor["storage"]])
        guards = {name: CANARY if s["guard"] else b"" for name, s in plan["storages"].items()}
        memory = {name: guards[name] + data + guards[name] for name, data in own.items()}
        tensors = [{**t, "offset": t["offset"] + len(guards[t["storage"]])} for t in plan["tensors"]]
        aim = aim_at(plan, memory, tensors)
        builder = WriteBuilder(plan["target"], list(plan["properties"]), plan["file_size_limit"])
        for name, data in memory.items():
            builder.storage(name, data if len(data) < 1024 else recipe.from_bytes(data))
        for tensor in tensors:
            builder.give(**tensor)
        metadata = _metadata(plan["metadata"])
        builder.metadata(metadata)
        for row in plan["before"]:
            builder.before.tensor(row["name"], row["dtype"], row["shape"])
        if aim.choice == "shared-memory":
            _stored_once(builder, [t["name"] for t in tensors], metadata, sharing(memory, tensors))
        if plan["file_size_limit"] is not None:
            check_limit(plan["file_size_limit"], tensors)
        if "no-foreign-bytes" in plan["properties"]:
            check_foreign(builder.action(), memory, tensors)
        return asked(self, plan, builder, aim)

    def simpler(self, plan: Plan) -> Iterator[Plan]:
        """Yield simpler plans."""
        for tensors in fewer(plan["tensors"]):
            yield _used(changed(plan, tensors=tensors))
        if plan["metadata"] is not None:
            yield changed(plan, metadata=None)
        yield changed(plan, target="new", before=[], properties=[])
        for properties in fewer(plan["properties"]):
            yield changed(plan, properties=properties)
        for before in fewer(plan["before"]):
            yield changed(plan, before=before)
        if plan["target"] in ("link", "file"):
            yield changed(plan, target="file")
            yield changed(plan, target="new", before=[])
        if plan["file_size_limit"] is not None:
            yield changed(plan, file_size_limit=None)
        yield from _plainer_memory(plan)
        yield from _plainer_tensors(plan)
        for before in chain(rows(plan["before"], "shape", shapes), rows(plan["before"], "dtype", dtypes)):
            yield changed(plan, before=before)
        if plan["metadata"] is not None and "items" in plan["metadata"]:
            items = plan["metadata"]["items"]
            for other in chain(fewer(items), each(items, _pairs)):
                yield changed(plan, metadata={"items": other})


def _check(plan: Plan) -> None:
    """Look at the plan as a whole. Raises PlanError."""
    if plan["target"] not in TARGETS:
        raise PlanError(f"unknown target {plan['target']!r}")
    stands = plan["target"] in ("file", "link", "input")
    if bool(plan["before"]) and not stands:
        raise PlanError("a file before at a new target")
    if plan["target"] == "input" and (plan["tensors"] or plan["metadata"] is not None or plan["properties"]):
        raise PlanError("a file that is saved again is all that is given")
    if unknown := set(plan["properties"]) - {*SHOULD, *MUST}:
        raise PlanError(f"unknown properties {sorted(unknown)}")
    if "idempotent" in plan["properties"] and plan["metadata"] is not None:
        raise PlanError("saving again drops metadata")
    if "keeps-link" in plan["properties"] and plan["target"] != "link":
        raise PlanError("no link to keep")
    names = [row["name"] for row in plan["before"]]
    if len({*names, RESERVED}) != len(names) + 1:
        raise PlanError("a name of the file before stands twice, or is reserved")
    if sum(storage["size"] for storage in plan["storages"].values()) > LARGEST:
        raise PlanError("too much memory")
    if "no-foreign-bytes" in plan["properties"]:
        guarded = [s for s in plan["storages"].values() if s["guard"]]
        if not guarded or any(s["fill"] for s in plan["storages"].values()):
            raise PlanError("what is foreign cannot be told from what is given")


def _memory(name: str, storage: Mapping[str, Any]) -> bytes:
    size, fill = storage["size"], bytes.fromhex(storage["fill"])
    return (fill * (size // len(fill) + 1))[:size] if fill else pattern(name, size)


def _metadata(metadata: Mapping[str, Any] | None) -> Any:
    """Return the metadata to hand over. Raises PlanError."""
    if metadata is None:
        return None
    if "value" in metadata:
        if not metadata["value"] or isinstance(metadata["value"], dict):
            raise PlanError("a map, or something that may stand for none")
        return metadata["value"]
    try:
        out = {key: value for key, value in metadata["items"]}  # noqa: C416
    except TypeError as err:
        raise PlanError(f"no metadata key: {err}") from err
    if len(out) != len(metadata["items"]):
        raise PlanError("a metadata key stands twice")
    return out


def _stored_once(builder: WriteBuilder, names: list[str], metadata: Any, groups: list[Any]) -> None:
    """Say what the file holds when of the tensors that share memory one alone is stored."""
    if not all(map(keepers, groups)):
        return
    kept = {name: keepers(group)[0] for group in groups for name, _ in group}
    left = {name: keeper for name, keeper in kept.items() if name != keeper}
    if set(left) & set(metadata or {}):
        raise PlanError("a note has the name of a metadata key")
    stored = [name for name in names if name not in left]
    builder.holds(*stored, metadata=metadata, option="once")
    builder.holds(*stored, metadata={**(metadata or {}), **left}, option="noted")


def _used(plan: Plan) -> Plan:
    """Leave out the storages that no tensor is in."""
    used = {tensor["storage"] for tensor in plan["tensors"]}
    return {**plan, "storages": {name: s for name, s in plan["storages"].items() if name in used}}


def _plainer_memory(plan: Plan) -> Iterator[Plan]:
    for name, storage in plan["storages"].items():
        for key, value in (("guard", False), ("fill", "")):
            if storage[key] != value:
                yield changed(plan, storages={**plan["storages"], name: {**storage, key: value}})
        for size in numbers(storage["size"]):
            yield changed(plan, storages={**plan["storages"], name: {**storage, "size": size}})


def _plainer_tensors(plan: Plan) -> Iterator[Plan]:
    tensors = plan["tensors"]
    for at, tensor in enumerate(tensors):
        for other in _plainer(tensor):
            yield changed(plan, tensors=[*tensors[:at], other, *tensors[at + 1 :]])


def _plainer(tensor: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield simpler tensors."""
    if tensor["strides"] is not None:
        yield {**tensor, "strides": None}
        for dim in range(len(tensor["shape"])):
            pair = {key: [*tensor[key][:dim], *tensor[key][dim + 1 :]] for key in ("shape", "strides")}
            yield {**tensor, **pair}
        yield from ({**tensor, "strides": strides} for strides in each(tensor["strides"], numbers))
        yield from ({**tensor, "shape": shape} for shape in each(tensor["shape"], numbers))
    else:
        yield from ({**tensor, "shape": shape} for shape in shapes(tensor["shape"]))
    if tensor["byteorder"] == "big":
        yield {**tensor, "byteorder": "little"}
    if tensor["nbytes"] is not None:
        yield {**tensor, "nbytes": None}
        yield from ({**tensor, "nbytes": nbytes} for nbytes in numbers(tensor["nbytes"]))
    yield from ({**tensor, "offset": offset} for offset in numbers(tensor["offset"]))
    if tensor["dtype"] in DTYPE_BITS:
        yield from ({**tensor, "dtype": dtype} for dtype in dtypes(tensor["dtype"]))
    if isinstance(tensor["name"], str):
        yield from ({**tensor, "name": name} for name in texts(tensor["name"]))


def _pairs(pair: list[Any]) -> Iterator[list[Any]]:
    yield from each(pair, lambda text: texts(text) if isinstance(text, str) else iter(()))
