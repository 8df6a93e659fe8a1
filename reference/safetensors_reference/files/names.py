"""Parses the names and addresses of local and remote files, indexes and shards (IDX-15, IDX-16).

A model that consists of several files has an index, or its files have numbered names such as
``model-00001-of-00003.safetensors``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple
from urllib.parse import quote, urlsplit

SUFFIX = ".safetensors"
INDEX_SUFFIX = ".safetensors.index.json"
MODEL_FILES = "*.safetensors or *.safetensors.index*.json"
NO_MODEL_FILES = f"contains no {MODEL_FILES}"
CONSOLIDATED = "consolidated"
MAX_STRAYS = 100
"""Maximum number of other files in a folder that are compared with its models.

The headers of these files stay in memory. A folder with more files is probably just a collection of files.
"""
HUB = "hf://"
WEB = ("https://", "http://")
_NUMBERED = re.compile(
    r"(?P<stem>.+)-(?P<number>[0-9]{1,9})-of-(?P<count>[0-9]{1,9})\.safetensors", re.DOTALL
)
_COUNTED = re.compile(r"(?P<stem>.*?)(?P<number>[0-9]{1,9})\.safetensors", re.DOTALL)
# Diffusers puts the variant after the word "index" in the name of an index, but before the number in the
# names of shards.
_INDEX = re.compile(r"(?P<stem>.*)\.safetensors\.index(?:\.(?P<variant>[^./]+))?\.json", re.DOTALL)


class FileInput(NamedTuple):
    """One file to read. A local file has an empty ``path``. If there is no file, ``problem`` explains why."""

    address: str
    path: str = ""  # path within the store
    size: int | None = None
    tag: str = ""
    problem: str = ""

    @property
    def is_index(self) -> bool:
        return is_index(self.path or self.address)

    def beside(self, name: str) -> FileInput:
        return FileInput(beside(self.address, name), self.path and beside(self.path, name))


class Folder(NamedTuple):
    """Files of one folder, sorted by name."""

    store: str | None  # None for local files
    items: Iterable[FileInput]
    has_index: bool
    listed: bool = False  # whether the items include every model file in the folder

    @classmethod
    def of(cls, items: list[FileInput], store: str | None = None, *, listed: bool = False) -> Folder:
        return cls(store, items, any(item.is_index for item in items), listed)

    @classmethod
    def problem(cls, address: str, why: str) -> Folder:
        """Return a folder with a single item, which explains why ``address`` cannot be read."""
        return cls(None, [FileInput(address, problem=why)], False)


class SourceError(Exception):
    """Raised if a source cannot be used. The message is a single line that identifies the source."""


def is_remote(name: str) -> bool:
    """Return whether ``stc check`` reads this name from the Hub or from a web server."""
    return name.startswith((HUB, *WEB))


def is_address(name: str) -> bool:
    """Return whether an audit opens this name with fsspec."""
    return "://" in name or "::" in name


def beside(address: str, name: str) -> str:
    """Return the path or address of the file ``name`` in the folder of ``address``."""
    # On a web server, the name is percent-encoded, and the query string of the address is dropped.
    first, chained, rest = address.partition("::") if "://" in address else (address, "", "")
    if chained and "://" not in first:
        return f"{first}::{beside(rest, name)}"
    if not first.startswith(WEB):
        folder, slash, _ = first.rpartition("/")
        return f"{folder}{slash}{name}{chained}{rest}"
    parts = urlsplit(first)
    path = f"{parts.path.rpartition('/')[0]}/{quote(name)}"
    return parts._replace(path=path, query="", fragment="").geturl() + chained + rest


def shard_name(stem: str, number: int, count: int) -> str:
    return f"{stem}-{number:05d}-of-{count:05d}{SUFFIX}"


class ShardNumber(NamedTuple):
    """A parsed shard name, which identifies shard ``number`` of ``total`` in the model ``stem``."""

    stem: str
    number: int
    total: int


def parse_shard_number(name: str) -> ShardNumber | None:
    match = _NUMBERED.fullmatch(name) if "-of-" in name else None
    return None if match is None else ShardNumber(match["stem"], int(match["number"]), int(match["count"]))


def sibling_name(name: str, number: int) -> str:
    """Return the name of another shard of the same model, with as many digits as in ``name``."""
    match = _NUMBERED.fullmatch(name)
    assert match is not None
    return f"{name[: match.start('number')]}{number:0{len(match['number'])}}{name[match.end('number') :]}"


def index_stem(name: str) -> str | None:
    """Return the stem that the shards of an index usually have, or None if ``name`` is not an index."""
    # m.safetensors.index.fp16.json has shards such as m.fp16-00001-of-00002.safetensors.
    match = _INDEX.fullmatch(name) if name.endswith(".json") else None
    if match is None:
        return None
    return match["stem"] if match["variant"] is None else f"{match['stem']}.{match['variant']}"


def is_model_file(name: str) -> bool:
    """Return whether a directory argument includes files with this name (``*.safetensors`` and indexes)."""
    return name.endswith(SUFFIX) or index_stem(name) is not None


def is_index(name: str) -> bool:
    """Return whether a path or address is an index, such as ``pytorch_model.bin.index.json``."""
    if name.startswith(WEB):
        name = name.partition("#")[0].partition("?")[0]
    return name.endswith(".json") and (name.endswith(".index.json") or index_stem(name) is not None)


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Files that may form a model."""

    stem: str
    index: str | None
    numbers: tuple[str, ...]
    rivals: tuple[str, ...] = ()  # used by some loaders instead of some or all of the other files
    strays: tuple[str, ...] = ()  # all others without a number: some loaders read every file in a folder

    @property
    def files(self) -> set[str]:
        index = () if self.index is None else (self.index,)
        return {*self.numbers, *self.rivals, *self.strays, *index}


