"""A feature of valid files: how to find it, to remove it and to add it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from .draft import Draft, Row
from .tree import Mutation

T = TypeVar("T")


@dataclass(frozen=True)
class Feature:
    """A property of valid files that some readers do not support.

    Attributes:
        name: noun phrase that follows "without" in messages.
        rule: id of the rule that allows or defines the feature.
        take_out: function that removes the feature from a draft in place. It is None for a feature that is
            too broad to be the cause of a failure; other features describe its parts.
        put_in: mutations that add the feature to at least some files.
    """

    name: str
    rule: str
    is_in: Callable[[Draft], object]
    take_out: Callable[[Draft], None] | None
    put_in: tuple[Mutation, ...]

    def within(self, data: bytes) -> bool:
        draft = Draft.of(data)
        return draft is not None and bool(self.is_in(draft))

    def without(self, data: bytes) -> bytes | None:
        """Return the most similar valid file without the feature, or None if there is no such file."""
        draft = Draft.of(data)
        if draft is None or self.take_out is None:
            return None
        self.take_out(draft)
        made = draft.render()
        again = Draft.of(made)
        return None if again is None or self.is_in(again) else made


def of_file(
    name: str,
    rule: str,
    is_in: Callable[[Draft], object],
    take_out: Callable[[Draft], None] | None,
    *put_in: Mutation,
) -> Feature:
    return Feature(name, rule, is_in, take_out, put_in)


def of_parts(
    name: str,
    rule: str,
    parts: Callable[[Draft], Iterable[T]],
    chosen: Callable[[T], object],
    change: Callable[[Draft, T], None],
    *put_in: Mutation,
) -> Feature:
    """Return a feature that a file has if ``chosen`` is true for at least one of its ``parts``."""

    def take_out(draft: Draft) -> None:
        for part in list(filter(chosen, parts(draft))):
            change(draft, part)

    return Feature(name, rule, lambda draft: any(map(chosen, parts(draft))), take_out, put_in)


def of_tensors(
    name: str,
    rule: str,
    chosen: Callable[[Row], object],
    change: Callable[[Row], None],
    *put_in: Mutation,
) -> Feature:
    return of_parts(name, rule, lambda draft: draft.rows, chosen, lambda _, row: change(row), *put_in)
