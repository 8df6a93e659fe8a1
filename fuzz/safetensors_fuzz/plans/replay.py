"""A finding asked again: the case that its files, action and expectation make, in a fresh process."""

from __future__ import annotations

import tempfile
from pathlib import Path

from safetensors_conformance.implementations.selectors import Target
from safetensors_conformance.run.multistep import carry_out
from safetensors_conformance.verdict.judge import StepVerdict, judge
from safetensors_conformance.worker.outcome import Implementation, StepResult
from safetensors_conformance.worker.worker import Limits, Worker, make_worker
from safetensors_corpus.manifest import Case

from ..findings.finding import Finding
from .question import case_from


def case_of(finding: Finding, folder: Path) -> Case:
    """Write the input of a finding into ``folder`` and return the case.

    Raises ValueError for a step that hands over no input (``prove``, ``check``), for an expectation that is
    not in the manifest's form and for files that do not fit, OSError when a file cannot be written.
    """
    return case_from(
        finding.step,
        finding.files,
        finding.entry,
        finding.action,
        finding.expectation,
        finding.rules,
        folder,
    )


def ask(target: Target, finding: Finding, limits: Limits, profile: str | None) -> StepVerdict:
    """Ask a target in a fresh process what a finding asks, and judge the answer.

    A step that the target does not have is ``unsupported``. Raises StartError, and what ``case_of`` raises.
    """
    with tempfile.TemporaryDirectory(prefix="stc-fuzz-") as folder:
        case = case_of(finding, Path(folder))
        worker = make_worker(target, limits, profile)
        try:
            return answer(worker, worker.start(), case, finding.step, profile)
        finally:
            worker.close()


def answer(worker: Worker, who: Implementation, case: Case, step: str, profile: str | None) -> StepVerdict:
    """Have a worker do what a case says and judge the answer."""
    if step not in who.steps:
        result = StepResult("unsupported", f"{who.label} has no step {step}")
    elif step in ("open", "read"):
        result = worker.ask(step, str(case.path))
    else:
        result = carry_out(worker, case)
    return judge(case, {step: result}, who, profile).steps[step]
