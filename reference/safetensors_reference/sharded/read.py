"""Sharded models: an index ``*.safetensors.index.json`` and the shards beside it (rules IDX-*).

The index only maps names to files. It is checked against what the shards hold and never believed: no size in
it decides about memory, and no name in it leads out of its directory.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from ..header.entries import describe
from ..header.explain import Explanation, check_profile, explain
from ..header.json_text import Abandon, plain_integer
from ..rules.book import ProfileName
from ..rules.errors import InvalidError
from ..rules.faults import Fault, quote, shown
from ..source import Source, UnreadableError, open_source
from .index import (
    INDEX_CAP,
    METADATA,
    TOTAL_SIZE,
    WEIGHT_MAP,
    Findings,
    IndexText,
    Mention,
    Note,
    read_index_text,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..header.json_text import Node
    from ..header.model import Header, TensorInfo

IndexPath = str | os.PathLike[str]

_WHOLE = re.compile(r"(0|[1-9][0-9]*)\.0+")
_DIGITS = 20
"""Longest number that is converted; 2^64 has that many digits."""


class InvalidIndexError(InvalidError["IndexExplanation"]):
    """The index or one of its shards breaks rules. ``explanation`` holds all faults."""


@dataclass(slots=True)
class IndexExplanation:
    """Findings of the strict reader in one index and its shards.

    Attributes:
        name: path of the index.
        size: size of the index in bytes.
        profile: whose options were taken where readers legitimately differ.
        faults: every rule broken, in the order of the bytes of the index. A fault inside a shard stands at
            the first place that names the shard; its place in the shard is in ``shards``.
        tolerated: faults that the profile's options tolerate, with places as in ``faults``.
        notes: what is legitimate and worth knowing.
        shards: shard name -> what was found in it, for all shards that could be opened.
        weight_map: tensor name -> shard name; empty when the text cannot be followed to its end.
        sizes: shard name -> bytes of its data buffer, for all shards without faults.
        metadata: text of the metadata object, a part of the index; None when it has none.
        complete: False when so much is wrong that faults are left out (see ``FAULT_LIMIT``).
    """

    name: str
    size: int
    profile: ProfileName
    faults: list[Fault] = field(default_factory=list)
    tolerated: list[Fault] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    shards: dict[str, Explanation] = field(default_factory=dict)
    weight_map: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    metadata: bytes | None = None
    complete: bool = True

    @property
    def valid(self) -> bool:
        """True when neither the index nor a shard breaks a rule under the profile."""
        return not self.faults


class ShardedTensor(NamedTuple):
    """A tensor and the shard that holds it; offsets in ``info`` count in the data buffer of that shard."""

    shard: str
    info: TensorInfo


@dataclass(frozen=True, slots=True)
class ShardedHeader:
    """The headers of a sharded model as one.

    Attributes:
        tensors: tensor name -> shard and entry, in the order of the index.
        total_size: bytes of all tensors, as the shards say it.
        metadata: metadata of the index, None when it has none. Integers beyond 20 digits become floats.
        shards: shard name -> its header.
    """

    tensors: Mapping[str, ShardedTensor]
    total_size: int
    metadata: Mapping[str, object] | None
    shards: Mapping[str, Header]


def check_index(path: IndexPath, profile: ProfileName = "hardened") -> list[Fault]:
    """Return all faults of the index at ``path`` and of its shards; byte ranges are those of the index.

    Raises UnreadableError when the index itself cannot be read. A shard that cannot is a fault of the index.
    """
    return explain_index(path, profile).faults


def explain_index(path: IndexPath, profile: ProfileName = "hardened") -> IndexExplanation:
    """Read the index at ``path`` and the headers of its shards, and collect all faults.

    Only files beside the index are opened. Symbolic links among them are followed and noted (IDX-06): the
    caches of the Hub consist of them.

    Raises UnreadableError when the index itself cannot be read.
    """
    check_profile(profile)
    if not isinstance(path, str | os.PathLike):
        raise UnreadableError(f"not a path: {shown(path)}")
    with open_source(path) as source:
        out = IndexExplanation(source.name, source.size, profile)
        # The size comes first, so that nothing is allocated for an index that only a hostile directory has.
        if source.size > INDEX_CAP:
            text = f"the index has {source.size:,} bytes, more than the limit of {INDEX_CAP:,} (IDX-13)"
            out.faults.append(Fault("LIM_MEMORY", "LIM-06", text, 0, source.size))
            return out
        try:
            return _explain(source, out)
        except MemoryError:
            # What was found so far went with the memory.
            text = "there is not enough memory to read the index and its shards"
            fault = Fault("LIM_MEMORY", "LIM-06", text, 0, source.size)
            return IndexExplanation(source.name, source.size, profile, [fault], complete=False)


def _explain(source: Source, out: IndexExplanation) -> IndexExplanation:
    data = source.read(0, source.size)
    findings = Findings(out.faults, out.tolerated, out.notes)
    index = read_index_text(data, findings)
    if index is not None:
        out.weight_map = {name: m.shard for name, m in index.weight_map.items() if m.shard is not None}
        out.metadata = index.metadata
        try:
            _shards(index, out, findings)
        except Abandon:
            assert findings.full
    out.complete = not findings.full
    findings.sort()
    return out


def open_index(path: IndexPath, profile: ProfileName = "hardened") -> ShardedHeader:
    """Return the headers of the sharded model whose index is at ``path``.

    Raises:
        InvalidIndexError: the index or a shard has faults; all of them are in its ``explanation``.
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
    # int() refuses thousands of digits with an error of its own.
    return int(text) if len(text) <= _DIGITS else float(text)


