"""Answers of programs: valid ones are accepted, others break the protocol, records stay readable."""

from __future__ import annotations

import contextlib
import json
import tracemalloc
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from safetensors_conformance.case_verdict import judge, result_row
from safetensors_conformance.outcome import Implementation
from safetensors_conformance.protocol_check.conversation import SCHEMA
from safetensors_conformance.worker.protocol import (
    MAX_VALUES,
    ProtocolError,
    check_values,
    parse_line,
    parse_run,
    parse_start,
    words,
)
from safetensors_corpus.judging.answer import OUTCOMES
from safetensors_reports.record.file import RecordWriter, read_record

from ..support import TRIGGER, cases, record_header

READER = Implementation("r", "1", "Python", ("open", "read"))


def _nest(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value] if levels % 2 else {"a": value}
    return value


ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**400, -(10**40), 2**64, -1, 0])
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["\ud800", "\x1b[2J", "\u202e", "many", "pass", "alignment"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from("abc") | st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
) | st.sampled_from([25, 200, 600]).map(_nest)

ROW = st.fixed_dictionaries(
    {"name": st.sampled_from(["w", "b"]) | ODD},
    optional=dict.fromkeys(("dtype", "shape", "nbytes", "sha256", "unsupported", "other"), ODD),
)
FEW = settings(max_examples=max(settings().max_examples // 5, 60))
"""An answer takes long to make; a long search is long here, too."""
ANSWER = st.fixed_dictionaries(
    {"seq": st.just(7), "outcome": st.sampled_from(OUTCOMES)},
    optional={
        "message": st.text(max_size=5) | ODD,
        "exception": st.text(max_size=5) | ODD,
        "documented": st.booleans() | ODD,
        "cpu_ms": st.floats() | ODD,
        "wall_ms": st.integers() | ODD,
        "tensors": st.lists(ROW, max_size=2) | ODD,
        "tensor_count": st.integers() | ODD,
        "metadata": ODD,
        "metadata_items": st.lists(st.lists(ODD, max_size=2), max_size=2) | ODD,
        "checks": st.lists(
            st.fixed_dictionaries({"name": ODD, "status": ODD}, optional={"message": ODD}), max_size=2
        )
        | ODD,
        "of no meaning": ODD,
    },
)


FITS = jsonschema.Draft202012Validator(
    {**json.loads(SCHEMA.read_bytes()), "oneOf": [{"$ref": "#/$defs/runAnswer"}]}
)


@FEW
@given(answer=ANSWER, summary=st.booleans(), silent=st.booleans())
def test_what_fits_the_schema_is_taken_and_whatever_is_taken_leaves_a_record_that_can_be_read(
    tmp_path_factory: pytest.TempPathFactory, answer: dict[str, Any], summary: bool, silent: bool
) -> None:
    message = parse_line(json.dumps(answer).encode())
    assert message is not None
    try:
        result = parse_run(message, 7, summary=summary, silent=silent)
    except ProtocolError as err:
        str(err).encode("ascii")
        with contextlib.suppress(RecursionError):
            assert not FITS.is_valid(message) or not (silent or "tensors" in answer)
        return
    assert result.outcome == answer["outcome"]
    (case,) = cases(TRIGGER)
    row = result_row(judge(case, {"read": result}, READER, None), "read", False)
    path = tmp_path_factory.getbasetemp() / "answers.jsonl"
    with RecordWriter(path) as writer:
        writer.write("header", record_header())
        writer.write("result", row)
        writer.write("footer", {"complete": True, "duration_s": 0.1, "not_run": 0})
    record = read_record(path)
    assert [r["case"] for r in record.results] == [case.id]
    assert record.footer is not None


START = {"protocol": 1, "implementation": {"name": "r"}, "steps": ["read"]}


@FEW
@given(
    who=st.dictionaries(st.sampled_from(["name", "version", "language"]), ODD),
    more=st.dictionaries(st.sampled_from(["protocol", "steps", "lacks", "verdict_only", "error"]), ODD),
)
def test_whatever_the_start_answer_holds_is_taken_or_named(who: dict[str, Any], more: dict[str, Any]) -> None:
    message = parse_line(json.dumps({**START, "implementation": {"name": "r", **who}, **more}).encode())
    assert message is not None
    try:
        found = parse_start(message, "r")
    except ProtocolError as err:
        str(err).encode("utf-8")
        return
    json.dumps([found.name, found.version, found.language]).encode()
    assert all(isinstance(x, str) for x in (found.name, found.version, found.language, *found.lacks))


def test_a_count_is_an_answer_only_where_a_summary_was_asked() -> None:
    for count in (1 << 53, 1, 0):
        answer = {"seq": 7, "outcome": "accept", "tensor_count": count}
        assert parse_run(answer, 7, summary=True).tensor_count == count
        with pytest.raises(ProtocolError, match='needs "tensors"; "tensor_count" is enough only for'):
            parse_run(answer, 7)


@pytest.mark.parametrize("name", [b"\xff", b"\xed\xb3\xbf", b"w\x80", b"\xc3\xa9", b""])
def test_both_spellings_of_a_name_keep_its_bytes(name: bytes) -> None:
    for spelled in (b'{"hex": "%s"}' % name.hex().encode(), b'"%s"' % name):
        message = parse_line(b'{"seq": 1, "outcome": "accept", "tensors": [{"name": %s}]}' % spelled)
        assert message is not None
        rows = parse_run(message, 1).tensors or []
        assert rows[0]["name"] == name.decode("utf-8", "surrogateescape")


def test_words_of_any_bytes_are_shown_and_lose_nothing() -> None:
    line = b'{"seq": 1, "outcome": "reject", "message": "caf\xe9 \\ud800 \xc3\xa9", "exception": "\xff"}'
    result = parse_run(parse_line(line) or {}, 1)
    assert (result.message, result.exception) == ("caf\\xe9 \\ud800 é", "\\xff")


KEYS = 'each key of "metadata_items" must be'
NAMES = 'each of "tensors" must be an object with a "name"'


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"exception": {}}, '"exception" must be a string, got {}'),
        ({"message": ["x"]}, '"message" must be a string'),
        ({"documented": "yes"}, '"documented" must be true or false'),
        ({"wall_ms": True}, '"wall_ms" must be a number, got True'),
        *(({"tensor_count": count}, '"tensor_count" must be') for count in ("many", True, -1, 2.5, 1 << 54)),
        ({"outcome": []}, '"outcome" must be one of'),
        ({"outcome": "perhaps"}, '"outcome" must be one of'),
        ({"seq": True}, "differs from that of the request"),
        ({"checks": {}}, '"checks" must be a list'),
        ({"checks": ["x"]}, 'each of "checks" must be'),
        ({"checks": [{"name": [], "status": "pass"}]}, 'each of "checks" must be'),
        ({"checks": [{"name": "colour", "status": "pass"}]}, 'each of "checks" must be'),
        ({"checks": [{"name": "lifetime", "status": "maybe"}]}, 'each of "checks" must be'),
        ({"tensors": [{"name": "w", "sha256": 5}]}, "\"sha256\" of 'w' must be a string"),
        ({"tensors": [{"name": None}]}, NAMES),
        ({"tensors": [{"name": {}}]}, NAMES),
        ({"tensors": [{"name": {"hex": "f"}}]}, NAMES),
        ({"tensors": [{"name": {"hex": 1}}]}, NAMES),
        ({"tensors": [{"name": {"hex": "ff", "more": 1}}]}, NAMES),
        ({"metadata_items": {"a": "b"}}, '"metadata_items" must be a list of pairs'),
        ({"metadata_items": [["a"]]}, '"metadata_items" must be a list of pairs'),
        ({"metadata_items": [[1, "b"]]}, KEYS),
        ({"metadata_items": [[{"hex": "g0"}, "b"]]}, KEYS),
    ],
)
def test_what_breaks_the_schema_is_named(more: dict[str, Any], words: str) -> None:
    answer = {"seq": 1, "outcome": "accept", "tensors": [], **more}
    with pytest.raises(ProtocolError) as caught:
        parse_run(answer, 1)
    assert words in str(caught.value)
    assert not FITS.is_valid(answer)


