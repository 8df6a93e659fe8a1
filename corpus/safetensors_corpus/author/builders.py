"""Which builder drives which kind of case."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .file import FileBuilder
from .index import IndexBuilder
from .lifecycle import LifecycleBuilder
from .resource import RecipeBuilder
from .slice import SliceBuilder
from .write import WriteBuilder

if TYPE_CHECKING:
    from .file import Builder

BUILDERS: dict[str, Callable[[], Builder]] = {
    "read": FileBuilder,
    "slice": SliceBuilder,
    "write": WriteBuilder,
    "index": IndexBuilder,
    "lifecycle": LifecycleBuilder,
    "resource": RecipeBuilder,
}


def new_builder(kind: str) -> Builder:
    """Return an empty builder for a case of this kind. Raises ValueError for a kind that has none."""
    if kind not in BUILDERS:
        raise ValueError(f"cases of kind {kind!r} have no builder in author/builders.py")
    return BUILDERS[kind]()
