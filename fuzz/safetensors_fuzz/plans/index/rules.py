"""What the rules say about a checkpoint: refused for sure, a choice of the loader, or loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from safetensors_corpus.author import shard_faults
from safetensors_corpus.author.case import ACCEPT, Accept, Reject, reject
from safetensors_reference.rules.book import rule_book

from ..question import Aim, Fault, Plan, PlanError, accepting, choosing, rejecting
from .text import CHOICES, FAULTY, metadata_choice

SUFFIX = ".safetensors"
SHARD_FAULTS: dict[str, tuple[str, str]] = {
    **shard_faults.SHARD_FAULTS,
    "empty-file": ("FRM-03", "FRM_TOO_SHORT"),
    "pickle": ("IDX-07", "FRM_HEADER_OVER_LIMIT"),
}
"""What is wrong with one shard: rule and code."""
ORDER = (
    "index-dot-slash", "index-subfolder", "index-bom", "index-flat-map", "index-surplus-tensor",
    "index-total-size", "index-tensor-twice", "index-empty-map", "index-unknown-members", "index-several",
    "index-metadata-type", "index-metadata", "index-total-size-type",
)  # fmt: skip
"""Of several choices that a checkpoint falls under the first one speaks: those that the hardened profile
refuses stand in front."""
CODES = {
    "index-surplus-tensor": "IDX_TENSOR_UNINDEXED",
    "index-tensor-twice": "IDX_TENSOR_DUPLICATE",
    "index-dot-slash": "IDX_BAD_FILENAME",
    "index-subfolder": "IDX_BAD_FILENAME",
    "index-bom": "IDX_NOT_JSON",
    "index-flat-map": "IDX_NO_WEIGHT_MAP",
    "index-total-size": "IDX_SIZE_MISMATCH",
}
"""Choice -> code of the refusal; the others have none of their own."""
Pair = tuple[str, str]
"""Tensor and shard."""


@dataclass(frozen=True)
class Loaded:
    """What comes of a checkpoint: the rules' word, what the map names and what the shards hold besides."""

    aim: Aim
    found: list[Pair]
    surplus: list[Pair]


def resolved(name: Any, files: Mapping[str, Any]) -> tuple[str, str | None] | Fault:
    """Return the file that a shard name leads to and the choice that it takes, or why it must be refused."""
    if not isinstance(name, str):
        return Fault(("IDX-01",), ("IDX_NO_WEIGHT_MAP", "IDX_BAD_FILENAME"))
    plain = not any(c in "\\:" or c < " " or c == "\x7f" for c in name)
    parts = name.split("/")
    if plain and len(parts) > 1 and parts[-1]:
        rest = [part for part in parts if part != "."]
        bare = "/".join(rest)
        if bare in files and ".." not in rest and "" not in rest and name.endswith(SUFFIX):
            if len(rest) == len(parts):
                return bare, "index-subfolder"
            if len(rest) == 1:
                return bare, "index-dot-slash"
            raise PlanError("a subfolder by way of the folder itself")
    if not plain or len(parts) > 1 or name in ("", ".", ".."):
        return Fault(("IDX-04", "IDX-05"), ("IDX_BAD_FILENAME", "IDX_SHARD_MISSING", "IDX_BAD_EXTENSION"))
    if not name.endswith(SUFFIX):
        return Fault(("IDX-07",), ("IDX_BAD_EXTENSION", "IDX_SHARD_MISSING"))
    if name not in files:
        return Fault(("IDX-08",), ("IDX_SHARD_MISSING",))
    return name, None


