"""The covering sets: rows, the files that they describe, and what readers find in the files."""

from __future__ import annotations

from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetensors_cases.surroundings import numbers, tensors
from safetensors_cases.surroundings.covered import case_of
from safetensors_cases.surroundings.lists import LISTS
from safetensors_cases.surroundings.model import Model, Property, Topic, excludes
from safetensors_cases.surroundings.sets import MODELS, rows, topics
from safetensors_corpus.author.file import FileBuilder
from safetensors_corpus.features import FEATURES
from safetensors_reference import rule_book

OF_TOPIC = topics()
ROWS = rows()
SMALL = Model(
    "small",
    {
        "a": Property("a", {"a0": "", "a1": "one of a", "a2": "two of a"}, ("a0", "a1")),
        "b": Property("b", {"b0": "", "b1": "one of b"}),
        "c": Property("c", {"c0": "", "c1": "one of c"}),
    },
    [excludes("they cannot meet", a="a1", b="b1"), excludes("c needs b", b="b0", c="c1")],
    {
        "whole": Topic("whole", lambda _row, _file: None, "FRM-01"),
        "part": Topic("part", lambda _row, _file: None, "FRM-01", "FRM_TOO_SHORT"),
    },
)


@pytest.mark.parametrize("topic", ["whole", "part"])
def test_feasible_pairs_are_those_of_all_permitted_rows(topic: str) -> None:
    domain = SMALL.levels(topic)
    every = (dict(zip(domain, chosen, strict=True)) for chosen in product(*domain.values()))
    expected = SMALL.covered(topic, [row for row in every if SMALL.permitted(row)])
    assert SMALL.feasible(topic) == expected
    # c1 needs b1, which a1 forbids: no exclusion names this pair by itself.
    assert ("a1", "c1") not in expected
    assert (("a2", "c1") in expected) == (topic == "whole")


def test_the_missing_pairs_of_a_topic_are_few_and_excluded() -> None:
    for topic, model in OF_TOPIC.items():
        domain = model.levels(topic)
        every = {(a, b) for left, right in combinations(domain.values(), 2) for a, b in product(left, right)}
        assert all(row[name] in levels for row in ROWS[topic] for name, levels in domain.items()), topic
        missing = every - model.covered(topic, ROWS[topic])
        named = {name for exclusion in model.exclusions for name in exclusion.properties}
        of = {level: name for name, levels in domain.items() for level in levels}
        assert all(of[a] in named and of[b] in named for a, b in missing), topic
        assert len(missing) < len(every) / 10, topic


def test_lists_have_every_count_position_and_order_around_some_fault() -> None:
    names = ("count", "at", "order")
    faults = [topic for topic, about in LISTS.topics.items() if about.codes]
    have = {tuple(row[name] for name in names) for topic in faults for row in ROWS[topic]}
    usual = {name: prop.usual for name, prop in LISTS.properties.items()}
    domain = (LISTS.properties[name].around_faults or LISTS.properties[name].levels for name in names)
    every = set(product(*domain))
    every = {row for row in every if LISTS.permitted(usual | dict(zip(names, row, strict=True)))}
    assert len(every) > 100
    assert every - have == set()


def test_long_lists_have_every_fault_at_every_position() -> None:
    for count, topic in product(("n100", "n1024"), LISTS.topics):
        if topic != "list":
            around = [row for row in ROWS[topic] if row["count"] == count]
            # The first tensor cannot share a byte with a previous one.
            places = {"second", "middle", "nextlast", "last"} | (
                {"first"} if topic != "list-overlap" else set()
            )
            assert {row["at"] for row in around} == places, (topic, count)
            assert {row["order"] for row in around} == {"ordered", "halves"}, (topic, count)


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
        ("whole r0-void", "the levels are mutually exclusive"),
    ],
)
def test_a_line_that_names_no_row_is_an_error(line: str, why: str) -> None:
    with pytest.raises(ValueError, match=rf"covering\.txt:2: .*{why}"):
        rows(f"whole usual\n{line}\n")


def test_broken_rules_are_a_must() -> None:
    book = rule_book()
    for topic, model in OF_TOPIC.items():
        about = model.topics[topic]
        first = {about.rules_of(row)[0] for row in ROWS[topic]}
        # The rejection of a valid row does not show which of the combined features the reader lacks.
        assert (first == {"FRM-11"}) is (not about.codes), topic
        if about.codes:
            assert all(book.rules[rule].codes and book.rules[rule].level == "must" for rule in first), topic


@pytest.mark.parametrize(("topic", "levels"), [("whole", tensors.LEVELS), ("number", numbers.LEVELS)])
def test_a_level_adds_its_feature_to_a_file(topic: str, levels: dict[str, str]) -> None:
    left = {level: FEATURES[name] for level, name in levels.items() if name in FEATURES}
    for row in ROWS[topic]:
        if new := set(row.values()) & left.keys():
            case, builder = case_of(OF_TOPIC[topic], topic, row), FileBuilder()
            case.body(builder, *case.arguments)
            for level in new:
                if left[level].within(builder.render()):
                    del left[level]
    assert not left
