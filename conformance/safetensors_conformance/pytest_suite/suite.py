"""The suite under pytest: its options, implementations, items and results."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from safetensors_corpus import Case, Manifest, ManifestError, load_manifest
from safetensors_reference.rules.book import rule_book
from safetensors_reference.rules.cwe import weaknesses_of
from safetensors_reference.text import visible_lines

from ..implementations.selectors import SelectorError, Target, resolve
from ..run.baseline import BaselineError, check_baseline_option
from ..run.cases import GivenUpError
from ..run.results import DEVICE_NAMES, ReportError, RunOptions, RunResults, is_device
from ..run.session import CauseLimiter, RunSession
from ..verdict.judge import CaseVerdict, judge_choice, wrongly_refused
from ..worker.confinement import Confinement, SandboxError
from ..worker.worker import MAX_MEMORY_MIB, Limits, StartError
from .items import SuiteItem, fit
from .plugin import RESULT_KEY, SUITE_KEY, option


def unusable(why: object) -> pytest.UsageError:
    """Return a usage error with a message that is safe to print. The message may quote documents."""
    return pytest.UsageError(visible_lines(str(why)))


class Suite:
    """State of one pytest run in one of its processes."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self.profile: str | None = self.option("--profile")
        self._sessions: dict[str, RunSession] = {}
        self._limiters: dict[str, CauseLimiter] = {}
        self._results: RunResults | None = None
        self._notes: list[str] = []
        self._sent: set[str] = set()

    def option(self, name: str) -> Any:
        return option(self._config, name)

    @functools.cached_property
    def limits(self) -> Limits:
        memory = self.option("--memory-limit") << 20
        sandbox, net = self.option("--sandbox"), self.option("--sandbox-net")
        try:
            found = Confinement.of(self.option("--env") or (), sandbox=sandbox, net=net)
        except (ValueError, SandboxError) as err:
            raise unusable(err) from err
        limits = Limits(self.option("--time-limit"), memory, found)
        return limits.with_shown(self.manifest.root / "files") if sandbox else limits

    @functools.cached_property
    def manifest(self) -> Manifest:
        given = self.option("--corpus")
        try:
            return load_manifest(Path(given) if given else None)
        except ManifestError as err:
            raise unusable(err) from err

    @functools.cached_property
    def targets(self) -> list[Target]:
        try:
            return [resolve(s) for s in dict.fromkeys(self.option("--impl") or ["reference"])]
        except SelectorError as err:
            raise unusable(err) from err

    def _target(self, selector: str) -> Target:
        return next(target for target in self.targets if target.selector == selector)

    @property
    def device(self) -> str | None:
        name: str | None = self.option("--device")
        if name is not None and not is_device(name):
            raise pytest.UsageError(f"--device {name!r}: {DEVICE_NAMES}")
        return name

    def check_options(self) -> None:
        targets = self.targets
        options = self.run_options()
        try:
            check_baseline_option(options.baseline, targets, read=options.use_baseline)
        except BaselineError as err:
            raise unusable(err) from err
        odd = [t.selector for t in targets if any("\ud800" <= char <= "\udfff" for char in t.selector)]
        if odd and self._config.getoption("dist", "no") != "no":
            raise pytest.UsageError(f"--impl {odd[0]!r} is not UTF-8, which pytest-xdist cannot transmit")
        if not (0 < self.limits.seconds <= 86_400 and 0 < self.limits.memory_bytes <= MAX_MEMORY_MIB << 20):
            most = f"--memory-limit must be above 0 and at most {MAX_MEMORY_MIB:,}"
            raise pytest.UsageError(f"--time-limit must be above 0 and at most one day, {most}")
        if self.option("--max-hangs") < 0:
            raise pytest.UsageError("--max-hangs must be 0 or more")
        _ = self.device
        if not self._is_worker:
            _ = self.results  # locks the folder from the beginning

    @property
    def _is_worker(self) -> bool:
        return hasattr(self._config, "workerinput")

    def session(self, selector: str) -> RunSession:
        if selector not in self._sessions:
            session = self._sessions[selector] = RunSession(self._target(selector), self.run_options())
            self._limiters[selector] = CauseLimiter(session, full=self.option("--full-failures"))
        return self._sessions[selector]

    def run_options(self) -> RunOptions:
        given = self.option("--baseline")
        return RunOptions(
            self.manifest,
            self.profile,
            self.limits,
            Path(given) if given else None,
            use_baseline=not (self.option("--no-baseline") or self.option("--update-baseline")),
            smoke=not self.option("--no-smoke"),
            strict=self.option("--fail-on-should"),
            heavy=self.option("--heavy"),
            device=self.device,
            max_hangs=self.option("--max-hangs"),
        )

    # Run items

    def items(self, step: str) -> list[tuple[str, Case]]:
        out: list[tuple[str, Case]] = []
        if step == "device" and self.device is None:
            return out
        for target in self.targets:
            session = self.session(target.selector)
            implementation = (
                None if session.problem else session.implementation
            )  # an unusable implementation fails once, in test_smoke
            if implementation is not None and step in implementation.steps:
                claimed = [c for c in self.manifest.cases if step in implementation.steps_of(c)]
                cases = [c for c in claimed if not self.leaves_out(c)]
                out.extend((target.selector, case) for case in cases)
        return out

    def plan(self, items: Sequence[pytest.Item]) -> None:
        order: dict[str, dict[str, Case]] = {}
        for item in items:
            if isinstance(item, SuiteItem) and item.case is not None:
                order.setdefault(item.selector, {})[item.case.id] = item.case
        for selector, cases in order.items():
            self.session(selector).plan(cases.values())

    def leaves_out(self, case: Case) -> bool:
        return case.heavy and not self.option("--heavy")

    def problem_of(self, item: pytest.Item) -> bool:
        """Return whether an item reports an unusable implementation.

        Such items are kept whatever is selected.
        """
        if not isinstance(item, SuiteItem) or item.kind != "smoke":
            return False
        return self.session(item.selector).problem is not None

    def open_choices(self) -> list[tuple[str, str]]:
        choices = rule_book().choices
        out = []
        for target in self.targets:
            session = self.session(target.selector)
            if session.problem:
                continue
            cases = [c for c in self.manifest.cases if c.choice and not self.leaves_out(c)]
            used = dict.fromkeys(c.choice or "" for c in cases if session.steps(c))
            out += [(target.selector, n) for n in used if choices[n].expected(self.profile) is None]
        return out

    def _runnable_session(self, selector: str, item: pytest.Item) -> RunSession:
        session = self.session(selector)
        if session.problem is not None:
            self._attach(item, session, {"problem": session.problem})
            pytest.skip(f"not run: {session.problem.splitlines()[0]}")
        return session

    def _attach(self, item: pytest.Item, session: RunSession, message: dict[str, Any]) -> None:
        """Attach a message to the report, which is the only channel of pytest-xdist.

        The first message of each implementation also contains the header.
        """
        message["selector"] = session.target.selector
        if session.target.selector not in self._sent and session.header is not None:
            self._sent.add(session.target.selector)
            message["header"] = session.header
        item.stash[RESULT_KEY] = message

    def run_smoke(self, selector: str, item: pytest.Item) -> None:
        session = self.session(selector)
        self._attach(item, session, {"problem": session.problem} if session.problem else {})
        if session.problem is not None:
            pytest.fail(session.problem, pytrace=False)

    def run_baseline(self, selector: str, item: pytest.Item) -> None:
        session = self._runnable_session(selector, item)
        self._attach(item, session, {})
        complaint = session.baseline_complaint()
        if complaint is not None:
            pytest.fail(visible_lines(complaint), pytrace=False)

    def _verdict(self, session: RunSession, case: Case, item: pytest.Item) -> CaseVerdict:
        """Return the verdict on a case.

        If there is none because the implementation does not start, fails the item. If the implementation has
        hung too often, skips this item and the later ones.
        """
        try:
            return session.judge(case)
        except StartError as err:
            pytest.fail(str(err), pytrace=False)
        except GivenUpError as err:
            session.problem = str(err)
            self._runnable_session(session.target.selector, item)
            raise

    def run_step(self, selector: str, case: Case, step: str, item: pytest.Item) -> None:
        item.user_properties += case_properties(case)
        session = self._runnable_session(selector, item)
        verdict = self._verdict(session, case, item)
        assessment = session.assess(verdict, step)
        judged = verdict.steps[step].verdict
        self._attach(item, session, {"result": assessment.row})
        item.user_properties.append(("verdict", fit(judged)))
        if assessment.status == "expected":
            pytest.xfail(assessment.text)
        if assessment.status == "failed":
            if self.option("--update-baseline") and judged != "harness-error":
                pytest.xfail(f"{judged}: will be added to the baseline")
            pytest.fail(self._limiters[selector].message(assessment.row, assessment.text), pytrace=False)

    def run_choice(self, selector: str, choice: str, item: pytest.Item) -> None:
        session = self._runnable_session(selector, item)
        cases = [c for c in self.manifest.cases if c.choice == choice and not self.leaves_out(c)]
        verdicts = [self._verdict(session, c, item) for c in cases if session.steps(c)]
        verdict, detail = judge_choice(choice, verdicts)
        if verdict == "choice-inconsistent":
            # Before reporting a contradiction, check the other rules that these cases depend on.
            others = {rule for c in cases for rule in c.rules[1:]}
            valid = [c for c in self.manifest.cases if c.expect is not None and c.expect.outcome == "accept"]
            of_these = [c for c in valid if c.rules[0] in others and not self.leaves_out(c)]
            related = [c for c in of_these if session.steps(c)]
            refused = wrongly_refused(self._verdict(session, c, item) for c in related)
            verdict, detail = judge_choice(choice, verdicts, refused)
        row = {"choice": choice, "verdict": verdict, "detail": detail}
        self._attach(item, session, {"choice": row})
        item.user_properties.append(("verdict", fit(verdict)))
        complaint = session.choice_complaint(row)
        if complaint and verdict == "choice-inconsistent" and self.option("--update-baseline"):
            pytest.xfail("choice-inconsistent: will be added to the baseline")
        if complaint:
            pytest.fail(complaint, pytrace=False)
        if verdict == "choice-inconsistent":
            pytest.xfail(f"known failure: {detail}")

    # Collect results in the controlling process

    @property
    def results(self) -> RunResults:
        if self._results is None:
            folder = self.option("--report")
            strict, full = self.option("--fail-on-should"), self.option("--full-failures")
            try:
                self._results = RunResults(
                    self.manifest, Path(folder) if folder else None, strict=strict, full=full
                )
            except ReportError as err:
                raise unusable(f"--report {err}") from err
        return self._results

    def collect(self, message: Mapping[str, Any]) -> None:
        if not self._is_worker:
            try:
                self.results.of(self._target(message["selector"])).add(message)
            except ReportError as err:
                pytest.exit(f"the report cannot be written: {err}", returncode=2)

    def finish(self, session: pytest.Session) -> None:
        for running in self._sessions.values():
            running.close()
        if self._results is None:
            return
        try:
            self._results.finish()
        except ReportError as err:
            self._notes.append(f"the report cannot be written: {err}")
            session.exitstatus = pytest.ExitCode.INTERRUPTED
        if self.option("--update-baseline"):
            given = self.option("--baseline")
            self._notes.extend(self._results.update_baselines(Path(given) if given else None, self.profile))
        # If -k excludes the smoke item, the run must still not look like a success.
        if session.exitstatus == 0 and any(one.problems for one in self._results.implementations.values()):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def summary(self) -> list[str]:
        return [] if self._results is None else ["", *self._results.summary(), *self._notes]


def suite_of(config: pytest.Config) -> Suite:
    if SUITE_KEY not in config.stash:
        config.stash[SUITE_KEY] = Suite(config)
    return config.stash[SUITE_KEY]


def case_properties(case: Case) -> list[tuple[str, str]]:
    """Return properties of a case for JUnit XML as (name, value) pairs.

    Spaces separate the values of a property that has several. ``rules``, ``area`` and ``level`` come from the
    corpus. ``cwe`` contains the Common Weakness Enumeration numbers for the expected fault codes, if any.
    """
    wanted = (case.expect, *case.options.values())
    codes = [code for one in wanted if one is not None for code in one.codes]
    numbers = weaknesses_of(codes)
    out = [("rules", fit(" ".join(case.rules))), ("area", case.area), ("level", fit(case.level))]
    if numbers:
        out.append(("cwe", " ".join(map(str, numbers))))
    return out
