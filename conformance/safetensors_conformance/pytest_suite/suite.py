"""The suite under pytest: its options, implementations, items and results.

Its items are not parametrized functions, because parametrization slows pytest down.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from safetensors_corpus import Case, ManifestError, load_manifest
from safetensors_reference.rules.cwe import CWE_OF_CODE
from safetensors_reference.text import visible_lines
from safetensors_reports.known_failures import KnownError
from safetensors_reports.text import plural

from ..implementations.selectors import SelectorError, resolve
from ..options import DEVICE_NAMES, OPTIONS, is_device
from ..programs.launcher import Confinement
from ..programs.sandbox import SandboxError
from ..run.driver import ImplementationRun, ReportError, Run, RunOptions
from ..run.session import GivenUpError
from ..worker.worker import Limits, StartError
from .stash import RESULT_KEY, SUITE_KEY, option


def unusable(why: object) -> pytest.UsageError:
    """Return a usage error with a message that is safe to print. The message may quote documents."""
    return pytest.UsageError(visible_lines(str(why)))


class SuiteItem(pytest.Item):
    """One check of one implementation; ``kind`` is ``smoke``, ``baseline``, a step, or ``choice``."""

    def __init__(
        self, *, kind: str, selector: str, case: Case | None, ask: Callable[[pytest.Item], None], **node: Any
    ) -> None:
        super().__init__(**node)
        self.kind = kind
        self.selector = selector
        self.case = case
        self._ask = ask

    def runtest(self) -> None:
        self._ask(self)

    def reportinfo(self) -> tuple[Any, int | None, str]:
        return self.path, None, self.name

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, pytest.xfail.Exception):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)


class Suite:
    """The state of a pytest run in one of its processes. Adapts ``Run`` to pytest."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._notes: list[str] = []
        self._sent: set[str] = set()

    def option(self, name: str) -> Any:
        return option(self._config, name)

    @functools.cached_property
    def driver(self) -> Run:
        """The run of all implementations. Raises UsageError for unusable options."""
        given, folder, baseline = (self.option(name) for name in ("--corpus", "--report", "--baseline"))
        sandbox, net = self.option("--sandbox"), self.option("--sandbox-net")
        device = self.option("--device")
        if device is not None and not is_device(device):
            raise pytest.UsageError(f"--device {device!r}: {DEVICE_NAMES}")
        self._check_numbers()
        try:
            manifest = load_manifest(Path(given) if given else None)
            targets = [resolve(one) for one in dict.fromkeys(self.option("--impl") or ["reference"])]
            confinement = Confinement.of(self.option("--env") or (), sandbox=sandbox, net=net)
            limits = Limits(self.option("--time-limit"), self.option("--memory-limit") << 20, confinement)
            options = RunOptions(
                manifest,
                self.option("--profile"),
                limits.with_shown(manifest.root / "files"),
                Path(baseline) if baseline else None,
                use_baseline=not (self.option("--no-baseline") or self.option("--update-baseline")),
                smoke=not self.option("--no-smoke"),
                strict=self.option("--fail-on-should"),
                heavy=self.option("--heavy"),
                device=device,
                max_hangs=self.option("--max-hangs"),
                report=Path(folder) if folder else None,
                full_failures=self.option("--full-failures"),
            )
            return Run(targets, options)
        except (ManifestError, SelectorError, ValueError, SandboxError, KnownError) as err:
            raise unusable(err) from err

    def _check_numbers(self) -> None:
        for name, known in OPTIONS.items():
            value = self.option(name)
            low, high = known.least, known.most
            if low is not None and not low <= value <= (math.inf if high is None else high):
                allowed = f"at least {low:g}" if high is None else f"from {low:g} to {high:,}"
                raise pytest.UsageError(f"{name} {value}: it must be {allowed}")

    def check_options(self) -> None:
        selectors = self.driver.targets
        odd = [text for text in selectors if any("\ud800" <= char <= "\udfff" for char in text)]
        if odd and self._config.getoption("dist", "no") != "no":
            raise pytest.UsageError(f"--impl {odd[0]!r} is not UTF-8, which pytest-xdist cannot transmit")
        if not self._is_worker:
            try:
                self.driver.lock_report()
            except ReportError as err:
                raise unusable(f"--report {err}") from err

    @property
    def _is_worker(self) -> bool:
        return hasattr(self._config, "workerinput")

    # Run items

    def items(self, step: str) -> list[tuple[str, Case]]:
        out: list[tuple[str, Case]] = []
        for selector in self.driver.targets:
            run = self.driver.implementation(selector)
            if not run.problem:  # an unusable implementation fails once, in test_smoke
                out += [(selector, case) for case in self.driver.cases() if step in run.steps(case)]
        return out

    def plan(self, items: Sequence[pytest.Item]) -> None:
        order: dict[str, dict[str, Case]] = {}
        for item in items:
            if isinstance(item, SuiteItem) and item.case is not None:
                order.setdefault(item.selector, {})[item.case.id] = item.case
        for selector, cases in order.items():
            self.driver.implementation(selector).plan(cases.values())

    def problem_of(self, item: pytest.Item) -> bool:
        """Return whether an item reports an unusable implementation. Such items are always kept."""
        if not isinstance(item, SuiteItem) or item.kind != "smoke":
            return False
        return self.driver.implementation(item.selector).problem is not None

    def open_choices(self) -> list[tuple[str, str]]:
        out = []
        for selector in self.driver.targets:
            run = self.driver.implementation(selector)
            if not run.problem:
                out += [(selector, choice) for choice in run.choices(self.driver.cases())]
        return out

    def _runnable(self, selector: str, item: pytest.Item) -> ImplementationRun:
        run = self.driver.implementation(selector)
        if run.problem is not None:
            self._attach(item, run, {"problem": run.problem})
            pytest.skip(f"not run: {run.problem.splitlines()[0]}")
        return run

    def _attach(self, item: pytest.Item, run: ImplementationRun, message: dict[str, Any]) -> None:
        """Attach a message to the report that pytest-xdist sends. The first message includes the header."""
        message["selector"] = run.target.selector
        if run.target.selector not in self._sent and run.header is not None:
            self._sent.add(run.target.selector)
            message["header"] = run.header
        item.stash[RESULT_KEY] = message

    def run_smoke(self, selector: str, item: pytest.Item) -> None:
        run = self.driver.implementation(selector)
        self._attach(item, run, {"problem": run.problem} if run.problem else {})
        if run.problem is not None:
            pytest.fail(run.problem, pytrace=False)

    def run_baseline(self, selector: str, item: pytest.Item) -> None:
        run = self._runnable(selector, item)
        self._attach(item, run, {})
        complaint = run.baseline_complaint()
        if complaint is not None:
            pytest.fail(visible_lines(complaint), pytrace=False)

    @contextmanager
    def _failing(self, selector: str, item: pytest.Item) -> Iterator[None]:
        """Fail the item, or skip it and all later items, if the implementation does not answer."""
        try:
            yield
        except StartError as err:
            pytest.fail(str(err), pytrace=False)
        except GivenUpError:
            self._runnable(selector, item)
            raise

    def run_step(self, selector: str, case: Case, step: str, item: pytest.Item) -> None:
        item.user_properties += case_properties(case)
        run = self._runnable(selector, item)
        with self._failing(selector, item):
            verdict = run.judge(case)
        assessment = run.assess(verdict, step)
        judged = verdict.steps[step].verdict
        failed = assessment.status == "failed"
        text = run.failure_text(assessment) if failed else assessment.text
        self._attach(item, run, {"result": assessment.row, "repeats": text != assessment.text})
        item.user_properties.append(("verdict", fit(judged)))
        if assessment.status == "expected":
            pytest.xfail(text)
        if failed:
            if self.option("--update-baseline") and judged != "harness-error":
                pytest.xfail(f"{judged}: will be added to the baseline")
            pytest.fail(text, pytrace=False)

    def run_choice(self, selector: str, choice: str, item: pytest.Item) -> None:
        run = self._runnable(selector, item)
        with self._failing(selector, item):
            row = run.choice_row(choice, self.driver.cases())
        self._attach(item, run, {"choice": row})
        item.user_properties.append(("verdict", fit(row["verdict"])))
        complaint, inconsistent = run.choice_complaint(row), row["verdict"] == "choice-inconsistent"
        if complaint and inconsistent and self.option("--update-baseline"):
            pytest.xfail("choice-inconsistent: will be added to the baseline")
        if complaint:
            pytest.fail(complaint, pytrace=False)
        if inconsistent:
            pytest.xfail(f"known failure: {row['detail']}")

    # Collect results in the controlling process

    def collect(self, message: Mapping[str, Any]) -> None:
        if not self._is_worker:
            try:
                self.driver.results_of(message["selector"]).add(message)
            except ReportError as err:
                pytest.exit(f"the report cannot be written: {err}", returncode=2)

    def finish(self, session: pytest.Session) -> None:
        if "driver" not in vars(self):
            return  # the options of the run are unusable
        self.driver.finish()
        if self._is_worker:
            return
        if self.driver.unwritten:
            self._notes.append(f"the report cannot be written: {self.driver.unwritten}")
            session.exitstatus = pytest.ExitCode.INTERRUPTED
        if self.option("--update-baseline"):
            given = self.option("--baseline")
            path = Path(given) if given else None
            try:
                self._notes.extend(self.driver.update_baselines(path, self.driver.options.profile))
            except KnownError as err:
                self._notes.append(str(err))
                session.exitstatus = pytest.ExitCode.INTERRUPTED
        # If -k excludes the smoke item, the run must still not look like a success.
        if session.exitstatus == 0 and self.driver.has_problems:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def is_explained(self, message: Mapping[str, Any]) -> bool:
        """Return whether the summary shows a likely cause of the failure of an item."""
        known = self.driver.explained.get(message["selector"], ()) if message else ()
        if "result" in message:
            return (message["result"]["case"], message["result"]["step"]) in known
        return "choice" in message and message["choice"]["verdict"] == "choice-inconsistent" and bool(known)

    def summary(self, hidden: int = 0) -> list[str]:
        """Return the lines about the results. pytest's own summary omits ``hidden`` failures."""
        if self._is_worker or "driver" not in vars(self):
            return []
        left_out = (
            f"{plural(hidden, 'failure')} with a likely cause below; --full-failures lists them one by one"
        )
        return ["", *([left_out, ""] if hidden else []), *self.driver.summary(), *self._notes]


