"""The driver of a run, which both the pytest plugin and ``stc run`` use."""

from __future__ import annotations

import datetime as dt
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock, Timeout

from safetensors_corpus import Case
from safetensors_corpus.judging.verdicts import effect_of, fails
from safetensors_reference.rules.book import rule_book
from safetensors_reports.causes.cause import MAX_SHOWN as MAX_CAUSES
from safetensors_reports.causes.cause import (
    Cause,
    cause_lines,
    causes,
    describe_failures,
    described,
    mistakes_of,
)
from safetensors_reports.comment import markdown
from safetensors_reports.differences.compare import compare
from safetensors_reports.differences.report import diff_lines
from safetensors_reports.known import KnownError
from safetensors_reports.output import write_text
from safetensors_reports.record.device_checks import CHECKS, STATUSES
from safetensors_reports.record.run import RunRecord, selector_of
from safetensors_reports.record.summary import summary_lines
from safetensors_reports.text import plural, visible

from ..implementations.commands import InstallError
from ..implementations.environment import prepare
from ..implementations.selectors import Target
from ..outcome import Implementation
from ..verdict.judge import CaseVerdict, judge_choice, only_checks, wrongly_refused
from ..verdict.message import explain_failure
from ..worker.worker import StartError
from .baseline import (
    Baseline,
    check_baseline_option,
    due_by,
    failing_steps,
    load_baseline,
    overdue_entries,
    unexplained,
    update,
)
from .cases import CaseRunner, GivenUpError
from .results import ImplementationResults, ReportError, RunOptions, baseline_path, header_row, result_row
from .session import Session

MAX_SHOWN = 3
"""How many cases with the same cause to show in full. Each further case gets one line."""


def smoke(session: Session, cases: Iterable[Case]) -> str | None:
    """Run the smoke cases, which reveal a broken adapter. Return the problem, or None. Raises StartError."""
    wrong: dict[str, list[str]] = {}
    for case in cases:
        if not case.smoke or case.expect is None:
            continue
        verdict = session.judge(case)
        for step, judged in verdict.steps.items():
            # If a written file breaks the rules, the writer is at fault, however basic the case is.
            if step in ("write", "sharded") and judged.result.outcome == "accept":
                continue
            # A violated guarantee with the right content is not an adapter mistake, either.
            if step == "device" and only_checks(judged):
                continue
            # A crash on a broken file is not an adapter mistake, because a wrong adapter fails on other
            # files, too.
            if judged.result.outcome == "crash" and case.expect.outcome == "reject":
                continue
            # The same is true of a correct rejection that raises an undocumented exception or costs too much.
            if effect_of(judged.verdict) in ("exception", "cost"):
                continue
            if judged.verdict not in ("pass", "unsupported", "late-reject"):
                got = judged.detail or judged.result.outcome
                said = f"expected {case.expect.outcome}, got {visible(got, 500)}"
                wrong.setdefault(said, []).append(f"{case.id} ({step})")
    if not wrong:
        return None
    first = next(iter(wrong.values()))[0]
    lines = []
    for said, where in wrong.items():
        names = where if len(where) <= 2 else [where[0], f"{len(where) - 1} more"]
        lines.append(f"  {' and '.join(names)}: {said}")
    selector, case_id = session.target.selector, first.split(" ", 1)[0]
    connection = "call" if selector.startswith("exit:") else "adapter"
    return "\n".join(
        [
            f"the {connection} of {selector!r} is probably wrong, because it fails the most basic files",
            *lines,
            f"run one of them alone: stc run --impl {shlex.quote(selector)} --case {case_id} --no-smoke",
            "if the mistake is in the program under test, run everything with --no-smoke",
        ]
    )


@dataclass(frozen=True)
class Assessment:
    """What a step's verdict means for the run. ``row`` is the result in the format of run records."""

    status: Literal["fine", "expected", "failed"]
    row: dict[str, Any]
    text: str = ""
    contradicts_baseline: bool = False


