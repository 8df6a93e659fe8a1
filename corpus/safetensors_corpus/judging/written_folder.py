"""Check the folder after a sharded save: the model, its index and other files.

This module reads the index independently of the reference reader.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from safetensors_reference.text import quote, shorten

from ..actions import INDEX_NAME, MODEL, numbered
from .answer import Answer, Flaw
from .exported_folder import EXPORT_PROPERTIES
from .written_file import PROPERTIES, Property, flaws_in, read_files

SINGLE = "model.safetensors"
SUFFIX = ".safetensors"
COMPLETE, TOTAL_SIZE, OWN_FILES = "IDX-17", "IDX-03", "IDX-20"
_SHARD = re.compile(r"model-([0-9]{5,})-of-([0-9]{5,})\.safetensors")
MAX_FLAWS = 5
"""Maximum number of flaws that are reported for a model."""

Reader = Callable[[Path], Answer]
"""Function that reads one written file and returns its content and the rules that it breaks."""


class _File(NamedTuple):
    data: bytes
    stamp: tuple[int, int]


def aged_snapshot(root: Path) -> dict[str, _File]:
    """Set old timestamps on all files below a folder, and return the timestamps by relative path.

    A changed timestamp reveals a file that was rewritten with the same bytes.
    """
    old = time.time() - 3600
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink():
            os.utime(path, (old, old))
    return _files(root)


def _files(root: Path) -> dict[str, _File]:
    paths = sorted(root.rglob("*"))
    found = {p: _File(os.fsencode(p.readlink()), (0, 0)) for p in paths if p.is_symlink()}
    for path, data in read_files(p for p in paths if p not in found and p.is_file()):
        stat = path.stat()
        found[path] = _File(data, (stat.st_mtime_ns, stat.st_ino))
    return {path.relative_to(root).as_posix(): found[path] for path in sorted(found)}


@dataclass(frozen=True)
class _Index:
    """A parsed index: the map from tensors to shards, the ``total_size``, and any flaws."""

    mapped: Mapping[str, str]
    total_size: Any = None
    flaws: tuple[Flaw, ...] = ()


def _index(data: bytes) -> _Index:
    twice: list[str] = []

    def members(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        twice.extend(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        return dict(pairs)

    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=members)
    except (ValueError, RecursionError) as err:
        return _Index({}, flaws=(_flaw("IDX-01", f"the index is not JSON: {shorten(str(err), 80)}"),))
    mapped = value.get("weight_map") if isinstance(value, dict) else None
    if not isinstance(mapped, dict) or not all(isinstance(shard, str) for shard in mapped.values()):
        return _Index({}, flaws=(_flaw("IDX-01", "the index has no weight_map that maps tensors to shards"),))
    flaws = [_flaw("IDX-12", f"the key {quote(name)} appears twice in the index") for name in twice[:1]]
    for shard in dict.fromkeys(mapped.values()):
        if flaws:
            break
        if not shard or shard in (".", "..") or any(c in shard for c in "/\\:"):
            flaws.append(
                _flaw(
                    "IDX-04",
                    f"the index names the shard {quote(shard)}, which is not a plain file name",
                )
            )
        elif not shard.endswith(SUFFIX):
            flaws.append(_flaw("IDX-07", f"the name of the shard {quote(shard)} does not end in {SUFFIX}"))
    metadata = value.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    return _Index(mapped, total, tuple(flaws))


def _flaw(rule: str, text: str) -> Flaw:
    return Flaw("valid", rule, f"{text} ({rule})")


@dataclass(frozen=True)
class SavedFolder:
    """A directory after a save into its ``model`` folder; ``before`` is the earlier ``aged_snapshot``."""

    root: Path
    before: Mapping[str, _File]
    action: Mapping[str, Any]
    outcome: str
    read: Reader

    @cached_property
    def now(self) -> dict[str, _File]:
        return _files(self.root)

    @cached_property
    def touched(self) -> set[str]:
        return {
            path.removeprefix(MODEL)
            for path, file in self.now.items()
            if path.startswith(MODEL)
            and "/" not in path.removeprefix(MODEL)
            and (path not in self.before or self.before[path].stamp != file.stamp)
        }

    @cached_property
    def index(self) -> _Index | None:
        """The index that the save wrote, or None. An earlier index does not count."""
        if INDEX_NAME in self.touched:
            return _index(self.now[MODEL + INDEX_NAME].data)
        return None

    @cached_property
    def shards(self) -> dict[str, Answer]:
        """The files of the new model that exist, with their content."""
        if self.index is None:
            names = [SINGLE] if SINGLE in self.touched else []
        else:
            names = [n for n in dict.fromkeys(self.index.mapped.values()) if MODEL + n in self.now]
        return {name: self.read(self.root / MODEL / name) for name in names}

    def rows(self, shard: str) -> dict[str, dict[str, Any]]:
        """Return the tensors of a shard by name. An unreadable shard has no tensors."""
        answer = self.shards.get(shard)
        return {} if answer is None else {row["name"]: row for row in answer.tensors or ()}

    def answer(self) -> Answer:
        if self.outcome != "accept":
            return Answer("reject", flaws=tuple(self._others()))
        place = str(self.root.resolve())
        faults = [flaw._replace(text=flaw.text.replace(place, "@ROOT@")) for flaw in self._faults()]
        flaws = (*faults[:MAX_FLAWS], *self._others())
        if not self.shards:
            return Answer("accept", flaws=flaws)
        if self.index is None:
            tensors = list(self.rows(SINGLE).values())
        else:
            pairs = self.index.mapped.items()
            tensors = [self.rows(shard)[name] for name, shard in pairs if name in self.rows(shard)]
        return Answer("accept", tensors=tensors, flaws=flaws)

    def _faults(self) -> Iterator[Flaw]:
        if self.index is None and not self.shards:
            yield Flaw("missing", "", f"neither {INDEX_NAME} nor {SINGLE} was written")
            return
        for name, answer in self.shards.items():
            yield from (flaw._replace(text=f"{quote(name)}: {flaw.text}") for flaw in answer.flaws)
        named = {SINGLE} if self.index is None else set(self.index.mapped.values())
        if self.index is not None and self.index.flaws:
            yield from self.index.flaws
            return  # further flaws would only be consequences
        surplus = sorted(name for name in self.touched - named if name.endswith(SUFFIX))
        if surplus:
            yield _flaw(COMPLETE, f"the save leaves {quote(surplus[0])}, which is not part of the model")
        if self.index is None:
            return
        for shard in sorted(named - self.shards.keys()):
            yield _flaw(COMPLETE, f"the index names the shard {quote(shard)}, which does not exist")
        for name, shard in self.index.mapped.items():
            if shard in self.shards and name not in self.rows(shard):
                yield _flaw(
                    COMPLETE,
                    f"the index maps {quote(name)} to {quote(shard)}, which does not contain that tensor",
                )
        for shard in self.shards:
            for name in self.rows(shard):
                if self.index.mapped.get(name) != shard:
                    yield _flaw(
                        COMPLETE, f"{quote(shard)} contains {quote(name)}, which the index does not map to it"
                    )
        yield from self._total_size()

    def _total_size(self) -> Iterator[Flaw]:
        assert self.index is not None
        rows = (self.rows(shard).get(name) for name, shard in self.index.mapped.items())
        actual = sum(row["nbytes"] for row in rows if row is not None)
        stated = self.index.total_size
        if stated is not None and (isinstance(stated, bool) or stated != actual):
            shown = shorten(json.dumps(stated), 40)
            yield _flaw(TOTAL_SIZE, f"total_size is {shown}, but the tensors have {actual:,} bytes")

    def _others(self) -> Iterator[Flaw]:
        for path in sorted({*self.before, *self.now}):
            name = path.removeprefix(MODEL)
            inside = path != name
            if inside and (path not in self.before or is_of_model(name)):
                continue
            old, new = self.before.get(path), self.now.get(path)
            if old is not None and new is not None and old.data == new.data:
                continue
            verb = "removes" if new is None else "changes" if old is not None else "writes"
            where = "a file that is not part of the model" if inside else "a file outside the folder"
            yield _flaw(OWN_FILES, f"the save {verb} {where}: {quote(name if inside else path)}")
            return

    def earlier(self) -> dict[str, bool]:
        """For each file of the earlier model that was not rewritten, return whether it is unchanged."""
        names = [path.removeprefix(MODEL) for path in self.before if path.startswith(MODEL)]
        return {
            name: self.before[MODEL + name].data == file.data if file else False
            for name in names
            if is_of_model(name) and name not in self.touched
            for file in [self.now.get(MODEL + name)]
        }


def is_of_model(name: str) -> bool:
    return name in (SINGLE, INDEX_NAME) or _SHARD.fullmatch(name) is not None


def flaws_of_folder(wanted: Sequence[str], saved: SavedFolder) -> tuple[Flaw, ...]:
    """Return the flaws in the ``wanted`` properties that apply to the outcome of the save."""
    return flaws_in({name: FOLDER_PROPERTIES[name] for name in wanted}, saved.outcome, saved)


def _within_limit(saved: SavedFolder) -> str | None:
    limit = saved.action["max_shard_size"]
    for name in saved.shards:
        sizes = [row["nbytes"] for row in saved.rows(name).values() if row["nbytes"]]
        if sum(sizes) > limit and len(sizes) > 1:
            return (
                f"{quote(name)} has {sum(sizes):,} bytes in {len(sizes)} tensors, but the limit is {limit:,}"
            )
    return None


def _conventional(saved: SavedFolder) -> str | None:
    names = list(saved.shards)
    usual = [[SINGLE], [numbered(number, len(names)) for number in range(1, len(names) + 1)]]
    if not names or sorted(names) in usual:
        return None
    return f"the shards have unusual names: {', '.join(map(quote, sorted(names)[:3]))}"


def _removed(saved: SavedFolder) -> str | None:
    left = sorted(name for name in saved.earlier() if MODEL + name in saved.now)
    return f"{quote(left[0])} of the earlier model was not removed" if left else None


def _kept(saved: SavedFolder) -> str | None:
    lost = sorted(name for name, same in saved.earlier().items() if not same)
    return f"{quote(lost[0])} of the earlier model was changed or removed" if lost else None


def _no_mixture(saved: SavedFolder) -> str | None:
    path = MODEL + INDEX_NAME
    if path not in saved.now:
        return None
    index = _index(saved.now[path].data)
    if INDEX_NAME in saved.touched:
        return "a failed save leaves a new index"
    for shard in dict.fromkeys(index.mapped.values()):
        if shard in saved.touched or MODEL + shard not in saved.now:
            state = "replaced" if shard in saved.touched else "missing"
            return (
                f"a failed save leaves the earlier index, but the shard {quote(shard)} that it names is "
                f"{state}"
            )
    return None


FOLDER_PROPERTIES: dict[str, Property] = {
    "within-limit": Property("no shard exceeds the size limit", ("IDX-18",), _within_limit),
    "conventional-names": Property("the files have the usual names", ("IDX-15",), _conventional),
    "earlier-removed": Property("no files of an earlier model remain", ("IDX-19",), _removed),
    "earlier-kept": Property("an earlier model is unchanged", ("IDX-19",), _kept),
    "no-mixture": Property(
        "no index describes a mixture of two saves", ("IDX-21",), _no_mixture, outcomes=("reject",)
    ),
}
"""Maps names to properties of a folder after a sharded save."""
NOTHING_LEFT = "nothing-left"
"""Property of a process that repeats a request."""
_ALL: Mapping[str, tuple[str, tuple[str, ...]]] = {
    **{name: (p.meaning, p.rules) for name, p in (PROPERTIES | FOLDER_PROPERTIES).items()},
    **{name: (meaning, (rule,)) for name, (rule, meaning) in EXPORT_PROPERTIES.items()},
    NOTHING_LEFT: (
        "the process holds no more descriptors, mappings, threads or memory for each request",
        ("API-22",),
    ),
}
RULES_OF = {name: rules for name, (_, rules) in _ALL.items()}
"""Maps each property of a written file, of a folder or of a process to the rules that require it."""
MEANINGS = {name: meaning for name, (meaning, _) in _ALL.items()}
"""Maps each property of a written file, of a folder or of a process to its description."""
