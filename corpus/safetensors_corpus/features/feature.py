"""A feature of valid files, and mutations that put features into a file."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from .draft import Draft, Row
from .entries import NoPlaceError
from .tree import File

T = TypeVar("T")
Change = Callable[[random.Random, File], bool | None]
"""Changes a file in place. Raises NoPlaceError or returns False if it does not apply to the file."""


@dataclass(frozen=True)
class Mutation:
    """A change to a file."""

    name: str
    rules: tuple[str, ...]
    """Rules that the change targets, in addition to the rules of the features that it puts in."""
    change: Change
    valid: bool
    """Whether a valid file remains valid."""
    rare: bool = False
    """Whether the change is so expensive that it must be rare."""

    def apply(self, rng: random.Random, file: File) -> bool:
        try:
            done = self.change(rng, file)
        except NoPlaceError:
            return False
        return file.raw is None if done is None else done


def mutation(change: Change, *rules: str, valid: bool = False, rare: bool = False) -> Mutation:
    return Mutation(change.__name__.replace("_", "-"), rules, change, valid, rare)


def variation(*rules: str, rare: bool = False) -> Callable[[Change], Mutation]:
    return lambda change: mutation(change, *rules, valid=True, rare=rare)


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
