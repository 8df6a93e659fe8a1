"""The loop: mutate, run the implementations, keep what crashes or disagrees."""

from __future__ import annotations

import hashlib
import json
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from safetensors_conformance.compare import first_difference
from safetensors_conformance.outcomes import UNSAFE, StepResult
from safetensors_conformance.selectors import Target
from safetensors_conformance.worker import Limits, Worker, make_worker
from safetensors_reference import explain

from .mutate import mutant


@dataclass
class Tally:
    """What a fuzzing run did."""

    execs: int = 0
    seconds: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    findings: dict[str, dict[str, Any]] = field(default_factory=dict)


def fuzz(
    targets: Sequence[Target],
    bases: Sequence[bytes],
    *,
    seed: int,
    max_execs: int,
    seconds: float | None,
    limits: Limits,
    folder: Path | None,
    progress: Callable[[Tally], None],
    tally: Tally,
) -> None:
    """Run until ``max_execs`` or ``seconds`` are used up; results are in ``tally`` also after Ctrl-C.

    Every input goes to each target. A finding is an unsafe outcome or harness error of one, or a
    disagreement between two; one per signature is kept. The reference takes the official profile, so that
    known deviations of the official library stay quiet.
    """
    rng = random.Random(seed)  # noqa: S311 - reproducible on purpose
    workers = {t.selector: make_worker(t, limits, "official") for t in targets}
    began = time.monotonic()
    try:
        steps = {name: _last_step(worker.start().steps) for name, worker in workers.items()}
        with tempfile.TemporaryDirectory(prefix="stc-fuzz-") as scratch:
            path = Path(scratch) / "input.safetensors"
            while tally.execs < max_execs:
                tally.seconds = time.monotonic() - began
                if seconds is not None and tally.seconds >= seconds:
                    break
                data = mutant(rng, bases)
                _write(path, data)
                results = {name: _ask(w, steps[name], path) for name, w in workers.items()}
                tally.execs += 1
                tally.outcomes[" / ".join(r.outcome for r in results.values())] += 1
                signature = _signature(data, results)
                if signature is not None and signature not in tally.findings:
                    tally.findings[signature] = _keep(folder, data, signature, results, seed, tally.execs)
                progress(tally)
    finally:
        tally.seconds = time.monotonic() - began
        for worker in workers.values():
            worker.close()


def _last_step(steps: Sequence[str]) -> str:
    """Return the step that does most with a single file."""
    return "read" if "read" in steps else steps[0]


def _write(path: Path, data: bytes) -> None:
    """Write an input over the last one; a file cut to nothing first would be flushed to disk every time."""
    with path.open("r+b" if path.exists() else "wb") as file:
        file.write(data)
        file.truncate()


def _ask(worker: Worker, step: str, path: Path) -> StepResult:
    """Run a step; the scratch folder's name is kept out of the words, so that runs can be compared."""
    result = worker.ask(step, str(path))
    return replace(result, message=result.message.replace(str(path), path.name))


def _signature(data: bytes, results: dict[str, StepResult]) -> str | None:
    """Name what is wrong about the results, None when nothing is."""
    for name, result in results.items():
        if result.outcome in UNSAFE or result.outcome == "harness-error":
            return f"{name}: {result.outcome}: {result.message[:60]}"
        if result.documented is False and name == "reference":
            return f"{name}: undocumented {result.exception}"
    outcomes = {r.outcome for r in results.values()}
    if len(outcomes) > 1:
        codes = sorted({f.code for f in explain(data, "official").faults})[:3]
        vector = ", ".join(f"{n} {r.outcome}" for n, r in results.items())
        return f"{vector} [{' '.join(codes) or 'no fault'}]"
    if outcomes == {"accept"}:
        first, *others = results.values()
        content = {"tensors": first.tensors or [], "metadata": first.metadata}
        for other in others:
            difference = first_difference(content, other)
            if difference is not None:
                return f"content: {difference.split(':')[-1].split('(')[0].strip()[:60]}"
    return None


def _keep(
    folder: Path | None, data: bytes, signature: str, results: dict[str, StepResult], seed: int, execs: int
) -> dict[str, Any]:
    """Write a finding to disk and return its description."""
    digest = hashlib.sha256(data).hexdigest()
    finding = {
        "signature": signature,
        "sha256": digest,
        "size": len(data),
        "seed": seed,
        "exec": execs,
        "results": {n: {"outcome": r.outcome, "message": r.message[:300]} for n, r in results.items()},
    }
    if folder is not None:
        place = folder / digest[:12]
        place.mkdir(parents=True, exist_ok=True)
        (place / "input.safetensors").write_bytes(data)
        (place / "finding.json").write_text(json.dumps(finding, indent=1) + "\n", encoding="utf-8")
    return finding
