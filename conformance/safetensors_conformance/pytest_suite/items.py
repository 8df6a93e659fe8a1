"""The items of the suite: one per implementation, case and step, and a few about the whole.

They are of a kind of their own. For a parametrized function pytest makes arguments, which takes longer than
asking most readers about most files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable
from typing import Any

import pytest

from safetensors_corpus import Case

from .plugin import RESULT_KEY, SUITE_KEY


class SuiteItem(pytest.Item):
    """A question to one implementation.

    Attributes:
        kind: ``smoke``, ``baseline``, a step, or ``choice``.
        selector: the implementation.
        case: the case that a step is asked of; None for the other kinds.
    """

    def __init__(
        self,
        *,
        kind: str,
        selector: str,
        case: Case | None,
        ask: Callable[[pytest.Item], None],
        **node: Any,
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
        """Return the words of an expected failure alone: no line of our own code says more."""
        if isinstance(excinfo.value, pytest.xfail.Exception):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)


def in_order(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Return items with those of others first, and the steps of a case side by side.

    So an interrupted run knows whole cases.
    """
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
    """Hooks about items, which are needed only where the suite is collected."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> Generator[None, None, None]:
        """Put the items in order. What says that an implementation cannot run stays, whatever is selected."""
        suite = config.stash.get(SUITE_KEY, None)
        problems = [item for item in items if suite is not None and suite.problem_of(item)]
        yield
        items[:] = in_order([*problems, *(item for item in items if item not in problems)])

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Let the result of a case travel with the report, also from pytest-xdist's processes.

        What travels there is texts that UTF-8 can hold and numbers of 64 bits, and readers report others: the
        result goes as JSON, with escapes for all that is not ASCII, and the texts of the report are made fit.
        """
        report = yield
        if RESULT_KEY in item.stash:
            if report.when == "call":
                message, travels = item.stash[RESULT_KEY], hasattr(item.config, "workerinput")
                report.stc = json.dumps(message) if travels else message  # type: ignore[attr-defined]
            _make_fit(report)
        return report


def _make_fit(report: pytest.TestReport) -> None:
    if isinstance(report.longrepr, str):
        report.longrepr = fit(report.longrepr)
    elif isinstance(report.longrepr, tuple):  # a skip: file, line, reason
        path, line, reason = report.longrepr
        report.longrepr = path, line, fit(reason)
    if hasattr(report, "wasxfail"):
        report.wasxfail = fit(report.wasxfail)
    if report.sections:
        report.sections = [(name, fit(text)) for name, text in report.sections]


def fit(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")
