"""Features of valid inputs: how one is taken out, and what is left when several are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
"""An input: a file, or a plan of what is asked."""
D = TypeVar("D")
"""An input taken apart, so that it can be changed in place."""
ROUNDS = 4
"""How often features are taken out again that came back when another one went."""


@dataclass(frozen=True)
class Feature(Generic[D]):
    """Something that a valid input may have.

    Attributes:
        words: what it is called, to follow "without".
        rule: id of the rule that allows it, or that says how it is read.
        lose: takes it out of an input, in place; False when the input does not have it.
    """

    words: str
    rule: str
    lose: Callable[[D], bool]


def feature(table: list[Feature[D]], rule: str) -> Callable[[Callable[[D], bool]], Callable[[D], bool]]:
    """Enter a function into a table as what takes out a feature; its docstring begins with what that is."""

    def enter(lose: Callable[[D], bool]) -> Callable[[D], bool]:
        words = (lose.__doc__ or "").partition("\n")[0].rstrip(".")
        table.append(Feature(words[:1].lower() + words[1:], rule, lose))
        return lose

    return enter


def change(items: Iterable[T], chosen: Callable[[T], object], how: Callable[[T], object]) -> bool:
    """Change those that are chosen; return whether there are any."""
    found = [item for item in items if chosen(item)]
    for item in found:
        how(item)
    return bool(found)


@dataclass(frozen=True)
class Features(Generic[T, D]):
    """The features that inputs of one kind may have.

    Attributes:
        table: all of them, in the order in which they are named where several are the cause.
        apart: takes a valid input apart, into something that can be changed; None for one that is not valid.
        whole: puts together what was taken apart.
    """

    table: tuple[Feature[D], ...]
    apart: Callable[[T], D | None]
    whole: Callable[[D], T]

    def has(self, one: Feature[D], item: T) -> bool:
        """Return whether an input has a feature; False for one that is not valid."""
        parts = self.apart(item)
        return parts is not None and one.lose(parts)

    def of(self, item: T) -> tuple[Feature[D], ...]:
        """Return all features of an input; none for one that is not valid."""
        return tuple(one for one in self.table if self.has(one, item))

    def lacking(self, one: Feature[D], item: T) -> T | None:
        """Return a valid input without a feature and else as alike as can be, None where that cannot be."""
        parts = self.apart(item)
        if parts is None:
            return None
        one.lose(parts)
        made = self.whole(parts)
        return None if self.apart(made) is None or self.has(one, made) else made

    def without(self, item: T, features: Iterable[Feature[D]]) -> T | None:
        """Return a valid input without any of several features, None where that cannot be."""
        features = tuple(features)
        for _ in range(ROUNDS):
            left = [one for one in features if self.has(one, item)]
            if not left:
                return item
            # What contains others goes first: what it takes along need not be changed.
            for one in reversed(left):
                made = self.lacking(one, item)
                if made is None:
                    return None
                item = made
        return None

    def plainest(self, item: T) -> T:
        """Return what is left of an input when everything special is taken out, as far as that can be."""
        for _ in range(ROUNDS):
            for one in reversed(self.of(item)):
                made = self.lacking(one, item)
                item = item if made is None else made
        return item
