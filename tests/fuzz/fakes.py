"""Readers that do not even look at the file; ``reading_fakes`` has those that do.

A finding starts its reader several times, so these import nothing else.
"""

from __future__ import annotations

from typing import Any


class AcceptsAll:
    """Accepts every file and says that it is empty."""

    def read(self, path: str) -> Any:
        return {"tensors": [], "metadata": None}


class RefusesAll:
    """Refuses every file."""

    def read(self, path: str) -> Any:
        raise ValueError("no")
