"""Features of valid files, which a wrong refusal hangs on, in the order in which they are named as causes."""

from __future__ import annotations

from collections.abc import Iterable

from ..grammar.draft import Draft
from .feature import Feature
from .header import HEADER, TEXTS
from .tensors import TENSORS

FEATURES: tuple[Feature, ...] = (*HEADER, *TEXTS, *TENSORS)
"""How the header is written, then its texts, then the tensors; within each what is special comes first."""
ROUNDS = 4
"""How often features are taken out again that came back when another one went."""


def within(data: bytes) -> tuple[Feature, ...]:
    return tuple(feature for feature in FEATURES if feature.within(data))


def without(data: bytes, features: Iterable[Feature]) -> bytes | None:
    """Return a valid file without any of several features, None where that cannot be."""
    features = tuple(features)
    for _ in range(ROUNDS):
        left = [feature for feature in features if feature.within(data)]
        if not left:
            return data
        # What contains others goes first: what it takes along need not be changed.
        for feature in reversed(left):
            made = feature.without(data)
            if made is None:
                return None
            data = made
    return None


def plainest(data: bytes) -> bytes:
    """Return what is left of a valid file when everything special is taken out, as far as that can be."""
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
