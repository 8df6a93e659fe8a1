"""The pytest plugin. It loads in every pytest run of the environment, so it is inert and light.

Nothing of the harness is imported until the suite is collected or one of its options is used; the work is
done in ``pytest_suite``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from .stash import RESULT_KEY

if TYPE_CHECKING:
    from collections.abc import Generator

    from .pytest_suite import Suite

SUITE_KEY: pytest.StashKey[Suite] = pytest.StashKey()

_OPTIONS: list[tuple[str, dict[str, Any]]] = [
    (
        "--impl",
        {
            "action": "append",
            "metavar": "SELECTOR",
            "help": "implementation to test: a built-in name (stc impl list), py:module:object, cmd:program "
            "or 'exit:program {path}'; give it several times to compare (default: reference)",
        },
    ),
    (
        "--profile",
        {
            "choices": ("text", "official", "hardened"),
            "help": "grade disputed cases by the written text, the official library's behaviour or our "
            "recommendation for hostile files; without it only undisputed musts can fail",
        },
    ),
    ("--baseline", {"metavar": "FILE", "help": "expected failures of the implementation (TOML)"}),
    ("--no-baseline", {"action": "store_true", "help": "ignore every baseline and show all failures"}),
    ("--update-baseline", {"action": "store_true", "help": "rewrite the baseline from this full run"}),
    ("--report", {"metavar": "DIR", "help": "write the run records (JSON lines) and a Markdown summary"}),
    (
        "--fail-on-should",
        {"action": "store_true", "help": "let missed recommendations and late rejections fail the run too"},
    ),
    (
        "--heavy",
        {"action": "store_true", "help": "also run the cases with inputs of up to 100 MB, or a sparse TiB"},
    ),
    (
        "--device",
        {"metavar": "NAME", "help": "also load every plain file onto this device and back: cpu or cuda:N"},
    ),
    ("--no-smoke", {"action": "store_true", "help": "run on although the most basic files already fail"}),
    ("--corpus", {"metavar": "DIR", "help": "use this corpus instead of the one that is installed"}),
    (
        "--time-limit",
        {
            "type": float,
            "default": 10.0,
            "metavar": "SECONDS",
            "help": "time limit of one step (default: 10)",
        },
    ),
    (
        "--memory-limit",
        {"type": int, "default": 2048, "metavar": "MIB", "help": "memory limit of one step (default: 2048)"},
    ),
]


def option(config: pytest.Config, name: str) -> Any:
    """Return one of the suite's options by its usual name, None where there are none."""
    return config.getoption(_dest(name), None)


def _dest(name: str) -> str:
    return "stc_" + name.lstrip("-").replace("-", "_")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(parser: pytest.Parser) -> Generator[None, None, None]:
    """Add the suite's options when all others are known: no run must break because we are installed.

    A ``conftest.py`` that adds an option which is there already ends the run, so ours come last. Where a name
    is taken, ``--device`` for one, ours is ``--stc-device``.
    """
    yield
    groups: list[Any] = [*parser._groups, parser._anonymous]  # noqa: SLF001 - there is no public way to ask
    taken = {name for group in groups for known in group.options for name in known.names()}
    group = parser.getgroup("safetensors conformance")
    for name, details in _OPTIONS:
        group.addoption(f"--stc{name[1:]}" if name in taken else name, dest=_dest(name), **details)


def suite_of(config: pytest.Config) -> Suite:
    """Return the suite of this run, made on first use."""
    if SUITE_KEY not in config.stash:
        from .pytest_suite import Suite

        config.stash[SUITE_KEY] = Suite(config)
    return config.stash[SUITE_KEY]


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a selector that cannot work before anything runs; listen to results."""
    if option(config, "--impl"):
        suite_of(config).check_options()
    config.pluginmanager.register(_Listener(config), "safetensors_conformance_listener")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let the result of a case travel with the report, also from pytest-xdist's processes."""
    report = yield
    if report.when == "call" and RESULT_KEY in item.stash:
        report.stc = item.stash[RESULT_KEY]  # type: ignore[attr-defined]
    return report


class _Listener:
    """Hears of results and of the end of the run; reports do not know their configuration themselves."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect a result (in the controlling process under pytest-xdist)."""
        message = getattr(report, "stc", None)
        if message is not None:
            suite_of(self._config).collect(message)

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
