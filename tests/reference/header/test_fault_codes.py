"""One file per way to break a rule: exactly that code, under that rule, at those bytes, at that place.

The range expected is what stands between ``<<`` and ``>>`` in the file as it is written here.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetensors_reference import HEADER_CAP, explain, rule_book
from safetensors_reference.rules.book import ProfileName
from safetensors_reference.rules.faults import JsonPath

from .. import naive
from ..strategies import FEWER
from ..support import ABCD, Marked, W, entry, make, marked

READER_FAMILIES = ("FRM", "HDR", "ENT", "DTY", "SHP", "OFF", "MET")
U64 = 2**64 - 1
DEEP = 126
DEEP_IN = DEEP - 1
"""Arrays in an entry that nest too deep: with the header and the entry around them the last is level 128."""


@dataclass(frozen=True)
class Broken:
    """A file that breaks one rule once."""

    code: str
    rule: str
    file: Marked
    path: JsonPath | None = None
    choice: str | None = None
    profile: ProfileName = "hardened"


def one(
    code: str, rule: str, text: str | bytes, data: bytes = b"", path: JsonPath | None = None, **more: Any
) -> Broken:
    return Broken(code, rule, marked(text, data), path, **more)


def whole(code: str, rule: str, data: bytes, start: int, end: int) -> Broken:
    return Broken(code, rule, Marked(data, start, end))


def in_entry(code: str, rule: str, body: str, *path: str | int, data: bytes = ABCD, **more: Any) -> Broken:
    """A file with the one tensor ``w``."""
    return one(code, rule, f'{{"w":{body}}}', data, ("w", *path), **more)


def in_metadata(code: str, rule: str, value: str, *path: str, **more: Any) -> Broken:
    return one(code, rule, f'{{"__metadata__":{value}}}', b"", ("__metadata__", *path), **more)


def beside(code: str, rule: str, text: str, data: bytes, name: str = "b") -> Broken:
    """A range that breaks a rule together with the entry ``w``, which covers the first four bytes."""
    return one(code, rule, "{" + text.replace("W", f'"a":{W}') + "}", data, (name, "data_offsets"))


def with_shape(code: str, rule: str, shape: str, *path: str | int, data: bytes = b"", **more: Any) -> Broken:
    offsets = f"[0,{len(data)}]"
    return in_entry(code, rule, entry("U8", shape, offsets), "shape", *path, data=data, **more)


def with_offsets(code: str, rule: str, offsets: str, *path: str | int, data: bytes = ABCD) -> Broken:
    return in_entry(code, rule, entry("U8", "[4]", offsets), "data_offsets", *path, data=data)


def with_dtype(code: str, rule: str, dtype: str, **more: Any) -> Broken:
    return in_entry(code, rule, f'{{"dtype":<<{dtype}>>,"shape":[4],"data_offsets":[0,4]}}', "dtype", **more)


ALL = [
    whole("FRM_TOO_SHORT", "FRM-03", b"", 0, 0),
    whole("FRM_TOO_SHORT", "FRM-03", b"\x02" + bytes(6), 0, 7),
    whole("FRM_HEADER_EMPTY", "FRM-07", bytes(8), 0, 8),
    whole("FRM_HEADER_OVER_LIMIT", "FRM-06", make("{}", length=HEADER_CAP + 1), 0, 8),
    whole("FRM_HEADER_OVER_LIMIT", "FRM-06", make("{}", length=U64), 0, 8),
    whole("FRM_HEADER_PAST_EOF", "FRM-04", make("{}", length=3), 0, 8),
    whole("FRM_HEADER_PAST_EOF", "FRM-04", make("{}", length=HEADER_CAP), 0, 8),
    one("HDR_NOT_UTF8", "HDR-01", b'{"__metadata__":{"k":"<<\xff>>"}}'),
    one("HDR_NOT_UTF8", "HDR-01", b'{"__metadata__":{"k":"<<\xe2\x82>>"}}'),
    one("HDR_BAD_START", "HDR-02", b"<< \t\n\r>>{}", choice="leading-whitespace"),
    *(one("HDR_BAD_START", "HDR-02", text) for text in (b"<<\x00>>{}", b"<<}>>")),
    one("HDR_BAD_START", "HDR-05", b"<<\xef\xbb\xbf>>{}"),
    one("HDR_BAD_PADDING", "HDR-03", b"{}<<\t>>", choice="trailing-whitespace"),
    one("HDR_BAD_PADDING", "HDR-03", b"{}  <<\n>> ", choice="trailing-whitespace"),
    one("HDR_BAD_PADDING", "HDR-03", b"{} <<\x00>>"),
    one("HDR_BAD_PADDING", "HDR-03", b"{}\t<<x>>"),
    *(
        one("HDR_NOT_JSON", "HDR-07", text)
        for text in (
            b'{"__metadata__":{"k":"v"<<,>>}}',
            b"{<<k>>:1}",
            b'{"k"<<,>>1}',
            b'{"k":<<}>>',
            b'{"__metadata__":{} <<">>k":1}',
            b"{<<>>",
            b'{"k":<<"abc>>',
            b'{"k":<<"abc\\">>',
        )
    ),
    *(
        with_shape("HDR_NOT_JSON", "HDR-07", shape)
        for shape in ("[<<04>>]", "[<<1e>>]", "[<<-Infinity>>]", "[0<<,>>]")
    ),
    one("HDR_NOT_JSON", "HDR-14", b'{"__metadata__":{"k":"a<<\n>>b"}}'),
    one("HDR_NOT_JSON", "HDR-15", rb'{"__metadata__":{"k":"<<\ud800>>"}}', choice="lone-surrogates"),
    in_entry(
        "HDR_NOT_JSON", "HDR-18", W[:-1] + ',"x":<<-1e999>>}', "x", choice="number-range", profile="official"
    ),
    *(one("HDR_NOT_OBJECT", "HDR-06", text) for text in (b"<<[>>]", b"<<n>>ull", b"<<  >>")),
    one("HDR_DUP_KEY", "HDR-09", f'{{"w":{W},<<"w">>:{W}}}', ABCD, ("w",), choice="duplicate-tensor-names"),
    one("HDR_DUP_KEY", "HDR-11", b'{"__metadata__":{},<<"__metadata__">>:{}}', b"", ("__metadata__",)),
    one("HDR_DUP_KEY", "HDR-11", rb'{"__metadata__":{},<<"\u005f_metadata__">>:{}}', b"", ("__metadata__",)),
    in_entry("HDR_DUP_KEY", "HDR-12", W[:-1] + ',<<"data_offsets">>:[0,4]}', "data_offsets"),
    in_metadata("HDR_DUP_KEY", "HDR-13", '{"k":"v",<<"k">>:"v"}', "k", choice="duplicate-metadata-keys"),
    *(
        one("HDR_TOO_DEEP", "HDR-16", f'{{"w":{{"x":{text}}}}}', choice="deep-nesting", profile="official")
        for text in ("[" * DEEP_IN + "<<[>>" + "]" * DEEP, '{"":' * DEEP_IN + "<<{>>" + "}" * DEEP)
    ),
    *(in_entry("ENT_NOT_OBJECT", "ENT-01", body, data=b"") for body in ("<<null>>", '<<"x">>')),
    in_entry("ENT_NOT_OBJECT", "ENT-02", '<<["U8",[4],[0,4]]>>', choice="entry-as-array"),
    in_entry("ENT_NOT_OBJECT", "ENT-02", '<<["U8",[4]]>>', data=b""),
    in_entry("ENT_MISSING_FIELD", "ENT-03", '<<{"shape":[4],"data_offsets":[0,4]}>>'),
    in_entry("ENT_MISSING_FIELD", "ENT-03", '<<{"dtype":"U8","shape":[4]}>>', data=b""),
    *(
        in_entry(
            "ENT_UNKNOWN_FIELD",
            "ENT-04",
            f'{W[:-1]},<<"{name}">>:{value}}}',
            name,
            choice="unknown-entry-fields",
        )
        for name, value in (("x", "[{}]"), ("Dtype", '"U8"'))
    ),
    with_shape("ENT_BAD_INTEGER", "SHP-01", "[<<-4>>]", 0),
    with_shape("ENT_BAD_INTEGER", "SHP-02", "[0,<<-0>>]", 1),
    with_shape("ENT_BAD_INTEGER", "SHP-02", "[<<4E0>>]", 0),
    *(with_shape("ENT_BAD_INTEGER", "SHP-07", f"[0,<<{n}>>]", 1) for n in (2**64, "9" * 5000)),
    *(with_offsets("ENT_BAD_INTEGER", "OFF-02", f"[0,<<{n}>>]", 1) for n in ("4.0", 2**64)),
    with_offsets("ENT_BAD_INTEGER", "OFF-01", "[0,<<45e-1>>]", 1),
    with_offsets("ENT_BAD_INTEGER", "OFF-01", '[<<"0">>,4]', 0),
    with_dtype("DTY_BAD_TYPE", "DTY-02", '{"U8":null}', choice="dtype-as-object"),
    *(with_dtype("DTY_BAD_TYPE", "DTY-02", dtype) for dtype in ('{"XX":null}', "{}")),
    *(with_dtype("DTY_BAD_TYPE", "DTY-03", dtype) for dtype in ("8", '["U8"]')),
    *(
        with_dtype("DTY_UNKNOWN", "DTY-01", json.dumps(name))
        for name in ("f32", "float16", "", " F32", "F32\x00", "F128", "C128", "I4", "U1", "F8_E4M3FN", "E8M0")
    ),
    *(
        in_entry("DTY_SUBBYTE", "DTY-09", entry(code, f"<<[{n}]>>", f"[0,{n}]"), "shape", data=bytes(n))
        for n, code in enumerate(("F4", "F6_E2M3", "F6_E3M2"), 1)
    ),
    *(with_shape("SHP_BAD_TYPE", "SHP-01", shape) for shape in ("<<null>>", '<<"[4]">>')),
    *(with_shape("SHP_BAD_TYPE", "SHP-01", shape, 0) for shape in ("[<<[4]>>]", "[<<true>>]")),
    with_shape("SHP_BAD_TYPE", "SHP-01", '[0,<<"4">>]', 1),
    with_shape("SHP_OVERFLOW", "SHP-05", "<<[4294967296,4294967296]>>"),
    with_shape("SHP_OVERFLOW", "SHP-05", f"<<[{2**61}]>>"),
    with_shape("SHP_OVERFLOW", "SHP-05", "<<[4194305,4194305,844424795914257]>>", data=bytes(17)),  # wraps
    with_shape("SHP_OVERFLOW", "SHP-06", f"<<[0,{U64},2]>>", choice="zero-dim-overflow"),
    *(
        with_offsets("OFF_BAD_PAIR", "OFF-01", f"<<{pair}>>")
        for pair in ("[]", "[0]", "[0,4,4]", "{}", "null", '"ab"', '{"0":0}', "4")
    ),
    with_offsets("OFF_REVERSED", "OFF-03", "<<[4,0]>>"),
    with_offsets("OFF_OUT_OF_BOUNDS", "OFF-04", "<<[0,4]>>", data=b"abc"),
    in_entry("OFF_OUT_OF_BOUNDS", "OFF-04", entry("U8", f"[{2**40}]", f"<<[0,{2**40}]>>"), "data_offsets"),
    in_entry("OFF_SIZE_MISMATCH", "OFF-05", entry("U8", "[3]", "<<[0,4]>>"), "data_offsets"),
    in_entry("OFF_SIZE_MISMATCH", "OFF-05", entry("U8", "[]", "<<[0,0]>>"), "data_offsets", data=b""),
    in_entry("OFF_SIZE_MISMATCH", "OFF-05", entry("F4", "[2,2]", "<<[0,4]>>"), "data_offsets"),
    beside("OFF_OVERLAP", "OFF-06", f'W,"b":{entry(offsets="<<[0,4]>>")}', ABCD),
    beside("OFF_OVERLAP", "OFF-06", f'W,"b":{entry("U8", "[0]", "<<[2,2]>>")}', ABCD),
    beside("OFF_HOLE", "OFF-07", f'"a":{entry(offsets="<<[1,5]>>")}', b"abcde", "a"),
    beside("OFF_HOLE", "OFF-07", f'"b":{entry(offsets="<<[8,12]>>")},W', b"abcd0000efgh"),
    one("OFF_TRAILING", "OFF-08", f'{{"w":{W}}}', b"abcd<<PK\x05\x06>>"),
    *(in_metadata("MET_NOT_MAP", "MET-01", f"<<{value}>>") for value in ("[]", '"x"', "1", "false")),
    in_metadata("MET_NOT_MAP", "MET-02", "<<null>>", choice="metadata-null"),
    *(
        in_metadata("MET_VALUE_NOT_STRING", "MET-01", f'{{"k":<<{value}>>}}', "k")
        for value in ("1", "null", "true", "{}", "[]")
    ),
]


def label(row: Broken) -> str:
    return f"{row.code}-{row.file.data[8:60]!a}"


def test_every_code_of_the_reader_has_a_file_here() -> None:
    assert {row.code for row in ALL} == {c for c in rule_book().codes if c.startswith(READER_FAMILIES)}


@pytest.mark.parametrize("row", ALL, ids=label)
def test_code_rule_bytes_and_path(row: Broken) -> None:
    explanation = explain(row.file.data, row.profile)
    # A broken word inside a shape is a fault of the grammar: the place is known by its bytes alone.
    path = None if row.code == "HDR_NOT_JSON" and row.rule == "HDR-07" else row.path
    assert [(f.code, f.rule, f.start, f.end, f.path, f.choice) for f in explanation.faults] == [
        (row.code, row.rule, row.file.start, row.file.end, path, row.choice)
    ]
    assert explanation.header is None
    assert not explanation.valid
    assert not naive.is_valid(row.file.data)
    assert row.code in rule_book().rules[row.rule].codes


LONG = '"y":[' + "0," * 300 + "0],"


@pytest.mark.parametrize("opener", ["[", '{"":', '[{"":'])
@pytest.mark.parametrize(
    ("before", "codes"),
    [
        ('{"w":{"x":', ["ENT_UNKNOWN_FIELD"]),
        ('{"w":{' + LONG + '"x":', ["ENT_UNKNOWN_FIELD", "ENT_UNKNOWN_FIELD"]),
        ('{"w":{"dtype":"F9","shape":[-1],"data_offsets":1,"x":', [
            "DTY_UNKNOWN", "ENT_BAD_INTEGER", "OFF_BAD_PAIR", "ENT_UNKNOWN_FIELD",
        ]),
        ('{"w":{"shape":[' + "0," * 300 + '"a",', ["SHP_BAD_TYPE"]),
        ('{"w":{"data_offsets":["a",', ["ENT_BAD_INTEGER"]),
        ('{"w":{"data_offsets":[0,1,2,', ["OFF_BAD_PAIR"]),
        ('{"w":{"dtype":"U8","shape":[3],"data_offsets":[0,4],"x":', [
            "OFF_SIZE_MISMATCH", "ENT_UNKNOWN_FIELD",
        ]),
        (f'{{"w":{W},"w":{{"dtype":', ["HDR_DUP_KEY"]),
        ('{"w":["F9",', ["ENT_NOT_OBJECT", "DTY_UNKNOWN"]),
        ('{"__metadata__":{"a":1,"b":"","b":', ["MET_VALUE_NOT_STRING", "HDR_DUP_KEY"]),
        ('{"w":{"shape":[1,', []),
        ('{"w":{"data_offsets":[0,', []),
    ],
)  # fmt: skip
def test_what_stands_before_a_value_that_nests_too_deep_keeps_its_faults(
    before: str, codes: list[str], opener: str
) -> None:
    faults = explain(make(before + opener * 200, ABCD)).faults
    assert [f.code for f in faults if f.start < 8 + len(before)] == codes
    assert faults[-1].code == "HDR_TOO_DEEP"


@pytest.mark.parametrize("value", ["@", '"', "[1,2"])
def test_what_stands_before_a_breach_of_the_grammar_may_mean_something_else(value: str) -> None:
    """Where a string or a container is not closed, what was read in it is perhaps not what was meant."""
    faults = explain(make('{"w":{"dtype":"F9","x":' + value, ABCD)).faults
    assert [f.code for f in faults] == ["HDR_NOT_JSON"]


EMPTY = entry("U8", "[0]", "[0,0]").encode()


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (b'"a"', rb'"\u0061"', True),
        ('"é"'.encode(), rb'"\u00e9"', True),
        ('"😀"'.encode(), rb'"\ud83d\uDE00"', True),
        (b'"/"', rb'"\/"', True),
        (b'"\xff"', b'"\xfe"', False),
        (b'"\xed\xa0\x80"', b'"\xed\xa0\x81"', False),
        (rb'"\ud800"', rb'"\ud801"', False),
        (rb'"\ud800"', b'"\xed\xa0\x80"', False),
        (b'"a"', b'"A"', False),
        ('"é"'.encode(), '"e\u0301"'.encode(), False),
        (rb'"a\u0000"', b'"a"', False),
        (rb'"\udcff"', b'"\xff"', False),
        (rb'"\x41"', rb'"\\x41"', False),
    ],
    ids=itertools.count(),
)
def test_names_are_the_same_when_their_decoded_text_is_and_a_broken_name_is_like_no_other(
    first: bytes, second: bytes, same: bool
) -> None:
    """Rule HDR-10; the fault may be filed under it or under the ban itself, HDR-09."""
    data = make(b"{%s:%s,%s:%s}" % (first, EMPTY, second, EMPTY))
    found = [f for f in explain(data).faults if f.code == "HDR_DUP_KEY"]
    assert [data[f.start : f.end] for f in found] == [second] * same
    assert {f.rule for f in found} <= {"HDR-09", "HDR-10"}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (with_shape("", "", "[<<>>-1" + "0" * 400 + "]"), "… (402 characters)"),
        (with_offsets("", "", "<<>>1" + "0" * 400), "… (401 characters)"),
        (with_offsets("", "", "[0,<<4>>]", data=b"abc"), "3"),
        (one("", "", b"<<>>{}", b"!" * 1234), "1,234 bytes"),
        (one("", "", f'{{"w":{W},"w":{W}<<>>}}', ABCD), "first at byte 9"),
        (with_dtype("", "", '"F33"'), '"F33"'),
    ],
)
def test_messages_say_what_was_found(row: Broken, message: str) -> None:
    assert message in explain(row.file.data).faults[0].message


@FEWER
@given(st.permutations([0, U64, 2, 1]))
def test_overflow_beside_a_zero_depends_on_the_order_only_under_official(shape: list[int]) -> None:
    """SHP-06 demands one verdict for any order, but the official library multiplies from left to right."""
    product, overflow = 1, False
    for dim in shape:
        product *= dim
        overflow |= product > U64
    data = make(f'{{"w":{entry("U8", json.dumps(shape), "[0,0]")}}}')
    assert [(f.code, f.rule) for f in explain(data).faults] == [("SHP_OVERFLOW", "SHP-06")]
    explanation = explain(data, "official")
    assert explanation.valid is not overflow
    assert [f.rule for f in explanation.tolerated] == ([] if overflow else ["SHP-06"])


@pytest.mark.parametrize(
    ("members", "codes"),
    [
        ('"w":{"dtype":8,"dtype":"U8","shape":[-1,"2"],"data_offsets":[0,4.0],"x":0}', {
            "DTY_BAD_TYPE w.dtype", "ENT_BAD_INTEGER w.data_offsets.1", "ENT_BAD_INTEGER w.shape.0",
            "ENT_UNKNOWN_FIELD w.x", "HDR_DUP_KEY w.dtype", "SHP_BAD_TYPE w.shape.1",
        }),
        ('"w":{"dtype":"U8","shape":[4],"offsets":[0,4]}', {
            "ENT_MISSING_FIELD w", "ENT_UNKNOWN_FIELD w.offsets",
        }),
        (f'"__metadata__":{W}', {
            "MET_VALUE_NOT_STRING __metadata__.shape", "MET_VALUE_NOT_STRING __metadata__.data_offsets",
            "OFF_TRAILING ",
        }),
        (f'"__metadata__":[1],"w":{entry("F33")}', {"MET_NOT_MAP __metadata__", "DTY_UNKNOWN w.dtype"}),
        (f'"__metadata__":{{"k":1,"k":"v"}},"w":{W}', {
            "MET_VALUE_NOT_STRING __metadata__.k", "HDR_DUP_KEY __metadata__.k",
        }),
        (f'"w":{W},"w":{entry(offsets="[4,8]")}', {"HDR_DUP_KEY w", "OFF_OUT_OF_BOUNDS w.data_offsets"}),
        (f'"w":{entry(offsets="[4,0]")},"w":{W}', {"HDR_DUP_KEY w", "OFF_REVERSED w.data_offsets"}),
        # The gap may belong to what is no entry, so it is not called a hole.
        (f'"a":null,"b":{entry("U8", "[2]", "[2,4]")}', {"ENT_NOT_OBJECT a"}),
    ],
)  # fmt: skip
def test_all_faults_of_a_header_are_collected(members: str, codes: set[str]) -> None:
    faults = explain(make("{" + members + "}", ABCD)).faults
    assert {f"{f.code} {'.'.join(map(str, f.path or ()))}" for f in faults} == codes


def test_every_missing_field_is_named() -> None:
    messages = [f.message for f in explain(make('{"w":{}}')).faults]
    assert messages == [f'tensor "w" has no {field}' for field in ("dtype", "shape", "data_offsets")]
