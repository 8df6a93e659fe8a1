"""Describe the content of a file, and compare it with reported content.

Content that is too large to record is reduced to its first tensors and to one digest per field over all
tensors. Implementations may omit fields, and an omitted field is never wrong.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from safetensors_reference.text import plural, quote, shorten

from .answer import Answer

NAMES, METADATA = "names", "metadata"

_RANK = {part: place for place, part in enumerate(("dtype", "shape", "bytes", "nbytes"))}


FIELDS = ("dtype", "shape", "nbytes", "sha256")
"""Fields of a tensor in a content, in addition to its name. Implementations may omit them."""


def tensor_row(name: str, dtype: str, shape: Sequence[int], data: bytes) -> dict[str, Any]:
    """Return the row of a tensor in the content of an expectation."""
    return {
        "name": name,
        "dtype": dtype,
        "shape": list(shape),
        "nbytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }


def differing_fields(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """Return the fields that the rows of two tensors both contain and that have different values."""
    return [f for f in FIELDS if (x := a.get(f)) is not None and (y := b.get(f)) is not None and x != y]


def dtype_features(dtypes: Iterable[str]) -> list[str]:
    """Return the features that a case with these dtypes needs."""
    return sorted({f"dtype-{d.lower().replace('_', '-')}" for d in dtypes})


class Difference(NamedTuple):
    """A difference between contents; ``text`` is one line.

    ``part`` is ``count``; ``missing``, ``reported`` or ``twice`` for names; ``bytes``, ``nbytes``, ``shape``
    or ``dtype`` for a tensor; ``metadata``; or ``escapes`` if a name or metadata was not unescaped.
    """

    part: str
    text: str
    tensor: str | None = None
    """Name of the tensor whose values differ."""


def worst_rows(content: Mapping[str, Any], answer: Answer) -> Answer:
    """Reduce the rows of several readers to one row per name, preferring a wrong row."""
    want = {row["name"]: row for row in content["tensors"]}
    rows: dict[str, dict[str, Any]] = {}
    for row in answer.tensors or ():
        if row["name"] not in rows or differing_fields(want.get(row["name"], row), row):
            rows[row["name"]] = row
    return answer if answer.tensors is None else replace(answer, tensors=list(rows.values()))


def first_difference(content: Mapping[str, Any], answer: Answer) -> Difference | None:
    return next(iter(differences(content, answer)), None)


def differences(content: Mapping[str, Any], answer: Answer) -> list[Difference]:
    """Return at most one difference in the tensors and one in the metadata.

    The order of tensors is irrelevant (API-03), and omitted fields are not compared. An empty metadata map is
    equal to missing metadata, because many languages cannot distinguish them. A wrong dtype or shape takes
    precedence over wrong bytes, because converted or truncated elements have different bytes.
    """
    if "tensor_count" in content:
        count = answer.tensor_count
        if count is None and answer.tensors is not None:
            count = len(answer.tensors)
        if count is None or count == content["tensor_count"]:
            return []
        return [Difference("count", f"{plural(count, 'tensor')} instead of {content['tensor_count']:,}")]
    metadata = {"metadata": answer.metadata} if answer.has_metadata else {}
    return _differences(content, {"tensors": answer.tensors, **metadata})


def first_disagreement(one: Mapping[str, Any], other: Mapping[str, Any]) -> Difference | None:
    """Return the first difference between two reported contents, or None.

    The difference is described as a mistake in ``other``. Values that appear in only one of the contents are
    not compared. If one content is reduced to digests, the other is reduced too.
    """
    if "digests" in one or "digests" in other:
        mine, others = (c["digests"] if "digests" in c else digests(c) for c in (one, other))
        shared = [part for part in (NAMES, *FIELDS, METADATA) if part in mine and part in others]
        part = next((part for part in shared if mine[part] != others[part]), None)
        if part is None:
            return None
        name = {NAMES: "the tensor names", METADATA: "the metadata"}.get(part, f"{part} of a tensor")
        return Difference(part, f"{name} by digest: {others[part][:12]}… instead of {mine[part][:12]}…")
    # If only one of them contains a name twice, the difference is visible in only one direction.
    return next(iter(_differences(one, other) or _differences(other, one)), None)


def _differences(expected: Mapping[str, Any], reported: Mapping[str, Any]) -> list[Difference]:
    out = []
    if expected.get("tensors") is not None and reported.get("tensors") is not None:
        out += _tensors(expected["tensors"], reported["tensors"])
    if "metadata" in expected and "metadata" in reported:
        out += _metadata(expected["metadata"] or {}, reported["metadata"] or {})
    return out


def _tensors(expected: list[dict[str, Any]], reported: list[dict[str, Any]]) -> list[Difference]:
    want, got = _rows_by_name(expected), _rows_by_name(reported)
    for name, rows in got.items():
        if len(rows) > len(want.get(name, rows[:1])):
            return [Difference("twice", f"tensor {quote(name)} is reported twice")]
    for name in want:
        if name not in got:
            spelled = next((other for other in got if _spells(other, name)), None)
            if spelled is not None:
                return [_escapes("tensor", name, spelled)]
            return [Difference("missing", f"tensor {quote(name)} is missing")]
    for name in got:
        if name not in want:
            text = f"tensor {quote(name)} is reported, but the file has none of that name"
            return [Difference("reported", text)]
    out: list[Difference] = []
    for name, rows in want.items():
        for row in rows:  # the rows of a repeated name may be in any order
            if all(differing_fields(row, other) for other in got[name]):
                out += _tensor(row, got[name][0])
    return sorted(out, key=lambda difference: _RANK[difference.part])[:1]


def _rows_by_name(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    out: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        out.setdefault(row["name"], []).append(row)
    return out


def _tensor(want: dict[str, Any], got: dict[str, Any]) -> Iterator[Difference]:
    for field in differing_fields(want, got):
        if field == "sha256":
            digests = f"sha256 {got[field][:12]}…, not {want[field][:12]}…"
            text = f"other bytes than the file contains ({digests})"
        else:
            got_text, want_text = (shorten(str(row[field]), 60) for row in (got, want))
            text = f"{field} {got_text} instead of {want_text}"
        part = "bytes" if field == "sha256" else field
        yield Difference(part, f"tensor {quote(want['name'])}: {text}", want["name"])


def _metadata(want: dict[str, Any], got: dict[str, Any]) -> Iterator[Difference]:
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
            wanted = quote(value) if isinstance(value, str) else shorten(repr(value), 60)
            yield Difference("metadata", f"metadata {quote(key)} is {shown} instead of {wanted}")
            return
    for key in got:
        if key not in want:
            text = f"metadata key {quote(key)} is reported, but the file has none of that name"
            yield Difference("metadata", text)
            return


def _escapes(label: str, text: str, spelled: str) -> Difference:
    return Difference("escapes", f"{label} {quote(text)} is reported as it is spelled: {quote(spelled)}")


def _spells(spelled: Any, text: str) -> bool:
    if not isinstance(spelled, str) or "\\" not in spelled:
        return False
    try:
        return bool(json.loads(f'"{spelled}"', strict=False) == text)
    except ValueError:
        return False


def size_of(content: Mapping[str, Any]) -> float:
    """Return the length of the content as JSON. It is infinite if the content is nested too deeply."""
    try:
        with suppress(UnicodeEncodeError):  # lone surrogates, which only the json module encodes
            return len(msgspec.json.encode(content))
        return len(json.dumps(content))
    except RecursionError:
        return float("inf")


def bounded(content: Mapping[str, Any], kept: int) -> dict[str, Any]:
    """Reduce content to about ``kept`` bytes of JSON, and add counts and ``digests`` of the whole content."""
    rows, metadata = content.get("tensors"), content.get("metadata")
    out: dict[str, Any] = {"digests": digests(content)}
    if rows is not None:
        first = sorted(rows, key=lambda row: str(row["name"]))
        out |= {"tensors": list(_fitting(first, kept // 2)), "tensor_count": len(rows)}
    if "metadata" in content:
        first_pairs = dict(_fitting(sorted((metadata or {}).items()), kept // 2))
        out |= {"metadata": None if metadata is None else first_pairs, "metadata_count": len(metadata or {})}
    return out


def _fitting(values: Iterable[Any], size: int) -> Iterable[Any]:
    for value in values:
        size -= len(_text(value)) + 2
        if size < 0:
            return
        yield value


def digests(content: Mapping[str, Any]) -> dict[str, str]:
    """Return the digests of the names, of each field that every tensor has, and of the metadata."""
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
