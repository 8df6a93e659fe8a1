"""What the tests of asking share."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from proof.broken.variant import Panic
from safetensors_corpus.in_process import mismatch, run_case
from safetensors_corpus.manifest import Case
from safetensors_fuzz.plans import PLAN_KINDS, plan_of
from safetensors_fuzz.plans.question import PlanError, PlanQuestion
from safetensors_fuzz.plans.values import Plan

STEPS = tuple(PLAN_KINDS)


def plans(step: str, count: int, seed: int = 0) -> list[Plan]:
    """Return the first plans of a seed."""
    return [plan_of(step, seed, number) for number in range(count)]


def questions(step: str, count: int, seed: int = 0) -> Iterator[tuple[Plan, PlanQuestion]]:
    """Yield the plans that make sense, with what they ask."""
    for plan in plans(step, count, seed):
        try:
            yield plan, PLAN_KINDS[step].question(plan)
        except PlanError:
            continue


def why(case: Case, implementation: Any, folder: Path) -> str | None:
    """Say why an implementation fails a case, None when it does not."""
    own = Path(tempfile.mkdtemp(dir=folder))
    try:
        return mismatch(case, run_case(case, implementation, own))
    except Panic as err:
        return f"panic: {err}"
    finally:
        shutil.rmtree(own)


def rng(seed: int) -> random.Random:
    """Return a source of chance."""
    return random.Random(seed)


def demanded(question: PlanQuestion) -> str:
    """Return the outcome that a question demands, or the choice that it falls under."""
    return str(question.expectation.get("choice") or question.expectation["outcome"])
