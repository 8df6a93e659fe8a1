"""The held-out readers: each is wrong where its bug shows, and right everywhere else.

Part of the held-out set; see ``proof.held_out``.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import pytest

from proof.broken.correct.reader import READER
from proof.held_out import HELD_OUT, PARTS
from proof.planted import Planted, Probe
from safetensors_corpus import load_manifest
from safetensors_corpus.author.file import FileBuilder
from safetensors_corpus.judging.answer import Refused
from safetensors_reference import explain
from safetensors_reference.rules.book import rule_book

from .witnesses import WITNESSES, made

HARD = PARTS["first"]
AREAS = ("FRM", "HDR", "ENT", "DTY", "SHP", "OFF", "MET", "DAT")
REFUSED, CRASHED = "refused", "crashed"
SMALL = 2048
Answer = dict[str, Any] | str
each = pytest.mark.parametrize("planted", HARD, ids=lambda planted: planted.name)


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


def told(builder: FileBuilder) -> dict[str, Any]:
    """Return what the builder was told, with the tensors in the order of names."""
    return by_name(builder.content())


def by_name(content: Answer) -> dict[str, Any]:
    assert not isinstance(content, str)
    return {**content, "tensors": sorted(content["tensors"], key=lambda row: row["name"])}


@cache
def files(every: int) -> tuple[tuple[str, bytes, Answer], ...]:
    """Return what the readers are compared on: one in so many files of the corpus, and all witnesses."""
    data = {case.id: case.read_input() for case in load_manifest().reading[::every]}
    data |= {name: made(name).render() for name in WITNESSES}
    return tuple((name, file, right_answer(file)) for name, file in data.items())


def simple_files() -> dict[str, FileBuilder]:
    """Small plain files, valid and not, on which no bug has an excuse to show."""
    built = {}
    for name in ("empty", "one", "two", "metadata", "beyond", "short", "length", "json", "dtype", "overlap"):
        built[name] = b = FileBuilder()
        if name == "metadata":
            b.metadata({"a": "b"})
        if name not in ("empty", "beyond"):
            b.tensor("w", fields={"dtype": '"X"'} if name == "dtype" else None)
        if name == "two":
            b.tensor("v", "U8", [3])
        if name == "overlap":
            b.tensor("v", begin=4, end=12)
    built["beyond"].tensor("w", begin=0, end=80)
    built["short"].cut = 4
    built["length"].length = 10**6
    built["json"].padding = b"}"
    return built


@cache
def plain_files() -> tuple[tuple[bytes, Answer], ...]:
    """Return the files of smoke cases and the plain files, each with the right answer."""
    smoke = [case.read_input() for case in load_manifest().reading if case.smoke]
    assert smoke
    return tuple(
        (data, right_answer(data)) for data in (*smoke, *(b.render() for b in simple_files().values()))
    )


def test_its_witness_shows_the_bug() -> None:
    for planted in HARD:
        builder = made(planted.name)
        data = builder.render()
        assert len(data) <= SMALL, planted.name
        wrong, probe = answer(planted, data)
        assert probe == Probe(reached=True, triggered=True), planted.name
        assert answer(planted, data) == (wrong, probe), planted.name
        if explain(data).valid:
            assert by_name(right_answer(data)) == told(builder), planted.name
            assert wrong in (REFUSED, CRASHED) or by_name(wrong) != told(builder), planted.name
        else:
            assert right_answer(data) == REFUSED, planted.name
            assert wrong != REFUSED, planted.name


@pytest.mark.by_day(17)
@each
def test_it_is_right_without_its_trigger(planted: Planted) -> None:
    check_without_trigger(planted, 12)


@pytest.mark.nightly
@each
def test_it_is_right_on_the_whole_corpus_without_its_trigger(planted: Planted) -> None:
    check_without_trigger(planted, 1)


def check_without_trigger(planted: Planted, every: int) -> None:
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
    assert untouched > 0.95 * len(files(every))


def test_it_is_right_on_smoke_cases_and_plain_files() -> None:
    for planted in HARD:
        for data, right in plain_files():
            found, probe = answer(planted, data)
            assert not probe.triggered, planted.name
            assert found == right, planted.name


def test_the_plain_files_are_valid_and_invalid() -> None:
    valid = {name for name, b in simple_files().items() if explain(b.render()).valid}
    assert valid == {"empty", "one", "two", "metadata"}
    assert all(
        right_answer(simple_files()[name].render()) == simple_files()[name].content() for name in valid
    )


def test_the_parts_are_the_whole_set_and_share_no_names() -> None:
    assert {name: len(part) for name, part in PARTS.items()} == {"first": 68, "second": 40, "third": 60}
    assert len({planted.name for planted in HELD_OUT}) == len(HELD_OUT) == 168


def test_names_and_rules() -> None:
    assert len(HARD) >= 40
    assert max(Counter(planted.name for planted in HARD).values()) == 1
    for planted in HARD:
        assert planted.rules
        assert set(planted.rules) <= set(rule_book().rules)
        assert planted.about.endswith(".")
        assert planted.about.count(". ") == 0


def test_every_reader_has_a_witness() -> None:
    assert set(WITNESSES) == {planted.name for planted in HARD}


def test_every_area_and_sort_is_there() -> None:
    areas = Counter(planted.rules[0][:3] for planted in HARD)
    assert set(areas) == set(AREAS)
    assert min(areas.values()) >= 3
    sorts = Counter(map(sort, HARD))
    assert sorts["wrong accept"] >= 25
    assert sorts["wrong content"] >= 8
    assert sorts["wrong reject"] + sorts["crash"] >= 7


def sort(planted: Planted) -> str:
    """Tell what the reader does wrong on its witness."""
    data = made(planted.name).render()
    found, _ = answer(planted, data)
    if found in (REFUSED, CRASHED):
        return "crash" if found == CRASHED else "wrong reject"
    return "wrong content" if explain(data).valid else "wrong accept"
