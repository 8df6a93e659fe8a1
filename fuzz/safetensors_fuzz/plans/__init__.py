"""Fuzzing of slices, writes and indexes with plans, i.e. JSON values that describe a question."""

from __future__ import annotations

import random

from .index import Indexes
from .question import PlanKind
from .slice import Slices
from .values import Dice, Plan
from .write import Writes

PLAN_KINDS: dict[str, PlanKind] = {kind.step: kind for kind in (Slices(), Writes(), Indexes())}


def plan_of(step: str, seed: int, number: int) -> Plan:
    rng = random.Random(f"{seed}/{step}/{number}")  # noqa: S311 - reproducible on purpose
    return PLAN_KINDS[step].draw(Dice(rng))
