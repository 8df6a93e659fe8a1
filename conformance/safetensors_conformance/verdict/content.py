"""What an implementation made of one input, in one form for all, so that two answers can be compared.

Tensors are sorted by name since their order is nobody's promise (API-03). What an implementation does not
tell is left out, never filled in: silence agrees with everything.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

from safetensors_corpus.judging.content import FIELDS

from ..worker.outcome import StepResult

SHOWN = 50
"""Most tensors and metadata keys that a dump lists; the digest covers all."""


def dump(result: StepResult) -> dict[str, Any]:
    """Return the canonical form of an answer, JSON-serialisable and of bounded size.

    ``outcome`` always; ``message`` for what is no accept; of an accept ``digest`` over everything told,
    ``count`` of tensors, ``tensors`` sorted by name and ``metadata`` sorted by key, as far as they are told.
    """
    if result.outcome != "accept":
        return {"outcome": result.outcome, "message": result.message[:500]}
    out: dict[str, Any] = {"outcome": "accept"}
    told: dict[str, Any] = {}
    if result.tensors is not None:
        told["tensors"] = sorted((_tensor(row) for row in result.tensors), key=_order)
    if result.has_metadata:
        told["metadata"] = dict(sorted((str(k), _plain(v)) for k, v in (result.metadata or {}).items()))
    text = json.dumps(told if result.cut is None else dict(result.cut), sort_keys=True, separators=(",", ":"))
    out["digest"] = hashlib.sha256(text.encode("ascii")).hexdigest()
    if "tensors" in told:
        out["count"] = len(told["tensors"]) if result.cut is None else result.cut["tensor_count"]
        out["tensors"] = told["tensors"][:SHOWN]
    if "metadata" in told:
        out["metadata"] = dict(list(told["metadata"].items())[:SHOWN])
    return out


def _tensor(row: dict[str, Any]) -> dict[str, Any]:
    told = {name: _plain(row[name]) for name in FIELDS if row.get(name) is not None}
    return {"name": row["name"], **told, **({"unsupported": True} if row.get("unsupported") else {})}


def _order(row: dict[str, Any]) -> tuple[str, str]:
    return row["name"], json.dumps(row, sort_keys=True)


def _plain(value: Any) -> Any:
    """Return a value that JSON can hold: lenient readers report NaN and infinities."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, list) else value
