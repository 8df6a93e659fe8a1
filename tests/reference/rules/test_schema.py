"""The JSON Schema of the header: right in what it says, and shown to be silent on what it cannot say."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from safetensors_corpus import load_manifest
from safetensors_reference import DTYPE_BITS, explain, rule_book
from safetensors_reference.rules.pages import SCHEMA_CODES, header_schema

from ..strategies import FEWER
from ..support import make

SCHEMA = header_schema()
VALIDATOR = Draft202012Validator(SCHEMA)
CASES = {case.id: case for case in load_manifest().reading}


NOTHING = object()


def lenient(data: bytes) -> Any:
    """What a forgiving program makes of the header: a schema never sees the bytes, only a value like this.

    Bytes that are not UTF-8 are replaced, a byte-order mark, whitespace in front and anything behind the
    first value are ignored. NOTHING when even that gives no value.
    """
    length = int.from_bytes(data[:8], "little")
    text = data[8 : 8 + length].decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    try:
        return json.JSONDecoder(parse_constant=_refuse, parse_int=_integer).raw_decode(text)[0]
    except (ValueError, RecursionError):
        return NOTHING


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _integer(digits: str) -> int:
    # Python refuses to convert and to print longer numbers; here it only matters that they are huge.
    return int(digits) if len(digits) < 100 else 10**100


def codes(data: bytes) -> set[str]:
    return {fault.code for fault in explain(data).faults}


def test_the_schema_is_a_schema_and_speaks_the_words_of_the_rule_book() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    definitions: Any = SCHEMA["$defs"]
    assert definitions["dtype"]["enum"] == list(DTYPE_BITS)
    assert rule_book().rules["OFF-01"].statement in definitions["data_offsets"]["description"]
    assert set(SCHEMA_CODES) <= set(rule_book().codes)


SPELLINGS = {
    *(case for case in CASES if case.startswith("surroundings/begin-minus-zero-")),
    "shape/number-spelled-exponent-shift",
    "shape/number-spelled-exponent-upper-case",
    "shape/number-spelled-exponent-zero",
    "shape/number-spelled-minus-zero",
    "shape/minus-zero-beside-escaped-minus",
    "shape/number-spelled-point-zero",
    "shape/number-spelled-point-zero-in-last-place",
    "layout/offset-spelled-exponent",
    "layout/offset-spelled-minus-zero",
    "layout/offset-spelled-point-zero",
    "layout/offset-spelled-point-zero-first",
    *(
        f"shape/spelling-{slug}"
        for slug in (
            "2p53-point-zero", "exponent-plus", "minus-zero-last", "minus-zero-point-zero", "nearly-two",
            "point-and-many-zeros", "point-zero-and-exponent", "point-zero-first", "point-zero-middle",
            "zero-to-a-large-power", "zero-to-a-power",
        )
    ),
    *(
        f"layout/offset-number-{slug}"
        for slug in (
            "begin-minus-zero-point", "begin-zero-exponent", "end-exponent-minus", "end-exponent-plus",
            "end-many-zeros", "end-nearly-eight",
        )
    ),
    *(f"shape/many-and-a-fault-{slug}" for slug in ("exponent", "minus-zero", "one-point-zero")),
    *(
        f"layout/offset-number-in-one-of-three-{end}-{place}"
        for end in ("begin", "end")
        for place in ("first", "middle", "last")
    ),
    "header/offsets-of-empty-tensor-minus-zero",
}  # fmt: skip
"""Integers to a schema, since they have an integral value; to the format only digits are."""

HIDDEN_BY_A_DUPLICATE = {
    "metadata/reserved-key-twice-null-first",
    "metadata/key-twice-first-a-number",
    *(f"entry/no-entry-and-then-again-{slug}" for slug in ("null", "number", "string")),
    *(f"header/field-twice-and-first-empty-{slug}" for slug in ("dtype", "shape-null", "offsets")),
    *(f"header/name-twice-and-first-empty-{slug}" for slug in ("null", "object")),
}
"""The parser keeps the last value, so the schema never sees the first one, which is at fault."""


@cache
def judged(case_id: str) -> tuple[bool | None, frozenset[str]]:
    """Whether the schema takes the header of a case, None where it is no JSON; and what the reader says."""
    data = CASES[case_id].read_input()
    value = lenient(data)
    return (None if value is NOTHING else VALIDATOR.is_valid(value)), frozenset(codes(data))


@pytest.mark.parametrize("step", [6, pytest.param(1, marks=pytest.mark.nightly)])
def test_schema_and_reader_agree_over_the_corpus(step: int) -> None:
    known = SPELLINGS | HIDDEN_BY_A_DUPLICATE
    chosen = {*list(CASES)[::step], *known}
    answers = {case_id: judged(case_id) for case_id in chosen}
    compared = {case_id: answer for case_id, answer in answers.items() if answer[0] is not None}
    assert len(compared) > 600
    assert {i for i, (valid, said) in compared.items() if valid is bool(said & set(SCHEMA_CODES))} == known


def test_what_must_be_accepted_is_accepted() -> None:
    accepted = [c for c in CASES.values() if c.expect is not None and c.expect.outcome == "accept"]
    assert len(accepted) > 100
    for case in accepted:
        assert judged(case.id)[0], case.id


@pytest.mark.parametrize("code", SCHEMA_CODES)
def test_each_code_of_the_schema_is_met_in_the_corpus(code: str) -> None:
    """Alone in its file, so that the refusal can have no other reason."""
    alone = 0
    for case in CASES.values():
        expectations = [case.expect, *case.options.values()]
        if case.id in SPELLINGS or not any(e is not None and code in e.codes for e in expectations):
            continue
        valid, said = judged(case.id)
        if valid is not None and said == {code}:
            assert not valid, case.id
            alone += 1
    assert alone


SILENT = [
    # what, case, the fault that the schema cannot see
    ("a tensor name twice", "header/name-twice-adjacent", "HDR_DUP_KEY"),
    ("a field twice", "header/field-twice-shape-same", "HDR_DUP_KEY"),
    ("a metadata key twice", "metadata/map-key-twice-differs", "HDR_DUP_KEY"),
    ("the metadata twice", "metadata/reserved-key-twice-same", "HDR_DUP_KEY"),
    ("a dimension spelled 1.0", "shape/number-spelled-point-zero", "ENT_BAD_INTEGER"),
    ("a dimension spelled -0", "shape/number-spelled-minus-zero", "ENT_BAD_INTEGER"),
    ("an offset spelled with an exponent", "layout/offset-spelled-exponent", "ENT_BAD_INTEGER"),
    ("a hole", "layout/hole-between-two", "OFF_HOLE"),
    ("a hole in front", "layout/hole-before-first", "OFF_HOLE"),
    ("an overlap", "layout/overlap-first-two-1-byte", "OFF_OVERLAP"),
    ("one range for two", "layout/range-of-another-whole", "OFF_OVERLAP"),
    ("a reversed range", "layout/offsets-swapped-first", "OFF_REVERSED"),
    ("a range beyond the file", "layout/data-lacks-1-byte", "OFF_OUT_OF_BOUNDS"),
    ("bytes behind the last tensor", "layout/trailing-4-bytes", "OFF_TRAILING"),
    ("a size that does not match", "dtype/one-byte-less-f32", "OFF_SIZE_MISMATCH"),
    ("part of a byte", "dtype/part-of-a-byte-f4-1-rounded-up", "DTY_SUBBYTE"),
    ("a product beyond 64 bits", "shape/product-wraps-to-zero", "SHP_OVERFLOW"),
    ("another first byte", "header/leading-whitespace-space", "HDR_BAD_START"),
    ("a byte-order mark", "header/leading-character-byte-order-mark", "HDR_BAD_START"),
    ("padding that is not spaces", "header/trailing-character-nul", "HDR_BAD_PADDING"),
    ("a second object", "header/trailing-character-object", "HDR_BAD_PADDING"),
    ("bytes that are not UTF-8", "header/name-bytes-ff", "HDR_NOT_UTF8"),
    ("an overlong form", "header/name-bytes-overlong-slash", "HDR_NOT_UTF8"),
    ("half a surrogate pair", "header/escape-text-high-surrogate", "HDR_NOT_JSON"),
    ("a length beyond the file", "framing/length-one-past-end", "FRM_HEADER_PAST_EOF"),
    ("a length over the cap", "framing/length-over-cap-100000001", "FRM_HEADER_OVER_LIMIT"),
]


@pytest.mark.parametrize(("case_id", "code"), [pytest.param(c, f, id=w) for w, c, f in SILENT])
def test_a_schema_cannot_see(case_id: str, code: str) -> None:
    data = CASES[case_id].read_input()
    assert codes(data) == {code}
    assert VALIDATOR.is_valid(lenient(data))


def scalars() -> st.SearchStrategy[Any]:
    near = st.sampled_from([0, 1, 2, -1, 2**63, 2**64 - 1, 2**64, -(2**64)])
    fractions = st.sampled_from([0.5, -1.25, 1e-3])
    return near | fractions | st.booleans() | st.none() | st.sampled_from(["", "U8", "u8", "F32", "F4", "0"])


def arrays() -> st.SearchStrategy[Any]:
    return st.lists(scalars() | st.just([]) | st.just({}), max_size=4) | st.lists(st.just(0), max_size=3)


def wild() -> st.SearchStrategy[Any]:
    return scalars() | arrays() | st.dictionaries(st.sampled_from(["U8", "x"]), scalars(), max_size=2)


def entries() -> st.SearchStrategy[Any]:
    right = {
        "dtype": st.sampled_from(list(DTYPE_BITS)),
        "shape": st.lists(st.sampled_from([0, 1, 2, 2**64 - 1]), max_size=3),
        "data_offsets": st.lists(st.sampled_from([0, 1, 8, 2**64 - 1]), min_size=2, max_size=2),
    }
    sound = st.fixed_dictionaries(right)
    fields = {name: strategy | wild() for name, strategy in right.items()}
    damaged = st.fixed_dictionaries({}, optional={**fields, "offsets": wild(), "Dtype": wild()})
    mixed = st.fixed_dictionaries({}, optional=fields)
    by_place = st.tuples(*right.values()).map(list)
    return sound | mixed | damaged | by_place | wild()


def headers() -> st.SearchStrategy[Any]:
    metadata = (
        st.dictionaries(st.sampled_from(["", "a", "dtype"]), st.just("x") | wild(), max_size=2) | wild()
    )
    names = st.sampled_from(["", "w", "__METADATA__", "__metadata___", "é"])
    return st.tuples(st.dictionaries(names, entries(), max_size=2), st.none() | st.tuples(metadata)).map(
        lambda pair: pair[0] if pair[1] is None else {**pair[0], "__metadata__": pair[1][0]}
    )


@FEWER
@given(headers() | wild())
def test_schema_and_reader_agree_on_any_value_spelled_plainly(value: Any) -> None:
    """Keys are unique and numbers are spelled plainly here, so the schema sees all that the reader sees."""
    refused = codes(make(json.dumps(value))) & set(SCHEMA_CODES)
    assert VALIDATOR.is_valid(value) is not bool(refused), refused
