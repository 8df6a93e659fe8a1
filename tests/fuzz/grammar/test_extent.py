"""What the grammar makes of resemblance and extent: that it does, how often, and that it stays affordable."""

from __future__ import annotations

import json
import random
import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from math import prod

import pytest

from benchmarks.fuzzer.measure import measure
from proof.broken.correct.reader import READER
from proof.broken.readers.lists import SKIPS, Unchecked
from proof.planted import Planted
from safetensors_corpus.features.tree import File, Mutation, Obj, entry_tree
from safetensors_corpus.judging.answer import Refused
from safetensors_fuzz.grammar.faults.header import bad_spellings
from safetensors_fuzz.grammar.grammar import ALLOWED, COMPANY, MUTATIONS, RARELY, Grammar
from safetensors_fuzz.loop.question import opinion
from safetensors_fuzz.loop.subjects import content
from safetensors_reference import DTYPE_BITS, explain

from ..feature_fakes import Refuses, Seen, seen

COUNT = 4_000
RARE = (
    "header-of-many-pages", "hundreds-of-tensors", "large-tensor", "rank-beyond-eight", "text-across-page",
)  # fmt: skip


@pytest.fixture(scope="module")
def files() -> list[Seen]:
    grammar = Grammar(random.Random(17))
    return [seen(grammar.fresh().render()) for _ in range(COUNT)]


def test_fresh_files_have_every_dtype(files: list[Seen]) -> None:
    assert {t.dtype for made in files for t in made.tensors} == set(DTYPE_BITS)


def fewer(how: Callable[[str], str]) -> Refuses:
    return lambda m: len(set(map(how, m.names))) < len(m.names)


def shape(holds: Callable[[tuple[int, ...]], object]) -> Refuses:
    return lambda m: any(holds(t.shape) for t in m.tensors)


def prefix(m: Seen) -> bool:
    return any(a and a != b and b.startswith(a) for a in m.names[:9] for b in m.names[:9])


PROPERTIES: dict[str, tuple[Refuses, float, float]] = {
    "two names of one normal form": (fewer(lambda n: unicodedata.normalize("NFKC", n)), 0.003, 0.03),
    "two names but for case": (fewer(str.casefold), 0.002, 0.03),
    "a name that begins with another": (prefix, 0.01, 0.1),
    "names alike in 15 characters": (fewer(lambda n: n[:15]), 0.001, 0.03),
    "a metadata key that names a tensor": (lambda m: set(m.names) & set(m.metadata), 0.005, 0.05),
    "a dimension beyond 2^53": (shape(lambda s: max(s, default=0) > 2**53), 0.007, 0.05),
    "a dimension beyond 2^53 beside a zero": (shape(lambda s: 0 in s and max(s) > 2**53), 0.007, 0.05),
    "a header text of 512 bytes, or with the length before it": (
        lambda m: len(m.text) in (504, 512) and m.text.endswith(b"}"), 0.003, 0.03),
    "a header of 65,535 bytes or more": (lambda m: len(m.text) >= 65_535, 0.0002, 0.004),
    "a header of 99,992 bytes or more": (lambda m: len(m.text) >= 99_992, 0.0002, 0.004),
    "a tensor of 65,535 bytes or more": (
        lambda m: any(t.end - t.begin >= 65_535 for t in m.tensors), 0.0002, 0.004),
    "more than 255 tensors": (lambda m: len(m.names) > 255, 0.0002, 0.004),
    "more than eight dimensions": (shape(lambda s: len(s) > 8), 0.0002, 0.004),
    "a text of 64 characters or more": (
        lambda m: any(len(n) >= 64 for n in (*m.names, *m.metadata)), 0.02, 0.2),
    "an empty metadata map": (lambda m: m.header.metadata == {}, 0.03, 0.15),
}  # fmt: skip
"""What to look for, and the least and the greatest part of valid files that are to have it."""


@pytest.mark.parametrize("words", PROPERTIES)
def test_the_grammar_makes_it_and_not_too_often(words: str, files: list[Seen]) -> None:
    holds, least, most = PROPERTIES[words]
    share = sum(bool(holds(made)) for made in files) / COUNT
    assert least <= share <= most


