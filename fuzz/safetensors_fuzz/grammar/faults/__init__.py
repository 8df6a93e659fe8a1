"""The register of mutations: deliberate changes of files, with the rules that they target."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from ..entries import NoPlaceError
from ..model import File

Change = Callable[[random.Random, File], bool | None]
"""Changes a file in place. Raises NoPlaceError or returns False when the file has no place for it; a change
without a return value applies to every file that has a framing.
"""


@dataclass(frozen=True)
class Mutation:
    """One kind of change.

    Attributes:
        name: name of the function, with hyphens.
        rules: ids of the rules that it targets.
        change: see ``Change``.
        valid: whether a valid file stays valid.
        rare: whether it is so expensive that it must be rare.
    """

    name: str
    rules: tuple[str, ...]
    change: Change
    valid: bool
    rare: bool = False

    def apply(self, rng: random.Random, file: File) -> bool:
        try:
            done = self.change(rng, file)
        except NoPlaceError:
            return False
        return file.raw is None if done is None else done


MUTATIONS: list[Mutation] = []


def fault(*rules: str) -> Callable[[Change], Change]:
    return _register(rules, valid=False)


def variation(*rules: str, rare: bool = False) -> Callable[[Change], Change]:
    return _register(rules, valid=True, rare=rare)


def mutation(
    change: Change, rules: tuple[str, ...] = (), *, valid: bool = False, rare: bool = False
) -> Mutation:
    return Mutation(change.__name__.replace("_", "-"), rules, change, valid, rare)


def _register(rules: tuple[str, ...], *, valid: bool, rare: bool = False) -> Callable[[Change], Change]:
    def enter(change: Change) -> Change:
        MUTATIONS.append(mutation(change, rules, valid=valid, rare=rare))
        return change

    return enter
