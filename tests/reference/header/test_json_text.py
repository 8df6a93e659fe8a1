"""The JSON reader: RFC 8259 to the letter, byte positions, and work that stays bounded."""

from __future__ import annotations

import itertools
import json
import re
from decimal import Decimal
from typing import Any, Never

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetensors_reference import explain
from safetensors_reference.header.json_text import (
    MAX_DEPTH,
    Abandon,
    JsonReader,
    Node,
    whole_number,
)

from ..naive import Number, Pairs
from ..strategies import FEWER, json_values
from ..support import ABCD, W, make

Report = tuple[str, str, str, int, int, str | None]


def read(data: bytes) -> tuple[Node | None, list[Report], int]:
    """Read one value; None when the reader gave up. Also the reports, and where it stopped."""
    reports: list[Report] = []
    reader = JsonReader(data, lambda *report: reports.append(report))
    try:
        node = reader.value(0)
    except Abandon:
        return None, checked(reports, len(data)), reader.pos
    reader.skip_space()
    return node, checked(reports, len(data)), reader.pos


def checked(reports: list[Report], size: int) -> list[Report]:
    """Assert that reports lie inside the data and are one readable line."""
    for code, rule, message, start, stop, _ in reports:
        assert (code, rule[:4]) in {("HDR_NOT_JSON", "HDR-"), ("HDR_TOO_DEEP", "HDR-")}
        assert 0 <= start <= stop <= size
        assert message.isprintable()
    return reports


def meaning(node: Node) -> object:
    """A node as the standard library would give it, with numbers as text and objects as pairs."""
    if node.kind == "object":
        return Pairs((key.text, meaning(value)) for key, value in node.members)
    if node.kind == "array":
        return [meaning(item) for item in node.items]
    if node.kind == "string":
        return node.text
    if node.kind == "number":
        return Number(node.text)
    return {"true": True, "false": False, "null": None}[node.kind]


def refuse(word: str) -> Never:
    raise ValueError(word)


def standard(data: bytes) -> object:
    """The same through the standard library. Raises ValueError for what is not strict JSON."""
    value = json.loads(
        data.decode(), object_pairs_hook=Pairs, parse_int=Number, parse_float=Number, parse_constant=refuse
    )
    json.dumps(value, ensure_ascii=False).encode()  # lone surrogates do not encode
    return value


pieces = st.sampled_from(
    [
        b"{", b"}", b"[", b"]", b",", b":", b'"', b'""', b'"a"', b'"\\', b"\\u00e9", b"\\ud800",
        b"\\udc00", b"\\n", b"\\/", b"\\x", b" ", b"\n", b"\t", b"\x0b", b"\xc2\xa0", "é".encode(),
        "😀".encode(), b"\x00", b"\x1f", b"\x7f", b"'", b"/", b"_", b"0", b"1", b"00", b"-", b"+", b".",
        b"e", b"E5", b"12", b"-0", b"1.5", b"1e-5", b"null", b"true", b"nul", b"NaN",
    ]
)  # fmt: skip


@FEWER
@given(json_values(st.text(max_size=3)), st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_json_is_read_like_the_standard_library_reads_it(
    value: Any, ascii_only: bool, indent: int | str
) -> None:
    data = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()
    node, reports, end = read(data)
    assert node is not None
    assert (reports, end) == ([], len(data))

    def check(node: Node) -> None:
        part = data[node.start : node.end]
        assert (standard(part), part.strip()) == (meaning(node), part)
        members = itertools.chain(*node.members) if node.kind == "object" else []
        for child in node.items if node.kind == "array" else members:
            check(child)

    check(node)


@FEWER
@given(
    st.binary(max_size=40)
    | st.lists(pieces, max_size=9).map(b"".join)
    | st.lists(pieces, max_size=9).map(lambda parts: b'"%b"' % b"".join(p for p in parts if p[:1] != b'"'))
)
def test_a_fault_is_reported_exactly_when_the_standard_library_refuses(data: bytes) -> None:
    node, reports, end = read(data)
    assert end <= len(data)
    try:
        expected = standard(data)
    except ValueError:
        assert reports or end < len(data)
        return
    assert node is not None
    assert (reports, end, meaning(node)) == ([], len(data), expected)


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        (rb'"\ud800"', [rb"\ud800"]),
        (rb'"\udc00"', [rb"\udc00"]),
        (rb'"\udc00\ud800"', [rb"\udc00", rb"\ud800"]),
        (rb'"\ud800\ud800\udc00"', [rb"\ud800"]),
        (rb'"\ud800x\udc00"', [rb"\ud800", rb"\udc00"]),
        (rb'"\ud800\n"', [rb"\ud800"]),
        (rb'"\ud800\\udc00"', [rb"\ud800"]),
        (rb'"\x41\a\U0041\u12\'"', [rb"\x", rb"\a", rb"\U", rb"\u", rb"\'"]),
        (b'"\\\xc3\xa9"', [b"\\\xc3"]),
        *(
            (b'"\\%b[31m"' % char, [b"\\" + char])
            for char in (b"\x1b", b"\n", b"\r", b"\a", b"\x7f", b"\x9b")
        ),
    ],
)
def test_bad_escapes_are_all_reported_at_their_bytes(text: bytes, bad: list[bytes]) -> None:
    _, reports, end = read(text)
    found = [(rule, text[start:stop]) for _, rule, _, start, stop, _ in reports]
    assert found == [("HDR-15", escape) for escape in bad]
    for _, _, message, start, stop, choice in reports:
        assert message.isascii()
        lone = re.fullmatch(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}", text[start:stop])
        assert choice == ("lone-surrogates" if lone else None)
    assert end == len(text), "reading goes on behind the string"