def look(plan: Plan, shards: Mapping[str, Mapping[str, Any]], total: int) -> Loaded:
    """Return what the rules say about a plan, and what a loader must find. Raises PlanError.

    Args:
        plan: the plan.
        shards: path below the checkpoint's folder -> the shard of the plan.
        total: bytes of all tensors mapped that are in their shards.
    """
    faults = list(_text_faults(plan))
    choices = set(_text_choices(plan, total))
    found: list[Pair] = []
    names = [tensor for tensor, _ in plan["map"]]
    if len(set(names)) != len(names):
        faults.append(Fault(("IDX-12",), ("HDR_DUP_KEY", "IDX_TENSOR_DUPLICATE", "IDX_BAD_FILENAME")))
    for tensor, name in plan["map"]:
        if names.count(tensor) > 1:
            continue  # which of its shards is meant, nobody knows
        where = resolved(name, shards)
        if isinstance(where, Fault):
            faults.append(where)
            continue
        shard, choice = where
        if choice is not None:
            choices.add(choice)
        fault = shards[shard]["fault"]
        if fault is not None:
            rule, code = SHARD_FAULTS[fault]
            faults.append(Fault((rule, "IDX-08"), (code,)))
        elif tensor not in {row["name"] for row in shards[shard]["tensors"]}:
            faults.append(Fault(("IDX-09", "IDX-14"), ("IDX_TENSOR_MISSING",), "should"))
        found.append((tensor, shard))
    if faults:
        return Loaded(rejecting(faults), [], [])
    surplus = list(_surplus(found, shards))
    if surplus:
        choices.add("index-surplus-tensor")
    if any(_twice(found, shards)):
        choices.add("index-tensor-twice")
    return Loaded(_aim(plan, choices, shards), found, surplus)


def _text_faults(plan: Plan) -> Iterator[Fault]:
    if plan["text"] in FAULTY:
        yield FAULTY[plan["text"]][0]


def _text_choices(plan: Plan, total: int) -> Iterator[str]:
    if plan["text"] in CHOICES:
        yield plan["text"]
    if plan["text"] not in FAULTY and plan["text"] not in ("index-flat-map", "map-in-metadata"):
        choice = metadata_choice(metadata_text(plan, total), total)
        if choice is not None:
            yield choice
    if not plan["map"]:
        yield "index-empty-map"
    if any(name.endswith(".index.json") for name, _ in plan["others"]):
        yield "index-several"


def metadata_text(plan: Plan, total: int) -> str | None:
    """Return the JSON text of the index's metadata."""
    text: str | None = plan["metadata"]
    return None if text is None else text.replace("$n", str(total))


def _surplus(found: Sequence[Pair], shards: Mapping[str, Mapping[str, Any]]) -> Iterator[Pair]:
    """Yield the tensors of the shards that the map does not name. Raises PlanError where two are alike."""
    mapped, met = {tensor for tensor, _ in found}, set()
    for shard in dict.fromkeys(shard for _, shard in found):
        for row in shards[shard]["tensors"]:
            if row["name"] not in mapped:
                if row["name"] in met:
                    raise PlanError("two tensors that are not mapped have one name")
                met.add(row["name"])
                yield row["name"], shard


def _twice(found: Sequence[Pair], shards: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield the mapped tensors that another shard of the map holds too."""
    loaded = {shard for _, shard in found}
    for tensor, shard in found:
        others = loaded - {shard}
        if any(tensor == row["name"] for other in others for row in shards[other]["tensors"]):
            yield tensor


def _aim(plan: Plan, choices: set[str], shards: Mapping[str, Mapping[str, Any]]) -> Aim:
    choice = next((name for name in ORDER if name in choices), None)
    if choice is None:
        more = plan["metadata"] not in ('{"total_size":$n}', None) and plan["text"] != "map-in-metadata"
        return accepting(
            "IDX-01", *(["IDX-02"] if more else _about(plan, shards)), level="may" if more else "must"
        )
    if len(choices) > 1 and choices & {"index-surplus-tensor"}:
        raise PlanError("tensors that are not mapped beside another choice")
    refused = reject(CODES.get(choice, "UNCLASSIFIED"))
    options: dict[str, Accept | Reject] = {
        name: refused if name == "reject" else ACCEPT for name in rule_book().choices[choice].options
    }
    return choosing(choice, options, "IDX-01", beside=choices)


def _about(plan: Plan, shards: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield the rules of what is special about a checkpoint that must be loaded."""
    used = {shard for _, shard in plan["map"]}
    if set(shards) - used or plan["others"]:
        yield "IDX-15"
    if any(tensor in used for tensor, _ in plan["map"]):
        yield "IDX-12"
