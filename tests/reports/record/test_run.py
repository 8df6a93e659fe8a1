"""Run records: writing, the schema, reading, and damaged files."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from safetensors_corpus.judging.verdicts import DEVIATIONS, VERDICTS
from safetensors_reports.record.file import RecordError, RecordWriter, read_record
from safetensors_reports.record.run import RunRecord, summary_lines

from ...published_schemas import schema
from ..samples import Make, write_record

if TYPE_CHECKING:
    from pathlib import Path


FULL_CONTENT = Make.content("w\ud800\u202e", sha256=None, unsupported="no F4", metadata={"k": "\udfff"})
FULL_CONTENT["tensors"].append({"name": ""})
ROWS = [
    ("header", Make.header(cases=2)),
    ("result", Make.result("a/b", "pass", step="open", content=Make.content("v"))),
    ("result", Make.result("a/b", "wrong-accept", content=FULL_CONTENT)),
    ("result", Make.result("a/c", "choice:accept|by-position", choice="c", options=["accept"])),
    ("choice", {"type": "choice", "choice": "c", "verdict": "choice:accept", "detail": ""}),
    ("problem", {"message": "smoke: \ud800"}),
    ("footer", Make.FOOTER),
]


def write_full(path: Path) -> None:
    with RecordWriter(path) as writer:
        for kind, row in ROWS:
            writer.write(kind, row)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "run.jsonl"
    write_full(path)
    record = read_record(path)
    results = [row for kind, row in ROWS if kind == "result"]
    assert record == RunRecord(ROWS[0][1], results, [ROWS[4][1]], ["smoke: \ud800"], Make.FOOTER)
    assert record.label == "safetensors 0.8.0"
    assert not record.truncated
    assert not record.partial
    assert path.read_bytes().isascii()


def test_the_schema_has_the_vocabulary_of_verdicts_and_fits_written_lines(tmp_path: Path) -> None:
    write_full(tmp_path / "run.jsonl")
    validator = Draft202012Validator(schema("record"))
    lines = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    assert [validator.is_valid(line) for line in [*lines, {"type": "other"}]] == [True] * 7 + [False]
    more = {"choice": ["accept", "a|b"], "deviation": DEVIATIONS}
    good = [f"{v}:{m}" for v, ms in more.items() for m in ms] + [v for v in VERDICTS if v not in more]
    assert all(validator.is_valid(lines[1] | {"verdict": v}) for v in good)
    bad = ["choice", "choice:", "choice:a||b", "deviation", "deviation:x", "pass:x", "fine", ""]
    assert not any(validator.is_valid(lines[1] | {"verdict": v}) for v in bad)


def test_each_line_is_on_disk_before_the_next_and_numbers_that_json_lacks_are_null(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with RecordWriter(path) as writer:
        writer.write("header", Make.header())
        assert path.read_bytes().count(b"\n") == 1
        writer.write("result", Make.result("a/b", cpu_ms=float("nan"), wall_ms=float("inf")))
        record = read_record(path)
    assert (record.truncated, record.cases) == (True, 1)
    assert [record.results[0][name] for name in ("cpu_ms", "wall_ms")] == [None, None]


def test_a_record_cut_anywhere_after_its_header_is_a_truncated_run(tmp_path: Path) -> None:
    write_full(tmp_path / "run.jsonl")
    data = (tmp_path / "run.jsonl").read_bytes()
    cut = tmp_path / "cut.jsonl"
    for size in range(data.index(b"\n"), len(data) - 1, 7):
        cut.write_bytes(data[:size])
        record = read_record(cut)
        assert record.truncated
        whole = [line for line in data[: size + 1].split(b"\n")[:-1] if b'"type": "result"' in line]
        assert len(record.results) == len(whole)
    cut.write_bytes(data[:-1])
    assert not read_record(cut).truncated


HEADER, RESULT, FOOTER = (json.dumps(row) for row in (Make.header(), Make.result("a/b"), Make.FOOTER))
WHO = Make.header()["implementation"]


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("", 1, "no header"),
        ("{", 1, "not valid JSON"),
        (f"{{\n{HEADER}\n", 1, "not valid JSON"),
        ("[]\n", 1, "not a line of a run record"),
        (f"{RESULT}\n{HEADER}\n", 1, "before the header"),
        (f"{HEADER}\n{HEADER}\n", 2, "second header"),
        (f"{HEADER}\n{FOOTER}\n{RESULT}\n", 3, "after the footer"),
        ('{"type": "header", "record": 2}\n', 1, "record version 2"),
        ('{"type": "header", "record": 1}\n', 1, "has no 'suite'"),
        ('{"type": "header", "record": true}\n', 1, "bad header: record: must be a whole number"),
        # Reports look areas and kinds up, which another type would break.
        *(
            (json.dumps(Make.header(implementation={**WHO, field: {}})), 1, f"implementation.{field}")
            for field in ("areas", "steps", "lacks", "kind", "selector", "name", "version")
        ),
        ("\ufeff{}\n", 1, "not valid JSON"),
    ],
)
def test_what_is_no_record_or_several_names_the_line(
    tmp_path: Path, text: str, line: int, reason: str
) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(text)
    with pytest.raises(RecordError) as caught:
        read_record(path)
    message = str(caught.value)
    assert message.startswith(f"{path}, line {line}: ")
    assert reason in message
    assert "; " in message


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        (f"{HEADER}\n{{\n{RESULT}\n", 2, "not valid JSON"),
        (f"{HEADER}\n{{\n", 2, "not valid JSON"),
        (f'{HEADER}\n{{"type": "result", "wall_ms": NaN}}\n', 2, "NaN"),
        (f'{HEADER}\n{{"type": "result", "wall_ms": 1e999}}\n', 2, "1e999"),
        (f"{HEADER}\n{FOOTER}\n{{", 3, "not valid JSON"),
        (f"{HEADER}\n[]\n", 2, "not a line of a run record"),
        (f'{HEADER}\n{{"type": "news"}}\n', 2, "not a line of a run record"),
        (f'{HEADER}\n{{"type": ["header"]}}\n', 2, "not a line of a run record"),
        (f'{HEADER}\n{{"type": "result", "case": "a/b"}}\n', 2, "has no 'step'"),
        (f"{HEADER}\n" + "[" * 100_000 + "\n", 2, "not valid JSON"),
        (f"{HEADER}\n" + "[" * 500 + "]" * 500 + "\n", 2, "nested too deeply"),
        (f"{HEADER}\n" + '{"type": "problem", "message": ' + "9" * 5000 + "}\n", 2, "not valid JSON"),
        (f"{HEADER}\n\x1b]0;x\x07\u202e\n", 2, "not valid JSON"),
        (f"{HEADER}\r\n\r\n{{\r\n{RESULT}\r\n", 3, "not valid JSON"),
        # A field of a wrong type costs its line only.
        *(
            (f"{HEADER}\n{RESULT}\n{json.dumps(Make.result('a/c') | {field: value})}\n", 3, "")
            for field, value in (
                ("exception", {}),
                ("wall_ms", True),
                ("peak_bytes", 10**30),
                ("cpu_ms", -1e300),
                ("verdict", "fine\ud800" + "x" * 10_000),
                ("content", {"tensors": [7]}),
                ("content", {"metadata": json.loads("[" * 200 + "]" * 200)}),
                ("failures", [{}]),
            )
        ),
    ],
)
def test_a_bad_line_is_named_and_left_out(tmp_path: Path, text: str, line: int, reason: str) -> None:
    (tmp_path / "run.jsonl").write_text(text)
    record = read_record(tmp_path / "run.jsonl")
    assert record.left_out == 1
    (problem,) = record.problems
    assert problem.startswith(f"run.jsonl, line {line}: ")
    assert reason in problem
    assert problem.isprintable()
    assert len(problem) < 500
    assert len(record.results) == text.count(RESULT)


def test_a_line_that_does_not_say_its_case_may_be_of_either_neighbour_and_many_are_counted(
    tmp_path: Path,
) -> None:
    verdicts = {"a/a": "pass", "a/b": "pass", "a/c": "wrong-accept", "a/d": "pass"}
    rows = [Make.header(), *(Make.result(case, verdict) for case, verdict in verdicts.items())]
    lines = [json.dumps(row) for row in rows]
    (tmp_path / "run.jsonl").write_text("\n".join([*lines[:3], "{", *lines[3:]]) + "\n")
    record = read_record(tmp_path / "run.jsonl")
    assert record.case_verdicts == {case: v for case, v in verdicts.items() if case != "a/b"}
    # Of a/d only the opening is known: what is half known is not passed.
    opened = json.dumps(Make.result("a/d", step="open"))
    half = json.dumps(Make.result("a/d") | {"exception": {}})
    (tmp_path / "run.jsonl").write_text("\n".join([*lines[:4], opened, half, RESULT, ""]))
    assert "a/d" not in read_record(tmp_path / "run.jsonl").case_verdicts
    (tmp_path / "run.jsonl").write_text("\n".join([HEADER, *"{" * 1000, RESULT, FOOTER, ""]))
    record = read_record(tmp_path / "run.jsonl")
    assert (record.left_out, len(record.results), record.truncated) == (1000, 1, False)
    assert record.problems[-1] == "run.jsonl: skipped 980 more lines"
    assert len(record.problems) == 21


VALUES: list[Any] = [None, True, 0, -7, 10**30, 0.5, float("inf"), "", "x\ud800", [], [{}], {}, {"a": [1]}]


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_any_change_of_one_line_keeps_the_others(tmp_path_factory: Any, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("record") / "run.jsonl"
    write_full(path)
    lines = path.read_bytes().splitlines()
    number = data.draw(st.integers(1, len(lines) - 1))
    if data.draw(st.booleans()):
        row = json.loads(lines[number])
        row[data.draw(st.sampled_from([*row, "new"]))] = data.draw(st.sampled_from(VALUES))
        changed = json.dumps(row).encode()
    else:
        line = lines[number]
        start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(line))] * 2)))
        changed = line[:start] + data.draw(st.binary(max_size=6)).replace(b"\n", b"") + line[end:]
    others = [json.loads(line) for i, line in enumerate(lines) if i not in (0, number)]
    path.write_bytes(b"\n".join([*lines[:number], changed, *lines[number + 1 :]]) + b"\n")
    record = read_record(path)
    kept = [record.header, *record.results, *record.choices, *([record.footer] if record.footer else [])]
    assert all(row in kept for row in others if row["type"] != "problem")
    assert record.left_out <= 1
    assert {row["message"] for row in others if row["type"] == "problem"} <= set(record.problems)
    if record.left_out:
        assert record.problems[0].startswith(f"run.jsonl, line {number + 1}: ")
    assert all(line.isprintable() for line in summary_lines(record))


def test_a_missing_file_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"nothing\.jsonl: No such file.*pass the \.jsonl"):
        read_record(tmp_path / "nothing.jsonl")
    os.mkfifo(tmp_path / "run.jsonl")
    with pytest.raises(RecordError, match="not a regular file"):
        read_record(tmp_path / "run.jsonl")


def test_a_case_has_the_worst_verdict_of_its_steps() -> None:
    record = Make.run(
        Make.result("a/b", "pass", step="open"),
        Make.result("a/b", "wrong-content"),
        Make.result("a/c", "choice:accept", step="open"),
        Make.result("a/c", "pass"),
    )
    assert record.case_verdicts == {"a/b": "wrong-content", "a/c": "choice:accept"}
    assert record.counts() == {"wrong-content": 1, "choice": 1}
    assert record.cases == 2
    assert Make.run(Make.result("a/b"), cases=10, footer=None).not_run == 9
    partial = Make.run(Make.result("a/b"), cases=1, footer=Make.CUT)
    assert (partial.not_run, partial.partial) == (3, True)


def test_expected_failures_count_cases_that_fail_and_are_listed() -> None:
    record = Make.run(
        Make.result("a/listed", "wrong-accept", step="open", expected_failure=True),
        Make.result("a/listed", "wrong-accept", expected_failure=True),
        Make.result("a/half", "wrong-accept", step="open", expected_failure=True),
        Make.result("a/half", "wrong-content"),
        Make.result("a/stale", "pass", expected_failure=True),
        Make.result("a/new", "unsafe"),
        Make.result("a/missed-recommendation", "not-strict", expected_failure=True),
        Make.result("a/half-recommendation", "not-strict", step="open", expected_failure=True),
        Make.result("a/half-recommendation", "not-strict"),
    )
    assert record.expected_cases == {"a/listed", "a/missed-recommendation"}


def test_half_a_case_is_not_passed() -> None:
    kinds = {"pass": False, "choice:accept": False, "wrong-accept": True, "unsafe": True}
    for verdict, kept in kinds.items():
        rows = (Make.result("a/b"), Make.result("a/c", verdict, step="open"))
        cut = Make.run(*rows, footer=None)
        assert cut.half_run == {"a/c"}
        assert ("a/c" in cut.case_verdicts) is kept, verdict
        assert cut.not_run == (0 if kept else 1)
        assert Make.run(*rows).case_verdicts["a/c"] == verdict


def test_a_label_has_the_version_once() -> None:
    for selector, version, label in (
        ("mlx==0.32.4", "0.32.4", "mlx 0.32.4"),
        ("torch-dcp==2.13.0", "2.13.0+cpu", "torch-dcp 2.13.0+cpu"),
        ("mlx==0.32.4", "0.32.5", "mlx==0.32.4 0.32.5"),
        ("mlx:entry", "0.32.4", "mlx:entry 0.32.4"),
        ("mine", "unknown", "mine"),
    ):
        record = Make.run(name="mine", version=version)
        record.implementation["selector"] = selector
        assert record.label == label


def test_failures_are_attributed_by_the_whole_record(tmp_path: Path) -> None:
    failure = {"verdict": "wrong-reject", "rule": "FRM-02", "basis": "text", "property": "outcome"}
    charged = {"rules": ["FRM-02"], "rule": "FRM-02", "failures": [failure | {"detail": ""}]}
    accepted = [Make.result(f"a/{n}", rules=["FRM-02"], failures=[]) for n in range(7)]
    run = Make.run(*accepted, Make.result("a/b", "wrong-reject", outcome="reject", **charged))
    assert read_record(write_record(tmp_path / "run.jsonl", run)).results[-1]["rule"] == "FRM-11"
