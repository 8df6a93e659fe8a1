"""Is this content the expected one? The comparison of what was reported with what a file holds.

Of a content that is too large to keep, its first tensors and digests of all that was told are kept. Whoever
is silent about a field cannot be wrong about it, so each field has a digest of its own, over the whole
content in one order.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from safetensors_reference.rules.faults import quote, shorten

from .answer import Answer

FIELDS = ("dtype", "shape", "nbytes", "sha256")
"""What is told of a tensor besides its name."""
NAMES, METADATA = "names", "metadata"
"""Digests of a content besides those of fields."""

_RANK = {part: place for place, part in enumerate(("dtype", "shape", "bytes", "nbytes"))}


class Difference(NamedTuple):
    """What is wrong about a content.

    ``part`` is ``count``, of names ``missing``, ``reported`` or ``twice``, of a tensor ``bytes``, ``nbytes``,
    ``shape`` or ``dtype``, ``metadata``, or of names and metadata ``escapes`` that were left as they are
    spelled; ``text`` says it in one line.
    """

    part: str
    text: str


def differing_fields(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """Return the fields that both rows tell and that differ: whoever is silent cannot be wrong."""
    return [f for f in FIELDS if (x := a.get(f)) is not None and (y := b.get(f)) is not None and x != y]


def worst_rows(content: Mapping[str, Any], answer: Answer) -> Answer:
    """Return an answer with one row of each name out of what several readers were told.

    It is one that is not as expected, where there is one.
    """
    want = {row["name"]: row for row in content["tensors"]}
    rows: dict[str, dict[str, Any]] = {}
    for row in answer.tensors or ():
        if row["name"] not in rows or differing_fields(want.get(row["name"], row), row):
            rows[row["name"]] = row
    return answer if answer.tensors is None else replace(answer, tensors=list(rows.values()))


def first_difference(content: Mapping[str, Any], answer: Answer) -> Difference | None:
    """Return the worst difference between the expected ``content`` and an accepting answer, or None."""
    found = differences(content, answer)
    return found[0] if found else None


def differences(content: Mapping[str, Any], answer: Answer) -> list[Difference]:
    """Return what is wrong about the tensors and what about the metadata, at most one of each.

    Tensors are compared as a set (API-03). Fields that the implementation does not tell are not compared;
    an empty metadata map and none at all count as equal, since many languages cannot tell them apart. Another
    dtype or shape comes before other bytes: elements that were converted or cut have other bytes for that.
    """
    if "tensor_count" in content:
        count = len(answer.tensors or ()) if answer.tensor_count is None else answer.tensor_count
        known = answer.tensors is not None or answer.tensor_count is not None
        if not known or count == content["tensor_count"]:
            return []
        return [Difference("count", f"{count:,} tensors, the file has {content['tensor_count']:,}")]
    found = []
    if answer.tensors is not None:
        found += _tensors(content["tensors"], answer.tensors)
    if answer.has_metadata:
        found += _metadata(content["metadata"] or {}, answer.metadata or {})
    return found


def _tensors(expected: list[dict[str, Any]], reported: list[dict[str, Any]]) -> list[Difference]:
    got: dict[str, dict[str, Any]] = {}
    for row in reported:
        if row["name"] in got:
            return [Difference("twice", f"tensor {quote(row['name'])} is reported twice")]
        got[row["name"]] = row
    want = {row["name"]: row for row in expected}
    for name in want:
        if name not in got:
            spelled = next((other for other in got if _spells(other, name)), None)
            if spelled is not None:
                return [_escapes("tensor", name, spelled)]
            return [Difference("missing", f"tensor {quote(name)} is missing")]
    for name in got:
        if name not in want:
            return [
                Difference("reported", f"tensor {quote(name)} is reported, the file has none of that name")
            ]
    found = [d for name, row in want.items() for d in _tensor(row, got[name])]
    return [min(found, key=lambda difference: _RANK[difference.part])] if found else []


def _tensor(want: dict[str, Any], got: dict[str, Any]) -> Iterator[Difference]:
    for field in differing_fields(want, got):
        if field == "sha256":
            digests = f"sha256 {got[field][:12]}…, not {want[field][:12]}…"
            text = f"other bytes than the file holds ({digests})"
        else:
            text = f"{field} {_show(got[field])}, the file says {_show(want[field])}"
        part = "bytes" if field == "sha256" else field
        yield Difference(part, f"tensor {quote(want['name'])}: {text}")


def _metadata(want: dict[str, str], got: dict[str, Any]) -> Iterator[Difference]:
    for key, value in want.items():
        if key not in got:
            spelled = next((other for other in got if _spells(other, key)), None)
            if spelled is not None:
                yield _escapes("metadata key", key, spelled)
            else:
                yield Difference("metadata", f"metadata key {quote(key)} is missing")
            return
        if _spells(got[key], value):
            yield _escapes(f"metadata {quote(key)}:", value, got[key])
            return
        if got[key] != value:
            shown = shorten(repr(got[key]), 60)
            yield Difference("metadata", f"metadata {quote(key)} is {shown}, the file says {quote(value)}")
            return
    for key in got:
        if key not in want:
            text = f"metadata key {quote(key)} is reported, the file has none of that name"
            yield Difference("metadata", text)
            return


def _escapes(what: str, text: str, spelled: str) -> Difference:
    return Difference("escapes", f"{what} {quote(text)} is reported as it is spelled: {quote(spelled)}")


def _spells(spelled: Any, text: str) -> bool:
    if not isinstance(spelled, str) or "\\" not in spelled:
        return False
    try:
        return bool(json.loads(f'"{spelled}"', strict=False) == text)
    except ValueError:
        return False


def _show(value: object) -> str:
    return shorten(str(value), 60)


def size_of(content: Mapping[str, Any]) -> float:
    """Return the length of a content as JSON, infinite when it is nested too deeply for that."""
    try:
        with suppress(UnicodeEncodeError):  # halves of surrogate pairs, which only the other one spells
            return len(msgspec.json.encode(content))
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
