"""The grammar as a source of inputs, new and mutated ones."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from . import extent, variations
from .faults import MUTATIONS, Mutation
from .faults import entries as faults_entries
from .faults import ranges as faults_ranges
from .faults import text as faults_text
from .model import File
from .valid import pick, valid_file
from .variations import GENERIC

_MODULES = (faults_text, faults_entries, faults_ranges, variations, extent)
MAX_FAULTS = 2
"""Most faults of one input, so that causes stay apart."""
GENERIC_SHARE = 0.12
"""Share of the faults that target no rule."""
POOL_SHARE = 0.3
"""Share of the inputs that are made from earlier ones."""
_ADVERSE = (0, 0, 1, 1, 1, 1, 1, 2)
_TRIES = 8
RARELY = 20
"""Ratio of an ordinary variation to a rare one."""
BASES = 256
"""Size of the stock of valid files: generating one takes five times as long as copying it."""
_EARLY = ("FRM-", "LIM-01", "HDR-01", "HDR-02", "HDR-03", "HDR-05", "HDR-06", "HDR-14", "HDR-15")
"""Rules whose faults stop a reader before it has seen an entry: they are a third as frequent as others."""


@cache
def mutations() -> tuple[Mutation, ...]:
    """Return every mutation that targets a rule, sorted by name. Raises ValueError for a name used twice."""
    assert all(_MODULES)
    names = [m.name for m in MUTATIONS]
    if len(set(names)) != len(names):
        raise ValueError(f"two mutations are called {next(n for n in names if names.count(n) > 1)}")
    return tuple(sorted(MUTATIONS, key=lambda m: m.name))


@cache
def faults_by_rule() -> dict[str, tuple[Mutation, ...]]:
    rules = sorted({rule for m in mutations() if not m.valid for rule in m.rules})
    return {rule: tuple(m for m in mutations() if not m.valid and rule in m.rules) for rule in rules}


@cache
def allowed() -> tuple[Mutation, ...]:
    return tuple(m for m in mutations() if m.valid)


@cache
def company() -> tuple[Mutation, ...]:
    return tuple(m for m in allowed() for _ in range(1 if m.rare else RARELY))


def early(rule: str) -> bool:
    """Return whether breaking the rule stops a reader before it has seen an entry."""
    return rule.startswith(_EARLY)


@cache
def _weighed() -> tuple[tuple[Mutation, ...], ...]:
    return tuple(found for rule, found in faults_by_rule().items() for _ in range(1 if early(rule) else 3))


class Grammar:
    """A source of inputs, the same for the same seed."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self._rules = _weighed()
        self._allowed = company()
        self._bases: list[File] = []
        self._given = 0

    def fresh(self) -> File:
        file = valid_file(self.rng)
        for _ in range(self.rng.choice((0, 0, 1, 1, 2, 3))):
            self.rng.choice(self._allowed).apply(self.rng, file)
        return file

    def base(self) -> File:
        """Return a valid file that must not be changed; each new one is returned four times, far apart."""
        self._given += 1
        if len(self._bases) < BASES or self._given % 4 == 0:
            file = self.fresh()
            if len(self._bases) < BASES:
                self._bases.append(file)
            else:
                self._bases[self._given // 4 % BASES] = file
            return file
        return pick(self.rng, self._bases)

    def input(self, pool: Sequence[File] = ()) -> File:
        """Return an input with at most ``MAX_FAULTS`` faults, sometimes based on one of the pool.

        It must not be changed, because it may be a base or part of the pool.
        """
        rng = self.rng
        file = pick(rng, pool) if pool and rng.random() < POOL_SHARE else self.base()
        more = min(pick(rng, _ADVERSE), MAX_FAULTS - len(file.faults))
        if more <= 0 and not file.faults:
            return file  # copying takes a fifth of the time of generating
        file = file.copy()
        for _ in range(more):
            self.break_one(file)
        if file.faults and rng.random() < 0.15:
            pick(rng, self._allowed).apply(rng, file)  # the same fault with other variations
        return file

    def alone(self) -> File:
        """Return an input that is independent of earlier ones, as generators of tests need it."""
        file = self.fresh()
        for _ in range(pick(self.rng, _ADVERSE)):
            self.break_one(file)
        return file

    def break_one(self, file: File) -> None:
        """Add one fault; all rules are equally frequent, however many mutations target them."""
        rng = self.rng
        for _ in range(_TRIES):
            generic = rng.random() < GENERIC_SHARE
            mutation = pick(rng, GENERIC) if generic else pick(rng, pick(rng, self._rules))
            if mutation.apply(rng, file):
                file.faults = (*file.faults, mutation.name)
                return


_DECIDING = ("explain", "entries", "layout", "json_text")
_RULE = re.compile(r'"((?:FRM|HDR|ENT|DTY|SHP|OFF|MET)-\d\d)"')


@cache
def reported_rules() -> tuple[str, ...]:
    """Return the rules that the strict reader reports, extracted from its source."""
    root = files("safetensors_reference.header")
    texts = (root.joinpath(f"{name}.py").read_text(encoding="utf-8") for name in _DECIDING)
    return tuple(sorted({rule for text in texts for rule in _RULE.findall(text)}))