def test_the_expected_content_is_what_another_reader_sees(files: list[Seen]) -> None:
    """The small reader shares neither code nor tables with the strict one."""
    special = [m for m in files if any(PROPERTIES[w][0](m) for w in PROPERTIES)][:300]
    assert len(special) == 300
    for made in special:
        other, expected = READER.content(made.file), content(made.file, made.header)
        assert other["tensors"] == expected["tensors"]
        assert (other["metadata"] or {}) == (expected["metadata"] or {})
        assert opinion(made.file, "hardened").required == "accept"


def test_what_takes_long_comes_up_rarely() -> None:
    often = Counter(mutation.name for mutation in COMPANY)
    assert {name for name, count in often.items() if count == 1} == set(RARE)
    assert {count for name, count in often.items() if name not in RARE} == {RARELY}
    assert set(often) == {mutation.name for mutation in ALLOWED}


def test_inputs_stay_small_in_all_but_a_few_cases(files: list[Seen]) -> None:
    sizes = [len(made.file) for made in files]
    assert sum(size > 8192 for size in sizes) / COUNT < 0.01
    assert max(sizes) < 200_000


def named(name: str) -> Mutation:
    return next(mutation for mutation in MUTATIONS if mutation.name == name)


def one_tensor() -> File:
    return File(Obj([[b'"a"', entry_tree(b"U8", [2, 6], 0, 12)]]), bytes(12))


def test_numbers_are_spelled_with_digits_of_other_scripts_and_zeros_in_front() -> None:
    """They have the value of the number, so that who reads them sees nothing wrong."""
    texts = [text.decode() for text in bad_spellings(6)]
    foreign = [text for text in texts if text.isdigit() and not text.isascii()]
    assert len(foreign) >= 4
    assert {unicodedata.digit(text) for text in foreign} == {6}
    rng, found = random.Random(1), Counter[str]()
    for _ in range(400):
        file = one_tensor()
        assert named("number-spelled-badly").apply(rng, file)
        data = file.render()
        assert {fault.rule for fault in explain(data).faults} & {"HDR-01", "HDR-07"}
        with pytest.raises(Refused):
            READER.content(data)
        text = file.header().decode()
        found["zeros"] += bool(re.search(r",0+[0-9]", text))
        found["foreign"] += any(char.isdigit() and not char.isascii() for char in text)
    assert min(found["zeros"], found["foreign"]) > 20


def test_small_dimensions_wrap_at_32_bits_to_the_right_number() -> None:
    rng, found = random.Random(1), 0
    for _ in range(900):
        file = one_tensor()
        named("shape-wraps-at-32-bits").apply(rng, file)
        shape = json.loads(file.header())["a"]["shape"]
        total = prod(shape)
        assert total != 12
        found += max(shape) < 65536 and total % 2**32 == 12
    assert found > 5


@pytest.mark.parametrize("name", ["near-twin", "near-keys", "long-text"])
def test_what_is_put_in_does_not_replace_what_was_there(name: str) -> None:
    """A changed file has the tensors of before, with the bytes and shapes of before, and perhaps one more."""
    rng, changed = random.Random(2), 0
    for _ in range(200):
        file = one_tensor()
        changed += named(name).apply(rng, file)
        header = explain(file.render()).header
        assert header is not None
        rows = [(tensor.dtype, tuple(tensor.shape), tensor.begin) for tensor in header.tensors.values()]
        assert ("U8", (2, 6), 0) in rows
        assert len(rows) <= 2
    assert changed > 100


@pytest.mark.by_day(1)
@pytest.mark.parametrize("name", ["from-65", "257th"])
def test_a_run_finds_a_reader_that_does_not_check_a_whole_list(name: str) -> None:
    planted = Planted(name, SKIPS[name][0], "read", lambda _: Unchecked(skips=SKIPS[name][1]), ("OFF-07",))
    assert measure(planted, "outcome", 1, 40_000).detected
