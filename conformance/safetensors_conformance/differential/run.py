"""Running several implementations over the same inputs, each in its own worker, nothing judged.

An expectation is needed nowhere here: what one implementation says is held against what the others say.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any

from safetensors_corpus import ManifestError
from safetensors_corpus.judging.judge import lacks_feature
from safetensors_reports.record.run import RunRecord

from ..implementations.environment import InstallError
from ..implementations.prepare import prepare
from ..implementations.selectors import Target
from ..run.interruption import end_children
from ..run.multistep import carry_out
from ..run.session import WINDOW
from ..worker.copies import Copies
from ..worker.make import make_worker
from ..worker.outcome import Implementation, Memory, StepResult
from ..worker.worker import Limits, Request, StartError, Worker, asked_again
from .inputs import Input, features_of, path_of, plain

NOT_ASKED = StepResult("harness-error", "not asked: it has no step for this input")


class Side:
    """One implementation of a differential run, used by one thread at a time.

    Attributes:
        target: what was asked for.
        who: who answered, None before it was started or when it cannot be.
        problem: why it cannot be run, None when it can.
        results: input id -> answer, as far as it got.
    """

    def __init__(self, target: Target, limits: Limits, profile: str | None = None) -> None:
        self.target = target
        self.who: Implementation | None = None
        self.problem: str | None = None
        self.results: dict[str, StepResult] = {}
        self.asked: set[str] = set()
        self._memory = Memory()
        self._copies = Copies()
        self._worker: Worker = make_worker(target, limits, profile)

    def prepare(self) -> None:
        """Make its environment if need be; ``problem`` says why that did not work."""
        try:
            prepare(self.target)
        except InstallError as err:
            self.problem = str(err)

    def run(self, inputs: Sequence[Input], stop: threading.Event, tick: Callable[[], None]) -> None:
        """Start it and ask for every input, in order, until ``stop`` is set; end the worker in any case."""
        if self.problem is not None or stop.is_set():
            return
        try:
            self.who = self._worker.start()
            sent = 0
            for place, item in enumerate(inputs):
                if stop.is_set():
                    return
                step = item.step_of(self.who)
                if step is None:
                    self.results[item.id] = NOT_ASKED
                else:
                    sent = self._send_ahead(inputs, max(sent, place) if self._worker.in_flight else place)
                    result = self._answer(item, step, stop)
                    self.asked.add(item.id)
                    self.results[item.id] = self._memory.kept(self._excused(item, result))
                tick()
        except StartError as err:
            self.problem = str(err)
        finally:
            self._worker.close()
            self._copies.close()

    def _send_ahead(self, inputs: Sequence[Input], start: int) -> int:
        """Keep the worker busy with plain questions from ``start`` on; return where the next one is."""
        assert self.who is not None
        if self._worker.in_flight > WINDOW // 2:
            return start
        requests: list[Request] = []
        while start < len(inputs) and len(requests) + self._worker.in_flight < WINDOW:
            item = inputs[start]
            step = item.step_of(self.who)
            if not plain(item):
                break
            if step is not None:
                try:
                    requests.append(Request(step, path_of(self._shown(item))))
                except ManifestError:
                    break  # that is told when its turn comes
            start += 1
        if requests:
            self._worker.send_ahead(requests)
        return start

    def _shown(self, item: Input) -> Input:
        """Return the input with a copy in the place of a file of the corpus. Raises ManifestError."""
        return item if item.case is None else replace(item, case=self._copies.shown(item.case))

    def _answer(self, item: Input, step: str, stop: threading.Event) -> StepResult:
        try:
            return self._copies.plain(self._told(item, self._shown(item), step, stop))
        except ManifestError as err:
            return StepResult("harness-error", str(err))
        finally:
            if item.case is not None:
                self._copies.retire(item.case)

    def _told(self, item: Input, shown: Input, step: str, stop: threading.Event) -> StepResult:
        if item.case is not None and self._copies.change(item.case):  # by an answer before this one
            self._copies.discard(item.case)
            shown = self._shown(item)
        first = self._ask(shown, step)
        if first.outcome not in ("crash", "hang") or stop.is_set():
            return first
        return asked_again(self._worker, lambda: self._ask(shown, step), first)

    def _ask(self, item: Input, step: str) -> StepResult:
        if item.case is not None and not plain(item):
            return carry_out(self._worker, item.case)
        return self._worker.ask(step, path_of(item))

    def _excused(self, item: Input, result: StepResult) -> StepResult:
        """A refusal for lack of a feature that was declared says nothing about the file."""
        assert self.who is not None
        if result.outcome != "reject" or not self.who.lacks:
            return result
        features = item.case.features if item.case is not None else features_of(item.path)
        lacking = lacks_feature(self.who.lacks, features)
        if not lacking:
            return result
        return replace(result, outcome="unsupported", message=f"lacks {', '.join(lacking)}; {result.message}")


def run_all(sides: Sequence[Side], inputs: Sequence[Input], jobs: int, tick: Callable[[Side], None]) -> bool:
    """Run all sides, ``jobs`` at a time, each worker in a thread of its own.

    Returns False when Ctrl-C ended it. What was found until then stays in ``Side.results``; the answers that
    are still to come are not waited for here, their threads end after them.
    """
    stop = threading.Event()
    pool = ThreadPoolExecutor(max_workers=max(jobs, 1))
    try:
        futures = [pool.submit(side.run, inputs, stop, _ticking(tick, side)) for side in sides]
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
