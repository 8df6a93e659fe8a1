"""Comparing what a reader reports with what a case holds; the first difference is named."""

from __future__ import annotations

from typing import Any

from safetensors_reference.faults import quote, shorten

from .outcomes import StepResult


def first_difference(content: dict[str, Any], result: StepResult) -> str | None:
    """Return the first difference between the expected ``content`` and an accepting ``result``, or None.

    Tensors are compared as a set (API-03). Fields that the implementation does not tell are not compared;
    an empty metadata map and none at all count as equal, since many languages cannot tell them apart.
    """
    if "tensor_count" in content:
        count = len(result.tensors or ()) if result.tensor_count is None else result.tensor_count
        known = result.tensors is not None or result.tensor_count is not None
        return (
            f"{count:,} tensors, the file has {content['tensor_count']:,}"
            if (known and count != content["tensor_count"])
            else None
        )
    if result.tensors is not None:
        difference = _tensors(content["tensors"], result.tensors)
        if difference is not None:
            return difference
    if result.has_metadata:
        return _metadata(content["metadata"] or {}, result.metadata or {})
    return None


def _tensors(expected: list[dict[str, Any]], reported: list[dict[str, Any]]) -> str | None:
    got: dict[str, dict[str, Any]] = {}
    for row in reported:
        if row["name"] in got:
            return f"tensor {quote(row['name'])} is reported twice"
        got[row["name"]] = row
    want = {row["name"]: row for row in expected}
    for name in want:
        if name not in got:
            return f"tensor {quote(name)} is missing"
    for name in got:
        if name not in want:
            return f"tensor {quote(name)} is reported, the file has none of that name"
    for name, row in want.items():
        difference = _tensor(row, got[name])
        if difference is not None:
            return f"tensor {quote(name)}: {difference}"
    return None


def _tensor(want: dict[str, Any], got: dict[str, Any]) -> str | None:
    for key in ("dtype", "shape", "nbytes"):
        if got.get(key) is not None and got[key] != want[key]:
            return f"{key} {_show(got[key])}, the file says {_show(want[key])}"
    if got.get("sha256") is not None and got["sha256"] != want["sha256"]:
        return f"other bytes than the file holds (sha256 {got['sha256'][:12]}…, not {want['sha256'][:12]}…)"
    return None


def _metadata(want: dict[str, str], got: dict[str, Any]) -> str | None:
    for key, value in want.items():
        if key not in got:
            return f"metadata key {quote(key)} is missing"
        if got[key] != value:
            return f"metadata {quote(key)} is {shorten(repr(got[key]), 60)}, the file says {quote(value)}"
    for key in got:
        if key not in want:
            return f"metadata key {quote(key)} is reported, the file has none of that name"
    return None


def _show(value: object) -> str:
    return shorten(str(value), 60)


def unsupported_tensors(result: StepResult) -> list[str]:
    """Names of tensors that the implementation said it cannot hand out."""
    return [row["name"] for row in result.tensors or () if row.get("unsupported")]
