"""The valid file nearest to one that readers may refuse."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from safetensors_corpus.author.file import FileBuilder
from safetensors_fuzz.grammar.grammar import Grammar
from safetensors_fuzz.loop.cross_check import valid_twin
from safetensors_fuzz.loop.expectation import opinion
from safetensors_reference import explain

WHOLE_PAIR = r'{"__metadata__":{"k":"\\ud800\ud83d\ude01"}}'


def two() -> FileBuilder:
    builder = FileBuilder()
    builder.metadata({"format": "pt"})
    builder.tensor("a", "F32", [2])
    builder.tensor("b", "U8", [3])
    return builder


def raw(header: str, data: bytes = b"") -> bytes:
    text = header.encode()
    return len(text).to_bytes(8, "little") + text + data


def test_of_a_valid_file_it_is_the_file() -> None:
    data = two().render()
    assert valid_twin(data) == data


@pytest.mark.parametrize(
    ("header", "data", "twin"),
    [
        (' {"a":1}', b"", None),
        (' \n{"__metadata__":{}}', b"", '{"__metadata__":{}}'),
        ('{"__metadata__":null}', b"", '{"__metadata__":{}}'),
        ('{"__metadata__":{"\\ud800":"\\udc00x"}}', b"", '{"__metadata__":{"\\u0061":"\\u0061x"}}'),
        (WHOLE_PAIR, b"", WHOLE_PAIR),
        ('{"__metadata__":{"dtype":"F32"}}', b"", '{"__metadata__":{"dtyp_":"F32"}}'),
        ('{"a":{"x":[1],"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"x",
         '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'),
        ('{"a":{"dtype":"U8","shape":[4294967296,0,8589934592],"data_offsets":[0,0]}}', b"",
         '{"a":{"dtype":"U8","shape":[7,0,8],"data_offsets":[0,0]}}'),
        ('{"a":{"dtype":"U16","shape":[0,4294967296,4294967296],"data_offsets":[0,4]}}', b"xxxx",
         '{"a":{"dtype":"U16","shape":[2],"data_offsets":[0,4]}}'),
        ('{"a":{"dtype":"U8","shape":[2,3,1,1,1,1,1,1,1],"data_offsets":[0,6]}}', b"xxxxxx",
         '{"a":{"dtype":"U8","shape":[6,1,1,1,1,1,1,1],"data_offsets":[0,6]}}'),
        ('{"a":{"dtype":{"U8":null},"shape":[1],"data_offsets":[0,1]}}', b"x", None),
    ],
    ids=["broken", "blanks", "null", "half a pair", "a whole pair", "a field", "unknown field", "overflow",
         "overflow over bytes", "rank", "dtype"],
)  # fmt: skip
def test_only_what_the_choice_is_about_changes(header: str, data: bytes, twin: str | None) -> None:
    """The header keeps its length in bytes, so the data stays where it was."""
    made = valid_twin(raw(header, data))
    assert made == (None if twin is None else raw(twin.ljust(len(header)), data))


def test_bytes_of_a_boolean_become_0_and_1_and_others_stay() -> None:
    builder = FileBuilder()
    builder.tensor("a", "BOOL", [3], b"\x00\x02\x03")
    builder.tensor("b", "U8", [2], b"\x02\x03")
    made = valid_twin(builder.render())
    assert made is not None
    assert made.endswith(b"\x00\x00\x01\x02\x03")


def test_nearly_every_input_that_is_open_has_one_that_everybody_must_accept() -> None:
    grammar = Grammar(random.Random(3))
    found: Counter[bool] = Counter()
    for _ in range(1250):
        data = grammar.input().render()
        what = opinion(data)
        if what.required == "open" and "deep-nesting" not in what.choices:
            twin = valid_twin(data)
            if twin is not None:
                assert explain(twin).valid
            found[twin is not None and opinion(twin).required == "accept"] += 1
    assert found[True] > 50
    assert found[False] <= found[True] / 20
