"""The held-out readers: each is wrong where its bug shows, and right everywhere else.

Part of the held-out set; see ``proof.held_out``.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from proof.broken.correct.reader import READER
from proof.held_out import HELD_OUT, PARTS, TWO_CONDITIONS
from proof.planted import Planted, Probe
from safetensors_corpus import load_manifest, recipe
from safetensors_corpus.judging.answer import Refused
from safetensors_reference.rules.book import rule_book

AREAS = ("FRM", "HDR", "ENT", "DTY", "SHP", "OFF", "MET", "DAT")
REFUSED, CRASHED = "refused", "crashed"
SMALL = 2048
FILES = {
    name: [recipe.expand(parts) for parts in rows]
    for name, rows in tomllib.loads(Path(__file__).with_name("witnesses.toml").read_text("utf-8")).items()
}
"""The witness of each reader, and behind it files that lack one of the conditions of the bug."""
FRAMED = b"\x02" + bytes(7) + b"{}"
PLAIN = (b"", bytes(8), FRAMED, FRAMED + b"x")
"""What every reader answers rightly, apart from the smoke cases."""
Answer = dict[str, Any] | str


def answer(planted: Planted, data: bytes) -> tuple[Answer, Probe]:
    probe = Probe()
    try:
        return planted.content(data, probe), probe
    except Refused:
        return REFUSED, probe
    except Exception:  # whatever else is raised stands for a crash
        return CRASHED, probe


def right_answer(data: bytes) -> Answer:
    try:
        return READER.content(data)
    except Refused:
        return REFUSED


@cache
def files(every: int) -> tuple[tuple[str, bytes, Answer], ...]:
    """Return one in so many files of the corpus, and all small witnesses, each with the right answer."""
    data = {case.id: case.read_input() for case in load_manifest().reading[::every]}
    data |= {name: rows[0] for name, rows in FILES.items() if len(rows[0]) <= SMALL}
    return tuple((name, file, right_answer(file)) for name, file in data.items())


@pytest.mark.parametrize("part", PARTS)
def test_it_is_wrong_on_its_witness_alone(part: str) -> None:
    # Integers that a double cannot hold are in a smoke case, and a later reader gets them wrong.
    smoke = [case.read_input() for case in load_manifest().reading if case.smoke and part != "third"]
    for planted in PARTS[part]:
        witness, *without_a_condition = FILES[planted.name]
        wrong, probe = answer(planted, witness)
        assert wrong != right_answer(witness), planted.name
        assert probe == Probe(reached=True, triggered=True), planted.name
        assert answer(planted, witness) == (wrong, probe), planted.name
        for data in (*without_a_condition, *PLAIN, *smoke):
            found, probe = answer(planted, data)
            assert (found, probe.triggered) == (right_answer(data), False), planted.name


@pytest.mark.by_day(24)
@pytest.mark.parametrize("planted", HELD_OUT, ids=lambda planted: planted.name)
@pytest.mark.parametrize("every", [24, pytest.param(1, marks=pytest.mark.nightly)])
def test_it_is_right_without_its_trigger(planted: Planted, every: int) -> None:
    wrong, untouched, reached = [], 0, 0
    for name, data, right in files(every):
        found, probe = answer(planted, data)
        untouched += not probe.triggered
        reached += probe.reached
        if not probe.triggered and found != right:
            wrong.append(name)
        assert probe.reached or not probe.triggered
    assert wrong == []
    assert reached
    # A bug that many files trigger is not conditional.
    assert untouched > 0.9 * len(files(every))


def test_every_reader_is_described_and_has_a_witness() -> None:
    assert {name: len(part) for name, part in PARTS.items()} == {"first": 68, "second": 40, "third": 60}
    assert list(FILES) == [planted.name for planted in HELD_OUT]
    assert len(set(FILES)) == 168
    assert len(TWO_CONDITIONS) == 15
    for planted in HELD_OUT:
        assert planted.about.endswith("."), planted.name
        assert planted.rules, planted.name
        assert set(planted.rules) <= set(rule_book().rules), planted.name
    for planted in PARTS["second"]:
        assert len(FILES[planted.name]) > (2 if planted.name in TWO_CONDITIONS else 1), planted.name
        assert all(rule_book().rules[rule].level == "must" for rule in planted.rules), planted.name
    areas = Counter(planted.rules[0][:3] for planted in PARTS["first"])
    assert min(areas[area] for area in AREAS) >= 3
