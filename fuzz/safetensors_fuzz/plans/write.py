"""Writes: the arguments of a writer, and the target file.

A plan has these keys:

- ``storages``: maps names to ``size`` in bytes, ``fill`` with repeated hexadecimal bytes or ``""`` for a
  pattern, and ``guard``, which adds foreign memory around the storage.
- ``tensors``: in the format of the manifest. ``offset`` starts after the guard, and ``nbytes`` is None if the
  size follows from the shape.
- ``metadata``: None, ``{"items": pairs}``, or ``{"value": v}`` for a value that is not a map.
- ``target``: kind of the target.
- ``before``: ``name``, ``dtype`` and ``shape`` of the tensors in an existing file.
- ``properties``: required and recommended properties to check.
- ``file_size_limit``: limit in bytes, or None.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any, ClassVar

from safetensors_corpus import recipe
from safetensors_corpus.author.write import WriteBuilder
from safetensors_reference.rules.dtypes import DTYPE_BITS

from . import write_rules
from .question import PlanKind, PlanQuestion, build_question
from .values import Dice, Plan, Twist, changed, fewer, setting, whole_bytes


def _fewer_tensors(plan: Plan) -> Iterator[Plan]:
    for tensors in fewer(plan["tensors"]):
        used = {tensor["storage"] for tensor in tensors}
        storages = {name: s for name, s in plan["storages"].items() if name in used}
        yield {**plan, "tensors": tensors, "storages": storages}


def _nearer_target(plan: Plan) -> Iterator[Plan]:
    yield {**plan, "target": "new", "before": [], "properties": []}
    if plan["target"] in ("link", "file"):
        yield {**plan, "target": "file"}
        yield {**plan, "target": "new", "before": []}


def _fewer_dimensions(plan: Plan) -> Iterator[Plan]:
    for at, tensor in enumerate(plan["tensors"]):
        for dim in range(len(tensor["shape"]) if tensor["strides"] is not None else 0):
            yield changed(plan, "tensors", at, changed(changed(tensor, "shape", dim), "strides", dim))


NAMES = (
    "", " ", "a b", "\u00e9", "e\u0301", "\u00c9", "\u91cd\u307f", "\U0001f9ca", "a\0b", "a\0",
    "\x01\t\n\r\x1f", "a\x7fb", "a\u2028b", "a\uffff", "\ufdd0", "a\u202eb", 'a"b', "a\\", "\\u0041",
    "a/b", "../../a", '"},"b":{"', "0", "null", "dtype", "shape", "data_offsets", "__proto__",
    "__metadata___", "__METADATA__", "__metadata__ ", "n" * 300, "n" * 5000, "\ufb01",
)  # fmt: skip
LONE = ("a\ud800", "\udc00a", "\udc00\ud800", "\udfff", "\ud800b")
NO_TEXTS = (7, None, True, 1.5, 0, False)
NO_MAPS = (["key", "value"], "key", 7, True, [["key", "value"]], 1.5)
SPECIAL = {
    "F16": "017d55fd00800100", "BF16": "817fa5ff00800100", "F32": "0100807fa5a5a5ff0000008001000000",
    "F64": "010000000000f07fa5a5a5a5a5a5f5ff00000000000000800100000000000000",
    "C64": "0100807f0000008001000000a5a5a5ff", "I64": "0000000000000080ffffffffffffff7f0100000000002000",
    "U64": "ffffffffffffffff0100000000002000", "F8_E8M0": "ff00", "F8_E4M3FNUZ": "8000", "F8_E4M3": "ff7f80",
    "F8_E5M2": "fd7d80", "F8_E5M2FNUZ": "80", "BOOL": "000101",
}  # fmt: skip
"""Bytes of each dtype that a conversion would change: NaNs with a payload, negative zero and extreme values.
"""
WRAPS: tuple[tuple[str, list[int], int], ...] = (
    ("U8", [2**32, 2**32], 0), ("U8", [2**62 + 1, 4], 4), ("F64", [2**61], 0), ("F32", [2**62 + 1], 4),
    ("U8", [2**61], 0), ("U8", [2**61 + 1], 1), ("F4", [2**62], 0), ("U8", [2**16, 2**16], 0),
    ("F32", [2**30 + 1], 4), ("F16", [2**63 + 2], 4), ("U8", [2**64 + 3], 3), ("F6_E2M3", [2**63], 0),
)  # fmt: skip
"""Shapes whose size overflows a machine word, as dtype, shape, and truncated size in bytes."""
DISK = 4096
"""File size limit in bytes that simulates a full disk."""


def _add(out: Plan, name: Any, dtype: str, shape: list[int], storage: str, **more: Any) -> None:
    tensor = {"name": name, "dtype": dtype, "shape": shape, "storage": storage, "offset": 0, "strides": None}
    out["tensors"].append({**tensor, "byteorder": "little", "nbytes": None, **more})


def _storage(
    out: Plan, dtype: str, size: int, *, guard: bool, fill: str | None = None, kind: str = "view"
) -> str:
    name = f"{kind} {len(out['storages'])}"
    fill = (SPECIAL["BOOL"] if dtype == "BOOL" else "") if fill is None else fill
    out["storages"][name] = {"size": size, "fill": fill, "guard": guard}
    return name


def _add_own(out: Plan, name: Any, dtype: str, shape: list[int], size: int, **more: Any) -> None:
    fill = more.pop("fill", None)
    _add(out, name, dtype, shape, _storage(out, dtype, size, guard=False, fill=fill, kind="memory"), **more)


def _guarded(rng: Dice, out: Plan) -> bool:
    """Decide whether to put foreign memory around a storage. Repeated bytes would hide a saved part of it."""
    guard = rng.random() < 0.7 and not any(s["fill"] for s in out["storages"].values())
    if guard and "no-foreign-bytes" not in out["properties"]:
        out["properties"].append("no-foreign-bytes")
    return guard


def _row_major(shape: list[int], width: int) -> list[int]:
    return [width * prod(shape[dim + 1 :]) for dim in range(len(shape))]


def contiguous(rng: Dice, out: Plan) -> None:
    dtype = rng.choice(rng.whole)
    width = DTYPE_BITS[dtype] // 8
    shape = [rng.choice((0, 1, 1, 2, 3)) for _ in range(rng.randint(0, 4))]
    size = prod(shape) * width
    offset = rng.choice((0, width, 2 * width, 3))
    strides = None
    if rng.random() < 0.6:
        # The stride of a dimension of size 1 has no effect. In an empty tensor, no stride has an effect.
        odd = (999, -8, 0, 4096)
        strides = [
            rng.choice((stride, *odd)) if n == 1 or 0 in shape else stride
            for n, stride in zip(shape, _row_major(shape, width), strict=True)
        ]
    storage = _storage(out, dtype, offset + size + rng.choice((0, width)), guard=_guarded(rng, out))
    _add(out, "view", dtype, shape, storage, offset=offset, strides=strides)


def strided(rng: Dice, out: Plan) -> None:
    """Add a non-contiguous view by applying random steps to a contiguous array."""
    dtype = rng.choice((*rng.whole, "BOOL"))
    width = DTYPE_BITS[dtype] // 8
    shape = [rng.randint(2, 5) for _ in range(rng.choice((1, 2, 2, 3, 3)))]
    size = prod(shape) * width
    strides, offset = _row_major(shape, width), 0
    for _ in range(rng.choice((1, 1, 2, 3))):
        offset += _stride_step(rng, shape, strides)
    if rng.random() < 0.1:
        shape, strides, offset, size = [2], [width + rng.randint(1, 3)], 0, 3 * width + 3
    storage = _storage(out, dtype, size, guard=_guarded(rng, out))
    order = "big" if width > 1 and rng.random() < 0.1 else "little"
    _add(out, "view", dtype, shape, storage, offset=offset, strides=strides, byteorder=order)
    rng.shuffle(out["tensors"])


def _stride_step(rng: Dice, shape: list[int], strides: list[int]) -> int:
    """Change a view in place as an array library would, and return the change of its offset."""
    dim = rng.randrange(len(shape))
    kind = rng.choice(("axes", "axes", "every", "back", "crop", "repeat", "windows"))
    if kind == "axes":
        order = rng.sample(range(len(shape)), len(shape))
        shape[:], strides[:] = [shape[d] for d in order], [strides[d] for d in order]
    elif kind == "every":
        step = rng.randint(2, 3)
        shape[dim] = -(-shape[dim] // step)
        strides[dim] *= step
    elif kind == "back":
        moved = (shape[dim] - 1) * strides[dim]
        strides[dim] = -strides[dim]
        return moved
    elif kind == "crop" and shape[dim] > 1:
        start = rng.randint(0, 1)
        shape[dim] -= 1
        return start * strides[dim]
    elif kind == "repeat":
        strides[dim] = 0
    elif kind == "windows" and len(shape) == 1 and shape[0] > 2 and strides[0] > 0:
        shape[:], strides[:] = [shape[0] - 1, 2], [strides[0], strides[0]]
    return 0


def big_endian(rng: Dice, out: Plan) -> None:
    dtype = rng.choice([dtype for dtype in rng.whole if DTYPE_BITS[dtype] > 8])
    shape = [rng.randint(1, 3) for _ in range(rng.randint(0, 2))]
    storage = _storage(out, dtype, prod(shape) * DTYPE_BITS[dtype] // 8, guard=False)
    _add(out, "big", dtype, shape, storage, byteorder="big")
    rng.shuffle(out["tensors"])


def parts(rng: Dice, out: Plan) -> None:
    dtype = rng.choice(rng.whole)
    width = DTYPE_BITS[dtype] // 8
    lengths = [rng.randint(0, 3) for _ in range(rng.randint(2, 3))]
    gap = rng.choice((0, 0, width))
    storage = _storage(out, dtype, sum(lengths) * width + len(lengths) * gap, guard=_guarded(rng, out))
    offset = 0
    for name, length in zip(rng.sample("xyz", len(lengths)), lengths, strict=True):
        _add(out, name, dtype, [length], storage, offset=offset)
        offset += length * width + gap


def shared(rng: Dice, out: Plan) -> None:
    dtype = rng.choice(rng.whole)
    width, length = DTYPE_BITS[dtype] // 8, rng.choice((4, 6))
    storage = _storage(out, dtype, length * width, guard=_guarded(rng, out))
    forms: list[tuple[list[int], int]] = [([length], 0), ([2, length // 2], 0), ([length // 2], 1)]
    forms += [([length // 2], 0), ([length - 2], 2), ([length - 2], 0), ([length], 0)]
    for name in rng.sample("xyz", rng.choice((2, 2, 3))):
        shape, first = rng.choice(forms)
        _add(out, name, dtype, list(shape), storage, offset=first * width)


def shape_for(rng: Dice, dtype: str, rank: int | None = None) -> list[int]:
    rank = rng.choice((0, 1, 1, 1, 2, 2, 3, 4, 7, 8)) if rank is None else rank
    shape = [rng.choice((0, 1, 2, 2, 3, 3, 4, 5) if rank < 4 else (1, 1, 2, 3)) for _ in range(rank)]
    whole_bytes(shape, dtype)
    return shape


def _ordinary(rng: Dice, out: Plan, name: Any) -> None:
    dtype = rng.choice(rng.dtypes)
    shape = shape_for(rng, dtype)
    _add_own(out, name, dtype, shape, prod(shape) * DTYPE_BITS[dtype] // 8)


def _names(rng: Dice, out: Plan) -> None:
    for tensor in out["tensors"]:
        if rng.random() < 0.7:
            tensor["name"] = rng.choice(NAMES) + (rng.choice(NAMES) if rng.random() < 0.3 else "")
    if len({t["name"] for t in out["tensors"]}) != len(out["tensors"]):
        del out["tensors"][1:]


def _metadata(rng: Dice, out: Plan) -> None:
    if rng.random() < 0.1:
        items = [[f"key {n}", f"value {n}"] for n in range(rng.choice((20, 120)))]
    else:
        words = (*NAMES, "key", "format", "t", "__metadata__", "true", "[2]")
        items = [[rng.choice(words), rng.choice(words)] for _ in range(rng.choice((0, 1, 1, 2, 3)))]
        items = [[key, value] for key, value in {key: value for key, value in items}.items()]  # noqa: C416
    rng.shuffle(items)
    out["metadata"] = {"items": items}


def _empty(rng: Dice, out: Plan) -> None:
    out["tensors"], out["storages"] = [], {}
    if rng.random() < 0.6:
        out["metadata"] = {"items": []}


def _values(rng: Dice, out: Plan) -> None:
    dtype = rng.choice(tuple(SPECIAL))
    size = 2 * len(bytes.fromhex(SPECIAL[dtype]))
    _add_own(out, "values", dtype, [size * 8 // DTYPE_BITS[dtype]], size, fill=SPECIAL[dtype])


def _alike(_: Dice, out: Plan) -> None:
    for name in ("one", "two"):
        _add_own(out, name, "U8", [4], 4, fill="07")


def _many(rng: Dice, out: Plan) -> None:
    count = rng.choice((9, 20, 130))
    for number in range(count):
        _add_own(out, f"layer.{number * 77 % count}", rng.choice(("U8", "F32")), [1], 4)


def _aligned_mix(rng: Dice, out: Plan) -> None:
    for number in range(rng.randint(2, 6)):
        dtype = rng.choice(rng.dtypes)
        length = 4 if DTYPE_BITS[dtype] < 8 else rng.choice((1, 3))
        _add_own(out, f"mix {number}", dtype, [length], length * DTYPE_BITS[dtype] // 8)


def _over_old_file(rng: Dice, out: Plan) -> None:
    out["target"] = rng.choice(("file", "file", "link"))
    out["before"] = [{"name": "old", "dtype": "F32", "shape": [rng.choice((0, 1, 4, 300))]}]


def _recommended(rng: Dice, out: Plan) -> None:
    name = rng.choice(tuple(write_rules.SHOULD))
    out["properties"] = [name]
    if name == "keeps-link":
        out |= {"target": "link", "before": [{"name": "old", "dtype": "F32", "shape": [2]}]}
    elif name in ("keeps-mode", "one-file") and rng.random() < 0.5:
        _over_old_file(rng, out)
    if name == "header-padded":
        for tensor in out["tensors"]:
            tensor["name"] += "n" * rng.randrange(9)
    elif name == "compact-json":
        _names(rng, out)
        _metadata(rng, out)
    elif name == "aligned":
        _aligned_mix(rng, out)
    elif name in ("deterministic", "idempotent"):
        (_many if rng.random() < 0.3 else _aligned_mix)(rng, out)
        if name == "deterministic":
            _metadata(rng, out)
    if name == "idempotent" and rng.random() < 0.3:
        _empty(rng, out)
        out["metadata"] = None
    elif name == "one-file" and rng.random() < 0.4:
        _disk_full(rng, out)


def _bad_name(rng: Dice, out: Plan) -> None:
    names = [t["name"] for t in out["tensors"]] or ["a"]
    kind = rng.randrange(4)
    name = (rng.choice(LONE), rng.choice(NO_TEXTS), "__metadata__", rng.choice(names))[kind]
    _ordinary(rng, out, name)
    if kind == 3 and not out["tensors"][1:]:
        _ordinary(rng, out, name)
    if kind == 2 and rng.random() < 0.5:
        out["metadata"] = {"items": rng.choice(([], [["key", "value"]]))}
    rng.shuffle(out["tensors"])


def _bad_metadata(rng: Dice, out: Plan) -> None:
    if rng.random() < 0.25:
        out["metadata"] = {"value": rng.choice(NO_MAPS)}
        return
    bad = rng.choice((rng.choice(LONE), rng.choice((*NO_TEXTS, ["a"], {"a": "b"}))))
    pair = [bad, "text"] if not isinstance(bad, (list, dict)) and rng.random() < 0.4 else ["key", bad]
    out["metadata"] = {"items": [["good", "text"], pair]}


def _bad_type(rng: Dice, out: Plan) -> None:
    shape = rng.choice(([2], [2], [], [0], [2, 2]))
    _add_own(
        out, "z", rng.choice(write_rules.OTHER_TYPES), shape, 64, fill="00" if rng.random() < 0.5 else ""
    )
    rng.shuffle(out["tensors"])


def _bad_size(rng: Dice, out: Plan) -> None:
    dtype = rng.choice(rng.dtypes)
    shape = shape_for(rng, dtype)
    if DTYPE_BITS[dtype] < 8 and rng.random() < 0.4:
        shape = [rng.choice((1, 3, 5, 7))]
    wanted = prod(shape) * DTYPE_BITS[dtype] // 8
    by = rng.choice((-wanted, -1, 1, -(DTYPE_BITS[dtype] // 8), DTYPE_BITS[dtype] // 8, wanted, 4))
    nbytes = max(wanted + by, 0)
    _add_own(out, "sized", dtype, shape, nbytes, nbytes=nbytes, fill="01")


def _even_sizes(_: Dice, out: Plan) -> None:
    for name, nbytes in (("short", 4), ("long", 12)):
        _add_own(out, name, "F32", [2], nbytes, nbytes=nbytes)


def _wraps(rng: Dice, out: Plan) -> None:
    dtype, shape, nbytes = rng.choice(WRAPS)
    _add_own(out, "wraps", dtype, list(shape), nbytes, nbytes=nbytes)


def _disk_full(rng: Dice, out: Plan) -> None:
    size = DISK * rng.choice((2, 3))
    _add_own(out, "large", "U8", [size], size, fill="07")
    out["tensors"][-1]["shape"] = [64, size // 64] if rng.random() < 0.3 else [size]
    out["file_size_limit"] = DISK


UNUSUAL: tuple[Twist, ...] = (
    _names, _names, _metadata, _metadata, _empty, _values, _values, _alike, _many, _aligned_mix,
    _over_old_file, contiguous, contiguous, parts,
)  # fmt: skip
CHOICES: tuple[Twist, ...] = (
    strided, strided, strided, big_endian, big_endian, shared, shared,
    setting(target="missing-folder", before=[], properties=["target-unchanged"]),
)  # fmt: skip
FAULTS: tuple[Twist, ...] = (
    _bad_name, _bad_name, _bad_metadata, _bad_metadata, _bad_type, _bad_type, _bad_size, _bad_size,
    _even_sizes, _wraps, _disk_full,
)  # fmt: skip


class Writes(PlanKind):
    """Plans that save tensors and metadata."""

    step = "write"
    drastic = (_fewer_tensors, _nearer_target, _fewer_dimensions)
    plain: ClassVar[Plan] = {
        **dict.fromkeys(("metadata", "file_size_limit", "strides", "nbytes")),
        "properties": [],
        "guard": False,
        "fill": "",
        "byteorder": "little",
    }
    kept = ("storage", "target", "fill", "byteorder", "file_size_limit")

    def draw(self, rng: Dice) -> Plan:
        out: Plan = {"storages": {}, "tensors": [], "metadata": None, "target": "new", "before": []}
        out |= {"properties": [], "file_size_limit": None}
        if rng.random() < 0.05:
            for name in "bacd"[: rng.randint(0, 4)]:
                dtype = rng.choice(("U8", "F32", "F64", "F16", "I64", "I8", "BOOL"))
                shape = shape_for(rng, dtype, rng.choice((0, 1, 1, 2)))
                out["before"].append({"name": name, "dtype": dtype, "shape": shape})
            return {**out, "target": "input"}
        for number in range(rng.choice((0, 1, 1, 1, 2, 2, 3, 4))):
            _ordinary(rng, out, "abcd"[number])
        rng.shuffle(out["tensors"])
        roll = rng.random()
        if roll < 0.35:
            for _ in range(rng.choice((1, 1, 2))):
                rng.choice(UNUSUAL)(rng, out)
        elif roll < 0.5:
            rng.choice(CHOICES)(rng, out)
        elif roll < 0.8:
            for _ in range(rng.choice((1, 1, 1, 2))):
                rng.choice(FAULTS)(rng, out)
            if rng.random() < 0.5:
                out["properties"] = ["target-unchanged"]
                _over_old_file(rng, out)
        elif roll < 0.92:
            _recommended(rng, out)
        return out

    def question(self, plan: Plan) -> PlanQuestion:
        memory, tensors = write_rules.lay_out_memory(plan)
        ruling = write_rules.ruling_on(plan, memory, tensors)
        builder = WriteBuilder(plan["target"], list(plan["properties"]), plan["file_size_limit"])
        for name, data in memory.items():
            builder.storage(name, data if len(data) < 1024 else recipe.from_bytes(data))
        for tensor in tensors:
            builder.tensor(**tensor)
        metadata = write_rules.metadata_argument(plan["metadata"])
        builder.metadata(metadata)
        for row in plan["before"]:
            builder.before.tensor(row["name"], row["dtype"], row["shape"])
        if ruling.choice == "shared-memory":
            write_rules.content_stored_once(builder, metadata, memory, tensors)
        if plan["file_size_limit"] is not None:
            write_rules.check_limit(plan["file_size_limit"], tensors)
        if "no-foreign-bytes" in plan["properties"]:
            write_rules.check_foreign(builder.action(), memory, tensors)
        return build_question(self, plan, builder, ruling)