class ImplementationRun:
    """A session with its smoke check and baseline. ``problem`` says why the implementation cannot run."""

    def __init__(self, target: Target, options: RunOptions) -> None:
        self.target = target
        self.options = options
        self.session = Session(
            CaseRunner(
                target,
                options.limits,
                options.profile,
                options.device,
                max_hangs=options.max_hangs,
                stop=options.stop,
            )
        )
        self.implementation: Implementation | None = None
        self.problem: str | None = None
        self.baseline = Baseline(None)
        self.baseline_error: str | None = None
        self.header: dict[str, Any] | None = None
        self._shown_causes: dict[tuple[str, ...], list[str]] = {}
        try:
            prepare(target.environment)
            self.implementation = self._start()
            self._load_baseline(self.implementation)
            self.header = header_row(self.implementation, options, self.baseline.path)
            if options.smoke:
                self.problem = smoke(self.session, options.manifest.cases)
        except (StartError, InstallError, GivenUpError) as err:
            self.problem = str(err)
        except BaseException:
            self.close()
            raise

    def _start(self) -> Implementation:
        implementation = self.session.start()
        if not implementation.steps:
            how = (
                "only loads onto devices; specify one: --device cuda:0"
                if implementation.loads
                else "only fetches files from servers; a sandbox needs --sandbox-net for that"
            )
            raise StartError(f"{self.target.selector!r} {how}")
        return implementation

    def _load_baseline(self, implementation: Implementation) -> None:
        if not self.options.use_baseline:
            return
        path = baseline_path(self.target, self.options.baseline)
        if self.options.baseline is None and not path.exists():
            return
        try:
            self.baseline = load_baseline(
                path, implementation.version, self.options.profile, self.options.device
            )
        except KnownError as err:
            self.baseline_error = str(err)

    def baseline_complaint(self) -> str | None:
        """Return why the baseline fails the run: it is unusable, stale, or overdue for review."""
        if self.baseline_error is not None:
            return self.baseline_error
        stale = self.baseline.stale(c.id for c in self.options.manifest.cases)
        if stale:
            return f"baseline {self.baseline.path}:\n  " + "\n  ".join(stale)
        late = overdue_entries(self.baseline, dt.datetime.now(dt.UTC).date())
        if late:
            return (
                f"baseline {self.baseline.path}: review is overdue for {', '.join(e.case for e in late[:5])}"
            )
        return None

    def choice_complaint(self, row: Mapping[str, str]) -> str:
        if row["verdict"] == "choice-inconsistent" and row["choice"] not in self.baseline.inconsistent:
            return f"{self.target.selector} · {row['choice']}: CHOICE-INCONSISTENT\n  {row['detail']}"
        return self.baseline.choice_contradiction(row["choice"], row["verdict"])

    def verdict(self, case: Case) -> CaseVerdict:
        """Run and judge a case once. Raises StartError, StoppedError and GivenUpError."""
        try:
            return self.session.judge(case)
        except GivenUpError as err:
            self.problem = str(err)
            raise

    def choices(self, cases: Iterable[Case]) -> dict[str, list[Case]]:
        """Map each choice that the profile leaves open to those of its cases that can run."""
        of_choice: dict[str, list[Case]] = {}
        for case in cases:
            if case.choice and self.session.runner.steps(case):
                of_choice.setdefault(case.choice, []).append(case)
        profile = self.options.profile
        return {
            choice.id: of_choice[choice.id]
            for choice in rule_book().choices.values()
            if choice.id in of_choice and choice.expected(profile) is None
        }

    def choice_row(self, choice: str, cases: Sequence[Case]) -> dict[str, str]:
        """Judge a choice. ``cases`` must include the cases of other rules that may cause a rejection."""
        verdicts = [self.verdict(case) for case in self.choices(cases)[choice]]
        others = {rule for one in verdicts for rule in one.case.rules[1:]}
        related = [case for case in cases if case.rules[0] in others and self.session.runner.steps(case)]
        refused = wrongly_refused(map(self.verdict, related))
        verdict, detail = judge_choice(choice, verdicts, refused)
        return {"choice": choice, "verdict": verdict, "detail": detail}

    def assess(self, verdict: CaseVerdict, step: str) -> Assessment:
        judged = verdict.steps[step]
        known = self.baseline.expected(verdict.case.id, step, judged.verdict)
        row = result_row(verdict, step, known is not None)
        if known is not None:
            about = ", ".join(text for text in (known.why, known.issue) if text)
            return Assessment(
                "expected", row, f"known failure, {judged.verdict}: {about or 'no reason given'}"
            )
        if contradiction := self.baseline.contradiction(verdict.case.id, step, judged.verdict):
            return Assessment("failed", row, contradiction, contradicts_baseline=True)
        if fails(judged.verdict, strict=self.options.strict):
            stderr = judged.result.stderr
            profile, device = self.options.profile, self.options.device
            implementation = self.session.start()
            text = explain_failure(implementation, verdict.case, row, profile, device, stderr=stderr)
            return Assessment("failed", row, text)
        return Assessment("fine", row)

    def close(self) -> None:
        self.session.close()

    def contradiction_lines(self, wrong: Iterable[Assessment]) -> list[str]:
        verdicts: dict[str, set[str]] = {}
        for one in wrong:
            if one.contradicts_baseline:
                verdicts.setdefault(one.row["case"], set()).add(one.row["verdict"])
        passing = [case for case, found in verdicts.items() if found == {"pass"}]
        others = [case for case in verdicts if case not in passing]
        return [
            f"{plural(len(cases), 'entry', 'entries')} of the baseline {does[len(cases) > 1]} now; the "
            f"first one is {cases[0]}; {self.baseline.path}"
            for cases, does in (
                (passing, ("passes", "pass")),
                (others, ("fails differently", "fail differently")),
            )
            if cases
        ]

    def failure_text(self, failure: Assessment) -> str:
        """Return the message of a failure, or a single line if its causes have been shown often enough."""
        row, manifest = failure.row, self.options.manifest
        keys, entry = mistakes_of(row, manifest), self.baseline.find(row["case"])
        if self.options.full_failures or not keys or (entry is not None and row["step"] in entry.steps):
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
        return [(record, causes(record, self.options.manifest)) for record in records]

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
                lines.extend(device_lines(one.header, one.results))
            else:
                lines.extend(f"problem: {line}" for problem in one.problems for line in problem.splitlines())
            lines.append("")
        several = len(self._evaluated) > 1
        if several:
            lines += [*diff_lines(compare([record for record, _ in self._evaluated])), ""]
        limit = None if self.options.full_failures else MAX_CAUSES // 2 if several else MAX_CAUSES
        for record, found in self._evaluated:
            mine = cause_lines(found, record.header, strict=self.options.strict, limit=limit)
            label = [f"{visible(record.label, 80)}:"] if mine and several else []
            lines += [*label, *mine, *([""] if mine else [])]
        if self.options.report is not None and self._written:
            lines.append(f"records and summary.md were written to {self.options.report}")
        return lines

    def update_baselines(self, given: Path | None, profile: str | None) -> list[str]:
        """Rewrite the baseline of each implementation that ran in full, and return a report about it."""
        lines = []
        owners: dict[Path, str] = {}
        for one in self.results.values():
            path = baseline_path(one.target, given)
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


def device_lines(header: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    name = header.get("device")
    if name is None:
        return []
    if "device" not in header["implementation"]["steps"]:
        return [f"  device {name}: not tested, because the implementation does not load onto devices"]
    mine = [row for row in rows if row["step"] == "device"]
    lines = [f"  device {name}: {plural(len(mine), 'file')}"]
    for check in CHECKS:
        seen = [found for row in mine for found in row.get("checks", ()) if found["name"] == check]
        counts = Counter(found["status"] for found in seen)
        words = [f"{counts[status]:,} {status}" for status in STATUSES if counts[status]]
        why = Counter(found["message"] for found in seen if found["status"] == "unknown").most_common(1)
        if why and why[0][0]:
            words[-1] += f" ({why[0][0]})"
        lines.append(f"    {check:<10} {' · '.join(words) or 'not reported'}")
    return lines
