"""A feature of valid files, and helpers of the functions that remove features."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from ..grammar.draft import Draft

T = TypeVar("T")
Remover = Callable[[Draft], bool]
"""Removes a feature from a draft, in place; returns False when the draft does not have it."""


@dataclass(frozen=True)
class Feature:
    """A feature of valid files.

    Attributes:
        words: its name, which follows "without" in texts.
        rule: id of the rule that allows it, or that says how it is read.
        lose: see ``Remover``.
    """

    words: str
    rule: str
    remove: Remover

    def within(self, data: bytes) -> bool:
        draft = Draft.of(data)
        return draft is not None and self.remove(draft)

    def without(self, data: bytes) -> bytes | None:
        """Return a valid file without the feature and as similar as possible, None where there is none."""
        draft = Draft.of(data)
        if draft is None:
            return None
        self.remove(draft)
        made = draft.render()
        again = Draft.of(made)
        return None if again is None or self.remove(again) else made


def change(items: Iterable[T], chosen: Callable[[T], object], how: Callable[[T], object]) -> bool:
    found = [item for item in items if chosen(item)]
    for item in found:
        how(item)
    return bool(found)
