"""Each reader of the two conditional sets goes wrong on its witness, and right where a condition lacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest

from benchmarks.fuzzer import Planted, Probe
from benchmarks.fuzzer import conditional as first
from benchmarks.fuzzer import conditional_second as second
from safetensors_corpus.broken.correct.json import Refused
from safetensors_corpus.broken.correct.reader import READER
from safetensors_reference.rules.book import rule_book

from . import conditional_witnesses, second_witnesses
from .conditional_witnesses import Witness


class Conditional(NamedTuple):
    """A set: its readers, those with two conditions, their witnesses, and files that all read rightly."""

    planted: tuple[Planted, ...]
    two: frozenset[str]
    witnesses: Mapping[str, Witness]
    common: tuple[bytes, ...]


FIRST = Conditional(first.PLANTED, first.TWO_CONDITIONS, conditional_witnesses.WITNESSES, ())
SECOND = Conditional(
    second.PLANTED, second.TWO_CONDITIONS, second_witnesses.WITNESSES, second_witnesses.COMMON
)
each = pytest.mark.parametrize(
    ("of", "planted"),
    [pytest.param(of, planted, id=planted.name) for of in (FIRST, SECOND) for planted in of.planted],
)


def answer(read: Callable[[bytes], dict[str, Any]], data: bytes) -> dict[str, Any] | None:
    """Return what a reader says of a file, None for a refusal."""
    try:
        return read(data)
    except Refused:
        return None


def broken(planted: Planted, data: bytes) -> tuple[dict[str, Any] | None, Probe]:
    probe = Probe()
    return answer(lambda file: planted.read(file, probe), data), probe


@pytest.mark.parametrize(("of", "size", "two"), [(FIRST, 60, 20), (SECOND, 40, 15)])
def test_a_set_is_as_large_as_it_says(of: Conditional, size: int, two: int) -> None:
    names = [planted.name for planted in of.planted]
    assert len(names) == len(set(names)) == size
    assert len(of.two) == two
    assert set(names) >= of.two
    assert list(of.witnesses) == names


@each
def test_it_goes_wrong_on_its_witness(of: Conditional, planted: Planted) -> None:
    data = of.witnesses[planted.name].file
    found, probe = broken(planted, data)
    assert found != answer(READER.content, data)
    assert probe.reached
    assert probe.triggered


@each
def test_it_is_right_where_a_condition_lacks(of: Conditional, planted: Planted) -> None:
    neighbours = of.witnesses[planted.name].neighbours
    assert len(neighbours) >= (2 if planted.name in of.two else 1)
    for data in (*neighbours, *of.common):
        found, probe = broken(planted, data)
        assert found == answer(READER.content, data)
        assert not probe.triggered


@each
def test_it_reads_the_witnesses_of_others_without_a_crash(of: Conditional, planted: Planted) -> None:
    for other in of.witnesses.values():
        found, probe = broken(planted, other.file)
        assert probe.triggered or found == answer(READER.content, other.file)


@pytest.mark.parametrize("planted", [*FIRST.planted, *SECOND.planted], ids=lambda planted: planted.name)
def test_it_is_described_and_breaks_rules_that_must_be_kept(planted: Planted) -> None:
    assert planted.about.endswith(".")
    assert len(planted.about) > 40
    assert planted.rules
    assert all(rule_book().rules[rule].level == "must" for rule in planted.rules)


@pytest.mark.parametrize(("of", "most"), [(FIRST, 1 << 20), (SECOND, 256 * 1024 - 1)])
def test_witnesses_are_small(of: Conditional, most: int) -> None:
    assert max(len(witness.file) for witness in of.witnesses.values()) <= most