@pytest.mark.parametrize(
    ("items", "metadata"),
    [
        ([], {}),
        ([["a", "b"]], {"a": "b"}),
        ([[{"hex": "61"}, {"hex": "ff"}]], {"a": "\udcff"}),
        ([["a", 1]], {"a": 1}),
        ([["a", "b"], [{"hex": "61"}, "c"]], {"a": ["b", "c"]}),
    ],
)
def test_metadata_may_come_as_pairs(items: list[Any], metadata: dict[str, Any]) -> None:
    answer = {"seq": 1, "outcome": "accept", "tensors": [], "metadata_items": items}
    FITS.validate(answer)
    result = parse_run(answer, 1)
    assert (result.has_metadata, result.metadata) == (True, metadata)


@pytest.mark.parametrize(
    ("part", "words"),
    [(b'"\\d"', "JSONDecodeError"), (b"1" * 5000, "ValueError"), (b"[" * 100_000, "RecursionError")],
)
def test_an_answer_that_cannot_be_parsed_is_named(part: bytes, words: str) -> None:
    with pytest.raises(ProtocolError, match=rf"its answer is not valid JSON \({words}\): "):
        parse_line(b'{"seq": 1, "x": ' + part + b"}")


@pytest.mark.parametrize(
    ("spelled", "value"),
    [
        (b"1e999", "1e999"),
        (b"-1e400", "-1e400"),
        (b"NaN", "NaN"),
        (b"1e5", 100000.0),
        (b"18446744073709551616", 1 << 64),
        (b"1" + b"0" * 400, 10**400),
        (b"1" + b"0" * 400 + b".0", "1" + "0" * 400 + ".0"),
        (rb'"\ud800"', "\ud800"),
        (rb'"\ud83d\ude00"', "\U0001f600"),
        (b'"\xff\xc3\xa9"', "\udcff\xe9"),
        (b"[1, true, null]", [1, True, None]),
    ],
)
def test_odd_values_are_read_as_they_are_written(spelled: bytes, value: object) -> None:
    message = parse_line(b'{"seq": 0, "seq": 7, "x": %s}' % spelled)
    assert message == {"seq": 7, "x": value}
    assert [type(v) for v in message.values()] == [int, type(value)]


