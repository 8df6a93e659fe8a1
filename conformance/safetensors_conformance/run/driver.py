"""The driver of a run, for pytest and ``stc run``: implementations, baselines, results and report."""

from __future__ import annotations

import datetime as dt
import platform
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, NoReturn

from filelock import FileLock, Timeout

from safetensors_corpus import Case, Manifest
from safetensors_corpus.judging.verdicts import fails
from safetensors_reference.rules.book import rule_book
from safetensors_reports.causes.cause import Cause, causes, describe_failures, mistakes_of
from safetensors_reports.causes.lines import MAX_SHOWN as MAX_CAUSES
from safetensors_reports.causes.lines import cause_lines, described
from safetensors_reports.comment import markdown
from safetensors_reports.differences.compare import compare
from safetensors_reports.differences.report import diff_lines
from safetensors_reports.known_failures import Baseline, KnownError, load_baseline
from safetensors_reports.record.file import RecordWriter, selector_of, write_text
from safetensors_reports.record.run import RunRecord, summary_lines
from safetensors_reports.text import plural, visible

from ..case_verdict import CaseVerdict, explain_failure, judge_choice, result_row, wrongly_refused
from ..implementations.commands import InstallError
from ..implementations.descriptor import name_in_records
from ..implementations.selectors import Target
from ..outcome import Implementation
from ..worker.worker import Limits, StartError
from .baseline_update import check_baseline_option, due_by, failing_steps, unexplained, update
from .session import GivenUpError, Session, smoke


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


def header_row(implementation: Implementation, options: RunOptions, baseline: str | None) -> dict[str, Any]:
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
        "baseline": baseline,
        "platform": platform.platform(),
        "python": platform.python_version(),
    }


MAX_SHOWN = 3
"""How many cases with the same cause to show in full. Each further case gets one line."""


@dataclass(frozen=True)
class Assessment:
    """What a step's verdict means for the run. ``row`` is the result in the format of run records."""

    status: Literal["fine", "expected", "failed"]
    row: dict[str, Any]
    text: str = ""
    contradicts_baseline: bool = False


