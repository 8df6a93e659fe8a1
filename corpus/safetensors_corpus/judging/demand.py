"""Expectations for inputs outside the corpus."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..manifest import Case, Expectation


@dataclass(frozen=True)
class Demand:
    """The expectation for an input outside the corpus. It has the attributes of a ``Case``."""

    rules: tuple[str, ...]
    expect: Expectation | None
    level: str = "must"
    features: tuple[str, ...] = ()
    kind: str = "read"
    choice: str | None = None
    options: Mapping[str, Expectation] = field(default_factory=dict)


def first_rule(demand: Case | Demand) -> str:
    return demand.rules[0] if demand.rules else ""
