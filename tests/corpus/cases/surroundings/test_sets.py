"""The covering sets: every pair of levels that can meet stands in a file, and rows are named by their ids."""

from __future__ import annotations

from functools import cache
from itertools import combinations, product
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proof.broken.correct.reader import READER
from safetensors_corpus.author.file import FileBuilder
from safetensors_corpus.cases.surroundings import numbers, tensors
from safetensors_corpus.cases.surroundings.covered import case_of
from safetensors_corpus.cases.surroundings.model import Model, Property, Topic, excludes
from safetensors_corpus.cases.surroundings.sets import MODELS, rows, topics
from safetensors_corpus.features import FEATURES
from safetensors_corpus.judging.answer import Refused
from safetensors_reference import explain, rule_book

OF_TOPIC = topics()
BY_TOPIC = pytest.mark.parametrize(
    ("model", "topic"), [(model, topic) for topic, model in OF_TOPIC.items()], ids=list(OF_TOPIC)
)
ROWS = rows()


def nothing(_row: object, _file: object) -> None:
    """Tell the builder nothing."""


SMALL = Model(
    "small",
    {
        "a": Property("a", {"a0": "", "a1": "one of a", "a2": "two of a"}, ("a0", "a1")),
        "b": Property("b", {"b0": "", "b1": "one of b"}),
        "c": Property("c", {"c0": "", "c1": "one of c"}),
    },
    [
        excludes("they cannot meet", a="a1", b="b1"),
        excludes("c needs b", b="b0", c="c1"),
    ],
    {
        "whole": Topic("whole", nothing, ("FRM-01",)),
        "part": Topic("part", nothing, ("FRM-01",), ("FRM_TOO_SHORT",)),
    },
)


def permitted_rows(model: Model, topic: str) -> list[dict[str, str]]:
    """Return all permitted rows of a small model, by trying out every combination."""
    domain = model.levels(topic)
    found = (dict(zip(domain, chosen, strict=True)) for chosen in product(*domain.values()))
    return [row for row in found if model.permitted(row)]


@pytest.mark.parametrize("topic", ["whole", "part"])
def test_the_pairs_that_can_meet_are_those_of_some_permitted_row(topic: str) -> None:
    expected = SMALL.covered(topic, permitted_rows(SMALL, topic))
    assert SMALL.feasible(topic) == expected
    # c1 needs b1, which a1 forbids: a pair that no exclusion names by itself.
    assert ("a1", "c1") not in expected
    assert (("a2", "c1") in expected) == (topic == "whole")


@BY_TOPIC
def test_every_pair_of_levels_that_can_meet_stands_in_a_file(model: Model, topic: str) -> None:
    assert model.feasible(topic) == model.covered(topic, ROWS[topic])


@BY_TOPIC
def test_what_is_taken_for_impossible_is_excluded_or_left_out(model: Model, topic: str) -> None:
    domain = model.levels(topic)
    every = {(a, b) for left, right in combinations(domain.values(), 2) for a, b in product(left, right)}
    missing = every - model.covered(topic, ROWS[topic])
    named = {name for exclusion in model.exclusions for name in exclusion.properties}
    of = {level: name for name, levels in domain.items() for level in levels}
    assert all(of[a] in named and of[b] in named for a, b in missing)
    assert len(missing) < len(every) / 10


@BY_TOPIC
def test_rows_are_permitted_and_use_the_levels_of_their_topic(model: Model, topic: str) -> None:
    domain = model.levels(topic)
    for row in ROWS[topic]:
        assert model.permitted(row)
        assert all(row[name] in levels for name, levels in domain.items())


@given(st.data())
def test_a_slug_names_its_row(data: st.DataObject) -> None:
    model = data.draw(st.sampled_from(MODELS))
    row = {name: data.draw(st.sampled_from(list(prop.levels))) for name, prop in model.properties.items()}
    assert model.row(model.slug(row)) == row


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_a_level_is_a_word_of_one_property(model: Model) -> None:
    levels = [level for prop in model.properties.values() for level in prop.levels]
    assert len(levels) == len(set(levels))
    assert all(level.isalnum() for level in levels)
    assert all(not prop.levels[prop.usual] for prop in model.properties.values())


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("holes first", "'holes' is not a topic"),
        ("whole first-third", "'third' is not a level"),
        ("whole tight-first", "whose slug is first-tight"),
        ("whole r0-void", "the levels exclude each other"),
    ],
)
def test_a_line_that_names_no_row_is_refused(line: str, why: str) -> None:
    with pytest.raises(ValueError, match=rf"covering\.txt:2: .*{why}"):
        rows(f"whole usual\n{line}\n")


