"""Long lists: each one has a fault, and a run finds readers that do not check all of a list."""

from __future__ import annotations

import random

import pytest

from benchmarks.fuzzer.measure import measure
from proof.broken.correct.reader import READER
from proof.broken.readers.lists import SKIPS, Unchecked
from proof.planted import Planted
from safetensors_corpus.features.entries import entries
from safetensors_corpus.judging.answer import Refused
from safetensors_fuzz.grammar.faults import FAULTS
from safetensors_fuzz.grammar.faults.lists import TOTALS
from safetensors_fuzz.grammar.grammar import valid_file

ONE_OF_MANY = next(mutation for mutation in FAULTS if mutation.name == "one-of-many")


def test_every_long_list_has_a_fault() -> None:
    seen = set()
    for seed in range(100):
        rng = random.Random(seed)
        file = valid_file(rng)
        if ONE_OF_MANY.apply(rng, file):
            seen.add(len(entries(file)))
            with pytest.raises(Refused):
                READER.content(file.render())
    assert seen == set(TOTALS)


@pytest.mark.parametrize("name", ["from-65", "257th"])
def test_a_run_finds_a_reader_that_does_not_check_a_whole_list(name: str) -> None:
    planted = Planted(name, SKIPS[name][0], "read", lambda _: Unchecked(skips=SKIPS[name][1]), ("OFF-07",))
    assert measure(planted, "outcome", 1, 40_000).detected
