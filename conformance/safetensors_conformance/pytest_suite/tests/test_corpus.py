"""The conformance suite: one item per implementation, case and step.

Run it with ``pytest conformance --impl=NAME`` in a checkout, or with
``pytest --pyargs safetensors_conformance --impl=NAME`` from an installed wheel.
"""

from __future__ import annotations

import pytest

from safetensors_conformance.pytest_suite.suite import suite_of
from safetensors_conformance.worker.outcome import STEPS
from safetensors_corpus import Case


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make the items out of the corpus and the implementations asked for."""
    suite = suite_of(metafunc.config)
    name = metafunc.function.__name__
    step = name.removeprefix("test_")
    if step in STEPS:
        items = suite.items(step)
        ids = [f"{case.id}-{selector}" for selector, case in items]
        metafunc.parametrize(("selector", "case"), items, ids=ids)
    elif name == "test_choice":
        choices = suite.open_choices()
        metafunc.parametrize(("selector", "choice"), choices, ids=[f"{c}-{s}" for s, c in choices])
    else:
        can_run = {t.selector: suite.session(t.selector).problem is None for t in suite.targets}
        selectors = [s for s, can in can_run.items() if can or name == "test_smoke"]
        metafunc.parametrize("selector", selectors, ids=selectors)


def test_smoke(selector: str, request: pytest.FixtureRequest) -> None:
    """The implementation starts and gets the most basic files right."""
    suite_of(request.config).run_smoke(selector, request.node)


def test_baseline(selector: str, request: pytest.FixtureRequest) -> None:
    """The list of expected failures is usable and every entry matches a case."""
    suite_of(request.config).run_baseline(selector, request.node)


def test_open(selector: str, case: Case, request: pytest.FixtureRequest) -> None:
    """Opening a file: validate it and list what is in it."""
    suite_of(request.config).run_step(selector, case, "open", request.node)


def test_read(selector: str, case: Case, request: pytest.FixtureRequest) -> None:
    """Reading a file: every tensor, byte by byte."""
    suite_of(request.config).run_step(selector, case, "read", request.node)


def test_slice(selector: str, case: Case, request: pytest.FixtureRequest) -> None:
    """Taking a part of a tensor."""
    suite_of(request.config).run_step(selector, case, "slice", request.node)


def test_write(selector: str, case: Case, request: pytest.FixtureRequest) -> None:
    """Writing a file, which must be valid and hold what was given."""
    suite_of(request.config).run_step(selector, case, "write", request.node)


def test_index(selector: str, case: Case, request: pytest.FixtureRequest) -> None:
    """Loading through an index of shards."""
    suite_of(request.config).run_step(selector, case, "index", request.node)


def test_sharded(selector: str, case: Case, request: pytest.FixtureRequest) -> None:
    """Saving in shards, into a folder where an earlier model may lie."""
    suite_of(request.config).run_step(selector, case, "sharded", request.node)


def test_lifecycle(selector: str, case: Case, request: pytest.FixtureRequest) -> None:
    """Holding a file open while it changes."""
    suite_of(request.config).run_step(selector, case, "lifecycle", request.node)


def test_remote(selector: str, case: Case, request: pytest.FixtureRequest) -> None:
    """Fetching a file from a server, by ranges."""
    suite_of(request.config).run_step(selector, case, "remote", request.node)


def test_device(selector: str, case: Case, request: pytest.FixtureRequest) -> None:
    """Loading a file onto a device, and what becomes of the tensors there."""
    suite_of(request.config).run_step(selector, case, "device", request.node)


def test_concurrent(selector: str, case: Case, request: pytest.FixtureRequest) -> None:
    """Several threads or processes that read one file at the same time."""
    suite_of(request.config).run_step(selector, case, "concurrent", request.node)


def test_choice(selector: str, choice: str, request: pytest.FixtureRequest) -> None:
    """The answers to all cases of one choice agree with one another."""
    suite_of(request.config).run_choice(selector, choice, request.node)
