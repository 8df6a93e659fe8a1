"""Slices: a file, one of its tensors, and an index.

A plan has these keys:

- ``tensors``: ``name``, ``dtype`` and ``shape`` of each tensor, in data order.
- ``backwards``: whether the header lists the tensors in reverse order.
- ``pad``: number of spaces after the header, which is already aligned to 8 bytes.
- ``fault``: fault of an additional last tensor, or None.
- ``ask``: name of the tensor to slice.
- ``index``: the requested part, in the format of the manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any, ClassVar

from safetensors_corpus.author.actions import SliceBuilder, index_items
from safetensors_corpus.author.file import filled, pattern, size_of
from safetensors_reference.rules.dtypes import DTYPE_BITS

from .question import PlanError, PlanFault, PlanKind, PlanQuestion, build_question, reject_ruling
from .slice_rules import ruling_on
from .values import (
    FAULTY_NAME,
    RESERVED,
    Dice,
    Plan,
    changed,
    elements_of_a_byte,
    texts,
    whole_bytes,
)


def _file(plan: Plan) -> SliceBuilder:
    tensors = plan["tensors"]
    names = [t["name"] for t in tensors]
    if len({*names, RESERVED, FAULTY_NAME}) != len(names) + 2:
        raise PlanError("duplicate or reserved tensor name")
    builder = SliceBuilder(padding=b"")
    for tensor in tensors:
        dtype, shape = tensor["dtype"], tensor["shape"]
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
    if fault == "hole":
        builder.gap(4)
    back = 4 if fault == "overlap" else 0
    if builder.position < back:
        raise PlanError("there are no earlier bytes to overlap")
    size = 3 if fault == "other-size" else 2
    builder.tensor(FAULTY_NAME, "I32", [size], pattern("other", 8 - back), begin=builder.position - back)
    builder.cut = 4 if fault == "cut-off" else 0
    builder.trailer = b"\0" * 4 if fault == "trailing" else b""


def _lower_rank(plan: Plan) -> Iterator[Plan]:
    for at, tensor in enumerate(plan["tensors"]):
        dims = min(len(tensor["shape"]), len(plan["index"])) if tensor["name"] == plan["ask"] else 0
        for dim in range(dims):
            yield changed(changed(plan, "tensors", at, changed(tensor, "shape", dim)), "index", dim)


def _renamed(plan: Plan) -> Iterator[Plan]:
    for at, tensor in enumerate(plan["tensors"]):
        for name in texts(tensor["name"]):
            renamed = changed(plan, "tensors", at, {**tensor, "name": name})
            yield renamed
            if tensor["name"] == plan["ask"]:
                yield {**renamed, "ask": name}


NAMES = (
    "", "../t", "a/b", "\u00e9", "e\u0301", "T", "te", "tensor.weight", "t ", "\u91cd\u307f", "a\x00b", "0",
)  # fmt: skip
EDGES = (2**31, 2**32, 2**53, 2**62, 2**63, 2**64, 2**65)
STEPS = (2, 3, 7, 2**31, 2**32 + 1, 2**62, 2**63, 2**64 + 1)

BROKEN = {
    "hole": ("OFF-07", "OFF_HOLE"),
    "overlap": ("OFF-06", "OFF_OVERLAP"),
    "cut-off": ("OFF-04", "OFF_OUT_OF_BOUNDS"),
    "other-size": ("OFF-05", "OFF_SIZE_MISMATCH"),
    "trailing": ("OFF-08", "OFF_TRAILING"),
}
"""Rule and code for each fault of the last tensor, which the plan does not slice."""

Tensor = dict[str, Any]
Twist = Callable[[Dice, Plan, Tensor], None]


def _clean(rng: Dice, tensor: Tensor) -> list[Any]:
    """Return an index within the bounds. For packed tensors, most of these indexes are aligned to bytes."""
    shape = tensor["shape"]
    unit = 1 if rng.random() < 0.3 else elements_of_a_byte(tensor["dtype"])
    parts: list[Any] = []
    for dim, size in enumerate(shape):
        inner = prod(shape[dim + 1 :])
        parts.append(_part(rng, size, 1 if inner % unit == 0 else unit))
    kept = rng.randint(0, len(parts)) if rng.random() < 0.5 else len(parts)
    while kept and 0 in shape[:kept] and rng.random() < 0.8:
        kept -= 1
    index = parts[:kept]
    if rng.random() < 0.25:
        if rng.random() < 0.5 and kept < len(parts):
            index = parts[len(parts) - kept :]
            index.insert(0, "...")
        elif kept > 1 and rng.random() < 0.5:
            at = rng.randrange(kept)
            index = [*parts[:at], "...", *parts[len(parts) - (kept - at) :]]
        else:
            index.append("...")
    return index


def _part(rng: Dice, size: int, unit: int) -> Any:
    if size and rng.random() < (0.35 if unit == 1 else 0.05):
        return rng.choice((rng.randrange(size), size - 1, -1, -size, -rng.randint(1, size)))
    start, stop = sorted(rng.randint(0, size) // unit * unit for _ in range(2))
    if start == size:
        start = 0
    if start == stop and rng.random() < 0.6:
        stop = min(start + unit, size)
    return _range(
        None if start == 0 and rng.random() < 0.5 else start,
        None if stop == size and rng.random() < 0.5 else stop,
        1 if rng.random() < 0.1 else None,
    )


def _range(start: Any = None, stop: Any = None, step: Any = None) -> dict[str, Any]:
    return {"start": start, "stop": stop, "step": step}


def _place(rng: Dice, out: Plan, tensor: Tensor) -> tuple[int, int]:
    """Choose an index item and return its position and the size of its dimension. Adds missing items."""
    shape, index = tensor["shape"], out["index"]
    if "..." in index:
        index.remove("...")
    if not shape:
        index[:] = [0]
        return 0, 1
    dim = rng.randrange(len(shape))
    while len(index) <= dim:
        index.append(_range())
    return dim, shape[dim]


def _range_at(rng: Dice, out: Plan, tensor: Tensor) -> tuple[int, int, dict[str, Any]]:
    at, size = _place(rng, out, tensor)
    return at, size, out["index"][at] if isinstance(out["index"][at], dict) else _range()


def _bound(rng: Dice, out: Plan, tensor: Tensor) -> None:
    at, size, item = _range_at(rng, out, tensor)
    edge = rng.choice(EDGES) + rng.choice((-1, 0, 1, 2, 3))
    near, back = rng.randint(1, 9), rng.randint(1, size + 1)
    values = (size, size + 1, size + near, 100, -1, -back, -size, -size - 1, -100)
    value = rng.choice((*values, edge, edge, -edge))
    out["index"][at] = {**item, rng.choice(("start", "stop")): value}
    if rng.random() < 0.3:
        out["index"][at]["start" if item["start"] is None else "stop"] = rng.choice(values)


def _reversed(rng: Dice, out: Plan, tensor: Tensor) -> None:
    at, size = _place(rng, out, tensor)
    start = rng.randint(min(1, size), size)
    stop = rng.choice((rng.randint(0, start), None if start == size else 0))
    out["index"][at] = _range(start, stop, rng.choice((None, None, 2, -1)))


def _step(rng: Dice, out: Plan, tensor: Tensor) -> None:
    at, size, item = _range_at(rng, out, tensor)
    step = rng.choice((*STEPS, 2, 2, 3, -1, -1, -2, -rng.choice(STEPS)))
    out["index"][at] = {**item, "step": step}
    if step < 0 and rng.random() < 0.5:
        out["index"][at] |= {"start": rng.choice((None, max(size - 1, 0))), "stop": rng.choice((None, 0, 1))}


def _zero_step(rng: Dice, out: Plan, tensor: Tensor) -> None:
    at, _, item = _range_at(rng, out, tensor)
    out["index"][at] = {**item, "step": 0}


def _outside(rng: Dice, out: Plan, tensor: Tensor) -> None:
    at, size = _place(rng, out, tensor)
    row = prod(tensor["shape"][at + 1 :]) * max(DTYPE_BITS[tensor["dtype"]] // 8, 1)
    edge = rng.choice(EDGES) + rng.choice((-1, 0, 0, 1, 2))
    far = (edge, -edge, 2**64 // max(row, 1) + rng.choice((0, 1, 2)))
    out["index"][at] = rng.choice(
        (size, size + rng.randint(0, 5), -size - 1, -size - rng.randint(1, 5), *far)
    )


def _extra(rng: Dice, out: Plan, tensor: Tensor) -> None:
    extra = rng.choice((0, 1, -1, _range(), _range(0, 0), _range(0, 1)))
    while len([i for i in out["index"] if i not in ("...", None)]) <= len(tensor["shape"]):
        out["index"].append(_range() if len(out["index"]) < len(tensor["shape"]) else extra)
    if rng.random() < 0.3 and "..." not in out["index"]:
        out["index"].insert(rng.randint(0, len(out["index"])), "...")


def _strange(rng: Dice, out: Plan, tensor: Tensor) -> None:
    at, _ = _place(rng, out, tensor)
    bad = rng.choice((1.0, 1.5, 0.0, "1", "a", "", ":"))
    if rng.random() < 0.3:
        out["index"][at] = _range(**{rng.choice(("start", "stop", "step")): bad})
    else:
        out["index"][at] = bad


def _dots(rng: Dice, out: Plan, _tensor: Tensor) -> None:
    out["index"] = [i for i in out["index"] if i != "..."]
    for _ in range(2):
        out["index"].insert(rng.randint(0, len(out["index"])), "...")


def _list(rng: Dice, out: Plan, tensor: Tensor) -> None:
    at, size = _place(rng, out, tensor)
    reach = size if rng.random() < 0.7 else size + 3
    places = [rng.randint(-reach, max(reach - 1, 0)) for _ in range(rng.choice((0, 1, 2, 2, 3)))]
    out["index"] = [i if isinstance(i, dict) else _range() for i in out["index"]]
    out["index"][at] = places


def _unknown(rng: Dice, out: Plan, _tensor: Tensor) -> None:
    name = rng.choice(out["tensors"])["name"]
    like = (name.upper(), name[:-1], name + ".weight", name + " ", " " + name, "__metadata__", "")
    out["ask"] = rng.choice((*like, *NAMES))


TWISTS: tuple[Twist, ...] = (
    _bound, _bound, _bound, _reversed, _reversed, _step, _step,
    lambda rng, out, _: out["index"].insert(rng.randint(0, len(out["index"])), None),
    _list,
    lambda rng, out, _: out.update(index=[rng.random() < 0.5, *([_range()] if rng.random() < 0.2 else [])]),
    _zero_step, _outside, _outside, _extra, _strange, _dots,
    lambda rng, out, _: out.update(fault=rng.choice(tuple(BROKEN))), _unknown,
)  # fmt: skip
"""Changes to a valid index. The first ten mostly lead to choices, and the rest to faults."""


class Slices(PlanKind):
    """Plans that slice one tensor of a file."""

    step = "slice"
    drastic = (
        lambda plan: [{**plan, "tensors": [t for t in plan["tensors"] if t["name"] == plan["ask"]]}],
        _lower_rank,
        _renamed,
    )
    plain: ClassVar[Plan] = dict.fromkeys(("fault", "start", "stop", "step")) | {"pad": 0, "backwards": False}
    kept = ("ask", "name", "fault")

    def draw(self, rng: Dice) -> Plan:
        dtype = rng.choice(rng.dtypes)
        rank = rng.choice((0, 1, 1, 2, 2, 2, 3, 3, 4, 5))
        sizes = (0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 6, 7) if rank < 4 else (1, 2, 3)
        tensor: Tensor = {"name": "t", "dtype": dtype, "shape": [rng.choice(sizes) for _ in range(rank)]}
        if rng.random() < 0.15:
            tensor["name"] = rng.choice(NAMES)
        whole_bytes(tensor["shape"], tensor["dtype"], lambda: rng.choice((-1, -1, 0)))
        around = []
        for name in ("before", "after", "later"):
            if rng.random() < 0.6:
                dtype = rng.choice(rng.dtypes)
                unit = elements_of_a_byte(dtype)
                around.append({"name": name, "dtype": dtype, "shape": [rng.randint(0, 9) // unit * unit]})
        at = rng.randint(0, len(around))
        out: Plan = {"tensors": [*around[:at], tensor, *around[at:]], "backwards": rng.random() < 0.2}
        pad = rng.randrange(8) if rng.random() < 0.25 else 0
        out |= {"pad": pad, "fault": None, "ask": tensor["name"], "index": _clean(rng, tensor)}
        for _ in range(rng.choice((0, 0, 0, 0, 1, 1, 1, 2))):
            rng.choice(TWISTS)(rng, out, tensor)
        return out

    def question(self, plan: Plan) -> PlanQuestion:
        builder = _file(plan)
        index = index_items(plan["index"])
        builder.ask(plan["ask"], *index)
        broken = []
        if plan["fault"] is not None:
            rule, code = BROKEN[plan["fault"]]
            broken.append(PlanFault((rule,), (code,)))
        tensor = next((t for t in plan["tensors"] if t["name"] == plan["ask"]), None)
        if tensor is None:
            broken.append(PlanFault(("API-02",), ("API_NO_SUCH_TENSOR",)))
            return build_question(self, plan, builder, reject_ruling(broken))
        dtype, data = tensor["dtype"], builder.tensor_named(plan["ask"]).data
        ruling, answers = ruling_on(dtype, tensor["shape"], index, data, broken)
        for option, (shape, part) in answers.items():
            if DTYPE_BITS[dtype] % 8 or option is not None or [] in plan["index"]:
                builder.expect(shape, part, option)
        return build_question(self, plan, builder, ruling)
