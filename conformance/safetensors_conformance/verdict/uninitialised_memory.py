"""Uninitialised memory in place of content: a reader hands out what the heap held before.

The same file is read in fresh processes whose allocator fills fresh memory with one byte or another. Content
that follows the fill was never read from the file: it is uninitialised memory, and in a real program whatever
was there before (keys, other people's data).
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
from ..worker.outcome import StepResult
from ..worker.pipe import make_worker
from ..worker.worker import Limits, StartError

FILLS: tuple[Mapping[str, str], ...] = (
    ({"MallocPreScribble": "1", "MallocScribble": "1"}, {})
    if sys.platform == "darwin"
    else ({"MALLOC_PERTURB_": "165"}, {"MALLOC_PERTURB_": "60"})
)
"""Environments in which fresh memory holds different bytes: of glibc, and of macOS."""
MALLOC_SETTINGS = {"PYTHONMALLOC": "malloc", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
"""Python's own allocator, and the cache of glibc, would hand out memory that was filled long before."""


def content_depends_on_heap(target: Target, case: Case, limits: Limits) -> str | None:
    """Read a case under two fills of the heap and return what differs, None when nothing does.

    Only allocations through the system's ``malloc`` are filled: None says nothing about readers with an
    allocator of their own (Go, Java, JavaScript), about pages mapped by the reader itself (zeros), and about
    programs that answer with their exit status only. Takes the time of two or three starts; never raises for
    what the implementation does.
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
    worker.force_fresh_process = True  # for one question no template is worth its start
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
