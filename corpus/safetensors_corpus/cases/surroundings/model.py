"""Models: properties of a file, their levels, which levels cannot meet, and topics to combine them around.

A row takes one level of each property. A topic is what all files of one set are about: that they are valid,
or one fault. Its id names the topic and the levels of the row that are not the usual ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import TYPE_CHECKING

from ...manifest import ANY_VALID_FILE

if TYPE_CHECKING:
    from ...author.file import FileBuilder

Row = Mapping[str, str]
"""Property -> level."""
Levels = Mapping[str, tuple[str, ...]]
"""Property -> the levels that a set uses."""
Combination = tuple[str, ...]
"""Levels of two or three properties, in the order of these. A level belongs to one property only."""


@dataclass(frozen=True)
class Property:
    """What can differ between two files.

    Attributes:
        about: what the levels say.
        levels: word -> what it says; the first is the usual level, which no name has.
        around_faults: the levels that sets around faults use; None for all.
    """

    about: str
    levels: Mapping[str, str]
    around_faults: tuple[str, ...] | None = None

    @property
    def usual(self) -> str:
        """The level that goes without saying."""
        return next(iter(self.levels))


@dataclass(frozen=True)
class Exclusion:
    """Levels of some properties that cannot meet in one file, and why."""

    properties: tuple[str, ...]
    meets: Callable[[Row], bool]
    why: str


@dataclass(frozen=True)
class Topic:
    """What the files of one set are about.

    Attributes:
        about: the topic in words.
        make: tells the builder of the file of a row.
        rules: the rule that is broken, then others that the file is about, or a function of the row.
        codes: fitting fault codes, the primary one first, or a function of the row; empty for valid files.
        only: property -> levels among which the topic can stand; other properties are free.
    """

    about: str
    make: Callable[[Row, FileBuilder], None]
    rules: tuple[str, ...] | Callable[[Row], tuple[str, ...]]
    codes: tuple[str, ...] | Callable[[Row], tuple[str, ...]] = ()
    only: Levels = field(default_factory=dict)

    def rules_of(self, row: Row) -> tuple[str, ...]:
        """Return the rules that the file of a row is about, the main one first.

        A valid file combines so much that its refusal does not tell which of the permissions was denied.
        """
        rules = self.rules(row) if callable(self.rules) else self.rules
        return rules if self.codes else (ANY_VALID_FILE, *rules)

    def codes_of(self, row: Row) -> tuple[str, ...]:
        """Return the fault codes that fit the file of a row."""
        return self.codes(row) if callable(self.codes) else self.codes


@dataclass(frozen=True)
class Model:
    """Properties, in the order in which ids name them, and the topics that are combined with them.

    Attributes:
        core: properties of which valid files combine any three.
    """

    name: str
    properties: Mapping[str, Property]
    exclusions: Sequence[Exclusion]
    topics: Mapping[str, Topic]
    core: tuple[str, ...] = ()

    def slug(self, row: Row) -> str:
        """Return the part of an id that names a row: its levels but the usual ones, in order."""
        words = (row[name] for name, prop in self.properties.items() if row[name] != prop.usual)
        return "-".join(words) or "usual"

    def row(self, slug: str) -> dict[str, str]:
        """Return the row that a slug names. Raises ValueError for a word that is no level or out of order."""
        known = {level: name for name, prop in self.properties.items() for level in prop.levels}
        row = {name: prop.usual for name, prop in self.properties.items()}
        for word in [] if slug == "usual" else slug.split("-"):
            if word not in known:
                raise ValueError(f"{word!r} is no level of the model {self.name}")
            row[known[word]] = word
        if self.slug(row) != slug:
            raise ValueError(f"{slug!r} is not how the row is named: {self.slug(row)}")
        return row

    def levels(self, topic: str) -> dict[str, tuple[str, ...]]:
        """Return the levels of each property in the set of a topic."""
        whole = not self.topics[topic].codes
        free = {
            name: tuple(prop.levels) if whole else prop.around_faults or tuple(prop.levels)
            for name, prop in self.properties.items()
        }
        return free | dict(self.topics[topic].only)

    def permitted(self, row: Row) -> bool:
        """Whether the levels of a whole row can meet."""
        return not any(exclusion.meets(row) for exclusion in self.exclusions)

    def groups(self, topic: str) -> list[tuple[str, ...]]:
        """Return the properties that a set combines: any two, and in valid files any three of the core."""
        threes = () if self.topics[topic].codes else combinations(self.core, 3)
        return [*combinations(self.properties, 2), *threes]

    def feasible(self, topic: str) -> set[Combination]:
        """Return the combinations of levels that some permitted row of a topic has."""
        domain = self.levels(topic)
        return {
            chosen
            for names in self.groups(topic)
            for chosen in product(*(domain[name] for name in names))
            if self._completable(domain, dict(zip(names, chosen, strict=True)))
        }

    def _completable(self, domain: Levels, fixed: dict[str, str]) -> bool:
        """Whether a permitted row has these levels.

        The other properties that exclusions name are given levels one by one, until an exclusion is met.
        """
        known = [e for e in self.exclusions if fixed.keys() >= set(e.properties)]
        if any(exclusion.meets(fixed) for exclusion in known):
            return False
        open_names = (name for e in self.exclusions for name in e.properties if name not in fixed)
        name = next(open_names, None)
        return name is None or any(
            self._completable(domain, {**fixed, name: level}) for level in domain[name]
        )

    def covered(self, topic: str, rows: Iterable[Row]) -> set[Combination]:
        """Return the combinations of levels that the rows have, of those that the set of a topic is about."""
        groups = self.groups(topic)
        return {tuple(row[name] for name in names) for row in rows for names in groups}
