"""The registry of mutations, which change files deliberately. Each mutation names the rules it targets."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from safetensors_corpus.features.entries import NoPlaceError
from safetensors_corpus.features.tree import File

Change = Callable[[random.Random, File], bool | None]
"""Changes a file in place. Raises NoPlaceError or returns False if it does not apply to the file."""


@dataclass(frozen=True)
class Mutation:
    """A change to a file, with the rules that the change targets."""

    name: str
    rules: tuple[str, ...]
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


MUTATIONS: list[Mutation] = []


def mutation(
    change: Change, rules: tuple[str, ...] = (), *, valid: bool = False, rare: bool = False
) -> Mutation:
    return Mutation(change.__name__.replace("_", "-"), rules, change, valid, rare)


def fault(*rules: str) -> Callable[[Change], Change]:
    return variation(*rules, valid=False)


def variation(*rules: str, valid: bool = True, rare: bool = False) -> Callable[[Change], Change]:
    def enter(change: Change) -> Change:
        MUTATIONS.append(mutation(change, rules, valid=valid, rare=rare))
        return change

    return enter
