"""The held-out set: readers with one planted bug each that shows under a condition.

This set measures the engines. Whoever edits the grammar or the mutations must not read it, neither this
folder nor its tests: an engine that was written with these bugs in view finds
these bugs, and says nothing about those of real readers. Results are reported as numbers.

A bug that is found in a real reader is added here, as the condition under which it showed.
"""

from __future__ import annotations

from .. import Planted
from . import entries as hard_entries
from . import header as hard_header
from . import layout as hard_layout
from . import text as hard_text
from . import values as hard_values

HARD: tuple[Planted, ...] = (
    *hard_header.PLANTED,
    *hard_text.PLANTED,
    *hard_entries.PLANTED,
    *hard_layout.PLANTED,
    *hard_values.PLANTED,
)
"""The readers."""
