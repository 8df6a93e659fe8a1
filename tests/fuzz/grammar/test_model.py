"""The tree of a file: lossless for any bytes, and independent copies."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from safetensors_conformance.cli.common import corpus
from safetensors_corpus.features.entries import entries
from safetensors_corpus.features.tree import DEPTH, Arr, Obj, parse
from safetensors_fuzz.grammar.grammar import Grammar

HEADER = b' {"a" : {"dtype":"F32", "shape":[ ],"data_offsets":[0,4]} , "__metadata__":{}}  '


def framed(header: bytes, data: bytes = b"") -> bytes:
    return len(header).to_bytes(8, "little") + header + data


def test_a_file_is_taken_apart() -> None:
    file = parse(framed(HEADER, b"abcd"))
    assert isinstance(file.root, Obj)
    assert [key for key, _ in file.root.members] == [b'"a" ', b' "__metadata__"']
    entry = file.root.members[0][1]
    assert isinstance(entry, Obj)
    assert isinstance(entry.members[1][1], Arr)
    assert (file.padding, file.data, file.length) == (b"  ", b"abcd", None)
    assert file.render() == framed(HEADER, b"abcd")


def test_what_lies_too_deep_stays_one_text() -> None:
    deep = b'[{"]": ' * DEPTH + b"1 " + b"} ]" * DEPTH
    header = b'{"a":{"x":%b,"dtype":"U8","shape":[0],"data_offsets":[0,0]}}' % deep
    file = parse(framed(header))
    assert isinstance(file.root, Obj)
    assert file.header() == header
    (entry,) = entries(file)
    assert [key for key, _ in entry.obj.members] == [b'"x"', b'"dtype"', b'"shape"', b'"data_offsets"']


@given(st.binary(max_size=60), st.binary(max_size=200))
def test_any_bytes_come_back(header: bytes, rest: bytes) -> None:
    for data in (header, framed(header, rest), header + rest):
        assert parse(data).render() == data


@given(
    st.lists(
        st.sampled_from([b"{", b"}", b"[", b"]", b",", b":", b'"', b" ", b"a", b"\\", b"1"]), max_size=40
    )
)
def test_any_tokens_come_back(tokens: list[bytes]) -> None:
    data = framed(b"".join(tokens))
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
