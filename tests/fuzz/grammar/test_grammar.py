"""The grammar: nothing of the rule and dtype tables is missing, and inputs get as far as they should."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetensors_conformance.cli.common import corpus
from safetensors_corpus.features import FEATURES, vocabulary
from safetensors_corpus.features.tree import DEPTH, Arr, Mutation, Obj, entries, parse
from safetensors_fuzz.engines.campaign import stage_of
from safetensors_fuzz.grammar.faults import FAULTS
from safetensors_fuzz.grammar.grammar import (
    ALLOWED,
    FAULTS_BY_RULE,
    MAX_FAULTS,
    MUTATIONS,
    Grammar,
)
from safetensors_fuzz.plans import PLAN_KINDS
from safetensors_reference import DTYPE_BITS, explain, rule_book
from safetensors_reference.header.explain import Explanation
from safetensors_reference.rules.faults import REPORTED_RULES

from ..samples import raw

FILE_AREAS = ("FRM", "HDR", "ENT", "DTY", "SHP", "OFF", "MET", "DAT", "LIM")
NOT_SHOWN_BY_A_SMALL_FILE = {
    "says how a tool is built": "HDR-20",
    "says what is not defined": "DTY-13",
    "says what a framework without the type does": "DTY-07",
    "is broken by refusing a valid file, and by no file": "FRM-11",
    "says when a check is made, which the step open shows": "OFF-15",
    "values of BOOL are kept to 0 and 1, since other ones are a choice": "DAT-05",
    "says that there is no checksum": "DAT-08",
    "is about memory, time, large files or messages": "DAT-09 LIM-02 LIM-03 LIM-04 LIM-06 LIM-07 LIM-09",
}
"""Why no mutation aims at these rules of the file."""
COUNT = 4_000


@pytest.fixture(scope="module")
def explained() -> list[tuple[tuple[str, ...], Explanation]]:
    grammar = Grammar(random.Random(1))
    files = [grammar.input() for _ in range(COUNT)]
    return [(file.faults, explain(file.render())) for file in files]


def test_every_rule_of_the_file_is_aimed_at() -> None:
    aimed = {rule for mutation in MUTATIONS for rule in mutation.rules}
    aimed |= {f.rule for f in FEATURES.values() if f.put_in and f.rule[:3] in FILE_AREAS}
    rules = {rule for rule in rule_book().rules if rule[:3] in FILE_AREAS}
    assert rules - aimed == set(" ".join(NOT_SHOWN_BY_A_SMALL_FILE.values()).split())
    assert aimed <= rules


def test_every_rule_with_a_fault_code_has_a_fault() -> None:
    coded = {r.id for r in rule_book().rules.values() if r.codes and r.id[:3] in FILE_AREAS}
    # Written otherwise they are other rules' faults, so that only changes which stay valid aim at them.
    shown = {rule for rule in coded if rule not in " ".join(NOT_SHOWN_BY_A_SMALL_FILE.values())}
    assert shown - set(FAULTS_BY_RULE) == {"ENT-10", "ENT-11", "MET-10"}


def test_every_dtype_and_every_step_is_there() -> None:
    assert {d.decode() for d in vocabulary.DTYPES} == set(DTYPE_BITS)
    assert not {d for d in vocabulary.NO_DTYPES if d.decode() in DTYPE_BITS}
    assert set(PLAN_KINDS) == {"slice", "write", "index"}


def test_every_mutation_says_what_it_does() -> None:
    puts_in = {mutation for feature in FEATURES.values() for mutation in feature.put_in}
    for mutation in MUTATIONS:
        assert mutation.change.__doc__
        assert mutation.rules or mutation in puts_in
        assert set(mutation.rules) <= set(rule_book().rules)


@pytest.mark.by_day(8)
@pytest.mark.parametrize("mutation", ALLOWED, ids=lambda m: m.name)
def test_a_variation_keeps_a_valid_file_valid(mutation: Mutation) -> None:
    rng = random.Random(5)
    grammar = Grammar(rng)
    applied = 0
    for _ in range(300):
        file = grammar.fresh()
        applied += mutation.apply(rng, file)
        assert explain(file.render()).valid
    assert applied > 20


@pytest.mark.parametrize("mutation", FAULTS, ids=lambda m: m.name)
def test_a_fault_breaks_files(mutation: Mutation) -> None:
    rng = random.Random(7)
    grammar = Grammar(rng)
    broken = 0
    for _ in range(300):
        file = grammar.fresh()
        broken += mutation.apply(rng, file) and not explain(file.render()).valid
        if broken > 15:
            return
    pytest.fail(f"broke only {broken} of 300 files")


def test_inputs_get_past_json_and_the_schema(explained: list[tuple[tuple[str, ...], Explanation]]) -> None:
    stages = Counter(stage_of({f.code for f in found.faults}) for _, found in explained)
    accepted = sum(found.valid for _, found in explained)
    assert (stages[1] + stages[2]) / COUNT >= 0.75
    assert stages[2] / COUNT >= 0.35
    assert 0.15 <= accepted / COUNT <= 0.30


def test_the_rules_that_the_reader_reports_are_listed_and_broken(
    explained: list[tuple[tuple[str, ...], Explanation]],
) -> None:
    assert {fault.rule for _, found in explained for fault in found.faults} == set(REPORTED_RULES)


def test_no_input_has_more_faults_than_two(explained: list[tuple[tuple[str, ...], Explanation]]) -> None:
    assert max(len(faults) for faults, _ in explained) == MAX_FAULTS
    assert {mutation.name for mutation in MUTATIONS if not mutation.valid} <= {
        name for faults, _ in explained for name in faults
    }


def test_the_same_seed_gives_the_same_inputs() -> None:
    first, second = (Grammar(random.Random(11)) for _ in range(2))
    assert [first.input().render() for _ in range(200)] == [second.input().render() for _ in range(200)]


def test_broken_inputs_can_be_broken_again() -> None:
    """Whatever numbers an earlier fault left behind, the next change neither fails nor makes a huge file."""
    grammar = Grammar(random.Random(13))
    pool = [grammar.input() for _ in range(500)]
    for _ in range(6_000):
        file = grammar.input(pool)
        assert len(file.render()) < 200_000
        pool[grammar.rng.randrange(len(pool))] = file if len(file.render()) < 4096 else grammar.fresh()


FRAMED = raw(' {"a" : {"dtype":"F32", "shape":[ ],"data_offsets":[0,4]} , "__metadata__":{}}  ', b"abcd")


def test_a_file_is_taken_apart() -> None:
    file = parse(FRAMED)
    assert isinstance(file.root, Obj)
    assert [key for key, _ in file.root.members] == [b'"a" ', b' "__metadata__"']
    entry = file.root.members[0][1]
    assert isinstance(entry, Obj)
    assert isinstance(entry.members[1][1], Arr)
    assert (file.padding, file.data, file.length) == (b"  ", b"abcd", None)
    assert file.render() == FRAMED


def test_what_lies_too_deep_stays_one_text() -> None:
    deep = b'[{"]": ' * DEPTH + b"1 " + b"} ]" * DEPTH
    header = b'{"a":{"x":%b,"dtype":"U8","shape":[0],"data_offsets":[0,0]}}' % deep
    file = parse(len(header).to_bytes(8, "little") + header)
    assert isinstance(file.root, Obj)
    assert file.header() == header
    (entry,) = entries(file)
    assert [key for key, _ in entry.obj.members] == [b'"x"', b'"dtype"', b'"shape"', b'"data_offsets"']


@given(st.binary(max_size=60), st.binary(max_size=200))
def test_any_bytes_come_back(header: bytes, rest: bytes) -> None:
    for data in (header, len(header).to_bytes(8, "little") + header + rest, header + rest):
        assert parse(data).render() == data


@given(st.lists(st.sampled_from([bytes([char]) for char in b'{}[],:" a\\1']), max_size=40))
def test_any_tokens_come_back(tokens: list[bytes]) -> None:
    data = len(tokens).to_bytes(8, "little") + b"".join(tokens)
    assert parse(data).render() == data


def test_every_corpus_file_comes_back() -> None:
    files = [c.read_input() for c in corpus(None).reading[::3] if not c.heavy and c.size < 66_000]
    assert all(parse(data).render() == data for data in files)
    assert sum(isinstance(parse(data).root, Obj) for data in files) > 300


@given(st.integers(0, 2**32))
def test_a_copy_shares_nothing(seed: int) -> None:
    grammar = Grammar(random.Random(seed))
    file = grammar.fresh()
    before = file.render()
    twin = file.copy()
    assert twin.render() == before
    grammar.break_one(twin)
    assert file.render() == before
