"""Entries of the conditional set: a reader is described by the docstring of its class."""

from __future__ import annotations

from safetensors_corpus.broken.correct.json import Grammar
from safetensors_corpus.broken.correct.reader import READER

from .. import Planted
from ..held_out.watched import Watched, WatchedGrammar, plant, plant_grammar


def by_reader(name: str, rules: str, reader: type[Watched], grammar: Grammar = READER.grammar) -> Planted:
    """Return the entry of a broken reader. ``rules`` are ids with spaces between."""
    return plant(name, _about(reader), rules, reader, grammar)


def by_grammar(name: str, rules: str, grammar: type[WatchedGrammar]) -> Planted:
    """Return the entry of a broken JSON grammar. ``rules`` are ids with spaces between."""
    return plant_grammar(name, _about(grammar), rules, grammar)


def _about(broken: type) -> str:
    """Return the last paragraph of a class's docstring on one line."""
    return " ".join((broken.__doc__ or "").split("\n\n")[-1].split())
