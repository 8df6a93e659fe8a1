"""The JSON Schema of the header: right in what it says, and shown to be silent on what it cannot say."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from safetensors_corpus import load_manifest
from safetensors_reference import DTYPE_BITS, explain, rule_book
from safetensors_reference.rules.pages import header_schema

from ..strategies import FEWER
from ..support import make

SCHEMA = header_schema()
VALIDATOR = Draft202012Validator(SCHEMA)
CASES = {case.id: case for case in load_manifest().reading}


SCHEMA_CODES = (
    "HDR_NOT_OBJECT",
    "ENT_NOT_OBJECT",
    "ENT_MISSING_FIELD",
    "ENT_UNKNOWN_FIELD",
    "ENT_BAD_INTEGER",
    "DTY_BAD_TYPE",
    "DTY_UNKNOWN",
    "SHP_BAD_TYPE",
    "OFF_BAD_PAIR",
    "MET_NOT_MAP",
    "MET_VALUE_NOT_STRING",
)
"""Fault codes that the schema detects. It rejects a parsed header if and only if the header has one of these
faults.

There are two exceptions. For ENT_BAD_INTEGER, the schema checks values but not their spelling (1.0 and -0 are
integers to a schema). Unlike a reader, the schema does not limit the nesting depth.
"""
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


def judged(case_id: str) -> tuple[bool | None, frozenset[str]]:
    """Whether the schema takes the header of a case, None where it is no JSON; and what the reader says."""
    data = CASES[case_id].read_input()
    value = lenient(data)
    return (None if value is NOTHING else VALIDATOR.is_valid(value)), frozenset(codes(data))


SILENT = {
    "header/name-twice-adjacent": "HDR_DUP_KEY",
    "header/field-twice-shape-same": "HDR_DUP_KEY",
    "metadata/map-key-twice-differs": "HDR_DUP_KEY",
    "metadata/reserved-key-twice-same": "HDR_DUP_KEY",
    "shape/number-spelled-point-zero": "ENT_BAD_INTEGER",
    "shape/number-spelled-minus-zero": "ENT_BAD_INTEGER",
    "layout/offset-spelled-exponent": "ENT_BAD_INTEGER",
    "layout/hole-between-two": "OFF_HOLE",
    "layout/hole-before-first": "OFF_HOLE",
    "layout/overlap-first-two-1-byte": "OFF_OVERLAP",
    "layout/range-of-another-whole": "OFF_OVERLAP",
    "layout/offsets-swapped-first": "OFF_REVERSED",
    "layout/data-lacks-1-byte": "OFF_OUT_OF_BOUNDS",
    "layout/trailing-4-bytes": "OFF_TRAILING",
    "dtype/one-byte-less-f32": "OFF_SIZE_MISMATCH",
    "dtype/part-of-a-byte-f4-1-rounded-up": "DTY_SUBBYTE",
    "shape/product-wraps-to-zero": "SHP_OVERFLOW",
    "header/leading-whitespace-space": "HDR_BAD_START",
    "header/leading-character-byte-order-mark": "HDR_BAD_START",
    "header/trailing-character-nul": "HDR_BAD_PADDING",
    "header/trailing-character-object": "HDR_BAD_PADDING",
    "header/name-bytes-ff": "HDR_NOT_UTF8",
    "header/name-bytes-overlong-slash": "HDR_NOT_UTF8",
    "header/escape-text-high-surrogate": "HDR_NOT_JSON",
    "framing/length-one-past-end": "FRM_HEADER_PAST_EOF",
    "framing/length-over-cap-100000001": "FRM_HEADER_OVER_LIMIT",
}
"""Case -> the fault that no schema can see."""


def shows(code: str) -> list[str]:
    """A few cases of which the expectation has the code alone."""
    alone = [case.id for case in CASES.values() if case.expect is not None and case.expect.codes == (code,)]
    return [case_id for case_id in alone if case_id not in SPELLINGS][:3]


@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.nightly)])
def test_schema_and_reader_agree_over_the_corpus(step: int) -> None:
    known = SPELLINGS | HIDDEN_BY_A_DUPLICATE
    chosen = {*list(CASES)[::step], *known, *SILENT, *itertools.chain(*map(shows, SCHEMA_CODES))}
    answers = {case_id: judged(case_id) for case_id in chosen}
    compared = {case_id: answer for case_id, answer in answers.items() if answer[0] is not None}
    assert len(compared) > 500
    assert {i for i, (valid, said) in compared.items() if valid is bool(said & set(SCHEMA_CODES))} == known
    # Each code of the schema is refused where it is alone, so that the refusal can have no other reason.
    alone = {next(iter(said)) for valid, said in compared.values() if not valid and len(said) == 1}
    assert alone == set(SCHEMA_CODES)
    silent: dict[str, Any] = {case_id: answers[case_id] for case_id in SILENT}
    assert silent == {case_id: (True, {code}) for case_id, code in SILENT.items()}


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