@pytest.mark.parametrize("line", [b"\xef\xbb\xbf{}", b'{"x": 01}', b"{}\x00", b"", b"\x0b{}", b"[" * 100_000])
def test_a_line_that_is_no_json_is_no_message(line: bytes) -> None:
    assert parse_line(line) is None


@pytest.mark.parametrize("value", [b"[],", b"{},", b'{"name":"a"},', b"[[],[]],"])
def test_an_answer_of_too_many_values_is_refused_unread(value: bytes) -> None:
    with pytest.raises(ProtocolError, match=r"has about [0-9,]+ values, which is more than 500,000"):
        check_values(b'{"seq": 1, "tensors": [' + value * (MAX_VALUES // 2) + b"1]}")
    check_values(b'{"seq": 1, "message": "' + b"x" * (2 * MAX_VALUES) + b'"}')


def test_words_without_end_take_no_more_memory_than_they_came_with() -> None:
    endless = "\udc80" * 5_000_000
    tracemalloc.start()
    assert words(endless, 2000) == "\\x80" * 500
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_a_null_is_a_field_left_out() -> None:
    fields = dict.fromkeys(("exception", "documented", "checks", "cpu_ms"))
    answer: dict[str, Any] = {"seq": 1, "outcome": "reject", **fields}
    result = parse_run(answer, 1)
    assert (result.exception, result.documented, result.checks, result.cpu_ms) == (None, None, (), None)
    assert not result.has_metadata
    assert parse_run({**answer, "metadata": None}, 1).has_metadata
    assert parse_run({**answer, "cpu_ms": 0}, 1).cpu_ms == 0
    assert parse_run({**answer, "cpu_ms": -1}, 1).cpu_ms is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"protocol": None}, "it speaks protocol None"),
        ({"protocol": True}, "it speaks protocol True"),
        ({"protocol": 2}, "it speaks protocol 2"),
        ({"steps": []}, '"steps" must be a non-empty list'),
        ({"steps": ["load"]}, '"steps" must be a non-empty list'),
        ({"lacks": "dtype-f4"}, '"lacks" must be a list'),
        ({"lacks": [5]}, '"lacks" must be a list'),
        ({"lacks": ["x" * 101]}, '"lacks" must be a list'),
    ],
)
def test_a_start_that_says_too_little_or_too_much_is_refused(change: dict[str, Any], words: str) -> None:
    assert parse_start({**START, "lacks": ["x" * 100]}, "r").lacks == {"x" * 100}
    assert parse_start({**START, "steps": ["slice", "read", "open"]}, "r").steps == ("open", "read", "slice")
    with pytest.raises(ProtocolError, match=words):
        parse_start({**START, **change}, "r")
