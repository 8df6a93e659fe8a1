"""An implementation in one run: started, smoke-checked, with its baseline, its verdicts weighed."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any, Literal

from safetensors_corpus import Case
from safetensors_corpus.judging.verdicts import fails

from ..implementations.environment import InstallError
from ..implementations.prepare import prepare
from ..implementations.selectors import Target
from ..verdict.judge import CaseVerdict
from ..verdict.message import explain_failure
from ..worker.outcome import Implementation
from ..worker.worker import StartError
from .baseline import Baseline, BaselineError, load_baseline, overdue
from .options import RunOptions
from .results import baseline_path, header_row
from .session import GivenUpError, Session, result_row, smoke


@dataclass(frozen=True)
class Assessment:
    """What a step's verdict means for the run: fine, an expected failure, or a failure with its text.

    ``row`` is the result as run records have it.
    """

    status: Literal["fine", "expected", "failed"]
    row: dict[str, Any]
    text: str = ""


class Subject:
    """One implementation in this process. ``problem`` says why it cannot run, None when it can.

    Raises StoppedError when the run is to end before it has started.
    """

    def __init__(self, target: Target, options: RunOptions) -> None:
        self.target = target
        self.options = options
        self.session = Session(
            target,
            options.limits,
            options.profile,
            options.device,
            max_hangs=options.max_hangs,
            stop=options.stop,
        )
        self.who: Implementation | None = None
        self.problem: str | None = None
        self.baseline = Baseline(None)
        self.baseline_error: str | None = None
        self.header: dict[str, Any] | None = None
        try:
            prepare(target)
            who = self.session.start()
            if not who.steps:
                raise StartError(f"{target.selector!r} only loads onto devices; name one: --device cuda:0")
            self.who = who
            self._load_baseline(self.who)
            used = self.baseline.path
            self.header = header_row(self.who, options, used)
            if options.smoke:
                self.problem = smoke(self.session, options.manifest.cases)
        except (StartError, InstallError, GivenUpError) as err:
            self.problem = str(err)
        except BaseException:
            self.session.close()
            raise

    def _load_baseline(self, who: Implementation) -> None:
        if not self.options.use_baseline:
            return
        path = baseline_path(self.target, self.options.baseline)
        if self.options.baseline is None and not path.exists():
            return
        try:
            self.baseline = load_baseline(path, who.version, self.options.profile, self.options.device)
        except BaselineError as err:
            self.baseline_error = str(err)

    def steps(self, case: Case) -> list[str]:
        """Return the steps of a case that the implementation has."""
        return [] if self.who is None else self.who.steps_of(case)

    def baseline_complaint(self) -> str | None:
        """Return what is wrong with the baseline as a whole: unusable, stale entries, reviews overdue."""
        if self.baseline_error is not None:
            return self.baseline_error
        stale = self.baseline.stale(c.id for c in self.options.manifest.cases)
        if stale:
            return f"baseline {self.baseline.path}:\n  " + "\n  ".join(stale)
        late = overdue(self.baseline, dt.datetime.now(dt.UTC).date())
        if late:
            return f"baseline {self.baseline.path}: review is due for {', '.join(e.case for e in late[:5])}"
        return None

    def assess(self, verdict: CaseVerdict, step: str) -> Assessment:
        """Hold a step's verdict against the baseline, strictly both ways."""
        assert self.who is not None
        judged = verdict.steps[step]
        entry = self.baseline.find(verdict.case.id)
        expected = None if entry is None else entry.steps.get(step)
        same = entry is not None and expected == judged.verdict
        row = result_row(verdict, step, same)
        if entry is not None and same:
            return Assessment("expected", row, f"{judged.verdict}: {entry.why or entry.issue}")
        if expected is not None:
            return Assessment("failed", row, self._unlike(verdict.case, step, expected, judged.verdict))
        if fails(judged.verdict, strict=self.options.strict):
            stderr = judged.result.stderr
            options = self.options
            text = explain_failure(
                self.who, verdict.case, row, options.profile, options.device, stderr=stderr
            )
            return Assessment("failed", row, text)
        return Assessment("fine", row)

    def _unlike(self, case: Case, step: str, expected: str, got: str) -> str:
        what = "passes now" if got == "pass" else f"is {got} now"
        return (
            f"{case.id} · {step}: the baseline lists {expected}, but it {what}\n"
            f"  remove or correct the entry in {self.baseline.path}, or rewrite it with --update-baseline"
        )

    def close(self) -> None:
        """End the worker."""
        self.session.close()
