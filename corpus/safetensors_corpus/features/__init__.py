"""Features of valid files. The fuzzer, the covering sets and the reports use this registry.

A feature is one entry of ``HEADER``, ``STRINGS`` or ``TENSORS``. It specifies how to add the feature to a
file, how to find it and how to remove it.
"""

from __future__ import annotations

from collections.abc import Iterable

from .draft import Draft
from .feature import Feature
from .header import HEADER
from .strings import STRINGS
from .tensors import TENSORS

FEATURES: dict[str, Feature] = {feature.name: feature for feature in (*HEADER, *STRINGS, *TENSORS)}
"""All features by name. Messages list them in this order, which starts with the most specific feature."""
ROUNDS = 4
"""Maximum number of rounds. Removing one feature can restore another, which the next round removes."""


def within(data: bytes) -> tuple[Feature, ...]:
    """Return the features of a file that can be removed."""
    draft = Draft.of(data)
    if draft is None:
        return ()
    return tuple(f for f in FEATURES.values() if f.take_out is not None and f.is_in(draft))


def without(data: bytes, features: Iterable[Feature]) -> bytes | None:
    features = tuple(features)
    for _ in range(ROUNDS):
        left = [feature for feature in features if feature.within(data)]
        if not left:
            return data
        # Removing an outer feature first also removes the features that it contains.
        for feature in reversed(left):
            made = feature.without(data)
            if made is None:
                return None
            data = made
    return None


def plainest(data: bytes) -> bytes:
    for _ in range(ROUNDS):
        for feature in reversed(within(data)):
            data = feature.without(data) or data
    return data


def longer(data: bytes) -> bytes:
    """Return a valid file with the same features and a header that is eight bytes longer."""
    draft = Draft.of(data)
    if draft is None:
        raise ValueError("the file has faults")
    draft.grow()
    return draft.render()
