"""Which files of a folder make up a model, as far as their names tell (IDX-15, IDX-16).

A model of several files is found by its index, or by numbered names: ``model-00001-of-00003.safetensors``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from ..sharded.index import SUFFIX

_NUMBERED = re.compile(
    r"(?P<stem>.+)-(?P<number>[0-9]{1,9})-of-(?P<count>[0-9]{1,9})\.safetensors", re.DOTALL
)
# Diffusers puts the variant of the weights behind the word index, and in front of it in the names of shards.
_INDEX = re.compile(r"(?P<stem>.*)\.safetensors\.index(?:\.(?P<variant>[^./]+))?\.json", re.DOTALL)
CONSOLIDATED = "consolidated"
MODEL_FILES = "*.safetensors or *.safetensors.index*.json"
"""The names that ``is_model_file`` takes, in words."""


class ShardNumber(NamedTuple):
    """What the name of a shard says of itself: shard ``number`` out of ``total`` of a model ``stem``."""

    stem: str
    number: int
    total: int


def parse_shard_number(name: str) -> ShardNumber | None:
    match = _NUMBERED.fullmatch(name) if "-of-" in name else None
    return None if match is None else ShardNumber(match["stem"], int(match["number"]), int(match["count"]))


def sibling_name(name: str, number: int) -> str:
    """Return the name of another shard of the same set, with as many digits as ``name`` has."""
    match = _NUMBERED.fullmatch(name)
    assert match is not None
    return f"{name[: match.start('number')]}{number:0{len(match['number'])}}{name[match.end('number') :]}"


def index_stem(name: str) -> str | None:
    """Return what the shards of an index are usually called, None for a name that is no index's.

    The index ``m.safetensors.index.fp16.json`` is that of ``m.fp16-00001-of-00002.safetensors``.
    """
    match = _INDEX.fullmatch(name) if name.endswith(".json") else None
    if match is None:
        return None
    return match["stem"] if match["variant"] is None else f"{match['stem']}.{match['variant']}"


def is_model_file(name: str) -> bool:
    """Return whether a file of a folder is checked: ``*.safetensors``, or the index of a model."""
    return name.endswith(SUFFIX) or index_stem(name) is not None


def is_index(name: str) -> bool:
    """Return whether a path or address that somebody names is an index; anything else is a safetensors file.

    This takes ``pytorch_model.bin.index.json`` as well, which is in no folder looked for.
    """
    if name.startswith(("http://", "https://")):
        name = name.partition("#")[0].partition("?")[0]
    return name.endswith(".json") and (name.endswith(".index.json") or index_stem(name) is not None)


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The names in one folder that a model may consist of.

    Attributes:
        stem: what the names start with, such as ``model``.
        index: name of the index; None for shards that only their numbers hold together.
        numbers: the numbered names of the stem, sorted; without an index those of one count only.
        rivals: other files that some loaders take for the model or a part of it: a single file of the same
            stem, files called consolidated, other indexes, the same stem with another count.
    """

    stem: str
    index: str | None
    numbers: tuple[str, ...]
    rivals: tuple[str, ...] = ()

    @property
    def files(self) -> set[str]:
        """All names that judging the model asks for, besides those that the index names."""
        return {*self.numbers, *self.rivals, *(() if self.index is None else (self.index,))}


def find_models(names: Iterable[str]) -> list[ModelFiles]:
    """Return the models of several files in a folder that holds ``names``, in sorted order.

    Models with an index come first. Numbered files go to the index of the same stem; whether it names them
    is judged later. Single files without index or number are no models here.
    """
    sets: dict[str, dict[int, list[str]]] = {}
    indexes: dict[str, str] = {}
    files: set[str] = set()
    for name in names:
        stem = index_stem(name)
        if stem is not None:
            indexes[name] = stem
        elif name.endswith(SUFFIX):
            files.add(name)
            found = parse_shard_number(name)
            if found is not None:
                sets.setdefault(found.stem, {}).setdefault(found.total, []).append(name)
    consolidated = {name for name in files if name.startswith(CONSOLIDATED)} if indexes or sets else set()

    def rivals(stem: str, others: Collection[str]) -> tuple[str, ...]:
        found = {f"{stem}{SUFFIX}"} & files
        if not stem.startswith(CONSOLIDATED):
            found |= consolidated
        return tuple(sorted(found.union(others)))

    out = []
    for index, stem in sorted(indexes.items()):
        mine = [name for group in sets.get(stem, {}).values() for name in group]
        out.append(ModelFiles(stem, index, tuple(sorted(mine)), rivals(stem, indexes.keys() - {index})))
    indexed = set(indexes.values())
    for stem, counts in sorted(sets.items()):
        if stem in indexed:
            continue
        for count, group in sorted(counts.items()):
            others = [name for other, names in counts.items() if other != count for name in names]
            out.append(ModelFiles(stem, None, tuple(sorted(group)), rivals(stem, others)))
    return out


def missing_numbers(numbers: Collection[int], count: int) -> list[tuple[int, int]]:
    """Return the ranges (first, last) of numbers that a set of ``count`` shards lacks.

    They count from 1, or from 0 where there is a shard 0. A number beyond the last closes no gap.
    """
    first = 0 if 0 in numbers else 1
    end = first + count
    gaps = []
    expected = first
    for number in sorted({n for n in numbers if n < end}):
        if number > expected:
            gaps.append((expected, number - 1))
        expected = number + 1
    if expected < end:
        gaps.append((expected, end - 1))
    return gaps
