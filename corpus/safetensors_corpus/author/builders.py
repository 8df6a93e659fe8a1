"""Which builder drives which kind of case."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .builder import FileBuilder
from .index_builder import IndexBuilder
from .lifecycle_builder import LifecycleBuilder
from .recipe_builder import RecipeBuilder
from .slice_builder import SliceBuilder
from .write_builder import WriteBuilder

if TYPE_CHECKING:
    from .builder import Builder

BUILDERS: dict[str, Callable[[], Builder]] = {
    "read": FileBuilder,
    "slice": SliceBuilder,
    "write": WriteBuilder,
    "index": IndexBuilder,
    "lifecycle": LifecycleBuilder,
    "resource": RecipeBuilder,
}


def new_builder(kind: str) -> Builder:
    """Return an empty builder for a case of this kind."""
    return BUILDERS[kind]()
