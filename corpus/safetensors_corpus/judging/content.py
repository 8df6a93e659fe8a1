"""Is this content the expected one? The comparison of what was reported with what a file holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from safetensors_reference.rules.faults import quote, shorten

from .answer import Answer

FIELDS = ("dtype", "shape", "nbytes", "sha256")
"""What is told of a tensor besides its name."""

_RANK = {part: place for place, part in enumerate(("bytes", "nbytes", "shape", "dtype"))}


class Difference(NamedTuple):
    """What is wrong about a content.

    ``part`` is ``count``, of names ``missing``, ``reported`` or ``twice``, of a tensor ``bytes``, ``nbytes``,
    ``shape`` or ``dtype``, or ``metadata``; ``text`` says it in one line.
    """

    part: str
    text: str


def differing_fields(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """Return the fields that both rows tell and that differ: whoever is silent cannot be wrong."""
    return [f for f in FIELDS if a.get(f) is not None and b.get(f) is not None and a[f] != b[f]]


def first_difference(content: Mapping[str, Any], answer: Answer) -> Difference | None:
    """Return the worst difference between the expected ``content`` and an accepting answer, or None."""
    found = differences(content, answer)
    return found[0] if found else None


def differences(content: Mapping[str, Any], answer: Answer) -> list[Difference]:
    """Return what is wrong about the tensors and what about the metadata, at most one of each.

    Tensors are compared as a set (API-03). Fields that the implementation does not tell are not compared;
    an empty metadata map and none at all count as equal, since many languages cannot tell them apart. Right
    bytes under another dtype are a difference of the dtype; other bytes outweigh it.
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
            yield Difference("metadata", f"metadata key {quote(key)} is missing")
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


def _show(value: object) -> str:
    return shorten(str(value), 60)
