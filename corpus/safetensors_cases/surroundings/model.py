"""Models: properties of a file, their levels, levels that exclude each other, and topics to combine.

A row selects one level of each property. All files in a set have the same topic: either they are valid, or
they have the same fault. A case id contains the topic and the unusual levels of the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product

from safetensors_corpus.author.file import FileBuilder
from safetensors_corpus.features import FEATURES
from safetensors_corpus.manifest import ANY_VALID_FILE

Row = Mapping[str, str]
"""Property -> level."""
Levels = Mapping[str, tuple[str, ...]]
"""Property -> levels that a set uses."""
Ids = str | Callable[[Row], str]
"""Ids separated by spaces, or a function of the row that returns them."""
Combination = tuple[str, ...]
"""Levels of two or three properties, in property order. Each level belongs to only one property."""


@dataclass(frozen=True)
class Property:
    """A property of a file.

    ``levels`` maps each level to a phrase for titles, with the usual level first. ``around_faults`` lists the
    levels to combine with faults.
    """

    about: str
    levels: Mapping[str, str]
    around_faults: tuple[str, ...] | None = None

    @property
    def usual(self) -> str:
        return next(iter(self.levels))


@dataclass(frozen=True)
class Exclusion:
    """Levels of some properties that cannot be combined in one file, and the reason."""

    why: str
    levels: Levels

    @property
    def properties(self) -> tuple[str, ...]:
        return tuple(self.levels)

    def meets(self, row: Row) -> bool:
        return all(row[name] in levels for name, levels in self.levels.items())

    def could_meet(self, part: Row) -> bool:
        """Return whether the exclusion meets a row that contains this part."""
        return all(name not in part or part[name] in levels for name, levels in self.levels.items())


def excludes(why: str, **levels: str) -> Exclusion:
    return Exclusion(why, {name: tuple(words.split()) for name, words in levels.items()})


def merged(only: Iterable[Levels]) -> Levels:
    return {name: levels for part in only for name, levels in part.items()}


def permitting(levels: Mapping[str, str], last: str) -> Callable[[Row], str]:
    """Return a function that maps a row to the rules that permit its levels, followed by ``last``.

    ``levels`` maps a level to the name of a feature or to a rule.
    """
    rules = {level: FEATURES[name].rule if name in FEATURES else name for level, name in levels.items()}
    return lambda row: " ".join([*(rule for level, rule in rules.items() if level in row.values()), last])


@dataclass(frozen=True)
class Topic:
    """Subject of the files in one set: either validity or one fault.

    Attributes:
        make: function that writes the file of a row.
        rules: the broken rule and then other tested rules.
        codes: matching fault codes with the primary one first; empty if valid.
        only: property -> levels that the topic can be combined with. Other properties can have any level.
    """

    about: str
    make: Callable[[Row, FileBuilder], None]
    rules: Ids
    codes: Ids = ""
    only: Levels = field(default_factory=dict)

    def rules_of(self, row: Row) -> tuple[str, ...]:
        """Return the tested rules.

        For a valid file, the general rule comes first, because a rejection does not show which feature the
        reader lacks.
        """
        rules = _words(self.rules, row)
        return rules if self.codes else tuple(dict.fromkeys((ANY_VALID_FILE, *rules)))

    def codes_of(self, row: Row) -> tuple[str, ...]:
        return _words(self.codes, row)


def _words(ids: Ids, row: Row) -> tuple[str, ...]:
    return tuple((ids(row) if callable(ids) else ids).split())


@dataclass(frozen=True)
class Model:
    """Properties and topics to combine.

    Attributes:
        core: sets of valid files also combine any three of these properties.
        joint: every combination of these properties occurs in the set of at least one fault.
    """

    name: str
    properties: Mapping[str, Property]
    exclusions: Sequence[Exclusion]
    topics: Mapping[str, Topic]
    core: tuple[str, ...] = ()
    joint: tuple[str, ...] = ()

    def slug(self, row: Row) -> str:
        """Return the part of an id that identifies a row, which lists its unusual levels in order."""
        words = (row[name] for name, prop in self.properties.items() if row[name] != prop.usual)
        return "-".join(words) or "usual"

    def row(self, slug: str) -> dict[str, str]:
        """Return the row for a slug. Raises ValueError for an unknown or misplaced word."""
        property_of = {level: name for name, prop in self.properties.items() for level in prop.levels}
        row = {name: prop.usual for name, prop in self.properties.items()}
        for word in [] if slug == "usual" else slug.split("-"):
            if word not in property_of:
                raise ValueError(f"{word!r} is not a level of the model {self.name}")
            row[property_of[word]] = word
        if self.slug(row) != slug:
            raise ValueError(f"{slug!r} does not match the row, whose slug is {self.slug(row)}")
        return row

    def levels(self, topic: str) -> dict[str, tuple[str, ...]]:
        whole = not self.topics[topic].codes
        free = {
            name: tuple(prop.levels) if whole else prop.around_faults or tuple(prop.levels)
            for name, prop in self.properties.items()
        }
        return free | dict(self.topics[topic].only)

    def permitted(self, row: Row) -> bool:
        return not any(exclusion.meets(row) for exclusion in self.exclusions)

    def groups(self, topic: str) -> list[tuple[str, ...]]:
        """Return the combined properties: all pairs, and for valid files also all triples of the core."""
        threes = () if self.topics[topic].codes else combinations(self.core, 3)
        return [*combinations(self.properties, 2), *threes]

    def feasible(self, topic: str) -> set[Combination]:
        """Return the combinations of levels that occur in at least one permitted row of a topic."""
        return {chosen for names in self.groups(topic) for chosen in self.feasible_of(topic, names)}

    def feasible_of(self, topic: str, names: Sequence[str]) -> set[Combination]:
        """Return the combinations of levels of some properties in the permitted rows of a topic."""
        domain = self.levels(topic)
        return {
            chosen
            for chosen in product(*(domain[name] for name in names))
            if self._completable(domain, dict(zip(names, chosen, strict=True)), self.exclusions)
        }

    def _completable(self, domain: Levels, fixed: Row, exclusions: Sequence[Exclusion]) -> bool:
        """Return whether at least one permitted row has these levels.

        ``exclusions`` contains all exclusions that could meet such a row.
        """
        left = [e for e in exclusions if e.could_meet(fixed)]
        if any(e.levels.keys() <= fixed.keys() for e in left):
            return False
        name = next((name for e in left for name in e.levels if name not in fixed), None)
        return name is None or any(
            self._completable(domain, {**fixed, name: level}, left) for level in domain[name]
        )

    def joint_faults(self) -> dict[Combination, list[str]]:
        """Map each combination of the joint properties to the faults that it can occur with."""
        found: dict[Combination, list[str]] = {}
        for name, topic in self.topics.items():
            for chosen in self.feasible_of(name, self.joint) if topic.codes and self.joint else ():
                found.setdefault(chosen, []).append(name)
        return found

    def covered(self, topic: str, rows: Iterable[Row]) -> set[Combination]:
        """Return the combinations of levels in the rows of a topic."""
        groups = self.groups(topic)
        return {tuple(row[name] for name in names) for row in rows for names in groups}

    def covered_jointly(self, rows: Mapping[str, Iterable[Row]]) -> set[Combination]:
        """Return the combinations of the joint properties in the rows of all faults."""
        faults = (name for name, topic in self.topics.items() if topic.codes and self.joint)
        return {tuple(row[name] for name in self.joint) for fault in faults for row in rows[fault]}
