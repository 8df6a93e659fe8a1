"""Results of one implementation: settings of the run, rows, and the record on disk."""

from __future__ import annotations

import datetime as dt
import platform
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

from safetensors_corpus import Manifest
from safetensors_reports.record.charges import recharge
from safetensors_reports.record.run import RecordWriter, RunRecord

from ..implementations.selectors import Target
from ..outcome import Implementation
from ..verdict.judge import CaseVerdict
from ..worker.worker import Limits
from .baseline import name_in_records


@dataclass(frozen=True)
class RunOptions:
    """Settings of a run.

    The run ends after ``max_hangs`` hangs in a row, or ten times as many deaths; 0 means no limit.
    """

    manifest: Manifest
    profile: str | None = None
    limits: Limits = field(default_factory=Limits)
    baseline: Path | None = None
    use_baseline: bool = True
    smoke: bool = True
    strict: bool = False
    heavy: bool = False
    device: str | None = None
    max_hangs: int = 0
    report: Path | None = None
    full_failures: bool = False
    stop: threading.Event = field(default_factory=threading.Event)


def scope(implementation: Implementation, manifest: Manifest, *, heavy: bool) -> tuple[int, dict[str, int]]:
    """Return the number of cases to run, and a count of the omitted cases by area, kind or "heavy"."""
    chosen, left_out = 0, Counter[str]()
    for case in manifest.cases:
        if not implementation.steps_of(case):
            left_out[case.kind if case.kind != "read" else case.area] += 1
        elif case.heavy and not heavy:
            left_out["heavy"] += 1
        else:
            chosen += 1
    return chosen, dict(sorted(left_out.items()))


def header_row(implementation: Implementation, options: RunOptions, baseline: Path | None) -> dict[str, Any]:
    manifest, limits = options.manifest, options.limits
    cases, left_out = scope(implementation, manifest, heavy=options.heavy)
    return {
        "type": "header",
        "record": 1,
        "suite": version("safetensors-conformance"),
        "implementation": {
            "selector": implementation.selector,
            "name": implementation.name,
            "version": implementation.version,
            "language": implementation.language,
            "steps": list(implementation.steps),
            "areas": sorted(implementation.areas),
            "lacks": sorted(implementation.lacks),
        },
        "corpus": {
            "version": manifest.version,
            "digest": manifest.digest,
            "cases": cases,
            "left_out": left_out,
        },
        "profile": options.profile,
        **({} if options.device is None else {"device": options.device}),
        "limits": {"time_s": limits.seconds, "memory_bytes": limits.memory_bytes},
        "started": dt.datetime.now(dt.UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "baseline": None if baseline is None else name_in_records(baseline),
        "platform": platform.platform(),
        "python": platform.python_version(),
    }


def result_rows(verdict: CaseVerdict) -> list[dict[str, Any]]:
    return [result_row(verdict, step, expected_failure=False) for step in verdict.steps]


def result_row(verdict: CaseVerdict, step: str, expected_failure: bool) -> dict[str, Any]:
    judged = verdict.steps[step]
    result, case = judged.result, verdict.case
    checks = {"checks": [check._asdict() for check in result.checks]} if step == "device" else {}
    worst = judged.failures[0] if judged.failures else None
    return {
        "case": case.id,
        "step": step,
        "outcome": result.outcome,
        "verdict": judged.verdict,
        "level": case.level,
        "importance": case.importance,
        "rules": list(case.rules),
        "rule": (worst.rule or None) if worst is not None else None,
        "basis": worst.basis if worst is not None else None,
        "failures": [asdict(failure) for failure in judged.failures],
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
        "content": result.content,
        **checks,
    }


def baseline_path(target: Target, given: Path | None) -> Path:
    """Return the given baseline, the project's baseline for the descriptor's version, or a local one."""
    if given is not None:
        return given
    if target.descriptor is not None and target.entry is not None:
        ours = target.descriptor.expected_failures(target.entry)
        env = target.environment
        described = target.descriptor.default_version(target.entry)
        if ours.is_file() and not target.user_provided and (env is None or env.version == described):
            return ours
    return Path(f"{target.slug}.baseline.toml")


class ReportError(Exception):
    """The report folder is unusable, or has become unusable. The message names the folder and the reason."""


class ImplementationResults:
    """Results of one implementation in one run. They are written to the record at ``path`` as they arrive."""

    def __init__(self, target: Target, path: Path | None) -> None:
        self.target = target
        self.path = path
        self.header: dict[str, Any] = {}
        self.results: list[dict[str, Any]] = []
        self.choices: list[dict[str, Any]] = []
        self.problems: list[str] = []
        self.footer: dict[str, Any] | None = None
        self._writer: RecordWriter | None = None

    def add(self, message: Mapping[str, Any]) -> None:
        """Add a message from a worker process and write it.

        If this raises ReportError, the message has still been added.
        """
        header = message.get("header")
        rows: dict[str, list[Any]] = {
            "result": self.results,
            "choice": self.choices,
            "problem": self.problems,
        }
        try:
            if header is not None and not self.header:
                self.header = header
                if self.path is not None:
                    self._writer = RecordWriter(self.path)
                    self._writer.write("header", header)
            for kind, known in rows.items():
                if kind in message and (kind != "problem" or message[kind] not in known):
                    known.append(message[kind])
                    if self._writer is not None:
                        row = {"message": message[kind]} if kind == "problem" else message[kind]
                        self._writer.write(kind, row)
        except OSError as err:
            self._abandon(err)

    def _abandon(self, err: OSError) -> NoReturn:
        path, self.path = self.path, None
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        raise ReportError(f"{path}: {err.strerror or err}; the lines written so far are complete") from err

    def finish(self, manifest: Manifest) -> None:
        """Write the footer. A complete run has a result for each step of every case. Raises ReportError."""
        expected = self.header["corpus"]["cases"] if self.header else 0
        not_run = expected - self._complete_cases(manifest)
        self.footer = {
            "complete": expected > 0 and not_run == 0 and not self.problems,
            "duration_s": round(sum(row["wall_ms"] for row in self.results) / 1000, 3),
            "not_run": not_run if expected else len(manifest.cases),
        }
        if self._writer is not None:
            try:
                self._writer.write("footer", self.footer)
            except OSError as err:
                self._abandon(err)

    def _complete_cases(self, manifest: Manifest) -> int:
        """Count the cases with a result for each step, except heavy ones that the run did not include."""
        known = self.header.get("implementation", {})
        steps, areas = tuple(known.get("steps", ())), frozenset(known.get("areas", ()))
        implementation = Implementation("", "", "", steps, areas=areas)
        heavy = "heavy" not in self.header.get("corpus", {}).get("left_out", {})
        done: dict[str, set[str]] = {}
        for row in self.results:
            done.setdefault(row["case"], set()).add(row["step"])
        complete = 0
        for name, there in done.items():
            case = manifest.by_id[name]
            wanted = implementation.steps_of(case)
            complete += bool(wanted) and there.issuperset(wanted) and (heavy or not case.heavy)
        return complete

    def close(self) -> None:
        """Close the record. Raises ReportError if another program removed or changed it."""
        writer, self._writer = self._writer, None
        if writer is not None:
            intact = writer.intact
            writer.close()
            if not intact:
                raise ReportError(f"{self.path}: another program removed, replaced or changed this file")

    def record(self) -> RunRecord:
        return RunRecord(self.header, recharge(self.results), self.choices, self.problems, self.footer)