class ImplementationRun(Session):
    """A session with its smoke check and baseline. ``problem`` says why the implementation cannot run."""

    def __init__(self, target: Target, options: RunOptions) -> None:
        limits, profile, device = options.limits, options.profile, options.device
        super().__init__(target, limits, profile, device, max_hangs=options.max_hangs, stop=options.stop)
        self.options = options
        self.problem: str | None = None
        self.baseline: Baseline | None = None
        self.baseline_error: str | None = None
        self.header: dict[str, Any] | None = None
        self._shown_causes: dict[tuple[str, ...], list[str]] = {}
        try:
            target.prepare()
            implementation = self.start()
            if not implementation.steps:
                how = (
                    "only loads onto devices; specify one: --device cuda:0"
                    if implementation.loads
                    else "only fetches files from servers; a sandbox needs --sandbox-net for that"
                )
                raise StartError(f"{target.selector!r} {how}")
            if options.use_baseline:
                self._load_baseline(implementation.version)
            baseline = None if self.baseline is None else name_in_records(self.baseline.path)
            self.header = header_row(implementation, options, baseline)
            if options.smoke:
                self.problem = smoke(self, options.manifest.cases)
        except (StartError, InstallError, GivenUpError) as err:
            self.problem = str(err)
        except BaseException:
            self.close()
            raise

    def _load_baseline(self, version: str) -> None:
        options, path = self.options, self.options.baseline or self.target.baseline
        if options.baseline or path.exists():
            try:
                self.baseline = load_baseline(path, version, options.profile, options.device)
            except KnownError as err:
                self.baseline_error = str(err)

    def baseline_complaint(self) -> str | None:
        """Return why the baseline fails the run: it is unusable, stale, or overdue for review."""
        if self.baseline is None:
            return self.baseline_error
        if stale := self.baseline.stale(c.id for c in self.options.manifest.cases):
            return f"baseline {self.baseline.path}:\n  " + "\n  ".join(stale)
        if late := self.baseline.overdue(dt.datetime.now(dt.UTC).date())[:5]:
            return f"baseline {self.baseline.path}: review is overdue for {', '.join(e.case for e in late)}"
        return None

    def choice_complaint(self, row: Mapping[str, str]) -> str:
        known = self.baseline.inconsistent if self.baseline is not None else ()
        if row["verdict"] == "choice-inconsistent" and row["choice"] not in known:
            return f"{self.target.selector} · {row['choice']}: CHOICE-INCONSISTENT\n  {row['detail']}"
        if self.baseline is None or row["choice"] not in known or row["verdict"] == "choice-inconsistent":
            return ""
        return (
            f"{row['choice']}: the answers no longer contradict each other; remove it from 'inconsistent' in "
            f"{self.baseline.path}"
        )

    def judge(self, case: Case) -> CaseVerdict:
        try:
            return super().judge(case)
        except GivenUpError as err:
            self.problem = str(err)
            raise

    def choices(self, cases: Iterable[Case]) -> dict[str, list[Case]]:
        """Map each choice that the profile leaves open to those of its cases that can run."""
        of_choice: dict[str, list[Case]] = {}
        for case in cases:
            if case.choice and self.steps(case):
                of_choice.setdefault(case.choice, []).append(case)
        profile = self.options.profile
        return {
            choice.id: of_choice[choice.id]
            for choice in rule_book().choices.values()
            if choice.id in of_choice and choice.expected(profile) is None
        }

    def choice_row(self, choice: str, cases: Sequence[Case]) -> dict[str, str]:
        """Judge a choice. ``cases`` must include the cases of other rules that may cause a rejection."""
        verdicts = [self.judge(case) for case in self.choices(cases)[choice]]
        others = {rule for one in verdicts for rule in one.case.rules[1:]}
        related = [case for case in cases if case.rules[0] in others and self.steps(case)]
        refused = wrongly_refused(map(self.judge, related))
        verdict, detail = judge_choice(choice, verdicts, refused)
        return {"choice": choice, "verdict": verdict, "detail": detail}

    def assess(self, verdict: CaseVerdict, step: str) -> Assessment:
        case, judged = verdict.case, verdict.steps[step]
        known = None if self.baseline is None else self.baseline.assess(case.id, step, judged.verdict)
        row = result_row(verdict, step, expected_failure=known is not None and known.met)
        if known is not None:
            status: Literal["expected", "failed"] = "expected" if known.met else "failed"
            return Assessment(status, row, known.message, contradicts_baseline=not known.met)
        if fails(judged.verdict, strict=self.options.strict):
            profile, device = self.options.profile, self.options.device
            implementation, stderr = self.start(), judged.result.stderr
            text = explain_failure(implementation, case, row, profile, device, stderr=stderr)
            return Assessment("failed", row, text)
        return Assessment("fine", row)

    def contradiction_lines(self, wrong: Iterable[Assessment]) -> list[str]:
        if self.baseline is None:
            return []
        verdicts: dict[str, set[str]] = {}
        for one in wrong:
            if one.contradicts_baseline:
                verdicts.setdefault(one.row["case"], set()).add(one.row["verdict"])
        passing = [case for case, found in verdicts.items() if found == {"pass"}]
        others = [case for case in verdicts if case not in passing]
        of_baseline = {("passes", "pass"): passing, ("fails differently", "fail differently"): others}
        return [
            f"{plural(len(cases), 'entry', 'entries')} of the baseline {does[len(cases) > 1]} now; the "
            f"first one is {cases[0]}; {self.baseline.path}"
            for does, cases in of_baseline.items()
            if cases
        ]

    def failure_text(self, failure: Assessment) -> str:
        """Return the message of a failure, or a single line if its causes have been shown often enough."""
        row, manifest = failure.row, self.options.manifest
        keys = mistakes_of(row, manifest)
        if self.options.full_failures or not keys or failure.contradicts_baseline:
            return failure.text
        known = [self._shown_causes.setdefault(key, []) for key in keys]
        if all(len(cases) >= MAX_SHOWN and row["case"] not in cases for cases in known):
            label = self.target.selector if self.implementation is None else self.implementation.label
            head = f"{visible(label, 80)} · {row['case']} · {row['step']}: {row['verdict'].upper()}"
            why = visible(describe_failures(row, manifest), 200)
            return f"{head}, as {known[0][0]} (same cause: {why})"
        for cases in known:
            if row["case"] not in cases and len(cases) < MAX_SHOWN:
                cases.append(row["case"])
        return failure.text


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
        record = RunRecord(self.header, list(self.results), self.choices, self.problems, self.footer)
        record.charge()
        return record


