"""Each reader of ``proof.held_out.third`` is wrong on its witness, and right on plain files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from proof.broken.correct.reader import READER
from proof.held_out.third import PLANTED
from proof.planted import Planted, Probe
from safetensors_corpus.judging.answer import Refused
from safetensors_reference.rules.book import rule_book

from .second_witnesses import chain, file
from .third_witnesses import WITNESSES

PLAIN = (
    chain(("F32", [2, 3]), ("I32", []), ("I8", [5])),
    file("{}"),
    file("{}", b"x"),
    b"",
    bytes(8),
)
"""What every reader answers correctly."""
SMALL = 1024
Content = dict[str, Any] | None


def answer(read: Callable[[bytes], dict[str, Any]], data: bytes) -> Content:
    """Return what a reader says of a file, None for a refusal."""
    try:
        return read(data)
    except Refused:
        return None


def broken(planted: Planted, data: bytes) -> tuple[Content, Probe]:
    probe = Probe()
    return answer(lambda file: planted.content(file, probe), data), probe


def test_names_and_witnesses() -> None:
    names = [planted.name for planted in PLANTED]
    assert len(names) == len(set(names)) == 60
    assert list(WITNESSES) == names
    assert max(map(len, WITNESSES.values())) < 64 * 1024


def test_it_goes_wrong_on_its_witness() -> None:
    for planted in PLANTED:
        data = WITNESSES[planted.name]
        found, probe = broken(planted, data)
        assert found != answer(READER.content, data), planted.name
        assert probe.reached, planted.name
        assert probe.triggered, planted.name


def test_it_is_right_on_plain_files() -> None:
    for planted in PLANTED:
        for data in PLAIN:
            found, probe = broken(planted, data)
            assert found == answer(READER.content, data), planted.name
            assert not probe.triggered, planted.name


def test_it_is_right_on_the_witnesses_of_others_without_its_trigger() -> None:
    small = [data for data in WITNESSES.values() if len(data) <= SMALL]
    assert len(small) > 50
    right = [answer(READER.content, data) for data in small]
    for planted in PLANTED:
        for data, expected in zip(small, right, strict=True):
            found, probe = broken(planted, data)
            assert probe.triggered or found == expected, planted.name


def test_it_is_described_and_breaks_known_rules() -> None:
    for planted in PLANTED:
        assert planted.about.endswith("."), planted.name
        assert len(planted.about) > 40, planted.name
        assert planted.rules, planted.name
        assert set(planted.rules) <= set(rule_book().rules), planted.name
