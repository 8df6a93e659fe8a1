"""A badge in the form that shields.io reads from an endpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...text import visible

if TYPE_CHECKING:
    from ..build import Report

COLORS = {
    "conformant": "brightgreen",
    "wrong files": "orange",
    "unguarded": "orange",
    "late": "yellow",
    "strict": "yellow",
    "lenient": "orange",
    "deviating": "yellow",
    "inconsistent": "orange",
    "wrong content": "red",
    "unsafe": "red",
    "not fully known": "lightgrey",
    "no fault shown": "lightgrey",
}
"""Word for an implementation -> colour of its badge. The word is always there too, never the colour alone."""


def badges(report: Report) -> dict[str, dict[str, Any]]:
    """Return a badge per implementation by label: its word, the share of cases due, and what was not run."""
    return {who["label"]: _badge(who) for who in report["implementations"]}


def _badge(who: dict[str, Any]) -> dict[str, Any]:
    # Choices and lacking features are legitimate; only what was due and is right counts.
    counts = who["counts"]
    right = sum(counts.get(kind, 0) for kind in ("pass", "choice", "unsupported"))
    message = f"{who['word']} · {right:,}/{who['due']:,}"
    if who["not_run"]:
        message += f" · {who['not_run']:,} not run"
    return {
        "schemaVersion": 1,
        "label": f"safetensors conformance: {visible(who['label'], 60)}",
        "message": message,
        "color": COLORS[who["word"]],
    }
