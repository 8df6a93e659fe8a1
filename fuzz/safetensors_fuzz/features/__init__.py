"""Features of valid files that can cause a wrong refusal, in the order in which they are reported."""

from __future__ import annotations

from collections.abc import Iterable

from ..grammar.draft import Draft
from .feature import Feature
from .header import HEADER, TEXTS
from .tensors import TENSORS

FEATURES: tuple[Feature, ...] = (*HEADER, *TEXTS, *TENSORS)
"""Features of the header's layout, then of its strings, then of tensors; the most special first in each
group."""
ROUNDS = 4
"""Most rounds of removing features that return when another one is removed."""


def within(data: bytes) -> tuple[Feature, ...]:
    return tuple(feature for feature in FEATURES if feature.within(data))


def without(data: bytes, features: Iterable[Feature]) -> bytes | None:
    """Return a valid file without several features, None where that is impossible."""
    features = tuple(features)
    for _ in range(ROUNDS):
        left = [feature for feature in features if feature.within(data)]
        if not left:
            return data
        # Outer features first: features that they contain vanish with them.
        for feature in reversed(left):
            made = feature.without(data)
            if made is None:
                return None
            data = made
    return None


def plainest(data: bytes) -> bytes:
    """Return a valid file with every removable feature removed."""
    for _ in range(ROUNDS):
        for feature in reversed(within(data)):
            data = feature.without(data) or data
    return data


def longer(data: bytes) -> bytes:
    """Return a valid file with a header that is eight bytes longer and has the same features."""
    draft = Draft.of(data)
    if draft is None:
        raise ValueError("a file with faults")
    draft.grow()
    return draft.render()
