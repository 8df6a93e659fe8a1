"""Each reader of ``proof.held_out.second`` is wrong on its witness, and right where a condition lacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from proof.broken.correct.reader import READER
from proof.held_out.second import PLANTED, TWO_CONDITIONS
from proof.planted import Planted, Probe
from safetensors_corpus.judging.answer import Refused
from safetensors_reference.rules.book import rule_book

from .second_witnesses import COMMON, WITNESSES


def answer(read: Callable[[bytes], dict[str, Any]], data: bytes) -> dict[str, Any] | None:
    """Return what a reader says of a file, None for a refusal."""
    try:
        return read(data)
    except Refused:
        return None


def broken(planted: Planted, data: bytes) -> tuple[dict[str, Any] | None, Probe]:
    probe = Probe()
    return answer(lambda file: planted.content(file, probe), data), probe


def test_names_and_witnesses() -> None:
    names = [planted.name for planted in PLANTED]
    assert len(names) == len(set(names)) == 40
    assert len(TWO_CONDITIONS) == 15
    assert set(names) >= TWO_CONDITIONS
    assert list(WITNESSES) == names
    assert max(len(witness.file) for witness in WITNESSES.values()) < 256 * 1024


def test_it_goes_wrong_on_its_witness() -> None:
    for planted in PLANTED:
        data = WITNESSES[planted.name].file
        found, probe = broken(planted, data)
        assert found != answer(READER.content, data), planted.name
        assert probe.reached, planted.name
        assert probe.triggered, planted.name


def test_it_is_right_where_a_condition_lacks() -> None:
    for planted in PLANTED:
        neighbours = WITNESSES[planted.name].neighbours
        assert len(neighbours) >= (2 if planted.name in TWO_CONDITIONS else 1), planted.name
        for data in (*neighbours, *COMMON):
            found, probe = broken(planted, data)
            assert found == answer(READER.content, data), planted.name
            assert not probe.triggered, planted.name


def test_it_reads_the_witnesses_of_others_without_a_crash() -> None:
    for planted in PLANTED:
        for other in WITNESSES.values():
            found, probe = broken(planted, other.file)
            assert probe.triggered or found == answer(READER.content, other.file), planted.name


def test_it_is_described_and_breaks_rules_that_must_be_kept() -> None:
    for planted in PLANTED:
        assert planted.about.endswith("."), planted.name
        assert len(planted.about) > 40, planted.name
        assert planted.rules, planted.name
        assert all(rule_book().rules[rule].level == "must" for rule in planted.rules), planted.name
