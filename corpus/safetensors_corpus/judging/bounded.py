"""What is kept of a content that is too large to keep: its first tensors, and digests of all that was told.

Whoever is silent about a field cannot be wrong about it, so two contents are held against each other field by
field: each has a digest of its own, over the whole content in one order.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from .content import FIELDS

NAMES, METADATA = "names", "metadata"


def size_of(content: Mapping[str, Any]) -> float:
    """Return the length of a content as JSON, infinite when it is nested too deeply for that."""
    try:
        return len(json.dumps(content))
    except RecursionError:
        return float("inf")


def bounded(content: Mapping[str, Any], kept: int) -> dict[str, Any]:
    """Return a content of about ``kept`` bytes as JSON.

    Beside ``tensors`` and ``metadata``, of which the first are there that fit into half of it each, it has
    ``tensor_count``, ``metadata_count`` and ``digests``.
    """
    rows, metadata = content.get("tensors"), content.get("metadata")
    out: dict[str, Any] = {"digests": digests(content)}
    if rows is not None:
        first = sorted(rows, key=lambda row: str(row["name"]))
        out |= {"tensors": list(_fitting(first, kept // 2)), "tensor_count": len(rows)}
    if "metadata" in content:
        told = dict(_fitting(sorted((metadata or {}).items()), kept // 2))
        out |= {"metadata": None if metadata is None else told, "metadata_count": len(metadata or {})}
    return out


def _fitting(values: Iterable[Any], size: int) -> Iterable[Any]:
    """Return the first of some values that fit into a number of bytes as JSON."""
    for value in values:
        size -= len(_text(value)) + 2
        if size < 0:
            return
        yield value


def digests(content: Mapping[str, Any]) -> dict[str, str]:
    """Return digests of the names, of each field that is told of every tensor, and of the metadata."""
    out: dict[str, str] = {}
    rows = content.get("tensors")
    if rows is not None:
        names = [json.dumps(row["name"]) for row in rows]
        out[NAMES] = _digest(sorted(names))
        for field in FIELDS:
            if all(row.get(field) is not None for row in rows):
                out[field] = _digest(
                    sorted(f"{n}:{_text(r[field])}" for n, r in zip(names, rows, strict=True))
                )
    if "metadata" in content:
        pairs = (content["metadata"] or {}).items()
        out[METADATA] = _digest(sorted(f"{json.dumps(key)}:{_text(value)}" for key, value in pairs))
    return out


def _digest(parts: Iterable[str]) -> str:
    hasher = hashlib.sha256()
    parts = iter(parts)
    while some := list(islice(parts, 1000)):
        hasher.update(("\n".join(some) + "\n").encode("utf-8", "surrogatepass"))
    return hasher.hexdigest()


def _text(value: Any) -> str:
    try:
        return json.dumps(value, sort_keys=True)
    except RecursionError:
        return '"nested too deeply"'
