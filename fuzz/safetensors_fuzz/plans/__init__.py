"""Fuzzing of what is more than reading a file: slices, writes, and loading through an index.

A *plan* says in JSON what is asked; everything else follows from it. Shrinking changes the plan, and the
expectation is worked out anew each time: by the builders of the corpus, which know what they were told, and
by the rules. The reference is no oracle here; it is asked like any other implementation.
"""

from __future__ import annotations

import random

from .index import Indexes
from .question import Asking
from .slice import Slices
from .values import Plan
from .write import Writes

ASKING: dict[str, Asking] = {kind.step: kind for kind in (Slices(), Writes(), Indexes())}
"""Step -> what is asked."""


def plan_of(step: str, seed: int, number: int) -> Plan:
    return ASKING[step].plan(random.Random(f"{seed}/{step}/{number}"))  # noqa: S311 - reproducible on purpose
