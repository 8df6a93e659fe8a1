"""The conditional set: 60 readers with one planted bug each that shows only under a condition.

It measures how blind the corpus is, and so it was written without a look at the corpus, at the engines or at
the other held-out set. Whoever writes cases must not read it, neither this folder nor its tests.
Every answer of these readers that differs from the right one breaks a must-rule.
"""

from __future__ import annotations

from .. import Planted
from . import entries, framing, layout, text, values

PLANTED: tuple[Planted, ...] = (
    *framing.PLANTED,
    *text.PLANTED,
    *entries.PLANTED,
    *layout.PLANTED,
    *values.PLANTED,
)
"""The readers."""

TWO_CONDITIONS = frozenset(
    {
        "zero-rest-up-to-eight",
        "direct-block-fills",
        "spaces-skipped-behind-header",
        "wide-elements-read-aligned",
        "controls-in-the-tail",
        "signed-compare-in-long-strings",
        "escaped-twice-among-many",
        "long-names-cut-at-nul",
        "dtype-cache-by-prefix",
        "packed-offsets-before-shape",
        "scalar-before-its-dtype",
        "empty-metadata-not-first",
        "gap-before-wide-elements",
        "tied-ranges-accepted",
        "sort-by-low-bits",
        "unaligned-matrix",
        "cache-by-place-in-page",
        "leading-one-dropped",
        "shape-cache-by-count",
        "scalar-nan-quieted",
    }
)
"""Names of the readers whose bug shows only where two conditions meet; that of every other needs one."""