class Run:
    """Runs implementations over a corpus, each started on first use, and collects the results."""

    def __init__(self, targets: Iterable[Target], options: RunOptions) -> None:
        """Check the baseline option. Raises KnownError."""
        self.targets = {target.selector: target for target in targets}
        self.options = options
        self.results: dict[str, ImplementationResults] = {}
        self.unwritten = ""
        """Reason why the report could not be written."""
        self._written = False
        self._lock: FileLock | None = None
        self._runs: dict[str, ImplementationRun] = {}
        if options.baseline is not None:
            check_baseline_option(options.baseline, list(self.targets), read=options.use_baseline)

    def implementation(self, selector: str) -> ImplementationRun:
        """Return the run of one implementation, started on the first call. Raises StoppedError."""
        if selector not in self._runs:
            self._runs[selector] = ImplementationRun(self.targets[selector], self.options)
        return self._runs[selector]

    def cases(self) -> list[Case]:
        return [case for case in self.options.manifest.cases if self.options.heavy or not case.heavy]

    def lock_report(self) -> None:
        """Reserve the report folder, if any, for this run. Raises ReportError."""
        folder = self.options.report
        if folder is None:
            return
        lock = FileLock(folder / ".lock")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock.acquire(timeout=0)
        except Timeout as err:
            raise ReportError(
                f"{folder}: another run is writing to this folder; give each run its own folder"
            ) from err
        except OSError as err:
            raise ReportError(f"{folder}: {err.strerror or err}") from err
        self._lock = lock

    def results_of(self, selector: str) -> ImplementationResults:
        if selector not in self.results:
            target, folder = self.targets[selector], self.options.report
            path = None if folder is None else folder / f"{target.slug}.jsonl"
            taken = {str(one.path).casefold() for one in self.results.values()}
            if path is not None and (
                str(path).casefold() in taken or selector_of(path) not in (None, selector)
            ):
                path = path.with_name(f"{target.slug}-{target.mark}.jsonl")
            self.results[selector] = ImplementationResults(target, path)
        return self.results[selector]

    @property
    def has_problems(self) -> bool:
        return any(one.problems for one in self.results.values())

    def finish(self) -> None:
        """End all implementations and write the report. Sets ``unwritten`` if it cannot be written."""
        for run in self._runs.values():
            run.close()
        errors: list[ReportError] = []
        lost = False
        for one in self.results.values():
            try:
                if one.footer is None:
                    one.finish(self.options.manifest)
            except ReportError as err:
                errors.append(err)
            try:
                one.close()
            except ReportError as err:
                errors.append(err)
                lost = True
        folder = self.options.report
        if folder is not None and self.results and not lost:
            try:
                records, found = zip(*self._evaluated, strict=True) if self._evaluated else ((), ())
                write_text(folder / "summary.md", markdown(records, found))
            except OSError as err:
                errors.append(ReportError(f"{folder}/summary.md: {err.strerror or err}"))
        self.close()
        self._written = not errors
        if errors:
            self.unwritten = self.unwritten or str(errors[0])

    def close(self) -> None:
        """Close the records and release the report folder. Calling this repeatedly is harmless."""
        for one in self.results.values():
            with suppress(ReportError):
                one.close()
        if self._lock is not None:
            self._lock.release()

    @cached_property
    def _evaluated(self) -> list[tuple[RunRecord, list[Cause]]]:
        """The records of the implementations that started, with the likely causes of their failures."""
        records = [one.record() for one in self.results.values() if one.header]
        manifest = self.options.manifest
        return [(record, causes(record, manifest) if record.has_failures else []) for record in records]

    @cached_property
    def explained(self) -> dict[str, set[tuple[str, str]]]:
        """Selector -> (case, step) of failures that are not listed because a likely cause covers them."""
        if self.options.full_failures:
            return {}
        started = (selector for selector, one in self.results.items() if one.header)
        return {
            selector: {
                (case, step)
                for cause in described(found, strict=self.options.strict)
                for case in cause.cases
                for step in cause.steps
            }
            for selector, (_, found) in zip(started, self._evaluated, strict=True)
        }

    def summary(self) -> list[str]:
        """Return the lines that describe the results. Call it after ``finish``."""
        lines: list[str] = []
        evaluated = iter(self._evaluated)
        for one in self.results.values():
            if one.header:
                record, _ = next(evaluated)
                lines.extend(summary_lines(record))
            else:
                lines.extend(f"problem: {line}" for problem in one.problems for line in problem.splitlines())
            lines.append("")
        several = len(self._evaluated) > 1
        if several:
            lines += [*diff_lines(compare([record for record, _ in self._evaluated])), ""]
        limit = None if self.options.full_failures else MAX_CAUSES // 2 if several else MAX_CAUSES
        for record, found in self._evaluated:
            if found and (mine := cause_lines(found, record.header, strict=self.options.strict, limit=limit)):
                label = [f"{visible(record.label, 80)}:"] if several else []
                lines += [*label, *mine, ""]
        if self.options.report is not None and self._written:
            lines.append(f"records and summary.md were written to {self.options.report}")
        return lines

    def update_baselines(self, given: Path | None, profile: str | None) -> list[str]:
        """Rewrite the baseline of each implementation that ran in full, and return a report about it."""
        lines = []
        owners: dict[Path, str] = {}
        for one in self.results.values():
            path = given or one.target.baseline
            begun = not path.exists()
            other = owners.setdefault(path, one.target.selector)
            if other != one.target.selector:
                lines.append(
                    f"{path}: not rewritten for {one.target.selector}, because it is the baseline of {other}"
                )
                continue
            if one.footer is None or not one.footer["complete"]:
                lines.append(f"{path}: not rewritten, because only a full run can update a baseline")
                continue
            kept, added, removed = update(
                path,
                one.target.selector,
                failing_steps(one.results),
                profile,
                one.header.get("device") if "device" in one.header["implementation"]["steps"] else None,
                [row["choice"] for row in one.choices if row["verdict"] == "choice-inconsistent"],
            )
            lines.append(f"{path}: {kept} entries kept, {added} added, {removed} removed")
            if begun and added:
                lines.append(
                    f"{path}: entries without an issue count as unreported and need a review by "
                    f"{due_by(path)}"
                )
            open_entries = unexplained(path)
            if open_entries:
                lines.append(
                    f"{path}: {len(open_entries)} security entries need an issue and a review_by date "
                    f"before the baseline is accepted; the first one is {visible(open_entries[0])}"
                )
        return lines
