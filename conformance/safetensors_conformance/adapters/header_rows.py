"""Rows for libraries that hand out the header as the JSON parser made it; runs in their environment."""

from __future__ import annotations

from typing import Any


def rows(header: Any) -> list[tuple[str, Any, Any]]:
    """Return what the header lists. Nothing is checked here: the library let it through."""
    if not isinstance(header, dict):
        return []
    return [(name, *_entry(info)) for name, info in header.items() if name != "__metadata__"]


def answer(header: Any) -> dict[str, Any]:
    """Return rows and metadata."""
    metadata = header.get("__metadata__") if isinstance(header, dict) else None
    return {"tensors": rows(header), "metadata": metadata}


def _entry(info: Any) -> tuple[Any, Any]:
    if not isinstance(info, dict):
        return None, None
    shape = info.get("shape")
    return info.get("dtype"), shape if isinstance(shape, list) else None