class Made(NamedTuple):
    """The file of a row; ``content`` is None where a reader must refuse it."""

    name: str
    data: bytes
    content: dict[str, Any] | None


@cache
def files_of(topic: str) -> list[Made]:
    """Return the files of a topic, in the order of its rows."""
    out, model = [], OF_TOPIC[topic]
    for row in ROWS[topic]:
        case, builder = case_of(model, topic, row), FileBuilder()
        case.body(builder, *case.arguments)
        content = None if model.topics[topic].codes else builder.content()
        out.append(Made(case.id, builder.render(), content))
    return out


@BY_TOPIC
def test_a_reader_that_shares_no_code_agrees(model: Model, topic: str) -> None:
    for made in files_of(topic):
        if made.content is None:
            with pytest.raises(Refused):
                READER.content(made.data)
        else:
            found = READER.content(made.data)
            assert sorted(found["tensors"], key=str) == sorted(made.content["tensors"], key=str)
            # An empty map and none are the same content (MET-03).
            assert (found["metadata"] or None) == (made.content["metadata"] or None)


ALSO = {
    "FRM-02": "FRM-06",
    "FRM-05": "FRM-06",
    "OFF-12": "OFF-07",
    "OFF-09": "OFF-06 OFF-04 OFF-07",
    "SHP-04": "OFF-05",
    "ENT-05": "ENT-03",
    "HDR-10": "HDR-09",
    "HDR-06": "HDR-03",
    "HDR-05": "HDR-03",
}
"""Rules that are a special form of what the explaining reader names."""


@BY_TOPIC
def test_the_rule_and_the_code_named_first_are_what_the_strict_reader_finds(model: Model, topic: str) -> None:
    about = model.topics[topic]
    for row, made in zip(ROWS[topic], files_of(topic), strict=True):
        faults = explain(made.data, "hardened").faults
        if made.content is not None:
            assert not faults, made.name
            continue
        assert about.codes_of(row)[0] in {fault.code for fault in faults}, made.name
        first = about.rules_of(row)[0]
        assert {first, *ALSO.get(first, "").split()} & {fault.rule for fault in faults}, made.name


@BY_TOPIC
def test_every_rule_and_code_exists_and_the_rule_is_a_must(model: Model, topic: str) -> None:
    about, book = model.topics[topic], rule_book()
    for row in ROWS[topic]:
        assert set(about.codes_of(row)) <= book.codes.keys()
        assert set(about.rules_of(row)) <= book.rules.keys()
        if about.codes_of(row):
            assert book.rules[about.rules_of(row)[0]].level == "must"


EVERY = [made for topic in OF_TOPIC for made in files_of(topic)]


def test_tensors_of_one_file_that_could_be_taken_for_each_other_hold_other_bytes() -> None:
    for made in EVERY:
        full = [t for t in (made.content or {"tensors": ()})["tensors"] if t["nbytes"] >= 8]
        assert len({t["sha256"] for t in full}) == len(full), made.name


@pytest.mark.parametrize(("topic", "levels"), [("whole", tensors.LEVELS), ("number", numbers.LEVELS)])
def test_a_level_adds_its_feature_to_a_file(topic: str, levels: dict[str, str]) -> None:
    added = {
        level
        for row, made in zip(ROWS[topic], files_of(topic), strict=True)
        for level in set(row.values()) & set(levels)
        if levels[level] in FEATURES and FEATURES[levels[level]].within(made.data)
    }
    assert added == {level for level, name in levels.items() if name in FEATURES}


def test_files_are_small() -> None:
    assert max(len(made.data) for made in EVERY) <= 1 << 20


def test_the_refusal_of_a_valid_row_is_charged_to_none_of_what_it_combines() -> None:
    book = rule_book().rules
    for topic, model in OF_TOPIC.items():
        about = model.topics[topic]
        first = {about.rules_of(row)[0] for row in ROWS[topic]}
        assert (first == {"FRM-11"}) is (not about.codes), topic
        assert not about.codes or all(book[rule].codes for rule in first), topic
