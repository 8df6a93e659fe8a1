"""Slices: a file, one of its tensors, and an index.

A plan holds ``tensors`` (``name``, ``dtype``, ``shape``; in the order of their bytes), ``backwards`` (the
header lists them the other way round), ``pad`` (spaces behind a header of whole eight bytes), ``fault`` (what
is wrong with a last tensor, None for nothing), ``ask`` (the name asked for) and ``index`` (as the manifest
writes it).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from math import prod
from typing import Any

from safetensors_corpus.author.file import filled, pattern, size_of
from safetensors_corpus.author.slice import SliceBuilder, index_items
from safetensors_reference.rules.dtypes import DTYPE_BITS

from ..question import Asking, Fault, Plan, PlanError, PlanQuestion, asked, rejecting
from ..shrink import changed, dtypes, each, fewer, numbers, rows, shapes, texts
from . import plans as slice_plans
from .plans import BROKEN
from .rules import aim_at

LAST = "\u00a7"
"""Name of that tensor."""
RESERVED = "__metadata__"
LARGEST = 4096
"""Elements of one tensor at most."""


class Slices(Asking):
    """Slices of one tensor of a file."""

    step = "slice"

    def plan(self, rng: random.Random) -> Plan:
        """Return a random plan."""
        return slice_plans.plan(rng)

    def question(self, plan: Plan) -> PlanQuestion:
        """Return what a plan asks. Raises PlanError."""
        builder = _file(plan)
        index = index_items(plan["index"])
        builder.ask(plan["ask"], *index)
        broken = []
        if plan["fault"] is not None:
            rule, code = BROKEN[plan["fault"]]
            broken.append(Fault((rule,), (code,)))
        tensor = next((t for t in plan["tensors"] if t["name"] == plan["ask"]), None)
        if tensor is None:
            broken.append(Fault(("API-02",), ("API_NO_SUCH_TENSOR",)))
            return asked(self, plan, builder, rejecting(broken))
        dtype, data = tensor["dtype"], builder.told(plan["ask"]).data
        aim, answers = aim_at(dtype, tensor["shape"], index, data, broken)
        for option, (shape, part) in answers.items():
            if DTYPE_BITS[dtype] % 8 or option is not None or [] in plan["index"]:
                builder.gives(shape, part, option)
        return asked(self, plan, builder, aim)

    def simpler(self, plan: Plan) -> Iterator[Plan]:
        """Yield simpler plans."""
        if plan["fault"] is not None:
            yield changed(plan, fault=None)
        yield changed(plan, tensors=[t for t in plan["tensors"] if t["name"] == plan["ask"]])
        for tensors in fewer(plan["tensors"]):
            yield changed(plan, tensors=tensors)
        for index in fewer(plan["index"]):
            yield changed(plan, index=index)
        for tensors in rows(plan["tensors"], "shape", shapes):
            yield changed(plan, tensors=tensors)
        yield from _lower_rank(plan)
        for index in each(plan["index"], _items):
            yield changed(plan, index=index)
        for tensors in rows(plan["tensors"], "dtype", dtypes):
            yield changed(plan, tensors=tensors)
        if plan["pad"] or plan["backwards"]:
            yield changed(plan, pad=0, backwards=False)
            yield changed(plan, pad=0)
            yield changed(plan, backwards=False)
        yield from _renamed(plan)


def _file(plan: Plan) -> SliceBuilder:
    """Return the builder with the file. Raises PlanError."""
    tensors = plan["tensors"]
    names = [t["name"] for t in tensors]
    if len({*names, RESERVED, LAST}) != len(names) + 2:
        raise PlanError("a name stands twice, or is reserved")
    builder = SliceBuilder(padding=b"")
    for tensor in tensors:
        dtype, shape = tensor["dtype"], tensor["shape"]
        if min(shape, default=0) < 0 or prod(shape) > LARGEST:
            raise PlanError(f"{shape} is no shape for a small file")
        try:
            size = size_of(dtype, shape)
        except (ValueError, KeyError) as err:
            raise PlanError(str(err)) from err
        data = filled(tensor["name"], dtype, size) if dtype == "BOOL" else None
        builder.tensor(tensor["name"], dtype, shape, data, at=0 if plan["backwards"] else None)
    if plan["fault"] is not None:
        _break(builder, plan["fault"])
    length = int.from_bytes(builder.render()[:8], "little")
    builder.padding = b" " * (-length % 8 + plan["pad"])
    return builder


def _break(builder: SliceBuilder, fault: str) -> None:
    if fault not in BROKEN:
        raise PlanError(f"unknown fault {fault!r}")
    if fault == "hole":
        builder.gap(4)
    back = 4 if fault == "overlap" else 0
    if builder.position < back:
        raise PlanError("nothing to overlap with")
    size = 3 if fault == "other-size" else 2
    builder.tensor(LAST, "I32", [size], pattern("other", 8 - back), begin=builder.position - back)
    builder.cut = 4 if fault == "cut-off" else 0
    builder.trailer = b"\0" * 4 if fault == "trailing" else b""


def _lower_rank(plan: Plan) -> Iterator[Plan]:
    """Yield plans with a dimension left out together with what the index says about it."""
    for at, tensor in enumerate(plan["tensors"]):
        if tensor["name"] != plan["ask"]:
            continue
        for dim in range(min(len(tensor["shape"]), len(plan["index"]))):
            shape = [*tensor["shape"][:dim], *tensor["shape"][dim + 1 :]]
            tensors = [*plan["tensors"][:at], {**tensor, "shape": shape}, *plan["tensors"][at + 1 :]]
            index = [*plan["index"][:dim], *plan["index"][dim + 1 :]]
            yield changed(plan, tensors=tensors, index=index)


def _items(item: Any) -> Iterator[Any]:
    """Yield simpler index items."""
    if isinstance(item, bool) or item is None or item == "...":
        return
    if isinstance(item, int):
        yield from numbers(item)
    elif isinstance(item, dict):
        for key in ("step", "start", "stop"):
            if item[key] is not None:
                yield {**item, key: None}
        for key in ("step", "start", "stop"):
            if isinstance(item[key], int):
                yield from ({**item, key: value} for value in numbers(item[key]))
    elif isinstance(item, list):
        yield from fewer(item)
        yield from each(item, numbers)
    elif isinstance(item, str):
        yield from texts(item)


def _renamed(plan: Plan) -> Iterator[Plan]:
    """Yield plans with shorter names, of the tensor asked for in both places."""
    for at, tensor in enumerate(plan["tensors"]):
        for name in texts(tensor["name"]):
            tensors = [*plan["tensors"][:at], {**tensor, "name": name}, *plan["tensors"][at + 1 :]]
            yield changed(plan, tensors=tensors)
            if tensor["name"] == plan["ask"]:
                yield changed(plan, tensors=tensors, ask=name)