def suite_of(config: pytest.Config) -> Suite:
    if SUITE_KEY not in config.stash:
        config.stash[SUITE_KEY] = Suite(config)
    suite: Suite = config.stash[SUITE_KEY]
    return suite


def case_properties(case: Case) -> list[tuple[str, str]]:
    """Return (name, value) pairs for JUnit XML. Spaces separate the values of one property."""
    wanted = (case.expect, *case.options.values())
    codes = [code for one in wanted if one is not None for code in one.codes]
    numbers = dict.fromkeys(number for code in codes for number in CWE_OF_CODE.get(code, ()))
    out = [("rules", fit(" ".join(case.rules))), ("area", case.area), ("level", fit(case.level))]
    if numbers:
        out.append(("cwe", " ".join(map(str, numbers))))
    return out


def in_order(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Sort the items so that those of other suites come first and the steps of each case are adjacent."""
    ranks: dict[tuple[str, str], int] = {}

    def rank(item: pytest.Item) -> tuple[int, int]:
        if not isinstance(item, SuiteItem):
            return 0, 0
        if item.case is None:
            return (3 if item.kind == "choice" else 1), 0
        key = item.selector, item.case.id
        return 2, ranks.setdefault(key, len(ranks))

    return sorted(items, key=rank)


class Hooks:
    """Hooks that deal with items. They are needed only if the suite is collected."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> Generator[None, None, None]:
        """Order the items, and keep those that report an unusable implementation even if deselected."""
        suite = config.stash.get(SUITE_KEY, None)
        problems = [item for item in items if suite is not None and suite.problem_of(item)]
        yield
        items[:] = in_order([*problems, *(item for item in items if item not in problems)])

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Attach the result to the report in a form that pytest-xdist can send: UTF-8 and small numbers."""
        report = yield
        if RESULT_KEY in item.stash:
            if report.when == "call":
                message, travels = item.stash[RESULT_KEY], hasattr(item.config, "workerinput")
                report.stc = json.dumps(message) if travels else message  # type: ignore[attr-defined]
            if isinstance(report.longrepr, str):
                report.longrepr = fit(report.longrepr)
            elif isinstance(report.longrepr, tuple):  # for a skip: file, line, reason
                path, line, reason = report.longrepr
                report.longrepr = path, line, fit(reason)
            if hasattr(report, "wasxfail"):
                report.wasxfail = fit(report.wasxfail)
            if report.sections:
                report.sections = [(name, fit(text)) for name, text in report.sections]
        return report


def fit(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")
