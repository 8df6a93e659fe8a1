"""Mutations: repeatable, never failing, and true to what they say about the length prefix."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetensors_fuzz.mutate import INTERESTING, MUTATIONS, mutant, number, prefix, repeat, tail
from safetensors_reference import explain

from ..reference.support import ABCD, W, make

Mutation = Callable[[random.Random, bytearray], None]
BASE = make(f'{{"__metadata__":{{"k":"v"}},"w":{W}}}', ABCD)
WITHOUT_NUMBERS = make('{"__metadata__":{"k":"v"}}', b"1234567890")
by_name = pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.__name__)


def mutated(mutation: Mutation, data: bytes, seed: int) -> bytes:
    out = bytearray(data)
    mutation(random.Random(seed), out)
    return bytes(out)


def length(data: bytes) -> int:
    return int.from_bytes(data[:8], "little")


@given(st.sampled_from(MUTATIONS), st.binary(max_size=40), st.integers(0, 2**32))
def test_no_input_makes_a_mutation_fail(mutation: Mutation, data: bytes, seed: int) -> None:
    """The loop feeds mutations with mutated files, so even the prefix may be missing."""
    mutated(mutation, data, seed)


@given(st.sampled_from(MUTATIONS), st.integers(0, 2**32))
def test_the_same_seed_gives_the_same_bytes(mutation: Mutation, seed: int) -> None:
    assert mutated(mutation, BASE, seed) == mutated(mutation, BASE, seed)


@by_name
def test_a_mutation_nearly_always_changes_an_ordinary_file(mutation: Mutation) -> None:
    changed = sum(mutated(mutation, BASE, seed) != BASE for seed in range(200))
    assert changed > 150


@by_name
def test_a_mutation_makes_many_different_files(mutation: Mutation) -> None:
    assert len({mutated(mutation, BASE, seed) for seed in range(200)}) > 10


@given(st.integers(0, 2**32))
def test_changing_a_number_keeps_the_length_prefix_true(seed: int) -> None:
    base = make(f'{{"w":{W}}}')
    out = mutated(number, base, seed)
    assert length(out) == len(out) - 8
    assert out[8:].replace(b"0", b"").isascii()


@given(st.integers(0, 2**32))
def test_repeating_a_stretch_keeps_the_length_prefix_true_and_makes_the_header_longer(seed: int) -> None:
    base = make(f'{{"w":{W}}}', ABCD)
    out = mutated(repeat, base, seed)
    assert length(out) - length(base) == len(out) - len(base) > 0
    assert out.endswith(ABCD)


@given(st.integers(0, 2**32))
def test_the_prefix_alone_is_changed(seed: int) -> None:
    out = mutated(prefix, BASE, seed)
    assert out[8:] == BASE[8:]
    assert length(out) in (*INTERESTING, length(BASE) + 1, length(BASE) - 1)


@given(st.integers(0, 2**32))
def test_the_tail_is_cut_or_grows_and_nothing_else_changes(seed: int) -> None:
    out = mutated(tail, BASE, seed)
    assert out.startswith(BASE) or BASE.startswith(out)
    assert 1 <= abs(len(out) - len(BASE)) <= 16


def test_only_numbers_of_the_header_are_changed() -> None:
    for seed in range(50):
        assert mutated(number, WITHOUT_NUMBERS, seed) == WITHOUT_NUMBERS


@given(st.integers(0, 2**32))
def test_a_mutant_is_repeatable(seed: int) -> None:
    bases = [BASE, WITHOUT_NUMBERS, b""]
    assert mutant(random.Random(seed), bases) == mutant(random.Random(seed), bases)


def test_mutants_reach_both_verdicts_and_many_codes() -> None:
    rng = random.Random(7)
    explanations = [explain(mutant(rng, [BASE])) for _ in range(1000)]
    assert any(e.valid for e in explanations)
    codes = {f.code for e in explanations for f in e.faults}
    assert len(codes) >= 15, codes
