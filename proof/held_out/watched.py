"""Base classes of the held-out readers: the small reader with a probe and more methods.

This module is part of the held-out set; see ``held_out``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from proof.broken.correct.json import Grammar
from proof.broken.correct.reader import READER, SmallReader, Tensor
from proof.planted import Planted, Probe


@dataclass(frozen=True)
class Watched(SmallReader):
    """The small reader, divided into more methods and with a probe."""

    probe: Probe = field(default_factory=Probe)

    def noted(self, wrong: bool) -> bool:
        """Record that the code with the bug ran and whether the bug shows here, and return ``wrong``."""
        return note(self.probe, wrong)

    def content(self, file: bytes) -> dict[str, Any]:
        """Return the content of a file. Raises Refused."""
        header, data = self.split(file)
        tensors, metadata = self.entries(self.members(header))
        self.cover(tensors, metadata, data)
        placed = self.placed(tensors)
        return {"tensors": [self.described(t, data) for t in placed], "metadata": metadata}

    def cover(self, tensors: Sequence[Tensor], metadata: Mapping[str, Any] | None, data: bytes) -> None:  # noqa: ARG002
        self.check_layout(tensors, len(data))

    def placed(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        return tensors

    def tensor(self, name: str, fields: Mapping[str, object]) -> Tensor:
        dtype = self.dtype(fields["dtype"])
        shape = self.shape(fields["shape"])
        begin, end = self.offsets(fields["data_offsets"])
        self.demand("reversed", begin <= end)
        self.demand("range-size", self.fits(dtype, shape, end - begin))
        return Tensor(name, dtype, shape, begin, end)

    def fits(self, dtype: str, shape: Sequence[int], size: int) -> bool:
        """Return whether a tensor has a size of ``size`` bytes. Raises Refused if no size is possible."""
        return size == self.size(self.widths[dtype], shape)


@dataclass(frozen=True)
class WatchedGrammar(Grammar):
    """The JSON grammar with a probe."""

    probe: Probe = field(default_factory=Probe)

    @cached_property
    def patterns(self) -> dict[str, re.Pattern[str]]:
        return READER.grammar.patterns

    def noted(self, wrong: bool) -> bool:
        """Record that the code with the bug ran and whether the bug shows here, and return ``wrong``."""
        return note(self.probe, wrong)


class Spelled(str):
    """A decoded key that stores its original spelling between the quotes."""

    raw: str


class SpellingGrammar(Grammar):
    """The correct grammar, except that keys store their original spelling."""

    def key(self, text: str, at: int) -> tuple[str, int]:
        key, end = super().key(text, at)
        spelled = Spelled(key)
        spelled.raw = text[at + 1 : end - 1]
        return spelled, end


SPELLING = SpellingGrammar()


def note(probe: Probe, wrong: bool) -> bool:
    """Record that the code with the bug ran and whether the bug shows here, and return ``wrong``."""
    probe.reached = True
    probe.triggered |= wrong
    return wrong


def raw(key: str) -> str:
    return key.raw if isinstance(key, Spelled) else key


def product(dims: Sequence[int], most: int = 2**80) -> int:
    """Return the product of dimensions, or some number above ``most`` if the product is larger."""
    result = 1
    for dim in dims:
        result *= dim
        # The product exceeds any size that matters, and stopping here keeps a hostile rank cheap.
        if result > most:
            return result if 0 not in dims else 0
    return result


def plant(
    name: str, about: str, rules: str, reader: type[Watched], grammar: Grammar = READER.grammar
) -> Planted:
    """Return a planted reader whose bug is in one of its methods. ``rules`` are ids separated by spaces."""

    def make(probe: Probe) -> SmallReader:
        return reader(grammar=grammar, probe=probe)

    return Planted(name, about, "read", make, tuple(rules.split()))


def planted(
    name: str, rules: str, reader: type[Watched | WatchedGrammar], grammar: Grammar = READER.grammar
) -> Planted:
    """Return a planted reader that the docstring of ``reader`` describes."""
    about = " ".join((reader.__doc__ or "").split())
    if issubclass(reader, WatchedGrammar):
        return plant_grammar(name, about, rules, reader)
    return plant(name, about, rules, reader, grammar)


def plant_grammar(name: str, about: str, rules: str, grammar: type[WatchedGrammar]) -> Planted:
    """Return a planted reader whose bug is in its JSON grammar. ``rules`` are ids separated by spaces."""

    def make(probe: Probe) -> SmallReader:
        return SmallReader(grammar=grammar(probe=probe))

    return Planted(name, about, "read", make, tuple(rules.split()))
