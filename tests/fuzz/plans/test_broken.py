"""The deliberately broken implementations of the corpus: what share of them random plans catch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from proof.broken.correct.loader import LOADER
from proof.broken.correct.slicer import SLICER
from proof.broken.correct.writer import SmallWriter
from proof.broken.variant import all_variants
from safetensors_fuzz.plans.question import fuzzed_case

from .support import questions, why

CORRECT = {"slice": SLICER, "write": SmallWriter(), "index": LOADER}
"""Implementations that share no code with the reference."""
BY_DAY = [("slice", 60, 2, 0.25), ("write", 60, 4, 0.25), ("index", 60, 8, 0.25)]
NIGHTLY = [("slice", 1200, 1, 0.1), ("write", 1200, 1, 0.1), ("index", 1000, 1, 0.1)]


@pytest.mark.parametrize(
    ("step", "plans", "every", "missed"),
    [*BY_DAY, *(pytest.param(*row, marks=pytest.mark.nightly) for row in NIGHTLY)],
)
def test_random_plans_catch_broken_implementations(
    step: str, plans: int, every: int, missed: float, memory_path: Path
) -> None:
    """By day, one in ``every`` broken implementations runs. The correct one does everything right."""
    broken = [v for v in all_variants() if v.kind == step and not v.heavy][::every]
    assert len(broken) > 7
    left: dict[str, Any] = {v.name: v.make() for v in broken}
    for number, (plan, question) in enumerate(questions(step, plans)):
        case = fuzzed_case(question, memory_path / str(number))
        assert why(case, CORRECT[step], memory_path) is None, plan
        left = {name: one for name, one in left.items() if why(case, one, memory_path) is None}
    assert len(left) <= missed * len(broken), sorted(left)
