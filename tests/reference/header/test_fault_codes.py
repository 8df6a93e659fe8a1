"""One file per way to break a rule: exactly that code, under that rule, at those bytes, at that place.

The range expected is what stands between ``<<`` and ``>>`` in the file as it is written here.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetensors_reference import HEADER_CAP, explain, rule_book
from safetensors_reference.rules.faults import JsonPath

from .. import naive
from ..strategies import FEWER
from ..support import ABCD, Marked, W, as_bytes, entry, make, marked

READER_FAMILIES = ("FRM", "HDR", "ENT", "DTY", "SHP", "OFF", "MET")
U64 = 2**64 - 1
UNKNOWN = ("f32", "float16", "", " F32", "F32\x00", "F128", "C128", "I4", "U1", "F8_E4M3FN", "E8M0")
PAIRS = ("[]", "[0]", "[0,4,4]", "{}", "null", '"ab"', '{"0":0}', "4")
NO_STRINGS = ("1", "null", "true", "{}", "[]")

PLACES = {
    "": b"%b",
    "w": b'{"w":%b}',
    "w.dtype": b'{"w":{"dtype":%b,"shape":[4],"data_offsets":[0,4]}}',
    "w.shape": b'{"w":{"dtype":"U8","shape":%b,"data_offsets":[0,4]}}',
    "w.data_offsets": b'{"w":{"dtype":"U8","shape":[4],"data_offsets":%b}}',
    "__metadata__": b'{"__metadata__":%b}',
}
"""Path -> a header with a value there; where it is in the tensor ``w``, four bytes of data follow."""


@dataclass(frozen=True)
class Broken:
    """A file that breaks one rule once."""

    code: str
    rule: str
    choice: str | None
    path: JsonPath | None
    file: Marked


def whole(code: str, rule: str, data: bytes, end: int = 8) -> Broken:
    return Broken(code, rule, None, None, Marked(data, 0, end))


def broken(fault: str, place: str, *texts: str | bytes, data: bytes | None = None) -> Iterator[Broken]:
    """Files with a fault at a place, or below it, with the further path behind a colon."""
    code, rule, *choice = fault.split()
    place, _, below = place.partition(":")
    path = tuple(int(step) if step.isdigit() else step for step in f"{place}.{below}".split(".") if step)
    if data is None:
        data = ABCD if place[:1] == "w" else b""
    for text in texts:
        file = marked(PLACES[place] % as_bytes(text), data)
        yield Broken(code, rule, choice[0] if choice else None, path or None, file)


def two(a: str, b: str) -> str:
    return f'{{"a":{a},"b":{b}}}'


ALL = [
    whole("FRM_TOO_SHORT", "FRM-03", b"", 0),
    whole("FRM_TOO_SHORT", "FRM-03", b"\x02" + bytes(6), 7),
    whole("FRM_HEADER_EMPTY", "FRM-07", bytes(8)),
    *(whole("FRM_HEADER_OVER_LIMIT", "FRM-06", make("{}", length=n)) for n in (HEADER_CAP + 1, U64)),
    *(whole("FRM_HEADER_PAST_EOF", "FRM-04", make("{}", length=n)) for n in (3, HEADER_CAP)),
    *broken("HDR_NOT_UTF8 HDR-01", "", b'{"__metadata__":{"k":"<<\xff>>"}}'),
    *broken("HDR_NOT_UTF8 HDR-01", "", b'{"__metadata__":{"<<\xe2\x82>>":""}}'),
    *broken("HDR_BAD_START HDR-02 leading-whitespace", "", "<< \t\n\r>>{}"),
    *broken("HDR_BAD_START HDR-02", "", "<<\x00>>{}", "<<}>>"),
    *broken("HDR_BAD_START HDR-05", "", "<<\ufeff>>{}"),
    *broken("HDR_BAD_PADDING HDR-03 trailing-whitespace", "", "{}<<\t>>", "{}  <<\n>> "),
    *broken("HDR_BAD_PADDING HDR-03", "", "{} <<\x00>>", "{}\t<<x>>"),
    *broken("HDR_NOT_JSON HDR-07", "", '{"k"<<,>>1}', '{"k":<<}>>', "{<<>>", '{"k":<<"abc>>'),
    *broken("HDR_NOT_JSON HDR-07", "", '{"k":<<"abc\\">>', "{<<k>>:1}", '{"__metadata__":{} <<">>k":1}'),
    *broken("HDR_NOT_JSON HDR-07", "__metadata__", '{"k":"v"<<,>>}'),
    *broken("HDR_NOT_JSON HDR-07", "w.shape", "[<<04>>]", "[<<1e>>]", "[<<-Infinity>>]", "[4<<,>>]"),
    *broken("HDR_NOT_JSON HDR-14", "", '{"__metadata__":{"k":"a<<\n>>b"}}'),
    *broken("HDR_NOT_JSON HDR-15 lone-surrogates", "", r'{"__metadata__":{"k":"<<\ud800>>"}}'),
    *broken("HDR_NOT_JSON HDR-18 number-range", "w:x", W[:-1] + ',"x":<<-1e999>>}'),
    *broken("HDR_NOT_OBJECT HDR-06", "", "<<[>>]", "<<n>>ull", "<<  >>"),
    *broken("HDR_DUP_KEY HDR-09 duplicate-tensor-names", ":w", f'{{"w":{W},<<"w">>:{W}}}', data=ABCD),
    *broken("HDR_DUP_KEY HDR-11", ":__metadata__", '{"__metadata__":{},<<"__metadata__">>:{}}'),
    *broken("HDR_DUP_KEY HDR-11", ":__metadata__", r'{"__metadata__":{},<<"\u005f_metadata__">>:{}}'),
    *broken("HDR_DUP_KEY HDR-12", "w:data_offsets", W[:-1] + ',<<"data_offsets">>:[0,4]}'),
    *broken("HDR_DUP_KEY HDR-13 duplicate-metadata-keys", "__metadata__:k", '{"k":"v",<<"k">>:"v"}'),
    # Level 128 is too deep: the header and the entry are the first two.
    *broken("HDR_TOO_DEEP HDR-16 deep-nesting", "", '{"w":{"x":' + "[" * 125 + "<<[>>" + "]" * 126 + "}}"),
    *broken("HDR_TOO_DEEP HDR-16 deep-nesting", "", '{"w":' + '{"":' * 126 + "<<{>>" + "}" * 128),
    *broken("ENT_NOT_OBJECT ENT-01", "w", "<<null>>", '<<"x">>'),
    *broken("ENT_NOT_OBJECT ENT-02 entry-as-array", "w", '<<["U8",[4],[0,4]]>>'),
    *broken("ENT_NOT_OBJECT ENT-02", "w", '<<["U8",[4]]>>'),
    *broken("ENT_MISSING_FIELD ENT-03", "w", '<<{"shape":[4],"data_offsets":[0,4]}>>'),
    *broken("ENT_MISSING_FIELD ENT-03", "w", '<<{"dtype":"U8","shape":[4]}>>'),
    *broken("ENT_UNKNOWN_FIELD ENT-04 unknown-entry-fields", "w:x", W[:-1] + ',<<"x">>:[{}]}'),
    *broken("ENT_UNKNOWN_FIELD ENT-04 unknown-entry-fields", "w:Dtype", W[:-1] + ',<<"Dtype">>:"U8"}'),
    *broken("ENT_BAD_INTEGER SHP-01", "w.shape:0", "[<<-4>>]"),
    *broken("ENT_BAD_INTEGER SHP-02", "w.shape:1", "[0,<<-0>>]", "[0,<<4E0>>]"),
    *broken("ENT_BAD_INTEGER SHP-07", "w.shape:1", f"[0,<<{U64 + 1}>>]", f"[0,<<{'9' * 5000}>>]"),
    *broken("ENT_BAD_INTEGER OFF-02", "w.data_offsets:1", "[0,<<4.0>>]", f"[0,<<{U64 + 1}>>]"),
    *broken("ENT_BAD_INTEGER OFF-01", "w.data_offsets:1", "[0,<<45e-1>>]"),
    *broken("ENT_BAD_INTEGER OFF-01", "w.data_offsets:0", '[<<"0">>,4]'),
    *broken("DTY_BAD_TYPE DTY-02 dtype-as-object", "w.dtype", '<<{"U8":null}>>'),
    *broken("DTY_BAD_TYPE DTY-02", "w.dtype", '<<{"XX":null}>>', "<<{}>>"),
    *broken("DTY_BAD_TYPE DTY-03", "w.dtype", "<<8>>", '<<["U8"]>>'),
    *broken("DTY_UNKNOWN DTY-01", "w.dtype", *(f"<<{json.dumps(name)}>>" for name in UNKNOWN)),
    *broken("DTY_SUBBYTE DTY-09", "w:shape", entry("F4", "<<[1]>>", "[0,1]"), data=b"a"),
    *broken("DTY_SUBBYTE DTY-09", "w:shape", entry("F6_E2M3", "<<[2]>>", "[0,2]"), data=b"ab"),
    *broken("DTY_SUBBYTE DTY-09", "w:shape", entry("F6_E3M2", "<<[3]>>", "[0,3]"), data=b"abc"),
    *broken("SHP_BAD_TYPE SHP-01", "w.shape", "<<null>>", '<<"[4]">>'),
    *broken("SHP_BAD_TYPE SHP-01", "w.shape:0", "[<<[4]>>]", "[<<true>>]"),
    *broken("SHP_BAD_TYPE SHP-01", "w.shape:1", '[0,<<"4">>]'),
    *broken("SHP_OVERFLOW SHP-05", "w.shape", "<<[4294967296,4294967296]>>", f"<<[{2**61}]>>"),
    *broken("SHP_OVERFLOW SHP-05", "w.shape", "<<[20,922337203685477581]>>"),  # wraps to four
    *broken("SHP_OVERFLOW SHP-06 zero-dim-overflow", "w.shape", f"<<[0,{U64},2]>>"),
    *broken("OFF_BAD_PAIR OFF-01", "w.data_offsets", *(f"<<{pair}>>" for pair in PAIRS)),
    *broken("OFF_REVERSED OFF-03", "w.data_offsets", "<<[4,0]>>"),
    *broken("OFF_OUT_OF_BOUNDS OFF-04", "w.data_offsets", "<<[0,4]>>", data=b"abc"),
    *broken("OFF_OUT_OF_BOUNDS OFF-04", "w:data_offsets", entry("U8", f"[{2**40}]", f"<<[0,{2**40}]>>")),
    *broken("OFF_SIZE_MISMATCH OFF-05", "w:data_offsets", entry("U8", "[3]", "<<[0,4]>>")),
    *broken("OFF_SIZE_MISMATCH OFF-05", "w:data_offsets", entry("F4", "[2,2]", "<<[0,4]>>")),
    *broken("OFF_SIZE_MISMATCH OFF-05", "w:data_offsets", entry("U8", "[]", "<<[0,0]>>"), data=b""),
    *broken("OFF_OVERLAP OFF-06", ":b.data_offsets", two(W, entry(offsets="<<[0,4]>>")), data=ABCD),
    *broken("OFF_OVERLAP OFF-06", ":b.data_offsets", two(W, entry("U8", "[0]", "<<[2,2]>>")), data=ABCD),
    *broken("OFF_HOLE OFF-07", "w:data_offsets", entry(offsets="<<[1,5]>>"), data=b"abcde"),
    *broken("OFF_HOLE OFF-07", ":a.data_offsets", two(entry(offsets="<<[8,12]>>"), W), data=bytes(12)),
    *broken("OFF_TRAILING OFF-08", "", f'{{"w":{W}}}', data=b"abcd<<PK\x05\x06>>"),
    *broken("MET_NOT_MAP MET-01", "__metadata__", "<<[]>>", '<<"x">>', "<<1>>", "<<false>>"),
    *broken("MET_NOT_MAP MET-02 metadata-null", "__metadata__", "<<null>>"),
    *broken("MET_VALUE_NOT_STRING MET-01", "__metadata__:k", *(f'{{"k":<<{v}>>}}' for v in NO_STRINGS)),
]
OFFICIAL = ("number-range", "deep-nesting")
"""Choices that only the official profile refuses."""


def label(row: Broken) -> str:
    return f"{row.code}-{row.file.data[8:60]!a}"


def test_every_code_of_the_reader_has_a_file_here() -> None:
    assert {row.code for row in ALL} == {c for c in rule_book().codes if c.startswith(READER_FAMILIES)}


@pytest.mark.parametrize("row", ALL, ids=label)
def test_code_rule_bytes_and_path(row: Broken) -> None:
    explanation = explain(row.file.data, "official" if row.choice in OFFICIAL else "hardened")
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
    ("place", "text", "data", "message"),
    [
        ("w.shape", "[-1" + "0" * 400 + "]", b"", "… (402 characters)"),
        ("w.data_offsets", "1" + "0" * 400, b"", "… (401 characters)"),
        ("w.data_offsets", "[0,4]", b"abc", "3"),
        ("", "{}", b"!" * 1234, "1,234 bytes"),
        ("", f'{{"w":{W},"w":{W}}}', ABCD, "first at byte 9"),
        ("w.dtype", '"F33"', b"", '"F33"'),
    ],
)
def test_messages_say_what_was_found(place: str, text: str, data: bytes, message: str) -> None:
    assert message in explain(make(PLACES[place] % text.encode(), data)).faults[0].message


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
