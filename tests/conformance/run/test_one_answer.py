"""Every case, with many outcomes, reports the same in the terminal, in records and in reports."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from safetensors_conformance.case_verdict import explain_failure, judge, result_row
from safetensors_conformance.outcome import Implementation, StepResult
from safetensors_corpus import Case
from safetensors_corpus.in_process import mismatch
from safetensors_corpus.judging.answer import Flaw
from safetensors_corpus.judging.verdicts import VERDICTS, badness, fails, kind_of
from safetensors_corpus.judging.written_folder import MEANINGS
from safetensors_reports.audit.findings import collect_findings
from safetensors_reports.record.run import RunRecord
from safetensors_reports.text import stable

from ..suite_runs import one_of_each
from ..support import committed, record_header

WHO = Implementation(
    "x", "1", "Python", ("open", "read", "slice", "write", "index", "lifecycle"), selector="x"
)


def answers(case: Case) -> Iterator[StepResult]:
    """Yield right and wrong answers of every outcome."""
    for expectation in [case.expect] if case.expect is not None else case.options.values():
        assert expectation is not None
        content = copy.deepcopy(expectation.content) or {}
        rows = content.get("tensors")
        right = StepResult(
            "accept",
            tensors=rows,
            metadata=content.get("metadata"),
            has_metadata="metadata" in content,
            tensor_count=content.get("tensor_count"),
        )
        yield right
        if rows:
            yield StepResult("accept", tensors=rows[1:], has_metadata=True)
            yield StepResult("accept", tensors=[{**rows[0], "sha256": "0" * 64}, *rows[1:]])
            yield StepResult("accept", tensors=[{**rows[0], "dtype": "F8_E4M3"}, *rows[1:]])
        for name in expectation.properties:
            yield StepResult("reject", "full", flaws=(Flaw(name, "", MEANINGS[name]),))
    yield StepResult("accept", tensors=[], metadata={"more": "1"}, has_metadata=True)
    yield StepResult("reject", "no\x1b[31m\n::warning::no", exception="OverflowError", documented=False)
    yield StepResult("crash", "killed by SIGSEGV", stderr="last words")
    yield StepResult("unsupported", "not yet")
    yield StepResult("harness-error", "the adapter failed")


def labelled(text: str, label: str) -> list[str]:
    """Return the rows of a failure message with a label."""
    return [line[12:] for line in text.splitlines() if line.startswith(f"  {label:<9} ")]


def test_a_case_of_every_sort_says_one_thing_in_all_forms() -> None:
    cases = one_of_each(committed().cases)
    assert len(cases) > 200
    say_one_thing(cases[::2])


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(8))
def test_every_case_says_one_thing_in_all_forms(part: int) -> None:
    say_one_thing(committed().cases[part::8])


def say_one_thing(cases: Sequence[Case]) -> None:
    """Judge right and wrong answers to each case, and compare all texts about them."""
    for case in cases:
        step, told = case.steps[-1], set()
        for answer in answers(case):
            verdict = judge(case, {step: answer}, WHO, None)
            judged, row = verdict.steps[step], result_row(verdict, step, expected_failure=False)
            assert kind_of(judged.verdict) in VERDICTS
            failing = fails(judged.verdict, strict=True)
            # The matrix that proves the corpus sees the same, and refusals of what no reader must have.
            excused = judged.verdict == "unsupported" and answer.outcome == "reject"
            assert (mismatch(case, answer) is not None) == (failing or excused)
            if not failing or judged.verdict == "harness-error":
                assert not judged.failures
                continue
            assert row["verdict"] == min((f["verdict"] for f in row["failures"]), key=badness)
            kind = tuple((f["verdict"], f["rule"], f["property"]) for f in row["failures"])
            if kind not in told:
                told.add(kind)
                check(case, row)


def check(case: Case, row: dict[str, Any]) -> None:
    """Hold the message of the terminal to the rule charged, and the report to the message."""
    text = explain_failure(WHO, case, row, None, stderr="last\x1b[31m words")
    charged = {f["rule"] for f in row["failures"] if f["rule"]}
    assert {line.partition(" ")[0] for line in labelled(text, "rule")} <= charged
    if row["rule"]:
        basis = row["failures"][0]["basis"]
        assert labelled(text, "rule")[0].startswith(f"{row['rule']} (")
        assert labelled(text, "basis")[0].startswith(f"{basis}: ")
        assert row["verdict"].startswith("wrong-") <= (basis == "text")
    assert "\x1b" not in text
    assert "\n::" not in text
    findings, _ = collect_findings([("x 1", RunRecord(record_header(), [row]))], committed())
    assert {(f.rule, f.verdict) for f in findings} == {
        (f["rule"], kind_of(f["verdict"])) for f in row["failures"] if f["rule"]
    }
    for found in findings:
        assert found.expected == labelled(text, "expected")[0]
        assert found.reproducer == labelled(text, "again")[0]
        details = [f["detail"] for f in row["failures"] if f["rule"] == found.rule]
        assert any(stable(detail, 100)[:60] in found.got for detail in details)
    worst = next(f for f in findings if f.rule == row["rule"]) if row["rule"] else None
    where = labelled(text, "where")
    if worst is not None and where:
        assert worst.evidence is not None
        place = worst.evidence.where
        assert place is not None
        assert where[0].startswith(f"file bytes {place.start}..")
        assert where[0].endswith(place.text)
