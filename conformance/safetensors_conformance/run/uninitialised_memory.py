"""Detect content from uninitialised memory, which in a real program could be keys or other people's data.

Fresh processes read the same file with allocators that fill new memory with different bytes. Content that
changes with the fill byte cannot come from the file.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from safetensors_corpus import Case
from safetensors_corpus.judging.content import differing_fields
from safetensors_reference.rules.faults import quote

from ..implementations.selectors import Target
from ..outcome import StepResult
from ..worker.worker import Limits, StartError, make_worker

FILLS: tuple[Mapping[str, str], ...] = (
    ({"MallocPreScribble": "1", "MallocScribble": "1"}, {})
    if sys.platform == "darwin"
    else ({"MALLOC_PERTURB_": "165"}, {"MALLOC_PERTURB_": "60"})
)
"""Environment variables that set different fill bytes for new memory, on macOS and with glibc."""
MALLOC_SETTINGS = {"PYTHONMALLOC": "malloc", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
"""Turns off Python's own allocator and glibc's cache, which return memory that was filled long before."""


def content_depends_on_heap(target: Target, case: Case, limits: Limits) -> str | None:
    """Read a case with two different heap fills and return the difference, or None if there is none.

    Only memory from the system's ``malloc`` is filled. None therefore says nothing about mapped pages, or
    about readers with their own allocator (Go, Java, JavaScript).
    """
    env = shutil.which("env")
    if target.kind in ("exit", "oci") or env is None or case.kind != "read":
        return None
    first, second = (_read(target, case, limits, env, fill) for fill in FILLS)
    if first is None or second is None or _content(first) == _content(second):
        return None
    again = _read(target, case, limits, env, FILLS[0])
    where = _where(first, second)
    if again is None or _content(again) != _content(first):
        return f"content differs from run to run: {where}"
    return f"uninitialised memory: {where} when fresh memory holds other bytes"


def _read(target: Target, case: Case, limits: Limits, env: str, fill: Mapping[str, str]) -> StepResult | None:
    settings = [f"{name}={value}" for name, value in {**MALLOC_SETTINGS, **fill}.items()]
    worker = make_worker(replace(target, argv=(env, *settings, *target.argv)), limits)
    worker.force_fresh_process = True  # a template is not worthwhile for one request
    try:
        worker.start()
        return worker.ask("read", str(case.path))
    except StartError:
        return None
    finally:
        worker.close()


def _content(result: StepResult) -> tuple[Any, ...]:
    return result.outcome, _rows(result), result.metadata


def _rows(result: StepResult) -> list[dict[str, Any]]:
    return sorted(result.tensors or (), key=lambda row: json.dumps(row, sort_keys=True))


def _where(first: StepResult, second: StepResult) -> str:
    if first.outcome != second.outcome:
        return f"{first.outcome} becomes {second.outcome}"
    for one, other in zip(_rows(first), _rows(second), strict=False):
        if one != other:
            keys = differing_fields(one, other)
            what = "bytes" if keys == ["sha256"] else ", ".join(keys) or "fields"
            return f"{what} of tensor {quote(one['name'])} change"
    return "the tensors or the metadata change"
