"""Compares the map of an index with the contents of its shards.

Callers supply the state of each shard, so that local folders, remote folders and audit rows are all checked
by the same code.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..header.entries import describe
from ..header.json_text import plain_integer
from ..rules.faults import Fault, quote, shorten
from .index import METADATA, TOTAL_SIZE, WEIGHT_MAP, FaultCollector, IndexNote, IndexText

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..header.explain import Explanation
    from ..header.json_text import Node
    from ..header.model import Header

_WHOLE = re.compile(r"(0|[1-9][0-9]*)\.0+")
DIGITS = 20
"""Number of digits of the longest number that is converted, which is the number of digits of 2^64."""


@dataclass(frozen=True, slots=True)
class Shard:
    """State of one shard.

    ``header`` and ``faults`` are the result of reading it. If it was not read, ``absent`` (a fault) or
    ``unread`` (no verdict) says why.
    """

    header: Header | None = None
    faults: Sequence[Fault] = ()
    tolerated: Sequence[Fault] = ()
    absent: str | None = None
    unread: str | None = None
    link: str | None = None


ABSENT = Shard(absent="does not exist")

ShardLookup = Callable[[str], Shard]


def shard_of(seen: Explanation, link: str | None = None) -> Shard:
    return Shard(seen.header, seen.faults, seen.tolerated, link=link)


@dataclass(frozen=True, slots=True)
class ShardContents:
    """Headers of the shards without faults, and the reasons why other shards are ``unread``, by name."""

    headers: dict[str, Header]
    unread: dict[str, str]


def check_shards(text: IndexText, lookup: ShardLookup, findings: FaultCollector) -> ShardContents:
    """Compare all usable shards with the map. Their faults get the place of the first mention."""
    contents = ShardContents({}, {})
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
                contents.unread[name] = shard.unread
            elif shard.header is not None:
                contents.headers[name] = shard.header
            for faults, tolerated in ((shard.faults, False), (shard.tolerated, True)):
                for fault in faults:
                    message = f"{quote(name)} at byte {fault.start:,}: {fault.message}"
                    findings.add(replace(fault, message=message, start=start, end=end, path=where), tolerated)
    check_contents(text, contents.headers, findings)
    return contents


def check_contents(text: IndexText, headers: Mapping[str, Header], findings: FaultCollector) -> None:
    """Compare the map with the tensors in the headers of the shards (IDX-03, IDX-09 to IDX-11, IDX-14)."""
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
    if mapped is None:
        # The missing member has no place, so use the position where it would be added.
        start = end = text.map_end
        path: tuple[str, ...] = (WEIGHT_MAP,)
        mismatch: str | None = "the index does not map"
    else:
        start, end = mapped.start, mapped.end
        path = (WEIGHT_MAP, name)
        # A value that is not a string has already been reported.
        mismatch = None if mapped.shard is None else f"the index maps to {quote(mapped.shard)}"
    if mapped is not None and mapped.shard in shards:
        right = mapped.shard
    else:
        right = shards[0]
        if mismatch is not None:
            message = f"{quote(right)} contains tensor {quote(name)}, which {mismatch}"
            findings.add(Fault("IDX_TENSOR_UNINDEXED", "IDX-10", message, start, end, path))
    for shard in shards:
        if shard != right:
            message = f"{quote(shard)} contains tensor {quote(name)}, which is also in {quote(right or '')}"
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
        message = f"total_size is {claimed:,}, but the tensors have {mapped:,} bytes"
        findings.add(Fault("IDX_SIZE_MISMATCH", "IDX-03", message, node.start, node.end, path))


def _whole(node: Node) -> int | None:
    if plain_integer(node) and len(node.text) <= DIGITS:
        return int(node.text)
    if node.kind == "number" and len(node.text) <= 2 * DIGITS:
        match = _WHOLE.fullmatch(node.text)
        if match is not None and len(match[1]) <= DIGITS:
            return int(match[1])
    return None
