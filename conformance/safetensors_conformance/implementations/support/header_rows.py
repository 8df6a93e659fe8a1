"""Rows for libraries that return the header exactly as it was parsed, without checking its content."""

from typing import Any

from stc_host.library import UNTOLD


def rows(header: Any) -> list[tuple[str, Any, Any]]:
    if not isinstance(header, dict):
        return []
    return [(name, *_entry(info)) for name, info in header.items() if name != "__metadata__"]


def answer(header: Any) -> dict[str, Any]:
    metadata = header.get("__metadata__") if isinstance(header, dict) else None
    return {"tensors": rows(header), "metadata": metadata}


def _entry(info: Any) -> tuple[Any, Any]:
    if not isinstance(info, dict):
        return UNTOLD, UNTOLD
    return info.get("dtype", UNTOLD), info.get("shape", UNTOLD)
