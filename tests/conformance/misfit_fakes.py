"""Versions for trends: one that the adapter does not support, and one with its own fault."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from known_files import holds

if TYPE_CHECKING:
    from .quick_reader import Reference
else:
    from quick_reader import Reference


class OldApi:
    """Accepts any arguments, but lacks the function with which the adapter reads elements."""

    def open(self, path: str) -> Any:
        return {"tensors": [], "metadata": None}

    def read(self, path: str) -> Any:
        if holds(path, "layout/empty-tensor-inside-*"):
            return self.open(path)
        raise AssertionError("cannot view elements as bytes")


class LosesMetadata(Reference):
    """Reads everything but the metadata."""

    def open(self, path: str) -> Any:
        return {**super().open(path), "metadata": None}

    def read(self, path: str) -> Any:
        return {**super().read(path), "metadata": None}