def _shards(text: IndexText, out: IndexExplanation, findings: Findings) -> None:
    """Open every shard that the index names and compare them with the map."""
    folder = os.path.dirname(out.name)  # noqa: PTH120 - a link to an index does not move its shards
    for shard, mention in text.shards.items():
        if mention.usable:
            _shard(folder, shard, mention, out, findings)
    headers = {name: seen.header for name, seen in out.shards.items() if seen.header is not None}
    out.sizes = {name: header.data_size for name, header in headers.items()}
    _check_contents(text, headers, findings)


def _shard(folder: str, shard: str, mention: Mention, out: IndexExplanation, findings: Findings) -> None:
    """Open one shard; its faults get the place where the index names it."""
    path = os.path.join(folder, shard)  # noqa: PTH118 - the name stays as it is spelled
    start, end, where = mention.start, mention.end, mention.path
    try:
        link = os.readlink(path)  # noqa: PTH115
    except OSError:
        pass
    else:
        note = f"shard {quote(shard)} is a symbolic link to {quote(link)}"
        findings.notes.append(Note("IDX-06", note, start, end, where))
    try:
        seen = explain(path, out.profile)
    except UnreadableError as err:
        if isinstance(err.__cause__, FileNotFoundError):
            reason = "does not exist"
        else:
            reason = f"cannot be read: {str(err).removeprefix(f'{path}: ')}"
        message = f"shard {quote(shard)} {reason}"
        findings.add(Fault("IDX_SHARD_MISSING", "IDX-08", message, start, end, where))
        return
    out.shards[shard] = seen
    for faults, tolerated in ((seen.faults, False), (seen.tolerated, True)):
        for fault in faults:
            message = f"{quote(shard)} at byte {fault.start:,}: {fault.message}"
            findings.add(replace(fault, message=message, start=start, end=end, path=where), tolerated)


def _check_contents(text: IndexText, headers: Mapping[str, Header], findings: Findings) -> None:
    """Compare the map with the tensors that the shards hold (IDX-03, IDX-09 to IDX-11, IDX-14).

    ``headers`` holds the shards that could be read, by name. Nothing is claimed about the others.
    """
    holders: dict[str, list[str]] = {}
    for shard, header in headers.items():
        for name in header.tensors:
            holders.setdefault(name, []).append(shard)
    for name, mapped in text.weight_map.items():
        found_in = holders.get(name, [])
        if mapped.shard is not None and mapped.shard in headers and mapped.shard not in found_in:
            others = ", ".join(quote(s) for s in found_in[:3])
            message = f"{quote(mapped.shard)} holds no tensor {quote(name)}"
            if others:
                message += f"; it is in {others}"
            path = (WEIGHT_MAP, name)
            findings.add(Fault("IDX_TENSOR_MISSING", "IDX-09", message, mapped.start, mapped.end, path))
    for name, shards in holders.items():
        _check_surplus(text, name, shards, findings)
    _check_total(text, headers, holders, findings)


def _check_surplus(text: IndexText, name: str, shards: list[str], findings: Findings) -> None:
    """Report a tensor in shards that the index does not map it to, and second copies of a tensor."""
    mapped = text.weight_map.get(name)
    if mapped is None:
        # No member of the map is at fault but the lack of one, so the place is where it would be added.
        start = end = text.map_end
        path: tuple[str, ...] = (WEIGHT_MAP,)
        mismatch: str | None = "the index does not map"
    else:
        start, end = mapped.start, mapped.end
        path = (WEIGHT_MAP, name)
        # A value that is no string is reported already; where that tensor belongs is unknown.
        mismatch = None if mapped.shard is None else f"the index maps to {quote(mapped.shard)}"
    if mapped is not None and mapped.shard in shards:
        right = mapped.shard
    else:
        right = shards[0]
        if mismatch is not None:
            message = f"{quote(right)} holds tensor {quote(name)}, which {mismatch}"
            findings.add(Fault("IDX_TENSOR_UNINDEXED", "IDX-10", message, start, end, path))
    for shard in shards:
        if shard != right:
            message = f"{quote(shard)} holds tensor {quote(name)}, which {quote(right or '')} holds too"
            findings.add(Fault("IDX_TENSOR_DUPLICATE", "IDX-11", message, start, end, path))


def _check_total(
    text: IndexText, headers: Mapping[str, Header], holders: Mapping[str, list[str]], findings: Findings
) -> None:
    """Check total_size (IDX-03): the bytes of all tensors, each counted once."""
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
        message = f"total_size is spelled {node.text[:24]}, not as a plain integer"
        findings.notes.append(Note("IDX-03", message, node.start, node.end, path))
    if set(text.shards) - set(headers) or any(
        m.shard is None or m.shard not in holders.get(name, ()) for name, m in text.weight_map.items()
    ):
        return
    mapped = sum(headers[m.shard].tensors[name].nbytes for name, m in text.weight_map.items() if m.shard)
    # A surplus is reported by itself; the total may count it or not.
    surplus = sum(
        headers[s[0]].tensors[name].nbytes for name, s in holders.items() if name not in text.weight_map
    )
    if claimed not in (mapped, mapped + surplus):
        message = f"total_size is {claimed:,}, the tensors have {mapped:,} bytes"
        findings.add(Fault("IDX_SIZE_MISMATCH", "IDX-03", message, node.start, node.end, path))


def _whole(node: Node) -> int | None:
    """Return the value of a whole number from 0 on, ``12.0`` included; None for anything else."""
    if plain_integer(node) and len(node.text) <= _DIGITS:
        return int(node.text)
    if node.kind == "number" and len(node.text) <= 2 * _DIGITS:
        match = _WHOLE.fullmatch(node.text)
        if match is not None and len(match[1]) <= _DIGITS:
            return int(match[1])
    return None
