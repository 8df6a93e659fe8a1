"""The deliberately broken implementations of the corpus: what share of them random plans catch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from proof.broken.correct.loader import LOADER
from proof.broken.correct.slicer import SLICER
from proof.broken.correct.writer import SmallWriter
from proof.broken.variant import all_variants

from .support import questions, why

CORRECT = {"slice": SLICER, "write": SmallWriter(), "index": LOADER}
"""Implementations that share no code with the reference."""
PLANS = {"slice": 1200, "write": 1200, "index": 1000}


EVERY = {"slice": 2, "write": 4, "index": 8}
"""Of so many broken implementations one is asked by day."""


def left_over(step: str, plans: int, every: int, folder: Path) -> tuple[list[str], int]:
    """Return which broken implementations do everything right that they are asked, and how many there are.

    The correct one has to do everything right.
    """
    broken = [v for v in all_variants() if v.kind == step and not v.heavy][::every]
    left: dict[str, Any] = {v.name: v.make() for v in broken}
    for number, (plan, question) in enumerate(questions(step, plans)):
        case = question.case(folder / str(number))
        assert why(case, CORRECT[step], folder) is None, plan
        left = {name: one for name, one in left.items() if why(case, one, folder) is None}
    return sorted(left), len(broken)


@pytest.mark.parametrize("step", CORRECT)
def test_a_few_plans_catch_most_broken_implementations(step: str, memory_path: Path) -> None:
    """Three in four at least."""
    left, total = left_over(step, 60, EVERY[step], memory_path)
    assert total > 7
    assert len(left) <= 0.25 * total, left


@pytest.mark.nightly
@pytest.mark.parametrize("step", CORRECT)
def test_random_plans_catch_broken_implementations(step: str, memory_path: Path) -> None:
    """Nine in ten at least, and the correct one is never blamed."""
    left, total = left_over(step, PLANS[step], 1, memory_path)
    assert len(left) <= 0.1 * total, left
