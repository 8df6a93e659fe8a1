"""Changes of files on purpose: the register of what each does, and of the rules that it aims at."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from ..entries import NoPlaceError
from ..model import File

Change = Callable[[random.Random, File], bool | None]
"""Changes a file in place. Raises NoPlaceError, or returns False, when there is nothing in it to change; one
that returns nothing has changed every file that has a framing."""


@dataclass(frozen=True)
class Mutation:
    """One kind of change.

    Attributes:
        name: of the function, with hyphens.
        rules: ids of the rules it aims at.
        change: see ``Change``.
        valid: whether a valid file stays valid.
        rare: whether it costs so much time that it is to come up rarely.
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
