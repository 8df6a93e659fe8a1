"""Detect content from uninitialised memory, which in a real program could be keys or other people's data.

Fresh processes read the same file with allocators that fill new memory with different bytes. Content that
changes with the fill byte cannot come from the file.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace

from safetensors_corpus import Case
from safetensors_corpus.judging.content import first_disagreement
from safetensors_reference.text import quote

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

    Only memory from the system's ``malloc`` is filled. Therefore, the result None says nothing about mapped
    pages or about readers with their own allocator (Go, Java, JavaScript).
    """
    env = shutil.which("env")
    if target.kind in ("exit", "oci") or env is None or case.kind != "read":
        return None
    first, second = (_read(target, case, limits, env, fill) for fill in FILLS)
    where = None if first is None or second is None else _change(first, second)
    if first is None or where is None:
        return None
    again = _read(target, case, limits, env, FILLS[0])
    if again is None or _change(first, again) is not None:
        return f"content differs from run to run: {where}"
    return f"uninitialised memory: {where} when fresh memory contains different bytes"


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


def _change(first: StepResult, second: StepResult) -> str | None:
    if first.outcome != second.outcome:
        return f"{first.outcome} becomes {second.outcome}"
    difference = first_disagreement(first.content or {}, second.content or {})
    if difference is None:
        return None
    if difference.tensor is None:
        return "the tensors or the metadata change"
    return f"{difference.part} of tensor {quote(difference.tensor)} change"