def find_models(names: Iterable[str]) -> list[ModelFiles]:
    """Return those models in a folder that consist of several files. Models with an index come first."""
    sets: dict[str, dict[int, list[str]]] = {}
    indexes: dict[str, str] = {}
    files: set[str] = set()
    single: set[str] = set()
    for name in names:
        stem = index_stem(name)
        if stem is not None:
            indexes[name] = stem
        elif name.endswith(SUFFIX):
            files.add(name)
            found = parse_shard_number(name)
            if found is None:
                single.add(name)
            else:
                sets.setdefault(found.stem, {}).setdefault(found.total, []).append(name)
    consolidated = {name for name in files if name.startswith(CONSOLIDATED)}

    def model(stem: str, index: str | None, numbers: Collection[str], others: Collection[str]) -> ModelFiles:
        rivals = {f"{stem}{SUFFIX}"} & files
        if not stem.startswith(CONSOLIDATED):
            rivals |= consolidated
        rivals.update(others)
        strays = single - rivals if len(single) <= MAX_STRAYS else ()
        return ModelFiles(stem, index, *(tuple(sorted(part)) for part in (numbers, rivals, strays)))

    out = []
    for index, stem in sorted(indexes.items()):
        mine = [name for group in sets.get(stem, {}).values() for name in group]
        out.append(model(stem, index, mine, indexes.keys() - {index}))
    indexed = set(indexes.values())
    for stem, counts in sorted(sets.items()):
        if stem in indexed:
            continue
        for count, group in sorted(counts.items()):
            others = [name for other, names in counts.items() if other != count for name in names]
            out.append(model(stem, None, group, others))
    return out


def missing_numbers(numbers: Collection[int], count: int) -> list[tuple[int, int]]:
    """Return the ranges (first, last) of missing shards of ``count``, which are numbered from 0 or 1."""
    first = 0 if 0 in numbers else 1
    end = first + count
    present = [first - 1, *sorted({n for n in numbers if n < end}), end]
    return [(before + 1, after - 1) for before, after in pairwise(present) if after > before + 1]


def find_gaps(names: Iterable[str]) -> dict[str, str]:
    """Map the first name after each gap in names such as ``out-00001.safetensors`` to the missing name."""
    # Unless at least three files exist, and more than are missing, the numbers may have another meaning, such
    # as training steps.
    sets: dict[str, dict[int, str]] = {}
    for name in names:
        match = _COUNTED.fullmatch(name)
        if match is not None and parse_shard_number(name) is None:
            sets.setdefault(match["stem"], {})[int(match["number"])] = name
    out = {}
    for stem, files in sets.items():
        numbers = sorted(files)
        if len(files) < 3 or len(files) <= numbers[-1] - numbers[0] + 1 - len(files):
            continue
        for before, after in pairwise(numbers):
            if after > before + 1:
                digits = len(files[after]) - len(stem) - len(SUFFIX)
                out[files[after]] = f"{stem}{before + 1:0{digits}}{SUFFIX}"
    return out
