"""The pytest plugin, which is loaded in every pytest run. It imports the harness only when it is used."""

from __future__ import annotations

import fnmatch
import json
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.junitxml import xml_key

from ..options import OPTIONS
from .stash import SUITE_KEY, dest_of, option

if TYPE_CHECKING:
    from collections.abc import Generator


_OTHER: pytest.StashKey[Path] = pytest.StashKey()
"""Path of the suite in another checkout, which pytest found instead of this one."""
_FILE = Path(__file__).parent / "tests" / "test_corpus.py"
_NAMED = _FILE.parts[-4:]
_TESTS, _PACKAGE = f"{_FILE.parent}{os.sep}", f"{Path(__file__).parents[1]}{os.sep}"


def add_options(parser: pytest.Parser) -> None:
    """Add the options. If a name such as ``--device`` is already in use, ours becomes ``--stc-device``."""
    groups: list[Any] = [*parser._groups, parser._anonymous]  # noqa: SLF001 - there is no public way to ask
    taken = {name for group in groups for known in group.options for name in known.names()}
    group = parser.getgroup("safetensors conformance")
    for name, known in OPTIONS.items():
        shown = "" if known.default is None else f"  [default: {known.default:g}]"
        details: dict[str, Any] = {"metavar": known.metavar, "default": known.default, "type": known.type}
        if known.flag:
            details = {"action": "store_true"}
        elif known.many:
            details = {"action": "append", "metavar": known.metavar}
        elif known.choices:
            details = {"choices": known.choices}
        given = f"--stc{name[1:]}" if name in taken else name
        group.addoption(given, dest=dest_of(name), help=known.help + shown, **details)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(parser: pytest.Parser) -> Generator[None, None, None]:
    """Add the options last, because pytest exits if a ``conftest.py`` adds an option that already exists."""
    yield
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Reject unusable options before anything runs, and register a listener for results."""
    if any(option(config, name) not in (known.default, False) for name, known in OPTIONS.items()):
        try:
            from ..programs.launcher import ending_as_interrupted
            from .suite import suite_of
        except ModuleNotFoundError as err:
            text = f"the suite needs the harness ({err.name}): pip install 'safetensors-conformance[harness]'"
            raise pytest.UsageError(text) from err

        suite_of(config).check_options()
        endings = ExitStack()
        endings.enter_context(ending_as_interrupted())
        config.add_cleanup(endings.close)
    config.pluginmanager.register(_Listener(config), "safetensors_conformance_listener")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Exclude this package's modules when another project collects its modules (``--doctest-modules``)."""
    path = str(collection_path)
    if path.startswith(_PACKAGE) and not (path + os.sep).startswith(_TESTS) and not _TESTS.startswith(path):
        return True
    return None


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect the suite as a file with its own kind of items rather than as a module of functions."""
    if module_path.parts[-4:] == _NAMED and module_path != _FILE:
        parent.config.stash[_OTHER] = module_path
    return _suite_file(parent, module_path) if module_path == _FILE else None


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path == _FILE and not parent.session.isinitpath(file_path):
        patterns = parent.config.getini("python_files")
        if not any(fnmatch.fnmatch(file_path.name, pattern) for pattern in patterns):
            return _suite_file(parent, file_path)
    return None


def _suite_file(parent: pytest.Collector, path: Path) -> pytest.Collector:
    from .suite import Hooks
    from .tests.test_corpus import SuiteFile

    plugins = parent.config.pluginmanager
    if not plugins.has_plugin("safetensors_conformance_items"):
        plugins.register(Hooks(), "safetensors_conformance_items")
    return SuiteFile.from_parent(parent, path=path)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int
) -> Generator[None, None, None]:
    """Print the results after pytest's own summary. The likely causes come last."""
    stats, stash = terminalreporter.stats, terminalreporter.config.stash
    failed = stats.get("failed", [])
    if SUITE_KEY in stash and failed:
        explained = stash[SUITE_KEY].is_explained
        messages = zip(failed, map(_message, failed), strict=True)
        stats["failed"] = [one for one, text in messages if not (text.get("repeats") and explained(text))]
    yield
    hidden = len(failed) - len(stats.get("failed", []))
    if hidden:
        stats["failed"] = failed  # pytest counts them in its last line
    lines = []
    if _OTHER in stash and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        lines = [
            f"{stash[_OTHER]} belongs to a different checkout from the installed suite:",
            f"  {_FILE}",
            "install that checkout with: pip install -e '.[harness]'",
            "or run the installed suite from another folder with: pytest --pyargs safetensors_conformance",
        ]
    lines += stash[SUITE_KEY].summary(hidden) if SUITE_KEY in stash else []
    for line in lines:
        terminalreporter.write_line(line)


def _message(report: pytest.TestReport) -> dict[str, Any]:
    """Return the message about an item of the suite. pytest-xdist transmits messages as strings."""
    message: str | dict[str, Any] = getattr(report, "stc", {})
    return json.loads(message) if isinstance(message, str) else message


class _Listener:
    """Receives results and the end-of-run event, because these hooks cannot access the configuration."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        message = _message(report)
        if message:
            from .suite import suite_of

            suite_of(self._config).collect(message)
            xml = self._config.stash.get(xml_key, None)
            if xml is not None:  # the default would contain the path of the environment
                name = ".".join(filter(None, (xml.prefix, "safetensors_conformance")))
                xml.node_reporter(report).add_attribute("classname", name)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Announce the order of cases, which is unknown in the worker processes of pytest-xdist."""
        if SUITE_KEY in self._config.stash and not hasattr(self._config, "workerinput"):
            self._config.stash[SUITE_KEY].plan(session.items)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if SUITE_KEY in self._config.stash:
            self._config.stash[SUITE_KEY].finish(session)
            # Hypothesis's summary would import all of Hypothesis. With xdist, the workers may have used it.
            plugins, alone = self._config.pluginmanager, self._config.getoption("dist", "no") == "no"
            if alone and "hypothesis" not in sys.modules and plugins.has_plugin("hypothesispytest"):
                plugins.unregister(name="hypothesispytest")
            # For each failure, pytest searches all of these for output, which takes quadratic time.
            reporter: pytest.TerminalReporter | None = plugins.get_plugin("terminalreporter")
            if reporter is not None:
                reporter.stats[""] = [one for one in reporter.stats.get("", []) if one.sections]

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Remove failures with a likely cause before pytest prints its short summary of failures."""
        stats = terminalreporter.stats
        if SUITE_KEY in self._config.stash and "failed" in stats:
            explained = self._config.stash[SUITE_KEY].is_explained
            stats["failed"] = [one for one in stats["failed"] if not explained(_message(one))]
