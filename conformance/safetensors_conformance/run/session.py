"""One implementation in a run: start it, run its cases, judge the answers, and apply its baseline."""

from __future__ import annotations

import datetime as dt
import platform
import shlex
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, Self

from safetensors_corpus import Case, Manifest, ManifestError
from safetensors_corpus.judging.verdicts import effect_of, fails
from safetensors_reference.rules.book import rule_book
from safetensors_reports.causes.cause import describe_failures, mistakes_of
from safetensors_reports.known import KnownError
from safetensors_reports.text import plural, visible

from ..implementations.commands import InstallError
from ..implementations.selectors import Target
from ..outcome import Implementation, KeptContent
from ..verdict import (
    CaseVerdict,
    Suspicion,
    explain_failure,
    judge,
    judge_choice,
    only_checks,
    settle,
    suspicion_of,
    wrongly_refused,
)
from ..worker.worker import Limits, StartError
from .baseline import Baseline, load_baseline, name_in_records, overdue_entries
from .cases import TOO_LARGE, CaseRunner, GivenUpError
from .heap import content_depends_on_heap

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
        self.baseline: Baseline | None = None
        self.baseline_error: str | None = None
        self.header: dict[str, Any] | None = None
        self._shown_causes: dict[tuple[str, ...], list[str]] = {}
        try:
            target.prepare()
            self.implementation = self._start()
            if options.use_baseline:
                self._load_baseline(self.implementation)
            baseline = None if self.baseline is None else name_in_records(self.baseline.path)
            self.header = header_row(self.implementation, options, baseline)
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
        path = self.options.baseline or self.target.baseline
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
        if self.baseline is None:
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
        known = self.baseline.inconsistent if self.baseline is not None else ()
        if row["verdict"] == "choice-inconsistent" and row["choice"] not in known:
            return f"{self.target.selector} · {row['choice']}: CHOICE-INCONSISTENT\n  {row['detail']}"
        if self.baseline is None or row["choice"] not in known or row["verdict"] == "choice-inconsistent":
            return ""
        return (
            f"{row['choice']}: the answers no longer contradict each other; remove it from 'inconsistent' in "
            f"{self.baseline.path}"
        )

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
        case, judged = verdict.case, verdict.steps[step]
        entry = None if self.baseline is None else self.baseline.find(case.id)
        listed = None if entry is None else entry.steps.get(step)
        row = result_row(verdict, step, expected_failure=listed == judged.verdict)
        if entry is not None and listed == judged.verdict:
            about = ", ".join(text for text in (entry.why, entry.issue) if text)
            return Assessment("expected", row, f"known failure, {listed}: {about or 'no reason given'}")
        if self.baseline is not None and listed is not None:
            what = "passes now" if judged.verdict == "pass" else f"is {judged.verdict} now"
            text = (
                f"{case.id} · {step}: the baseline lists {listed}, but it {what}\n"
                f"  remove or correct the entry in {self.baseline.path}, or rewrite it with --update-baseline"
            )
            return Assessment("failed", row, text, contradicts_baseline=True)
        if fails(judged.verdict, strict=self.options.strict):
            profile, device = self.options.profile, self.options.device
            implementation, stderr = self.session.start(), judged.result.stderr
            text = explain_failure(implementation, case, row, profile, device, stderr=stderr)
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
            f"first one is {cases[0]}; {self.baseline.path if self.baseline else None}"
            for cases, does in (
                (passing, ("passes", "pass")),
                (others, ("fails differently", "fail differently")),
            )
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
