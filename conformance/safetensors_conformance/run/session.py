"""One implementation in a run: start it, check it with the smoke cases, and compare it with its baseline."""

from __future__ import annotations

import datetime as dt
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from safetensors_corpus import Case
from safetensors_corpus.judging.verdicts import effect_of, fails
from safetensors_reference.rules.book import rule_book
from safetensors_reports.causes import describe_failures, mistakes_of
from safetensors_reports.text import plural, visible

from ..implementations.environment import InstallError, prepare
from ..implementations.selectors import Target
from ..verdict.judge import CaseVerdict, Session, judge_choice, only_checks, wrongly_refused
from ..verdict.message import explain_failure
from ..worker.outcome import Implementation
from ..worker.worker import StartError
from .baseline import Baseline, BaselineError, load_baseline, overdue_entries
from .cases import GivenUpError
from .results import RunOptions, baseline_path, header_row

MAX_SHOWN = 3
"""How many cases with the same cause to show in full. The others get one line."""


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
            # A crash on a broken file is not one, either: with a wrong adapter, the other cases would fail,
            # too.
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
        lines.append(f"{' and '.join(names)}: {said}")
    return (
        (
            f"the adapter of {session.target.selector!r} is probably wrong, because it fails the most basic "
            "files\n"
            "  "
        )
        + "\n  ".join(lines)
        + (f"\nrun one of them alone: stc run --impl {shlex.quote(session.target.selector)} --case ")
        + shlex.quote(first.split(" ", 1)[0])
        + " --no-smoke"
    )


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


def choice_rows(verdicts: Iterable[CaseVerdict], profile: str | None) -> list[dict[str, str]]:
    """Judge every choice that the profile leaves open, using the cases that ran."""
    verdicts = list(verdicts)
    of_choice: dict[str, list[CaseVerdict]] = {}
    for one in verdicts:
        of_choice.setdefault(one.case.choice or "", []).append(one)
    refused = wrongly_refused(verdicts)
    rows = []
    for choice in rule_book().choices.values():
        if choice.id in of_choice and choice.expected(profile) is None:
            verdict, detail = judge_choice(choice.id, of_choice[choice.id], refused)
            rows.append({"choice": choice.id, "verdict": verdict, "detail": detail})
    return rows


@dataclass(frozen=True)
class Assessment:
    """What a step's verdict means for the run. ``row`` is the result in the format of run records."""

    status: Literal["fine", "expected", "failed"]
    row: dict[str, Any]
    text: str = ""
    contradicts_baseline: bool = False


class RunSession(Session):
    """A session with a smoke check and a baseline. ``problem`` says why it cannot run."""

    def __init__(self, target: Target, options: RunOptions) -> None:
        super().__init__(
            target,
            options.limits,
            options.profile,
            options.device,
            max_hangs=options.max_hangs,
            stop=options.stop,
        )
        self.options = options
        self.problem: str | None = None
        self.baseline = Baseline(None)
        self.baseline_error: str | None = None
        self.header: dict[str, Any] | None = None
        try:
            prepare(target.environment)
            self._load_baseline(self.start())
            self.header = header_row(self.start(), options, self.baseline.path)
            if options.smoke:
                self.problem = smoke(self, options.manifest.cases)
        except (StartError, InstallError, GivenUpError) as err:
            self.problem = str(err)
        except BaseException:
            self.close()
            raise

    def start(self) -> Implementation:
        """Start the implementation if it is not running. Raises StartError, also if no step can run."""
        implementation = super().start()
        if not implementation.steps:
            self.implementation = None
            how = (
                "only loads onto devices; name one: --device cuda:0"
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
        except BaselineError as err:
            self.baseline_error = str(err)

    def baseline_complaint(self) -> str | None:
        """Return why the baseline as a whole fails the run: it is unusable, stale, or overdue for review."""
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

    def assess(self, verdict: CaseVerdict, step: str) -> Assessment:
        judged = verdict.steps[step]
        entry = self.baseline.find(verdict.case.id)
        expected = None if entry is None else entry.steps.get(step)
        same = entry is not None and expected == judged.verdict
        row = result_row(verdict, step, same)
        if entry is not None and same:
            about = ", ".join(text for text in (entry.why, entry.issue) if text)
            return Assessment(
                "expected", row, f"known failure, {judged.verdict}: {about or 'no reason given'}"
            )
        if expected is not None:
            what = "passes now" if judged.verdict == "pass" else f"is {judged.verdict} now"
            text = (
                f"{verdict.case.id} · {step}: the baseline lists {expected}, but it {what}\n"
                f"  remove or correct the entry in {self.baseline.path}, or rewrite it with --update-baseline"
            )
            return Assessment("failed", row, text, contradicts_baseline=True)
        if fails(judged.verdict, strict=self.options.strict):
            stderr = judged.result.stderr
            text = explain_failure(self.start(), verdict.case, row, self.profile, self.device, stderr=stderr)
            return Assessment("failed", row, text)
        return Assessment("fine", row)

    def contradiction_lines(self, wrong: Iterable[Assessment]) -> list[str]:
        verdicts: dict[str, set[str]] = {}
        for one in wrong:
            if one.contradicts_baseline:
                verdicts.setdefault(one.row["case"], set()).add(one.row["verdict"])
        passing = [case for case, found in verdicts.items() if found == {"pass"}]
        others = [case for case in verdicts if case not in passing]
        return [
            (
                f"{plural(len(cases), 'entry', 'entries')} of the baseline {does[len(cases) > 1]} now; the "
                f"first one is {cases[0]}; {self.baseline.path}"
            )
            for cases, does in (
                (passing, ("passes", "pass")),
                (others, ("fails differently", "fail differently")),
            )
            if cases
        ]


class CauseLimiter:
    """Shortens the messages of failures whose cause was shown often enough.

    With ``full``, it shortens nothing.
    """

    def __init__(self, session: RunSession, *, full: bool = False) -> None:
        self._session = session
        self._full = full
        self._shown: dict[tuple[str, ...], list[str]] = {}

    def message(self, row: Mapping[str, Any], text: str) -> str:
        """Return the message of a failure.

        It is cut to one line if the causes were shown before and the failure is not in the baseline.
        """
        case, step = str(row["case"]), str(row["step"])
        keys = mistakes_of(dict(row), self._session.options.manifest)
        entry = self._session.baseline.find(case)
        if self._full or not keys or (entry is not None and step in entry.steps):
            return text
        known = [self._shown.setdefault(key, []) for key in keys]
        if all(len(cases) >= MAX_SHOWN and case not in cases for cases in known):
            implementation = self._session.implementation
            label = self._session.target.selector if implementation is None else implementation.label
            why = describe_failures(dict(row), self._session.options.manifest)
            head = f"{visible(label, 80)} · {case} · {step}: {str(row['verdict']).upper()}"
            return f"{head}, as {known[0][0]} (same cause: {visible(why, 200)})"
        for cases in known:
            if case not in cases and len(cases) < MAX_SHOWN:
                cases.append(case)
        return text
