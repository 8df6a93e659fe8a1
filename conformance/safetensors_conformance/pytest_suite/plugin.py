"""The pytest plugin. It loads in every pytest run of the environment, so it is inert and light.

Nothing of the harness is imported until the suite is collected or one of its options is used; the work is
done in ``pytest_suite``.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .options import add_options, option

if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

    from .suite import Suite

SUITE_KEY: pytest.StashKey[Suite] = pytest.StashKey()
RESULT_KEY: pytest.StashKey[dict[str, Any]] = pytest.StashKey()
"""Place of the result that an item leaves for its report."""


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(parser: pytest.Parser) -> Generator[None, None, None]:
    """Add the suite's options when all others are known.

    A ``conftest.py`` that adds an option which is there already ends the run, and no run must break because
    we are installed.
    """
    yield
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a selector that cannot work before anything runs; listen to results."""
    if option(config, "--impl") or option(config, "--report"):
        from ..run.interruption import ending_as_interrupted
        from .suite import suite_of

        suite_of(config).check_options()
        endings = ExitStack()
        endings.enter_context(ending_as_interrupted())
        config.add_cleanup(endings.close)
    config.pluginmanager.register(_Listener(config), "safetensors_conformance_listener")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let the result of a case travel with the report, also from pytest-xdist's processes.

    What travels there is texts that UTF-8 can hold and numbers of 64 bits, and readers report others: the
    result goes as JSON, with escapes for all that is not ASCII, and the texts of the report are made fit.
    """
    report = yield
    if item.path.parent == _SUITE:
        if report.when == "call" and RESULT_KEY in item.stash:
            report.stc = json.dumps(item.stash[RESULT_KEY])  # type: ignore[attr-defined]
        _make_fit(report)
    return report


_SUITE = Path(__file__).parent / "tests"


def _make_fit(report: pytest.TestReport) -> None:
    """Replace what UTF-8 cannot hold in the texts of a report by escapes."""
    if isinstance(report.longrepr, str):
        report.longrepr = _fit(report.longrepr)
    elif isinstance(report.longrepr, tuple):  # a skip: file, line, reason
        path, line, reason = report.longrepr
        report.longrepr = path, line, _fit(reason)
    if hasattr(report, "wasxfail"):
        report.wasxfail = _fit(report.wasxfail)
    report.sections = [(name, _fit(text)) for name, text in report.sections]
    report.user_properties = [(name, _fit(str(value))) for name, value in report.user_properties]


def _fit(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


class _Listener:
    """Hears of results and of the end of the run; reports do not know their configuration themselves."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect a result (in the controlling process under pytest-xdist)."""
        message = getattr(report, "stc", None)
        if message is not None:
            from .suite import suite_of

            suite_of(self._config).collect(json.loads(message))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Announce the cases; a process of pytest-xdist is handed its items bit by bit and knows no order."""
        if SUITE_KEY in self._config.stash and not hasattr(self._config, "workerinput"):
            self._config.stash[SUITE_KEY].plan(session.items)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """End workers, finish records, rewrite the baseline when asked to."""
        if SUITE_KEY in self._config.stash:
            self._config.stash[SUITE_KEY].finish(session)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the summary of each implementation and, with several, where they differ."""
        if SUITE_KEY in self._config.stash:
            for line in self._config.stash[SUITE_KEY].summary():
                terminalreporter.write_line(line)
