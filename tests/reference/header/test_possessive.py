"""Possessive groups on every Python 3.11: the atomic form of a pattern matches what it matches."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetensors_reference import explain
from safetensors_reference.header import json_text
from safetensors_reference.header.possessive import SOUND, atomic, possessive

INTEGERS = rb"\[%b(?:,%b)*+\]" % (json_text._SHORT_INTEGER, json_text._SHORT_INTEGER)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (rb"(?:a|b)*+c", rb"(?>(?:a|b)*)c"),
        (rb"(?:a(?:b)?+)++", rb"(?>(?:a(?>(?:b)?))+)"),
        (rb"a*+[)(*+]?+\)*+", rb"a*+[)(*+]?+\)*+"),
        (rb"([]{}[:)]*+|[^])]\])x", rb"([]{}[:)]*+|[^])]\])x"),
        (rb"(?:[^\]\\)]|\)*+)*", rb"(?:[^\]\\)]|\)*+)*"),
    ],
)
def test_possessive_groups_become_atomic_ones(pattern: bytes, expected: bytes) -> None:
    assert atomic(pattern) == expected
    re.compile(expected)


def test_a_sound_python_keeps_its_patterns() -> None:
    assert possessive(re.compile(INTEGERS)).pattern == (INTEGERS if SOUND else atomic(INTEGERS))


@given(st.lists(st.sampled_from([b"0", b"1", b"12", b",", b" ", b"]", b"x", b"-"]), max_size=9).map(b"".join))
def test_both_forms_match_lists_of_integers_alone(body: bytes) -> None:
    text = b"[" + body + b"]"
    plain = re.fullmatch(rb"\[ *(?:0|[1-9][0-9]*) *(?:, *(?:0|[1-9][0-9]*) *)*\]", text) is not None
    assert (re.fullmatch(atomic(INTEGERS), text) is not None) is plain
    assert (possessive(re.compile(INTEGERS)).fullmatch(text) is not None) is plain


@pytest.mark.parametrize("shape", [b"[1,]", b"[1,1,]", b"[%b]" % (b"1," * 300)])
def test_a_list_that_ends_with_a_comma_is_no_json(shape: bytes) -> None:
    header = b'{"w":{"dtype":"U8","shape":%b,"data_offsets":[0,1]}}' % shape
    found = explain(len(header).to_bytes(8, "little") + header + b"\0")
    assert [fault.code for fault in found.faults][:1] == ["HDR_NOT_JSON"]
