"""Reads sharded models: an index ``*.safetensors.index.json`` and its shards (rules IDX-*).

The index only maps names to files. It is checked against the shards and never trusted: no memory is allocated
according to its sizes, and its names cannot lead out of the directory.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from ..header.explain import Explanation, check_profile
from ..header.json_text import Abandon
from ..header.read import examine
from ..rules.book import ProfileName
from ..rules.errors import InvalidError
from ..rules.faults import Fault, shown, without_name
from ..source import Source, UnreadableError, open_source
from .index import INDEX_CAP, FaultCollector, IndexNote, read_index_text
from .shards import ABSENT, DIGITS, Shard, check_shards, shard_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..header.model import Header, TensorInfo
    from .shards import ShardLookup

IndexPath = str | os.PathLike[str]


class InvalidIndexError(InvalidError["IndexExplanation"]):
    """The index or one of its shards breaks rules; ``explanation`` contains all faults."""


@dataclass(slots=True)
class IndexExplanation:
    """Result of the strict reader for an index and its shards.

    Attributes:
        name: path of the index.
        size: size of the index in bytes.
        profile: profile that was used where readers may differ.
        faults: all faults in the order of the bytes of the index. A fault inside a shard is placed where the
            index first mentions the shard; its place in the shard is in ``shards``.
        tolerated: faults that the profile tolerates, placed in the same way as ``faults``.
        notes: legitimate but noteworthy facts.
        shards: mapping of shard names to results, for all shards that could be opened.
        weight_map: mapping of tensor names to shard names; empty if the text breaks off.
        sizes: mapping of shard names to the size of the data buffer in bytes, for all shards without faults.
        metadata: text of the metadata object, or None if there is none.
        unread: mapping of shard names to the reason why their state is unknown, if that is not a fault of the
            model.
        complete: False if faults were omitted (see ``FAULT_LIMIT``).
    """

    name: str
    size: int
    profile: ProfileName
    faults: list[Fault] = field(default_factory=list)
    tolerated: list[Fault] = field(default_factory=list)
    notes: list[IndexNote] = field(default_factory=list)
    shards: dict[str, Explanation] = field(default_factory=dict)
    weight_map: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    metadata: bytes | None = None
    unread: dict[str, str] = field(default_factory=dict)
    complete: bool = True

    @property
    def valid(self) -> bool:
        """Whether the index and its shards obey every rule under the profile."""
        return not self.faults


class ShardedTensor(NamedTuple):
    """A tensor and its shard. Offsets in ``info`` refer to the data buffer of that shard."""

    shard: str
    info: TensorInfo


@dataclass(frozen=True, slots=True)
class ShardedHeader:
    """The headers of a sharded model as one header.

    Attributes:
        tensors: mapping of tensor names to shard and entry, in the order of the index.
        total_size: total number of bytes of all tensors, computed from the shards.
        metadata: metadata of the index, or None if there is none. Integers beyond 20 digits become floats.
        shards: mapping of shard names to headers.
    """

    tensors: Mapping[str, ShardedTensor]
    total_size: int
    metadata: Mapping[str, object] | None
    shards: Mapping[str, Header]


def check_index(path: IndexPath, profile: ProfileName = "hardened") -> list[Fault]:
    """Return all faults of the index at ``path`` and of its shards, with byte ranges in the index.

    Raises UnreadableError if the index cannot be read. An unreadable shard is a fault of the index.
    """
    return explain_index(path, profile).faults


def explain_index(
    path: IndexPath, profile: ProfileName = "hardened", known: Mapping[str, Explanation] | None = None
) -> IndexExplanation:
    """Read the index at ``path`` and the headers of its shards, and collect all faults.

    Opens only files in the same folder as the index. Symbolic links are followed and noted (IDX-06), because
    Hub caches consist of them. ``known`` maps names of files in that folder to results, if they were already
    read.

    Raises UnreadableError if the index cannot be read.
    """
    check_profile(profile)
    if not isinstance(path, str | os.PathLike):
        raise UnreadableError(f"not a path: {shown(path)}")
    shards: dict[str, Explanation] = {}
    with open_source(path) as source:
        folder = os.path.dirname(source.name)  # noqa: PTH120 - a link to an index does not move its shards

        def lookup(name: str) -> Shard:
            place = os.path.join(folder, name)  # noqa: PTH118 - keep the spelling
            try:
                link: str | None = os.readlink(place)  # noqa: PTH115
            except OSError:
                link = None
            try:
                seen = (known or {}).get(name) or examine(place, profile)
            except UnreadableError as err:
                if isinstance(err.__cause__, FileNotFoundError):
                    return replace(ABSENT, link=link)
                return Shard(absent=f"cannot be read: {without_name(str(err), place)}", link=link)
            shards[name] = seen
            return shard_of(seen, link)

        out = explain_index_source(source, profile, lookup)
    if out.weight_map:  # the result is empty after LIM_MEMORY, so the shards are released too
        out.shards = shards
    return out


def explain_index_source(source: Source, profile: ProfileName, lookup: ShardLookup) -> IndexExplanation:
    """Read an open index and collect all faults; ``shards`` of the result stays empty.

    Args:
        source: the index.
        profile: profile to use where readers may differ.
        lookup: returns the state of a shard; called only for names that may be opened.

    Raises:
        UnreadableError: the index cannot be read.
        AccessError: the profile is unknown.
    """
    check_profile(profile)
    out = IndexExplanation(source.name, source.size, profile)
    # Check the size first, so that a hostile index cannot cause an allocation.
    if source.size > INDEX_CAP:
        text = f"the index has {source.size:,} bytes, which exceeds the limit of {INDEX_CAP:,} bytes (IDX-13)"
        out.faults.append(Fault("LIM_MEMORY", "LIM-06", text, 0, source.size))
        return out
    try:
        return _explain(source, out, lookup)
    except MemoryError:
        # The findings so far were lost with the memory.
        text = "there is not enough memory to read the index and its shards"
        fault = Fault("LIM_MEMORY", "LIM-06", text, 0, source.size)
        return IndexExplanation(source.name, source.size, profile, [fault], complete=False)


def _explain(source: Source, out: IndexExplanation, lookup: ShardLookup) -> IndexExplanation:
    data = source.read(0, source.size)
    findings = FaultCollector(out.faults, out.tolerated, out.notes)
    index = read_index_text(data, findings)
    if index is not None:
        out.weight_map = {name: m.shard for name, m in index.weight_map.items() if m.shard is not None}
        out.metadata = index.metadata
        try:
            contents = check_shards(index, lookup, findings)
        except Abandon:
            assert findings.full
        else:
            out.sizes = {name: header.data_size for name, header in contents.headers.items()}
            out.unread = contents.unread
    out.complete = not findings.full
    findings.sort()
    return out


def open_index(path: IndexPath, profile: ProfileName = "hardened") -> ShardedHeader:
    """Return the headers of the sharded model with the index at ``path``.

    Raises:
        InvalidIndexError: the index or a shard has faults; its ``explanation`` contains all of them.
        UnreadableError: the index cannot be read.
    """
    seen = explain_index(path, profile)
    if seen.faults:
        raise InvalidIndexError(seen)
    headers: dict[str, Header] = {}
    for shard, explanation in seen.shards.items():
        assert explanation.header is not None
        headers[shard] = explanation.header
    tensors = {
        name: ShardedTensor(shard, headers[shard].tensors[name]) for name, shard in seen.weight_map.items()
    }
    metadata = None if seen.metadata is None else json.loads(seen.metadata, parse_int=_number)
    return ShardedHeader(tensors, sum(t.info.nbytes for t in tensors.values()), metadata, headers)


def _number(text: str) -> int | float:
    # int() raises an error of its own for thousands of digits.
    return int(text) if len(text) <= DIGITS else float(text)
