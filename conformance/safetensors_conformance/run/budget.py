"""The budget of a case: what a step may cost, on a machine of any speed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from safetensors_corpus.judging.answer import Excess

from ..outcome import StepResult

N = TypeVar("N", int, float)

HEAD_ROOM = 2.0
"""Factor for the time budget: on one machine, parsing the same header took between 142 and 302 ms."""
REFERENCE_MS = 3.5
"""CPU time of ``known_work`` on the reference machine, close to the minimum of a thousand runs."""
TRIES = 7


def known_work() -> int:
    """Imitate a reader for a few milliseconds by scanning characters, adding and looking up values."""
    text, seen, total = '{"name": [0, 12345]}, ' * 40, dict.fromkeys(range(256), 0), 0
    for _ in range(20):
        for char in text:
            code = ord(char)
            total = (total * 31 + code) & 0xFFFFFFFF
            seen[code & 0xFF] += 1
    return total + len(seen)


def known_work_ms() -> float:
    best = float("inf")
    for _ in range(TRIES):
        began = time.thread_time()
        known_work()
        best = min(best, time.thread_time() - began)
    return best * 1000


def machine_factor() -> float:
    """Return how many times slower this machine currently is than the reference machine, at least 1."""
    return max(known_work_ms() / REFERENCE_MS, 1.0)


def excesses(budget: Mapping[str, float], result: StepResult) -> tuple[Excess, ...]:
    # The time that the worker reports is better than nothing.
    reported = None if result.cpu_ms is None else result.cpu_ms / 1000
    used = {
        "seconds": reported if result.spent_ms is None else result.spent_ms / 1000,
        "peak_bytes": result.peak_bytes,
        "read_bytes": result.read_bytes,
    }
    over = []
    for name, value in used.items():
        allowed = budget.get(name)
        if allowed is None or value is None or value <= allowed:
            continue
        if name == "seconds":  # measured now, under the current load
            allowed *= HEAD_ROOM * machine_factor()
        if value > allowed:
            over.append(Excess(name, value, allowed))
    return tuple(over)


def cheaper(first: StepResult, second: StepResult) -> StepResult:
    return replace(
        first,
        cpu_ms=combined(min, (first.cpu_ms, second.cpu_ms)),
        spent_ms=combined(min, (first.spent_ms, second.spent_ms)),
        peak_bytes=combined(min, (first.peak_bytes, second.peak_bytes)),
        read_bytes=combined(min, (first.read_bytes, second.read_bytes)),
    )


def combined(how: Callable[[list[N]], N], values: Iterable[N | None]) -> N | None:
    """Combine the values that were measured, if any."""
    known = [value for value in values if value is not None]
    return how(known) if known else None
