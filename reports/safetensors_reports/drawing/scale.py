"""Where positions are in a drawing: in proportion where possible, nothing too narrow for its words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from .canvas import INNER, MARGIN

LEAST = 10.0
"""Least width of anything between two positions, in pixels."""


def spread(sizes: Sequence[int], least: Sequence[float], width: float) -> tuple[list[float], bool]:
    """Share ``width`` among intervals in proportion to ``sizes``, each getting at least its ``least``.

    Returns the widths, and whether they are to scale. Where the least widths together are more than there is,
    they are what is shared out.
    """
    if not sizes:
        return [], True
    needed = sum(least)
    if needed >= width:
        return [width * part / needed for part in least], False
    fixed: set[int] = set()
    while True:
        free = width - sum(least[i] for i in fixed)
        total = sum(size for i, size in enumerate(sizes) if i not in fixed)
        # In whole numbers first: a size can have more digits than a float.
        widths = [least[i] if i in fixed else free * (s / total if total else 0) for i, s in enumerate(sizes)]
        short = {i for i, w in enumerate(widths) if i not in fixed and w < least[i]}
        if not short:
            return widths, not fixed
        fixed |= short


class Scale:
    """Where the positions of a file are on the canvas; straight lines between the known ones."""

    def __init__(self, places: Mapping[int, float]) -> None:
        self._places = sorted(places.items())

    def at(self, position: int) -> float:
        """Return x of a position; beyond the ends that of the end."""
        before, x_before = self._places[0]
        for place, x in self._places:
            if position <= place:
                share = (position - before) / (place - before) if position > before else 0.0
                return x_before + (x - x_before) * share if position >= before else x
            before, x_before = place, x
        return x_before


def scale_of(spans: Iterable[tuple[int, int, float]], points: Iterable[int] = ()) -> tuple[Scale, bool]:
    """Return the scale for spans (begin, end, least width) and points, and whether it is to scale."""
    spans = list(spans)
    known = sorted({0, *points, *(s[0] for s in spans), *(s[1] for s in spans)})
    gaps = list(pairwise(known))
    least = [LEAST] * len(gaps)
    for begin, end, width in spans:
        inside = [i for i, (a, b) in enumerate(gaps) if begin <= a and b <= end]
        missing = width - sum(least[i] for i in inside)
        for i in inside:
            least[i] += max(missing, 0.0) / len(inside)
    widths, to_scale = spread([b - a for a, b in gaps], least, INNER)
    places = {known[0]: float(MARGIN)}
    for (_, end), width in zip(gaps, widths, strict=True):
        places[end] = max(places.values()) + width
    return Scale(places), to_scale
