"""A feature of valid files, and a function that removes features."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from .draft import Draft

T = TypeVar("T")
Remover = Callable[[Draft], bool]
"""Removes a feature from a draft in place. Returns False if the draft does not have the feature."""


@dataclass(frozen=True)
class Feature:
    """A feature of valid files."""

    words: str
    """Noun phrase that follows "without" in messages."""
    rule: str
    """Id of the rule that allows or defines the feature."""
    remove: Remover

    def within(self, data: bytes) -> bool:
        draft = Draft.of(data)
        return draft is not None and self.remove(draft)

    def without(self, data: bytes) -> bytes | None:
        """Return the most similar valid file without the feature, or None if there is no such file."""
        draft = Draft.of(data)
        if draft is None:
            return None
        self.remove(draft)
        made = draft.render()
        again = Draft.of(made)
        return None if again is None or self.remove(again) else made


def change(items: Iterable[T], chosen: Callable[[T], object], how: Callable[[T], object]) -> bool:
    matches = [item for item in items if chosen(item)]
    for item in matches:
        how(item)
    return bool(matches)
