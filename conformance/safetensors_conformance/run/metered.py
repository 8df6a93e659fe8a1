"""Measurements over all requests of a case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from ..outcome import StepResult
from ..worker.worker import Limits, Worker

N = TypeVar("N", int, float)


class Metered(Worker):
    """A proxy for a worker that measures all requests, for cases that consist of several requests."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._asked: list[StepResult] = []

    def ask(
        self,
        step: str,
        path: str,
        more: Mapping[str, Any] | None = None,
        *,
        measure: bool = True,
        limits: Limits | None = None,
    ) -> StepResult:
        result = self._worker.ask(step, path, more, measure=measure, limits=limits)
        self._asked.append(result)
        return result

    def costs(self, result: StepResult) -> StepResult:
        return replace(
            result,
            spent_ms=_total([one.spent_ms for one in self._asked]),
            read_bytes=_total([one.read_bytes for one in self._asked]),
            peak_bytes=max(
                (one.peak_bytes for one in self._asked if one.peak_bytes is not None), default=None
            ),
        )


def _total(values: list[N | None]) -> N | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
