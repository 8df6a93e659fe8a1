"""The tree of a file: lossless for any bytes, and independent copies."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetensors_conformance.cli.common import corpus
from safetensors_corpus.features.entries import entries
from safetensors_corpus.features.tree import DEPTH, Arr, File, Obj, parse, text
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


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"{",
        b"}",
        b'{"a":}',
        b'{"a":1,}',
        b"[1,2,]",
        b"nonsense",
        b'{"a" 1}',
        b"\xef\xbb\xbf{}",
        b"[" * 300,
    ],
)
def test_what_is_no_tree_stays_as_it_is(header: bytes) -> None:
    assert parse(framed(header, b"x")).render() == framed(header, b"x")


def test_what_lies_too_deep_stays_one_text() -> None:
    deep = b'[{"]": ' * DEPTH + b"1 " + b"} ]" * DEPTH
    header = b'{"a":{"x":%b,"dtype":"U8","shape":[0],"data_offsets":[0,0]}}' % deep
    file = parse(framed(header))
    assert isinstance(file.root, Obj)
    assert file.header() == header
    (entry,) = entries(file)
    assert [key for key, _ in entry.obj.members] == [b'"x"', b'"dtype"', b'"shape"', b'"data_offsets"']


def test_junk_before_the_tree_is_no_obstacle() -> None:
    file = parse(framed(b'\xef\xbb\xbf{"a":1}'))
    assert isinstance(file.root, Obj)
    assert file.root.head == b"\xef\xbb\xbf{"


def test_a_length_past_the_end_is_kept() -> None:
    file = parse((99).to_bytes(8, "little") + b'{"a":1}tail')
    assert (file.length, file.data) == (99, b"tail")


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
    files = [c.read_input() for c in corpus(None).reading if not c.heavy and c.size < 66_000]
    assert all(parse(data).render() == data for data in files)
    assert sum(isinstance(parse(data).root, Obj) for data in files) > 1000


@given(st.integers(0, 2**32))
def test_a_copy_shares_nothing(seed: int) -> None:
    grammar = Grammar(random.Random(seed))
    file = grammar.fresh()
    before = file.render()
    twin = file.copy()
    assert twin.render() == before
    grammar.break_one(twin)
    assert file.render() == before


def test_a_tree_is_written_as_it_is() -> None:
    tree = Obj([[b'"a"', Arr([b"1", Obj([])])]], head=b"{ ", foot=b" }")
    assert text(tree) == b'{ "a":[1,{}] }'
    assert File(tree, b"xy", length=3).render() == b"\x03" + bytes(7) + b'{ "a":[1,{}] }xy'
