"""The strategies that users of hypothesis get."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings

from safetensors_fuzz.grammar.grammar import FAULTS_BY_RULE
from safetensors_fuzz.strategies import broken_files, valid_files
from safetensors_reference import explain

ROOT = Path(__file__).parents[2]
QUIET = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize(
    ("files", "obeys"),
    [
        (valid_files(), lambda rules: not rules),
        (broken_files(), bool),
        (broken_files("OFF-07"), lambda rules: "OFF-07" in rules),
    ],
    ids=["valid", "broken", "broken for a rule"],
)
def test_files_obey_the_rules_or_break_them(files: Any, obeys: Callable[[set[str]], bool]) -> None:
    @QUIET
    @given(files)
    def check(data: bytes) -> None:
        assert obeys({fault.rule for fault in explain(data).faults})

    check()


def test_the_example_in_the_documentation_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The three tests in the example pass for a strict reader and fail for a reader that crashes."""
    page = (ROOT / "docs" / "fuzz.md").read_text("utf-8").partition("## Hypothesis\n")[2]
    example = page.partition("```python\n")[2].partition("```")[0]

    def strict(data: bytes) -> None:
        if explain(data).faults:
            raise ValueError

    def crashing(data: bytes) -> None:
        raise KeyError

    for loads in (strict, crashing):
        monkeypatch.setitem(sys.modules, "mylib", SimpleNamespace(loads=loads, Error=ValueError))
        names: dict[str, Any] = {}
        exec(example, names)
        tests = [value for name, value in names.items() if name.startswith("test_")]
        assert len(tests) == 3
        for test in tests:
            with pytest.raises(KeyError) if loads is crashing else contextlib.nullcontext():
                settings(QUIET, max_examples=10, phases=[Phase.generate])(test)()


def test_a_rule_that_nothing_aims_at_is_told() -> None:
    with pytest.raises(ValueError, match="no fault targets 'API-01'"):
        find(broken_files("API-01"), lambda _: True)
    assert "OFF-07" in FAULTS_BY_RULE


@pytest.mark.nightly
def test_what_is_found_is_small() -> None:
    data = find(broken_files("OFF-08"), lambda _: True, settings=QUIET)
    assert len(data) < 400
