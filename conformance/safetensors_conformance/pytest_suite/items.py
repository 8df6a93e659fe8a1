"""Items of the suite. They are not parametrized functions, because parametrization slows pytest down."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable
from typing import Any

import pytest

from safetensors_corpus import Case

from .stash import RESULT_KEY, SUITE_KEY


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