def test_every_raw_control_character_is_reported_and_its_escape_is_not() -> None:
    for code in range(0x20):
        _, reports, _ = read(b'"a' + bytes([code]) + b'b"')
        ((found, rule, message, start, stop, _),) = reports
        assert (found, rule, start, stop) == ("HDR_NOT_JSON", "HDR-14", 2, 3)
        assert f"U+{code:04X}" in message
        assert read(b'"a\\u%04xb"' % code)[1] == []


def test_reading_goes_on_after_a_fault_that_leaves_the_structure_clear() -> None:
    text = rb'{"a":01,"b":"\x","c":nul,"d":[1,],"e":NaN,}'
    node, reports, end = read(text)
    assert node is not None
    assert [key.text for key, _ in node.members] == ["a", "b", "c", "d", "e"]
    assert [text[start:stop] for *_, start, stop, _ in reports] == [b"01", rb"\x", b"nul", b",", b"NaN", b","]
    assert end == len(text)


@pytest.mark.parametrize(("opener", "closer"), [(b"[", b"]"), (b'{"":', b"}")])
def test_the_depth_limit_is_exact_and_reported_once_where_it_is_passed(opener: bytes, closer: bytes) -> None:
    assert MAX_DEPTH == 127
    inner = b"0" if opener != b"[" else b""
    node, reports, _ = read(opener * 127 + inner + closer * 127)
    assert (node is None, reports) == (False, [])
    node, ((code, _, _, start, stop, _),), _ = read(opener * 128 + inner + closer * 128)
    at = len(opener) * 127
    assert (node, code, start, stop) == (None, "HDR_TOO_DEEP", at, at + 1)
    siblings = b"[" + b",".join([opener * 126 + inner + closer * 126] * 3) + b"]"
    assert read(siblings)[1:] == ([], len(siblings))


MILLION = "7" * 1_000_000


@pytest.mark.parametrize(
    ("header", "code"),
    [
        ('{"w":{"dtype":"U8","shape":[0%s],"data_offsets":[0,4]}}', "HDR_NOT_JSON"),
        ('{"w":{"dtype":"U8","shape":[4e%s],"data_offsets":[0,4]}}', "ENT_BAD_INTEGER"),
        ('{"w":{"dtype":%s,"shape":[4],"data_offsets":[0,4]}}', "DTY_BAD_TYPE"),
        ('{"w":{"dtype":"U8","shape":[4],"data_offsets":%s}}', "OFF_BAD_PAIR"),
        ('{"w":%s}', "ENT_NOT_OBJECT"),
        ('{"__metadata__":%s}', "MET_NOT_MAP"),
        ('{"__metadata__":{"k":%s}}', "MET_VALUE_NOT_STRING"),
        ('{"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4],"x":%s}}', "HDR_NOT_JSON"),
        ('{"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4],"x":[-1e%s]}}', "HDR_NOT_JSON"),
    ],
)
def test_a_number_of_a_million_digits_is_refused_without_hanging(header: str, code: str) -> None:
    explanation = explain(make(header % MILLION, ABCD), "official")
    assert code in {f.code for f in explanation.faults}
    assert all(len(f.message) < 500 for f in explanation.faults)
    # Digits behind the point make a number long, not large.
    assert explain(make(f'{{"w":{W[:-1]},"x":0.{MILLION}}}}}', ABCD), "official").valid


@pytest.mark.parametrize(
    "body",
    [
        *(b'"' * 100_001, b"\\" * 100_001, b'\\"' * 50_000, b"\\ud83d" * 20_000, b"{" * 5, b"," * 99),
        *(b'w":{"x":' + b"[" * depth for depth in (128, 100_000, 1_000_000)),
    ],
    ids=itertools.count(),
)
def test_unclosed_and_repetitive_text_ends(body: bytes) -> None:
    assert not explain(make(b'{"' + body)).valid


@FEWER
@given(
    st.sampled_from(["", "-"]),
    st.integers(0, 2000),
    st.none() | st.text("0123456789", min_size=1, max_size=5),
    st.none() | st.integers(-9, 9),
    st.sampled_from(["", "0", "000"]),
)
def test_a_whole_number_is_told_from_a_fraction_however_it_is_spelled(
    sign: str, whole: int, fraction: str | None, exponent: int | None, zeros: str
) -> None:
    text = f"{sign}{whole}" + (f".{fraction}" if fraction else "")
    if exponent is not None:
        text += f"e{'-' if exponent < 0 else '+'}{zeros}{abs(exponent)}"
    value = Decimal(text)
    assert whole_number(text) == (value >= 0 and value == value.to_integral_value())


def test_a_long_exponent_is_not_converted() -> None:
    texts = ["1e" + "9" * 100_000, "1e-" + "9" * 100_000, "0e-" + "9" * 50, "1" * 100_000 + ".0"]
    assert list(map(whole_number, texts)) == [True, False, True, True]
