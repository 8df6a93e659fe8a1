"""The register of mutations: what each does to a file, and the rules that it aims at."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from .model import File

Apply = Callable[[random.Random, File], bool]
"""Changes a file in place; False when there is nothing in it to change."""


@dataclass(frozen=True)
class Mutation:
    """One kind of change.

    Attributes:
        name: of the function, with hyphens.
        rules: ids of the rules it aims at.
        apply: see ``Apply``.
        valid: whether a valid file stays valid.
    """

    name: str
    rules: tuple[str, ...]
    apply: Apply
    valid: bool


MUTATIONS: list[Mutation] = []


def fault(*rules: str) -> Callable[[Apply], Apply]:
    """Register a change that breaks one of ``rules``."""
    return _register(rules, valid=False)


def variation(*rules: str) -> Callable[[Apply], Apply]:
    """Register a change that ``rules`` allow: a reader must not be troubled by it."""
    return _register(rules, valid=True)


def _register(rules: tuple[str, ...], *, valid: bool) -> Callable[[Apply], Apply]:
    def enter(function: Apply) -> Apply:
        name = function.__name__.replace("_", "-")
        MUTATIONS.append(Mutation(name, rules, function, valid))
        return function

    return enter
