"""Long lists: each one has a fault, and a run finds readers that do not check all of a list."""

from __future__ import annotations

import pytest

from benchmarks.fuzzer.measure import measure
from proof.broken.readers.lists import SKIPS, Unchecked
from proof.planted import Planted
from safetensors_fuzz.grammar.faults import FAULTS

ONE_OF_MANY = next(mutation for mutation in FAULTS if mutation.name == "one-of-many")


@pytest.mark.by_day(1)
@pytest.mark.parametrize("name", ["from-65", "257th"])
def test_a_run_finds_a_reader_that_does_not_check_a_whole_list(name: str) -> None:
    planted = Planted(name, SKIPS[name][0], "read", lambda _: Unchecked(skips=SKIPS[name][1]), ("OFF-07",))
    assert measure(planted, "outcome", 1, 40_000).detected
