"""The expected result of a write: a rejection, a choice left to the writer, or a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from safetensors_corpus.actions import covered
from safetensors_corpus.author.case import reject
from safetensors_corpus.author.file import pattern
from safetensors_corpus.author.write import WriteBuilder
from safetensors_corpus.judging.written_file import FOREIGN, foreign_windows
from safetensors_reference.rules.dtypes import DTYPE_BITS

from .question import PlanError, PlanFault, Ruling, accept_ruling, choice_ruling, reject_ruling
from .values import RESERVED, Plan

OTHER_TYPES = ("C128", "F128", "OBJECT", "STRING", "DATETIME", "VOID", "U4", "I4", "F8_E3M4")
"""Names that the corpus uses for element types that the format lacks."""
WIDEST = 16
WRAPS = 1 << 30
"""Size in bytes above which a shape counts as an overflow."""
SHOULD = {
    "header-padded": "WRT-02",
    "aligned": "WRT-04",
    "deterministic": "WRT-12",
    "idempotent": "WRT-13",
    "one-file": "WRT-14",
    "keeps-mode": "WRT-15",
    "keeps-link": "WRT-15",
    "compact-json": "WRT-18",
}
MUST = ("no-foreign-bytes", "target-unchanged")
CANARY = b"foreign memory! " * 4
"""Bytes around the arguments. The file contains them if the writer reads past the end of an argument."""
REFUSE_METADATA = PlanFault(("WRT-10", "MET-01"), ("WRT_BAD_METADATA",))


def has_lone_surrogate(text: str) -> bool:
    return any("\ud800" <= c <= "\udfff" for c in text)


def ruling_on(plan: Plan, memory: Mapping[str, bytes], tensors: Sequence[Mapping[str, Any]]) -> Ruling:
    """Return the ruling. ``memory`` contains the storages with their guards. Raises PlanError."""
    should = [SHOULD[name] for name in plan["properties"] if name in SHOULD]
    if faults := list(_faults(plan, tensors)):
        return replace(reject_ruling(faults), level="should") if should else reject_ruling(faults)
    choice = _choice_ruling(plan, memory, tensors)
    if choice is None:
        rules = ("WRT-01", *should, *_about(plan, tensors))
        return accept_ruling(*rules, level="should" if should else "must")
    if should:
        raise PlanError("a recommendation cannot be combined with a choice")
    return choice


def _faults(plan: Plan, tensors: Sequence[Mapping[str, Any]]) -> Iterator[PlanFault]:
    for tensor in tensors:
        name = tensor["name"]
        if not isinstance(name, str) or has_lone_surrogate(name):
            yield PlanFault(("WRT-10",), ("WRT_BAD_NAME",))
        elif name == RESERVED:
            yield PlanFault(("WRT-06",), ("WRT_BAD_NAME", "MET_NOT_MAP"))
        yield from _size_faults(tensor)
    names = [tensor["name"] for tensor in tensors]
    if any(count > 1 for count in Counter(map(repr, names)).values()):
        yield PlanFault(("WRT-01", "HDR-09"), ("WRT_BAD_NAME", "HDR_DUP_KEY"))
    yield from _metadata_faults(plan["metadata"])
    if plan["file_size_limit"] is not None:
        yield PlanFault(("WRT-19",), ("IO_ERROR",))


def _size_faults(tensor: Mapping[str, Any]) -> Iterator[PlanFault]:
    bits = DTYPE_BITS.get(tensor["dtype"])
    if bits is None:
        yield PlanFault(("WRT-09",), ("WRT_UNSUPPORTED_DTYPE",))
        return
    wanted, given = prod(tensor["shape"]) * bits, tensor["nbytes"]
    if wanted // 8 > WRAPS:
        yield PlanFault(("WRT-20", "SHP-05"), ("SHP_OVERFLOW", "WRT_SIZE_MISMATCH"))
    elif given is None:
        return
    elif wanted % 8:
        yield PlanFault(("WRT-17", "DTY-09"), ("WRT_SIZE_MISMATCH", "DTY_SUBBYTE"))
    elif given != wanted // 8:
        yield PlanFault(("WRT-17",), ("WRT_SIZE_MISMATCH", "OFF_SIZE_MISMATCH"))
    else:
        raise PlanError("an explicit size must differ from the size that the shape implies")


def _metadata_faults(metadata: Mapping[str, Any] | None) -> Iterator[PlanFault]:
    if metadata is None:
        return
    if "value" in metadata:
        yield REFUSE_METADATA
        return
    texts = [text for item in metadata["items"] for text in item]
    if any(not isinstance(text, str) for text in texts):
        yield REFUSE_METADATA
    elif any(map(has_lone_surrogate, texts)):
        yield PlanFault(("WRT-10",), ("WRT_BAD_METADATA",))


def is_contiguous(tensor: Mapping[str, Any]) -> bool:
    shape, strides = tensor["shape"], tensor["strides"]
    if strides is None or 0 in shape:
        return True
    step = DTYPE_BITS[tensor["dtype"]] // 8
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


def _choice_ruling(
    plan: Plan, memory: Mapping[str, bytes], tensors: Sequence[Mapping[str, Any]]
) -> Ruling | None:
    """Return the ruling for the choice that covers a plan without faults, if any."""
    big = any(t["byteorder"] == "big" for t in tensors)
    views = not all(map(is_contiguous, tensors))
    groups = _sharing(memory, tensors)
    missing = plan["target"] == "missing-folder"
    if bool(groups) + missing + (big or views) > 1:
        raise PlanError("the plan involves several choices")
    if missing:
        return choice_ruling("missing-folder", reject("IO_ERROR"), level="must")
    if big and views:
        rejection = reject("WRT_UNSUPPORTED_DTYPE", "WRT_NOT_CONTIGUOUS")
        return choice_ruling("big-endian-view", rejection, "WRT-07", "DAT-01", level="must")
    if big:
        return choice_ruling("big-endian", reject("WRT_UNSUPPORTED_DTYPE"), "DAT-01", level="must")
    if views:
        return choice_ruling("non-contiguous", reject("WRT_NOT_CONTIGUOUS"), "WRT-01", level="must")
    if groups:
        rejection = reject("WRT_SHARED_STORAGE")
        once = {} if all(map(_keepers, groups)) else dict.fromkeys(("once", "noted"), rejection)
        return choice_ruling("shared-memory", rejection, level="must", instead=once)
    return None


Group = Sequence[tuple[str, frozenset[int]]]


def _sharing(memory: Mapping[str, bytes], tensors: Sequence[Mapping[str, Any]]) -> list[Group]:
    """Return the groups of tensors that share bytes."""
    groups: list[list[tuple[Mapping[str, Any], frozenset[int]]]] = []
    for tensor in tensors:
        places = frozenset(covered(tensor, len(memory[tensor["storage"]])))
        mine = [(tensor, places)]
        for group in list(groups):
            if any(t["storage"] == tensor["storage"] and p & places for t, p in group):
                mine += group
                groups.remove(group)
        groups.append(mine)
    shared = [group for group in groups if len(group) > 1]
    return [[(t["name"], places) for t, places in group] for group in shared]


def _keepers(group: Group) -> list[str]:
    whole = frozenset[int]().union(*(places for _, places in group))
    return sorted(name for name, places in group if places == whole)


def content_stored_once(
    builder: WriteBuilder, metadata: Any, memory: Mapping[str, bytes], tensors: Sequence[Mapping[str, Any]]
) -> None:
    """Add the expected content for writers that store only one of the tensors that share memory."""
    groups = _sharing(memory, tensors)
    if not all(map(_keepers, groups)):
        return
    kept = {name: _keepers(group)[0] for group in groups for name, _ in group}
    left = {name: keeper for name, keeper in kept.items() if name != keeper}
    stored = [tensor["name"] for tensor in tensors if tensor["name"] not in left]
    builder.expect(*stored, metadata=metadata, option="once")
    builder.expect(*stored, metadata={**(metadata or {}), **left}, option="noted")


def _about(plan: Plan, tensors: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if plan["target"] == "input":
        yield "WRT-14"
    elif not tensors:
        yield "WRT-05"
    if any(t["strides"] is not None or t["offset"] for t in tensors):
        yield "WRT-07"
    if any(0 in t["shape"] for t in tensors):
        yield "SHP-04"
    if any(not t["shape"] for t in tensors):
        yield "SHP-03"
    if plan["metadata"] is not None:
        yield "MET-03"


def lay_out_memory(plan: Plan) -> tuple[dict[str, bytes], list[dict[str, Any]]]:
    """Return the storages with their guards, and the tensors with offsets in them. Raises PlanError."""
    _check(plan)
    own = {}
    for name, storage in plan["storages"].items():
        size, fill = storage["size"], bytes.fromhex(storage["fill"])
        own[name] = (fill * (size // len(fill) + 1))[:size] if fill else pattern(name, size)
    for tensor in plan["tensors"]:
        _check_place(tensor, own[tensor["storage"]])
    guards = {name: CANARY if s["guard"] else b"" for name, s in plan["storages"].items()}
    memory = {name: guards[name] + data + guards[name] for name, data in own.items()}
    return memory, [{**t, "offset": t["offset"] + len(guards[t["storage"]])} for t in plan["tensors"]]


def _check(plan: Plan) -> None:
    if unknown := set(plan["properties"]) - {*SHOULD, *MUST}:
        raise PlanError(f"unknown properties {sorted(unknown)}")
    if "keeps-link" in plan["properties"] and plan["target"] != "link":
        raise PlanError("there is no link to keep")
    names = [row["name"] for row in plan["before"]]
    if len({*names, RESERVED}) != len(names) + 1:
        raise PlanError("the old file has a duplicate or reserved name")
    if "no-foreign-bytes" in plan["properties"]:
        guarded = [s for s in plan["storages"].values() if s["guard"]]
        if not guarded or any(s["fill"] for s in plan["storages"].values()):
            raise PlanError("foreign memory cannot be distinguished from the arguments")


def metadata_argument(metadata: Mapping[str, Any] | None) -> Any:
    if metadata is None:
        return None
    if "value" in metadata:
        if not metadata["value"] or isinstance(metadata["value"], dict):
            raise PlanError('the metadata value is a map, or could stand for "no metadata"')
        return metadata["value"]
    try:
        out = {key: value for key, value in metadata["items"]}  # noqa: C416
    except (TypeError, ValueError) as err:  # a key that is not hashable, or an item that is not a pair
        raise PlanError(f"invalid metadata: {err}") from err
    if len(out) != len(metadata["items"]):
        raise PlanError("duplicate metadata key")
    return out


ELEMENTS = 16_384


def _check_place(tensor: Mapping[str, Any], memory: bytes) -> None:
    shape = tensor["shape"]
    if min(shape, default=0) < 0 or not 0 <= tensor["offset"] <= len(memory):
        raise PlanError("invalid shape or offset")
    if tensor["strides"] is not None and (
        len(tensor["strides"]) != len(shape) or tensor["nbytes"] is not None
    ):
        raise PlanError("the strides do not match the shape, or the tensor specifies both strides and a size")
    if tensor["nbytes"] is not None:
        if tensor["dtype"] not in DTYPE_BITS or not 0 <= tensor["nbytes"] <= len(memory) - tensor["offset"]:
            raise PlanError("the size exceeds the memory")
    elif prod(shape) > ELEMENTS:
        raise PlanError("the tensor is too large")
    elif tensor["dtype"] not in DTYPE_BITS:
        if tensor["offset"] + WIDEST * max(prod(tensor["shape"]), 1) > len(memory):
            raise PlanError("the memory is too small for some of the possible types")
    else:
        _check_view(tensor, memory)


def _check_view(tensor: Mapping[str, Any], memory: bytes) -> None:
    needed = prod(tensor["shape"]) * DTYPE_BITS[tensor["dtype"]]
    if needed % 8:
        raise PlanError("the elements do not fill whole bytes")
    if tensor["strides"] is None and tensor["offset"] + needed // 8 > len(memory):
        raise PlanError("the tensor does not fit in the memory")
    places = list(covered(tensor, len(memory)))
    if any(not 0 <= place < len(memory) for place in places):
        raise PlanError("the tensor does not fit in the memory")
    if tensor["dtype"] == "BOOL" and (tensor["byteorder"] == "big" or any(memory[p] > 1 for p in places)):
        raise PlanError("a BOOL element must be 0 or 1 and has no byte order")


def check_foreign(
    action: Mapping[str, Any], memory: Mapping[str, bytes], tensors: Sequence[Mapping[str, Any]]
) -> None:
    windows = foreign_windows(action)
    for tensor in tensors:
        whole = memory[tensor["storage"]]
        data = bytes(whole[place] for place in covered(tensor, len(whole)))
        if any(data[at : at + FOREIGN] in windows for at in range(len(data) - FOREIGN + 1)):
            raise PlanError("foreign memory cannot be distinguished from the arguments")


def check_limit(limit: int, tensors: Sequence[Mapping[str, Any]]) -> None:
    needed = sum(prod(t["shape"]) * DTYPE_BITS.get(t["dtype"], 0) // 8 for t in tensors)
    if not 0 < limit < needed < WRAPS:
        raise PlanError("the file might fit on the disk after all")
