"""Making inputs smaller."""

from __future__ import annotations

import random
from math import prod
from statistics import median

import pytest

from safetensors_corpus.author.file import FileBuilder
from safetensors_corpus.features.tree import entries, parse, shift
from safetensors_corpus.features.vocabulary import BITS
from safetensors_fuzz.grammar.grammar import Grammar
from safetensors_fuzz.loop.shrink import shrink
from safetensors_reference import explain

from ..samples import built


def codes(data: bytes) -> set[str]:
    return {fault.rule for fault in explain(data).faults}


def test_a_hole_is_shown_by_one_tensor() -> None:
    builder = built(*((name, "F64", [3, 4]) for name in "abc"), metadata={"format": "pt", "more": "text"})
    builder.gap(16)
    builder.tensor("late", "I16", [5, 5])
    small = shrink(builder.render(), lambda data: codes(data) == {"OFF-07"}, seconds=20)
    assert codes(small) == {"OFF-07"}
    assert len(small) < 75


def test_shape_and_bytes_of_an_unknown_dtype_shrink_together() -> None:
    builder = FileBuilder()
    builder.tensor("x", "F32", [7, 3, 2], fields={"dtype": '"F33"'})
    builder.tensor("y", "F32", [2])

    def taken_for_four_bytes(data: bytes) -> bool:
        found = [e for e in entries(parse(data)) if e.dtype not in BITS]
        sizes = any(prod(e.shape) * 4 == e.end - e.begin > 0 for e in found)
        return sizes and codes(data) == {"DTY-01"}

    small = shrink(builder.render(), taken_for_four_bytes, seconds=20)
    assert taken_for_four_bytes(small)
    assert len(small) < 70


def test_no_range_ends_below_zero_when_bytes_before_it_go() -> None:
    builder = FileBuilder()
    builder.tensor("a", "U8", [8], begin=12, end=4)
    file = parse(builder.render())
    shift(file, 8, -8)
    assert [(e.begin, e.end) for e in entries(file)] == [(8, 0)]


def test_the_number_of_tries_is_bounded() -> None:
    tried: list[bytes] = []
    shrink(Grammar(random.Random(1)).fresh().render(), lambda data: not tried.append(data), tries=17)  # type: ignore[func-returns-value]
    assert len(tried) <= 17


def test_most_inputs_shrink_to_a_hundred_bytes() -> None:
    grammar = Grammar(random.Random(1))
    sizes: list[int] = []
    while len(sizes) < 40:
        data = grammar.input().render()
        found = codes(data)
        if len(found) == 1 and len(data) < 4096:
            small = shrink(data, lambda other, found=found: codes(other) == found, tries=600, seconds=20)  # type: ignore[misc]
            assert codes(small) == found
            assert len(small) <= len(data)
            sizes.append(len(small))
    assert median(sizes) <= 100


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_range_that_runs_backwards_shrinks_alone_beside_two_others(place: int) -> None:
    """Its size is right only where subtraction wraps at 64 bits, so shape and range cannot shrink apart."""
    builder = FileBuilder()
    for at, name in enumerate(("aa", "bb", "cc")):
        if at == place:
            builder.tensor(name, "U8", [2**64 - 8], b"", begin=12, end=4)
        else:
            builder.tensor(name, "F32", [2])
    data = builder.render()

    def wraps(other: bytes) -> bool:
        found = [e for e in entries(parse(other)) if e.begin > e.end]
        return "OFF-03" in codes(other) and any((e.end - e.begin) % 2**64 == prod(e.shape) for e in found)

    assert wraps(data)
    small = shrink(data, wraps, seconds=20)
    assert wraps(small)
    assert len(entries(parse(small))) == 1
    assert len(small) < 114
