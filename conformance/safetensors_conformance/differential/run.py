"""Running several implementations over the same inputs, each in its own worker, nothing judged.

An expectation is needed nowhere here: what one implementation says is held against what the others say.
"""

from __future__ import annotations

import hashlib
import json
import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any

from safetensors_corpus import Case
from safetensors_corpus.judging.content import FIELDS
from safetensors_corpus.judging.judge import excuse
from safetensors_reports.record.run import RunRecord

from ..implementations.environment import InstallError, prepare
from ..implementations.selectors import Target
from ..run.cases import CaseRunner, Input
from ..run.interruption import end_children
from ..worker.outcome import StepResult
from ..worker.worker import Limits, StartError
from .inputs import features_of

MAX_LISTED = 50
"""Most tensors and metadata keys that a dump lists; the digest covers all."""
NOT_ASKED = StepResult("harness-error", "not asked: it has no step for this input")


class Side(CaseRunner):
    """One implementation of a differential run, used by one thread at a time.

    Attributes:
        problem: why it cannot be run, None when it can.
        results: input id -> answer, as far as it got.
        asked: ids of the inputs that it has a step for.
    """

    def __init__(self, target: Target, limits: Limits, profile: str | None = None) -> None:
        super().__init__(target, limits, profile)
        self.problem: str | None = None
        self.results: dict[str, StepResult] = {}
        self.asked: set[str] = set()

    def prepare(self) -> None:
        """Make its environment if need be; ``problem`` says why that did not work."""
        try:
            prepare(self.target)
        except InstallError as err:
            self.problem = str(err)

    def steps(self, item: Input) -> list[str]:
        """Return the last step of an input that the implementation has: it says most."""
        return super().steps(item)[-1:]

    def run_all(self, inputs: Sequence[Input], stop: threading.Event, tick: Callable[[], None]) -> None:
        """Start it and ask about every input, in order, until ``stop`` is set; end the worker in any case."""
        if self.problem is not None or stop.is_set():
            return
        self.stop = stop
        try:
            self.start()
            for item, result in self.run(inputs, self._result):
                self.results[item.id] = result
                tick()
        except StartError as err:
            self.problem = str(err)
        finally:
            self.close()

    def _result(self, item: Input) -> StepResult:
        if not self.steps(item):
            return NOT_ASKED
        (result,) = self.answers(item).values()
        self.asked.add(item.id)
        assert self.who is not None
        features = item.features if isinstance(item, Case) else features_of(item.path)
        if excused := excuse(result, self.who.lacks, features):
            result = replace(result, outcome="unsupported", message=f"{excused}; {result.message}")
        return self._memory.kept(result)


def run_all(sides: Sequence[Side], inputs: Sequence[Input], jobs: int, tick: Callable[[Side], None]) -> bool:
    """Run all sides, ``jobs`` at a time, each worker in a thread of its own.

    Returns False when Ctrl-C ended it. What was found until then stays in ``Side.results``; the answers that
    are still to come are not waited for here, their threads end after them.
    """
    stop = threading.Event()
    pool = ThreadPoolExecutor(max_workers=max(jobs, 1))
    try:
        futures = [pool.submit(side.run_all, inputs, stop, _ticking(tick, side)) for side in sides]
        wait(futures)
    except KeyboardInterrupt:
        stop.set()
        end_children()  # else their answers would be waited for at the end of this process
        pool.shutdown(wait=False, cancel_futures=True)
        return False
    pool.shutdown()
    for future in futures:
        future.result()
    return True


def _ticking(tick: Callable[[Side], None], side: Side) -> Callable[[], None]:
    return lambda: tick(side)


def names_of(sides: Sequence[Side]) -> list[str]:
    """Return a name without version for each, as signatures hold them, all distinct.

    Where two would have the same name they get what tells them apart: the object of an adapter, or else the
    whole selector. So versions of one implementation keep theirs.
    """
    names = [plain_name(side) for side in sides]
    for longer in (_with_object, lambda side: side.target.selector):
        names = [n if names.count(n) == 1 else longer(side) for n, side in zip(names, sides, strict=True)]
    return names


def plain_name(side: Side) -> str:
    """Return what people call it: name and entry of a known one, else what it says itself."""
    return side.target.plain(side.who.name if side.who is not None else "")


def _with_object(side: Side) -> str:
    scheme, _, rest = side.target.selector.partition(":")
    return f"{plain_name(side)}:{rest.rpartition(':')[2]}" if scheme == "py" else plain_name(side)


def records_of(sides: Sequence[Side], digest: str, profile: str | None) -> list[RunRecord]:
    """Return what each side said as a run record without verdicts, the form that comparisons take."""
    plain_names = [(plain_name(s), s.who.version if s.who else "") for s in sides]
    return [
        _record(side, short[0] if plain_names.count(short) == 1 else name, digest, profile)
        for side, short, name in zip(sides, plain_names, names_of(sides), strict=True)
    ]


def _record(side: Side, selector: str, digest: str, profile: str | None) -> RunRecord:
    assert side.who is not None
    results = dict(side.results)
    header = {
        "implementation": {"selector": selector, "name": side.who.name, "version": side.who.version},
        "corpus": {"digest": digest, "cases": len(results)},
        "profile": profile,
    }
    rows: list[dict[str, Any]] = [
        {
            "case": input_id,
            "step": "read",
            "outcome": result.outcome if input_id in side.asked else "not-asked",
            "verdict": "",
            "content": result.content,
        }
        for input_id, result in results.items()
    ]
    return RunRecord(header, rows, footer={"complete": True, "duration_s": 0.0, "not_run": 0})


def dump(result: StepResult) -> dict[str, Any]:
    """Return the canonical form of an answer, JSON-serialisable and of bounded size.

    Tensors are sorted by name since their order is nobody's promise (API-03). What an implementation does not
    tell is left out, never filled in: silence agrees with everything.

    ``outcome`` always; ``message`` for what is no accept; of an accept ``digest`` over everything told,
    ``count`` of tensors, ``tensors`` sorted by name and ``metadata`` sorted by key, as far as they are told.
    """
    if result.outcome != "accept":
        return {"outcome": result.outcome, "message": result.message[:500]}
    out: dict[str, Any] = {"outcome": "accept"}
    told: dict[str, Any] = {}
    if result.tensors is not None:
        told["tensors"] = sorted((_tensor(row) for row in result.tensors), key=_order)
    if result.has_metadata:
        told["metadata"] = dict(sorted((str(k), _plain(v)) for k, v in (result.metadata or {}).items()))
    text = json.dumps(told if result.cut is None else dict(result.cut), sort_keys=True, separators=(",", ":"))
    out["digest"] = hashlib.sha256(text.encode("ascii")).hexdigest()
    if "tensors" in told:
        out["count"] = len(told["tensors"]) if result.cut is None else result.cut["tensor_count"]
        out["tensors"] = told["tensors"][:MAX_LISTED]
    if "metadata" in told:
        out["metadata"] = dict(list(told["metadata"].items())[:MAX_LISTED])
    return out


def _tensor(row: dict[str, Any]) -> dict[str, Any]:
    told = {name: _plain(row[name]) for name in FIELDS if row.get(name) is not None}
    return {"name": row["name"], **told, **({"unsupported": True} if row.get("unsupported") else {})}


def _order(row: dict[str, Any]) -> tuple[str, str]:
    return row["name"], json.dumps(row, sort_keys=True)


def _plain(value: Any) -> Any:
    """Return a value that JSON can hold: lenient readers report NaN and infinities."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, list) else value
