"""Reads sharded models: an index ``*.safetensors.index.json`` and its shards (rules IDX-*).

The index only maps names to files. Its content is checked against the shards and never trusted: sizes in the
index never determine how much memory is allocated, and names in it cannot refer to files outside the
directory. Callers may supply the state of each shard, so the same code checks local folders, remote folders
and audit rows.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ..files.neighbours import describe_missing
from ..header.entries import describe
from ..header.explain import Explanation, check_profile
from ..header.json_text import Abandon, Node, plain_integer
from ..header.model import Header, TensorInfo
from ..header.read import examine
from ..rules.book import ProfileName
from ..rules.errors import InvalidError
from ..rules.faults import Fault, Likeness
from ..source import Source, UnreadableError, open_source
from ..text import plural, quote, shorten, shown, without_name
from .index import METADATA, TOTAL_SIZE, WEIGHT_MAP, FaultCollector, IndexNote, IndexText, read_index

IndexPath = str | os.PathLike[str]
_WHOLE = re.compile(r"(0|[1-9][0-9]*)(?:\.0+)?")
DIGITS = 20
"""Maximum number of digits of a number that is converted; 2^64 has this many digits."""


@dataclass(frozen=True, slots=True)
class Shard:
    """State of one shard.

    ``header`` and ``faults`` are the result of reading the shard. For a shard that was not read, ``absent``
    or ``unread`` says why: an absent shard is a fault, while the validity of an unread shard is unknown.
    """

    header: Header | None = None
    faults: Sequence[Fault] = ()
    tolerated: Sequence[Fault] = ()
    absent: str | None = None
    unread: str | None = None
    link: str | None = None
    looks_like: Likeness | None = None


ABSENT = Shard(absent="does not exist")

ShardLookup = Callable[[str], Shard]


def shard_of(seen: Explanation, link: str | None = None) -> Shard:
    return Shard(seen.header, seen.faults, seen.tolerated, link=link, looks_like=seen.looks_like)


class InvalidIndexError(InvalidError["IndexExplanation"]):
    """Raised if an index or one of its shards breaks rules; ``explanation`` contains all faults."""


@dataclass(slots=True)
class IndexExplanation:
    """Result of the strict reader for an index and its shards.

    Attributes:
        name: path of the index.
        size: size of the index in bytes.
        profile: profile that was used where readers may differ.
        faults: all faults, sorted by position in the index. A fault inside a shard gets the position where
            the index first mentions the shard; its position within the shard is in ``shards``.
        tolerated: faults that the profile tolerates, with the same positions as in ``faults``.
        notes: notes about anything unusual but permitted.
        shards: mapping of shard names to results, for all shards that could be opened.
        weight_map: mapping of tensor names to shard names; empty if the index has no usable weight_map.
        sizes: mapping of shard names to the size of the data buffer in bytes, for all shards without faults.
        metadata: text of the metadata object, or None if there is none.
        unread: mapping of the names of unread shards to the reasons why they were not read.
        complete: False if faults were omitted (see ``FAULT_LIMIT``).
        looks_like: kind of file that a file without a weight_map looks like, or None if it is not recognized.
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
    looks_like: Likeness | None = None

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
    """The headers of all shards of a model, combined into one header.

    Attributes:
        tensors: mapping of tensor names to shard and entry, in the order of the index.
        total_size: total number of bytes of all tensors, computed from the shards.
        metadata: metadata of the index, or None if there is none. Integers with more than 20 digits become
            floats.
        shards: mapping of shard names to headers.
    """

    tensors: Mapping[str, ShardedTensor]
    total_size: int
    metadata: Mapping[str, object] | None
    shards: Mapping[str, Header]


