"""The session of one implementation: run cases, retry doubtful answers alone, and judge the answers.

A session also detects content from uninitialised memory, which in a real program could be keys or other
people's data. Fresh processes read the same file with allocators that fill new memory with different bytes.
Content that changes with the fill byte cannot come from the file.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Self

from safetensors_corpus import Case, ManifestError
from safetensors_corpus.judging.content import first_disagreement
from safetensors_corpus.judging.verdicts import effect_of
from safetensors_reference.rules.faults import quote

from ..implementations.selectors import Target
from ..outcome import Implementation, KeptContent, StepResult
from ..verdict.judge import CaseVerdict, Suspicion, judge, settle, suspicion_of
from ..worker.worker import Limits, StartError, make_worker
from .cases import TOO_LARGE, CaseRunner

MAX_HEAP_CHECKS = 5
"""How many answers with wrong content to check for uninitialised memory in one run, in three processes each.
"""

MAX_RETRIES = 32
"""How many answers to retry in one run because earlier requests may have caused them."""


class Session:
    """The verdicts of one implementation, at most one for each case."""

    def __init__(self, runner: CaseRunner) -> None:
        self.runner = runner
        self.target = runner.target
        self._kept_content = KeptContent()
        self._verdicts: dict[str, CaseVerdict] = {}
        self._confirmed: set[Suspicion] = set()
        self._heap_checks_left = MAX_HEAP_CHECKS
        self._retries_left = MAX_RETRIES

    def start(self) -> Implementation:
        """Start the implementation, once. Raises StartError."""
        return self.runner.start()

    def verdicts(self, cases: Iterable[Case]) -> Iterator[CaseVerdict]:
        """Return the verdicts on the cases that can run. Raises as ``judge`` does."""
        self.start()
        cases = (case for case in cases if self.runner.steps(case))
        return (verdict for _, verdict in self.runner.run(cases, self.judge))

    def judge(self, case: Case) -> CaseVerdict:
        """Run and judge a case once. Raises the same exceptions as ``answers``."""
        known = self._verdicts.get(case.id)
        if known is None:
            results = self.runner.answers(case)
            try:
                known = judge(case, results, self.start(), self.runner.profile)
                known = self._trim_content(self._note_heap_content(self._recheck_alone(known)))
            except MemoryError:
                known = judge(case, dict.fromkeys(results, TOO_LARGE), self.start(), self.runner.profile)
            self._verdicts[case.id] = known
        return known

    def _recheck_alone(self, verdict: CaseVerdict) -> CaseVerdict:
        """Retry a case alone in a fresh process if earlier requests may have caused its answers.

        An answer is not retried if an earlier answer of the same kind recurred when its case ran alone.
        """
        case = verdict.case
        suspicions = {
            step: suspicion
            for step, judged in verdict.steps.items()
            if judged.failures and (suspicion := suspicion_of(case, judged))
        }
        if not suspicions or not self._retries_left or self._confirmed.issuperset(suspicions.values()):
            return verdict
        self._retries_left -= 1
        self.runner.renew(case)
        alone = judge(case, self.runner.answers(case), self.start(), self.runner.profile)
        self.runner.renew(case)  # so that this file affects no later one
        self._confirmed.update(
            suspicion for judged in alone.steps.values() if (suspicion := suspicion_of(case, judged))
        )
        steps = {step: settle(case, verdict.steps[step], alone.steps[step]) for step in suspicions}
        return CaseVerdict(case, {**verdict.steps, **steps})

    def _trim_content(self, verdict: CaseVerdict) -> CaseVerdict:
        cut = {
            step: replace(judged, result=kept)
            for step, judged in verdict.steps.items()
            if (kept := self._kept_content.kept(judged.result)) is not judged.result
        }
        return replace(verdict, steps={**verdict.steps, **cut}) if cut else verdict

    def _note_heap_content(self, verdict: CaseVerdict) -> CaseVerdict:
        """Check whether wrong content comes from uninitialised memory, but only in the first few cases."""
        case, read = verdict.case, verdict.steps.get("read")
        if read is None or effect_of(read.verdict) != "content" or effect_of(verdict.verdict) != "content":
            return verdict
        if not self._heap_checks_left or case.kind != "read":
            return verdict
        if any(judged.result.changed for judged in verdict.steps.values()):
            return verdict
        self._heap_checks_left -= 1
        try:
            with self.runner.copy_of(case) as copy:
                note = content_depends_on_heap(self.target, copy, self.runner.limits)
        except ManifestError:
            return verdict
        if not note:
            return verdict
        first, *others = read.failures
        first = replace(first, detail=f"{first.detail}; {note}")
        noted = replace(read, detail=f"{read.detail}; {note}", failures=(first, *others))
        return replace(verdict, steps={**verdict.steps, "read": noted})

    def close(self) -> None:
        self.runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


# Uninitialised memory

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
