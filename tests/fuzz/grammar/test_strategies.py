"""The strategies that users of hypothesis get."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, find, given, settings

from safetensors_corpus.features.tree import File
from safetensors_fuzz.grammar.grammar import faults_by_rule
from safetensors_fuzz.grammar.strategies import broken_files, files, valid_files
from safetensors_reference import explain

QUIET = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@QUIET
@given(valid_files())
def test_valid_files_are_valid(data: bytes) -> None:
    assert explain(data).valid


@QUIET
@given(broken_files())
def test_broken_files_are_broken(data: bytes) -> None:
    assert not explain(data).valid


@QUIET
@given(broken_files("OFF-07"))
def test_files_broken_for_a_rule_break_it(data: bytes) -> None:
    assert "OFF-07" in {fault.rule for fault in explain(data).faults}


@QUIET
@given(files())
def test_files_of_any_kind_are_trees(file: File) -> None:
    assert isinstance(file.render(), bytes)
    assert len(file.faults) <= 2


def test_a_rule_that_nothing_aims_at_is_told() -> None:
    with pytest.raises(ValueError, match="no fault targets 'API-01'"):
        find(broken_files("API-01"), lambda _: True)
    assert "OFF-07" in faults_by_rule()


@pytest.mark.nightly
def test_what_is_found_is_small() -> None:
    data = find(broken_files("OFF-08"), lambda _: True, settings=QUIET)
    assert len(data) < 400