def explain_index(
    path: IndexPath, profile: ProfileName = "hardened", known: Mapping[str, Explanation] | None = None
) -> IndexExplanation:
    """Read the index at ``path`` and the headers of its shards, and collect all faults.

    Only files in the same folder as the index are opened. Symbolic links are followed, because Hub caches
    consist of them, and reported as notes (IDX-06). For files in that folder that have already been read,
    ``known`` maps their names to the results.

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
                    return Shard(absent=f"does not exist{describe_missing(place)}", link=link)
                return Shard(absent=f"cannot be read: {without_name(str(err), place)}", link=link)
            shards[name] = seen
            return shard_of(seen, link)

        out = explain_index_source(source, profile, lookup)
    if out.weight_map:  # the result is empty after LIM_MEMORY, so the shards are released too
        out.shards = shards
    return out


def explain_index_source(source: Source, profile: ProfileName, lookup: ShardLookup) -> IndexExplanation:
    """Read an open index and collect all faults. In the result, ``shards`` is empty.

    Args:
        source: the index.
        profile: profile to use where readers may differ.
        lookup: function that returns the state of a shard; called only for names that may be opened.

    Raises:
        UnreadableError: the index cannot be read.
        AccessError: the profile is unknown.
    """
    check_profile(profile)
    out = IndexExplanation(source.name, source.size, profile)
    findings = FaultCollector(out.faults, out.tolerated, out.notes)
    try:
        index = read_index(source, findings)
        if index is not None:
            out.weight_map = {name: m.shard for name, m in index.weight_map.items() if m.shard is not None}
            out.metadata = index.metadata
            headers, out.unread = check_shards(index, lookup, findings)
            out.sizes = {name: header.data_size for name, header in headers.items()}
    except Abandon:
        assert findings.full
    except MemoryError:
        # The findings that were collected before memory ran out are lost.
        text = "there is not enough memory to read the index and its shards"
        fault = Fault("LIM_MEMORY", "LIM-06", text, 0, source.size)
        return IndexExplanation(source.name, source.size, profile, [fault], complete=False)
    out.complete, out.looks_like = not findings.full, findings.looks_like
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
    headers = {shard: each.header for shard, each in seen.shards.items() if each.header is not None}
    tensors = {
        name: ShardedTensor(shard, headers[shard].tensors[name]) for name, shard in seen.weight_map.items()
    }
    # int() would raise a ValueError for a number with thousands of digits.
    number: Callable[[str], int | float] = lambda text: int(text) if len(text) <= DIGITS else float(text)  # noqa: E731
    metadata = None if seen.metadata is None else json.loads(seen.metadata, parse_int=number)
    return ShardedHeader(tensors, sum(t.info.nbytes for t in tensors.values()), metadata, headers)


def check_shards(
    text: IndexText, lookup: ShardLookup, findings: FaultCollector
) -> tuple[dict[str, Header], dict[str, str]]:
    """Compare all usable shards with the weight_map, and report their faults where it first mentions them.

    Return the headers of the shards without faults, and the reasons why shards were not read.
    """
    headers: dict[str, Header] = {}
    unread: dict[str, str] = {}
    for name, mention in text.shards.items():
        if mention.usable:
            shard = lookup(name)
            start, end, where = mention.start, mention.end, mention.path
            if shard.link is not None:
                note = f"shard {quote(name)} is a symbolic link to {quote(shard.link)}"
                findings.notes.append(IndexNote("IDX-06", note, start, end, where))
            if shard.absent is not None:
                message = f"shard {quote(name)} {shard.absent}"
                findings.add(Fault("IDX_SHARD_MISSING", "IDX-08", message, start, end, where))
            elif shard.unread is not None:
                unread[name] = shard.unread
            elif shard.header is not None:
                headers[name] = shard.header
            tail = "" if shard.looks_like is None else f"; {shard.looks_like.text}"
            for faults, tolerated in ((shard.faults, False), (shard.tolerated, True)):
                for fault in faults:
                    message = f"{quote(name)} at byte {fault.start:,}: {fault.message}{tail}"
                    tail = ""  # once per shard
                    findings.add(replace(fault, message=message, start=start, end=end, path=where), tolerated)
    _check_contents(text, headers, findings)
    return headers, unread


def _check_contents(text: IndexText, headers: Mapping[str, Header], findings: FaultCollector) -> None:
    """Compare the weight_map with the headers of the shards (IDX-03, IDX-09 to IDX-11, IDX-14)."""
    holders: dict[str, list[str]] = {}
    for shard, header in headers.items():
        for name in header.tensors:
            holders.setdefault(name, []).append(shard)
    for name, mapped in text.weight_map.items():
        shards_with_it = holders.get(name, [])
        if mapped.shard is not None and mapped.shard in headers and mapped.shard not in shards_with_it:
            others = ", ".join(quote(s) for s in shards_with_it[:3])
            message = f"{quote(mapped.shard)} does not contain tensor {quote(name)}"
            if others:
                message += f"; it is in {others}"
            path = (WEIGHT_MAP, name)
            findings.add(Fault("IDX_TENSOR_MISSING", "IDX-09", message, mapped.start, mapped.end, path))
    for name, shards in holders.items():
        _check_surplus(text, name, shards, findings)
    _check_total(text, headers, holders, findings)


def _check_surplus(text: IndexText, name: str, shards: list[str], findings: FaultCollector) -> None:
    mapped = text.weight_map.get(name)
    # A missing member has no position, so use the one where it would be added.
    start, end = (text.map_end, text.map_end) if mapped is None else (mapped.start, mapped.end)
    path = (WEIGHT_MAP,) if mapped is None else (WEIGHT_MAP, name)
    right = shards[0]
    if mapped is not None and mapped.shard in shards:
        right = mapped.shard
    elif mapped is None or mapped.shard is not None:  # another value has already been reported
        found = "does not map" if mapped is None else f"maps to {quote(mapped.shard or '')}"
        message = f"{quote(right)} contains tensor {quote(name)}, which the index {found}"
        findings.add(Fault("IDX_TENSOR_UNINDEXED", "IDX-10", message, start, end, path))
    for shard in shards:
        if shard != right:
            message = f"{quote(shard)} contains tensor {quote(name)}, which is also in {quote(right)}"
            findings.add(Fault("IDX_TENSOR_DUPLICATE", "IDX-11", message, start, end, path))


def _check_total(
    text: IndexText, headers: Mapping[str, Header], holders: Mapping[str, list[str]], findings: FaultCollector
) -> None:
    node = text.total_size
    if node is None or node.kind == "invalid":
        return
    path = (METADATA, TOTAL_SIZE)
    claimed = _whole(node)
    if claimed is None:
        message = f"total_size is {describe(node)}, not a number of bytes"
        findings.add(Fault("IDX_SIZE_MISMATCH", "IDX-03", message, node.start, node.end, path))
        return
    if not plain_integer(node):
        message = f"total_size is written as {shorten(node.text, 24)}, not as a plain integer"
        findings.notes.append(IndexNote("IDX-03", message, node.start, node.end, path))
    if set(text.shards) - set(headers) or any(
        m.shard is None or m.shard not in holders.get(name, ()) for name, m in text.weight_map.items()
    ):
        return
    mapped = sum(headers[m.shard].tensors[name].nbytes for name, m in text.weight_map.items() if m.shard)
    # The total may include surplus tensors, which are reported as separate faults.
    surplus = sum(
        headers[s[0]].tensors[name].nbytes for name, s in holders.items() if name not in text.weight_map
    )
    if claimed not in (mapped, mapped + surplus):
        message = f"total_size is {claimed:,}, but the tensors have {plural(mapped, 'byte')}"
        findings.add(Fault("IDX_SIZE_MISMATCH", "IDX-03", message, node.start, node.end, path))


def _whole(node: Node) -> int | None:
    match = _WHOLE.fullmatch(node.text) if node.kind == "number" else None
    return None if match is None or len(match[1]) > DIGITS or len(match[0]) > 2 * DIGITS else int(match[1])
