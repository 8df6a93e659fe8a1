"""The deliberately broken implementations of the corpus: what share of them random plans catch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from safetensors_corpus.broken.small_loader import LOADER
from safetensors_corpus.broken.small_slicer import SLICER
from safetensors_corpus.broken.small_writer import SmallWriter
from safetensors_corpus.broken.variant import all_variants

from .asking_support import questions, why

CORRECT = {"slice": SLICER, "write": SmallWriter(), "index": LOADER}
"""Implementations that share no code with the reference."""
PLANS = {"slice": 1200, "write": 1200, "index": 1000}


@pytest.mark.parametrize("step", CORRECT)
def test_random_plans_catch_broken_implementations(step: str, tmp_path: Path) -> None:
    """Nine in ten at least, and the correct one is never blamed."""
    left: dict[str, Any] = {v.name: v.make() for v in all_variants() if v.kind == step and not v.heavy}
    total = len(left)
    for number, (plan, question) in enumerate(questions(step, PLANS[step])):
        case = question.case(tmp_path / str(number))
        assert why(case, CORRECT[step], tmp_path) is None, plan
        left = {name: one for name, one in left.items() if why(case, one, tmp_path) is None}
    assert len(left) <= 0.1 * total, sorted(left)
