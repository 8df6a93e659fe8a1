"""Comparing what an index says with what its shards hold (IDX-03, IDX-09 to IDX-11, IDX-14)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..header.entries import describe
from ..header.json_text import plain_integer
from ..rules.faults import Fault, quote
from .findings import Note
from .index import METADATA, TOTAL_SIZE, WEIGHT_MAP

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..header.json_text import Node
    from ..header.model import Header
    from .findings import Findings
    from .index import IndexText

_WHOLE = re.compile(r"(0|[1-9][0-9]*)\.0+")
_DIGITS = 20
"""Longest number that is converted; 2^64 has that many digits."""


def check_contents(text: IndexText, headers: Mapping[str, Header], findings: Findings) -> None:
    """Compare the map with the tensors that the shards hold; faults go to ``findings``.

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
        told: str | None = "the index does not map"
    else:
        start, end = mapped.start, mapped.end
        path = (WEIGHT_MAP, name)
        # A value that is no string is reported already; where that tensor belongs is unknown.
        told = None if mapped.shard is None else f"the index maps to {quote(mapped.shard)}"
    if mapped is not None and mapped.shard in shards:
        right = mapped.shard
    else:
        right = shards[0]
        if told is not None:
            message = f"{quote(right)} holds tensor {quote(name)}, which {told}"
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
