"""The registry of features, compared with readers that look for each feature on their own."""

from __future__ import annotations

import random

import pytest

from safetensors_corpus.features import FEATURES, longer, plainest, within
from safetensors_corpus.features.feature import Feature
from safetensors_corpus.features.header import HEADER
from safetensors_corpus.features.tree import Mutation, parse
from safetensors_fuzz.grammar.grammar import ALLOWED
from safetensors_reference import explain, rule_book

from ..feature_fakes import FAKES, seen, valid_files

NOT_REFUSED = {
    "its padding is HDR-03": "HDR-04",
    "its escapes are HDR-10": "ENT-05",
    "its codes are DTY-05": "DTY-06",
    "long headers come of padding, names, tensors or metadata": "LIM-10",
    "says what metadata must not change": "MET-08",
    "says what bytes mean, or what is not defined": "DAT-01 DAT-02 DAT-03 DTY-08 DTY-11",
    "says what comes back, or how it is held": "DAT-06 DAT-07 DTY-10 DTY-14",
    "every tensor has it": "OFF-05",
    "is about files of gigabytes": "OFF-14",
}
"""Why no feature is charged with these rules that a variation aims at."""
REMOVABLE = [feature for feature in FEATURES.values() if feature.take_out is not None]


def test_every_feature_has_a_fake_of_its_rule() -> None:
    assert {feature.name: feature.rule for feature in REMOVABLE} == {
        name: rule for name, (rule, _) in FAKES.items()
    }


def test_every_rule_that_a_variation_targets_is_the_rule_of_a_feature() -> None:
    charged = {feature.rule for feature in FEATURES.values()}
    targeted = {rule for mutation in ALLOWED for rule in mutation.rules}
    assert targeted - charged == set(" ".join(NOT_REFUSED.values()).split())
    assert charged <= set(rule_book().rules)


def test_the_registry_finds_every_feature_that_a_fake_finds() -> None:
    missed = [
        (feature.name, data)
        for data in valid_files()
        for feature in REMOVABLE
        if FAKES[feature.name][1](seen(data)) and not feature.within(data)
    ]
    assert missed == []


@pytest.mark.parametrize(
    ("feature", "mutation"),
    [(feature, mutation) for feature in FEATURES.values() for mutation in feature.put_in],
    ids=lambda item: item.name,
)
def test_a_mutation_puts_its_feature_in(feature: Feature, mutation: Mutation) -> None:
    rng = random.Random(1)
    for data in valid_files() * 8:
        lacking = feature.without(data) if feature.within(data) else data
        if lacking is None:
            continue
        file = parse(lacking)
        if mutation.apply(rng, file) and feature.within(file.render()):
            return
    pytest.fail("no file gained the feature")


@pytest.mark.by_day(18)
@pytest.mark.parametrize("feature", REMOVABLE, ids=lambda feature: feature.name)
def test_a_file_without_a_feature_is_valid_and_lacks_it(feature: Feature) -> None:
    having = [data for data in valid_files() if feature.within(data)][:12]
    assert having
    variants = [feature.without(data) for data in having]
    assert any(variants)
    for data, variant in zip(having, variants, strict=True):
        if variant is not None:
            assert explain(variant, "hardened").valid
            assert not feature.within(variant)
            assert not FAKES[feature.name][1](seen(variant))
            assert variant != data
            if feature in HEADER:  # only the spelling differs
                old, new = seen(data), seen(variant)
                assert old.data == new.data
                assert old.header.metadata == new.header.metadata
                assert [t[1:] for t in old.header.tensors.values()] == [
                    t[1:] for t in new.header.tensors.values()
                ]


def test_taking_a_feature_out_keeps_the_alignment_of_the_data() -> None:
    for data in valid_files()[::10]:
        for feature in within(data):
            variant = feature.without(data)
            if feature.rule not in ("FRM-08", "OFF-11", "HDR-03") and variant is not None:
                assert len(seen(variant).text) % 8 == len(seen(data).text) % 8


def test_a_longer_file_has_the_same_features() -> None:
    for data in valid_files()[::10]:
        other = longer(data)
        assert len(other) == len(data) + 8
        # A file without a name that can be made longer gets more padding.
        assert {f.rule for f in set(within(other)) - set(within(data))} <= {"HDR-03"}
        assert set(within(data)) <= set(within(other))


def test_the_plainest_file_has_no_feature() -> None:
    for data in valid_files()[::10]:
        left = plainest(data)
        assert within(left) == ()
        assert [name for name, (_, refuses) in FAKES.items() if refuses(seen(left))] == []
