"""Questions and runs of cases that tests of plans share."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from proof.broken.variant import Panic
from safetensors_corpus.in_process import mismatch, run_case
from safetensors_corpus.manifest import Case
from safetensors_fuzz.plans import PLAN_KINDS, plan_of
from safetensors_fuzz.plans.question import PlanError, PlanQuestion
from safetensors_fuzz.plans.values import Plan

STEPS = tuple(PLAN_KINDS)


@cache
def questions(step: str, count: int, seed: int = 0) -> list[tuple[Plan, PlanQuestion]]:
    """Return the plans of a seed that the rules decide, with their questions."""
    out = []
    for number in range(count):
        plan = plan_of(step, seed, number)
        with contextlib.suppress(PlanError):
            out.append((plan, PLAN_KINDS[step].question(plan)))
    return out


def why(case: Case, implementation: Any, folder: Path) -> str | None:
    """Return why an implementation fails a case, or None if it passes."""
    own = Path(tempfile.mkdtemp(dir=folder))
    try:
        return mismatch(case, run_case(case, implementation, own))
    except Panic as err:
        return f"panic: {err}"
    finally:
        shutil.rmtree(own)


def span(start: int | None = None, stop: int | None = None, step: int | None = None) -> dict[str, Any]:
    return {"start": start, "stop": stop, "step": step}


def slicing(shape: list[int], *index: Any, dtype: str = "I16", **more: Any) -> Plan:
    tensors = [{"name": "t", "dtype": dtype, "shape": shape}]
    plan = {"tensors": tensors, "backwards": False, "pad": 0, "fault": None, "ask": "t"}
    return plan | {"index": list(index)} | more
