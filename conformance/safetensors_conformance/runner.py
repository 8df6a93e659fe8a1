"""Running an implementation over cases: one session per implementation, one verdict per case."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self

from safetensors_corpus import Case, ManifestError

from .judge import CaseVerdict, judge
from .outcomes import Implementation, StepResult
from .worker import Limits, StartError, make_worker

if TYPE_CHECKING:
    from .selectors import Target


class Session:
    """One implementation under test, started when it is first needed.

    Results are kept per case, so that the steps of a case, its choice and its report share one run.
    """

    def __init__(self, target: Target, limits: Limits | None = None, profile: str | None = None) -> None:
        self.target = target
        self.profile = profile
        self.limits = limits or Limits()
        self._worker = make_worker(target, self.limits, profile)
        self._who: Implementation | None = None
        self._verdicts: dict[str, CaseVerdict] = {}

    def start(self) -> Implementation:
        """Start the implementation, once. Raises StartError."""
        if self._who is None:
            self._who = self._worker.start()
        return self._who

    def judge(self, case: Case) -> CaseVerdict:
        """Run all steps of a case that the implementation has and judge them. Raises StartError."""
        known = self._verdicts.get(case.id)
        if known is None:
            known = self._verdicts[case.id] = self._judge(case)
        return known

    def _judge(self, case: Case) -> CaseVerdict:
        who = self.start()
        steps = [step for step in case.steps if step in who.steps]
        try:
            case.read_input()
        except ManifestError as err:
            broken = StepResult("harness-error", str(err))
            return judge(case, dict.fromkeys(steps, broken), who, self.profile)
        results = {step: self._worker.ask(step, str(case.path)) for step in steps}
        return judge(case, results, who, self.profile)

    def close(self) -> None:
        """End the worker."""
        self._worker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def smoke(session: Session, cases: Iterable[Case]) -> str | None:
    """Tell a broken adapter from a broken reader: run the smoke cases; return the complaint or None.

    Raises StartError when the implementation does not start at all.
    """
    wrong = []
    for case in cases:
        if not case.smoke or case.expect is None:
            continue
        verdict = session.judge(case)
        for step, judged in verdict.steps.items():
            if judged.verdict not in ("pass", "unsupported", "late-reject"):
                got = judged.detail or judged.result.outcome
                wrong.append(f"{case.id} ({step}): expected {case.expect.outcome}, got {got}")
    if not wrong:
        return None
    return (
        f"the adapter of {session.target.selector!r} is probably wrong: it fails the most basic files\n  "
        + "\n  ".join(wrong)
        + f"\ntry one by hand: stc run --impl {session.target.selector!r} --case "
        + wrong[0].split(" ", 1)[0]
        + " --no-smoke"
    )


def result_row(verdict: CaseVerdict, step: str, expected_failure: bool) -> dict[str, Any]:
    """Return the run-record row of one step."""
    judged = verdict.steps[step]
    result, case = judged.result, verdict.case
    content: dict[str, Any] | None = None
    if result.outcome == "accept" and result.tensors is not None:
        content = {"tensors": result.tensors}
        if result.has_metadata:
            content["metadata"] = result.metadata
    return {
        "case": case.id,
        "step": step,
        "outcome": result.outcome,
        "verdict": judged.verdict,
        "level": case.level,
        "importance": case.importance,
        "rules": list(case.rules),
        "choice": case.choice,
        "options": list(judged.options),
        "expected_failure": expected_failure,
        "detail": judged.detail,
        "message": result.message,
        "exception": result.exception,
        "documented": result.documented,
        "wall_ms": result.wall_ms,
        "cpu_ms": result.cpu_ms,
        "peak_bytes": result.peak_bytes,
        "noise": result.noise,
        "content": content,
    }


__all__ = ["Session", "StartError", "result_row", "smoke"]
