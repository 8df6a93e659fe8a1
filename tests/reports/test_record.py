"""Run records: written, validated, read back, torn, garbled."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from safetensors_corpus.judging.verdicts import DEVIATIONS, VERDICTS
from safetensors_reports.record import RecordError, RecordWriter, RunRecord, read_record
from safetensors_reports.schema import record_schema

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Make

FULL_CONTENT = {
    "tensors": [
        {
            "name": "w\ud800\u202e",
            "dtype": "F32",
            "shape": [2, 0],
            "nbytes": 0,
            "sha256": None,
            "unsupported": "no F4",
        },
        {"name": ""},
    ],
    "metadata": {"k": "\udfff"},
}


def write_full(path: Path, make: type[Make]) -> None:
    with RecordWriter(path) as writer:
        writer.header(make.header(cases=2))
        writer.result(make.result("a/b", "pass", step="open", content=None))
        writer.result(make.result("a/b", "wrong-accept", content=FULL_CONTENT))
        writer.result(make.result("a/c", "choice:accept|by-position", choice="c", options=["accept"]))
        writer.choice({"choice": "c", "verdict": "choice:accept", "detail": ""})
        writer.problem("smoke: \ud800")
        writer.footer(complete=True, duration_s=3.1, not_run=0)


def test_what_is_written_is_read_back(tmp_path: Path, make: type[Make]) -> None:
    path = tmp_path / "new" / "folder" / "run.jsonl"
    write_full(path, make)
    record = read_record(path)
    assert record.header == make.header(cases=2)
    assert [r["step"] for r in record.results] == ["open", "read", "read"]
    assert record.results[1]["content"] == FULL_CONTENT
    assert record.choices[0]["verdict"] == "choice:accept"
    assert record.problems == ["smoke: \ud800"]
    assert record.footer == {"type": "footer", "complete": True, "duration_s": 3.1, "not_run": 0}
    assert record.label == "safetensors 0.8.0"
    assert not record.truncated
    assert not record.partial
    assert path.read_bytes().isascii()


def test_written_lines_fulfil_the_published_schema(tmp_path: Path, make: type[Make]) -> None:
    write_full(tmp_path / "run.jsonl", make)
    schema = record_schema()
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    lines = (tmp_path / "run.jsonl").read_text().splitlines()
    assert len(lines) == 7
    for line in lines:
        validator.validate(json.loads(line))
    broken = json.loads(lines[1]) | {"verdict": "choice:"}
    assert not validator.is_valid(broken)
    assert not validator.is_valid({"type": "other"})


def test_schema_and_vocabulary_are_the_same() -> None:
    plain = record_schema()["$defs"]["verdict"]["anyOf"][0]["enum"]
    assert {*plain, "choice", "deviation"} == set(VERDICTS)
    (deviations,) = [
        e["pattern"] for e in record_schema()["$defs"]["verdict"]["anyOf"] if "deviation" in str(e)
    ]
    assert deviations == f"^deviation:({'|'.join(DEVIATIONS)})$"


def test_each_line_is_on_disk_before_the_next(tmp_path: Path, make: type[Make]) -> None:
    path = tmp_path / "run.jsonl"
    with RecordWriter(path) as writer:
        writer.header(make.header())
        assert path.read_bytes().count(b"\n") == 1
        writer.result(make.result("a/b"))
        assert read_record(path).truncated
        assert read_record(path).cases == 1


def test_leaving_the_block_early_leaves_a_truncated_record(tmp_path: Path, make: type[Make]) -> None:
    path = tmp_path / "run.jsonl"

    def interrupted() -> None:
        with RecordWriter(path) as writer:
            writer.header(make.header())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert read_record(path).truncated


def test_numbers_that_json_lacks_become_null(tmp_path: Path, make: type[Make]) -> None:
    path = tmp_path / "run.jsonl"
    with RecordWriter(path) as writer:
        writer.header(make.header())
        writer.result(make.result("a/b", cpu_ms=float("nan"), wall_ms=float("inf")))
    row = read_record(path).results[0]
    assert (row["cpu_ms"], row["wall_ms"]) == (None, None)


def test_a_record_cut_anywhere_after_its_header_is_a_truncated_run(tmp_path: Path, make: type[Make]) -> None:
    write_full(tmp_path / "run.jsonl", make)
    data = (tmp_path / "run.jsonl").read_bytes()
    cut = tmp_path / "cut.jsonl"
    for size in range(data.index(b"\n"), len(data) - 1, 3):
        cut.write_bytes(data[:size])
        record = read_record(cut)
        assert record.truncated
        whole = [line for line in data[: size + 1].split(b"\n")[:-1] if b'"type": "result"' in line]
        assert len(record.results) == len(whole)
    cut.write_bytes(data[:-1])
    assert not read_record(cut).truncated


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("", 1, "no header"),
        ("{", 1, "not a line of JSON"),
        ("HEADER\n{\nRESULT\n", 2, "not a line of JSON"),
        ("HEADER\n{\n", 2, "not a line of JSON"),
        ('HEADER\n{"type": "result", "wall_ms": NaN}\n', 2, "NaN"),
        ("RESULT\nHEADER\n", 1, "before the header"),
        ("HEADER\nHEADER\n", 2, "second header"),
        ("HEADER\nFOOTER\nRESULT\n", 3, "after the footer"),
        ("HEADER\nFOOTER\n{", 3, "not a line of JSON"),
        ("HEADER\n[]\n", 2, "not a line of a run record"),
        ('HEADER\n{"type": "news"}\n', 2, "not a line of a run record"),
        ('HEADER\n{"type": ["header"]}\n', 2, "not a line of a run record"),
        ('HEADER\n{"type": "result", "case": "a/b"}\n', 2, "required"),
        ('{"type": "header", "record": 2}\n', 1, "record version 2"),
        ("HEADER\n" + "[" * 100_000 + "\n", 2, "not a line of JSON"),
        ("HEADER\n" + '{"type": "problem", "message": ' + "9" * 5000 + "}\n", 2, "not a line of JSON"),
    ],
)
def test_garbled_records_name_the_line(
    tmp_path: Path, make: type[Make], text: str, line: int, reason: str
) -> None:
    footer = {"type": "footer", "complete": True, "duration_s": 1, "not_run": 0}
    rows = {"HEADER": make.header(), "RESULT": make.result("a/b"), "FOOTER": footer}
    for word, row in rows.items():
        text = text.replace(word, json.dumps(row))
    path = tmp_path / "run.jsonl"
    path.write_text(text)
    with pytest.raises(RecordError) as caught:
        read_record(path)
    message = str(caught.value)
    assert message.startswith(f"{path}, line {line}: ")
    assert reason in message
    assert "; " in message


def test_a_bad_value_is_named_and_bounded(tmp_path: Path, make: type[Make]) -> None:
    path = tmp_path / "run.jsonl"
    rows = [make.header(), make.result("a/b", "fine\ud800" + "x" * 10_000)]
    path.write_text("\n".join(json.dumps(row) for row in rows))
    with pytest.raises(RecordError, match=r"result\['verdict'\]") as caught:
        read_record(path)
    assert len(str(caught.value)) < len(str(path)) + 500
    str(caught.value).encode()


@pytest.mark.parametrize("data", [b"\xff\xfe{\0", b"\xef\xbb\xbf{}", b"\0" * 20])
def test_other_encodings_are_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(data + b"\n")
    with pytest.raises(RecordError, match="line 1"):
        read_record(path)


def test_a_missing_file_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"nothing\.jsonl: No such file.*give the \.jsonl"):
        read_record(tmp_path / "nothing.jsonl")


def test_windows_line_ends_and_blank_lines_are_no_matter(tmp_path: Path, make: type[Make]) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(
        json.dumps(make.header()).encode() + b"\r\n\r\n" + json.dumps(make.result("a/b")).encode()
    )
    assert read_record(path).cases == 1


def test_a_case_has_the_worst_verdict_of_its_steps(make: type[Make]) -> None:
    record = make.run(
        make.result("a/b", "pass", step="open"),
        make.result("a/b", "wrong-content"),
        make.result("a/c", "choice:accept", step="open"),
        make.result("a/c", "pass"),
    )
    assert record.case_verdicts() == {"a/b": "wrong-content", "a/c": "choice:accept"}
    assert record.counts() == {"wrong-content": 1, "choice": 1}
    assert record.cases == 2


def test_expected_failures_count_cases_that_fail_and_are_listed(make: type[Make]) -> None:
    record = make.run(
        make.result("a/listed", "wrong-accept", step="open", expected_failure=True),
        make.result("a/listed", "wrong-accept", expected_failure=True),
        make.result("a/half", "wrong-accept", step="open", expected_failure=True),
        make.result("a/half", "wrong-content"),
        make.result("a/stale", "pass", expected_failure=True),
        make.result("a/new", "unsafe"),
    )
    assert record.expected_cases() == {"a/listed"}
    assert record.expected_failures == 1


def test_not_run_is_what_the_corpus_has_more(make: type[Make]) -> None:
    footer = {"complete": False, "duration_s": 1.0, "not_run": 2}
    assert make.run(make.result("a/b"), cases=10, footer=None).not_run == 9
    assert make.run(make.result("a/b"), cases=1, footer=footer).not_run == 2
    assert make.run(make.result("a/b"), cases=1, footer=footer).partial


@pytest.mark.parametrize(
    ("verdict", "kept"), [("pass", False), ("choice:accept", False), ("wrong-accept", True), ("unsafe", True)]
)
def test_half_a_case_is_not_passed(make: type[Make], verdict: str, kept: bool) -> None:
    rows = (make.result("a/b"), make.result("a/c", verdict, step="open"))
    cut = make.run(*rows, footer=None)
    assert cut.unfinished == "a/c"
    assert ("a/c" in cut.case_verdicts()) is kept
    assert cut.not_run == (0 if kept else 1)
    assert make.run(*rows).case_verdicts()["a/c"] == verdict


def test_a_label_without_a_known_version_is_the_name(make: type[Make]) -> None:
    assert make.run(name="mine", version="unknown").label == "mine"


texts = st.text(st.characters(exclude_categories=()), max_size=20)


@given(name=texts, problem=texts, metadata=st.dictionaries(texts, texts, max_size=3))
def test_any_text_survives(
    tmp_path_factory: Any, make: type[Make], name: str, problem: str, metadata: dict[str, str]
) -> None:
    path = tmp_path_factory.mktemp("record") / "run.jsonl"
    content = {"tensors": [{"name": name}], "metadata": metadata}
    with RecordWriter(path) as writer:
        writer.header(make.header())
        writer.result(make.result(name, content=content))
        writer.problem(problem)
    record: RunRecord = read_record(path)
    assert record.results[0]["content"] == content
    assert record.results[0]["case"] == name
    assert record.problems == [problem]
