"""Verdicts for every outcome and every kind of expectation, which are told alike in all forms."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from safetensors_conformance.case_verdict import (
    CaseVerdict,
    explain_failure,
    judge,
    judge_choice,
    result_row,
    wrongly_refused,
)
from safetensors_conformance.outcome import Implementation, StepResult
from safetensors_corpus import Case
from safetensors_corpus.in_process import mismatch
from safetensors_corpus.judging.answer import Flaw
from safetensors_corpus.judging.content import first_difference
from safetensors_corpus.judging.verdicts import VERDICTS, badness, fails, kind_of
from safetensors_corpus.judging.written_folder import MEANINGS
from safetensors_corpus.manifest import Expectation
from safetensors_reports.audit.findings import collect_findings
from safetensors_reports.record.run import RunRecord
from safetensors_reports.text import stable

from ..suite_runs import one_of_each
from ..support import cases, committed, record_header

LACKS = ("a-feature",)
WHO = Implementation("x", "1", "Python", ("open", "read"), frozenset(LACKS), selector="x")
CONTENT: dict[str, Any] = {
    "tensors": [{"name": "w", "dtype": "F32", "shape": [2], "nbytes": 8, "sha256": "a" * 64}],
    "metadata": {"k": "v"},
}
ACCEPT = StepResult("accept", tensors=CONTENT["tensors"], metadata={"k": "v"}, has_metadata=True)
REJECT = StepResult("reject", "no")


def a_case(expect: Expectation | None = None, **changes: Any) -> Case:
    """Return a case like the first of the corpus, with another expectation."""
    return replace(cases("framing/one-tensor")[0], expect=expect, **changes)


MUST_ACCEPT = a_case(Expectation("accept", CONTENT, ()))
UNSUPPORTED = {"name": "w", "dtype": "F32", "shape": [2], "unsupported": "no such type"}
MAY_ACCEPT = replace(MUST_ACCEPT, level="may")
MUST_REJECT = a_case(Expectation("reject", None, ("OFF_HOLE",)))
CHOICE = a_case(
    None,
    choice="leading-whitespace",
    options={"accept": Expectation("accept", CONTENT, ()), "reject": Expectation("reject", None, ("X",))},
    level="may",
)
REQUIRED = a_case(
    None,
    choice="duplicate-tensor-names",
    options={
        "reject": Expectation("reject", None, ("HDR_DUP_KEY",)),
        "last-wins": Expectation("accept", CONTENT, ()),
        "first-wins": Expectation("accept", {**CONTENT, "tensors": []}, ()),
    },
)


def verdict(case: Case, open_: StepResult, read: StepResult, profile: str | None = None) -> tuple[str, str]:
    """Return the verdicts of both steps. The verdict on the case is the worst of them."""
    judged = judge(case, {"open": open_, "read": read}, WHO, profile)
    both = judged.steps["open"].verdict, judged.steps["read"].verdict
    assert judged.verdict == min(both, key=badness)
    return both


@pytest.mark.parametrize(
    ("case", "open_", "read", "profile", "expected"),
    [
        (MUST_ACCEPT, ACCEPT, ACCEPT, None, ("pass", "pass")),
        (MUST_ACCEPT, REJECT, REJECT, None, ("wrong-reject", "wrong-reject")),
        (MUST_ACCEPT, ACCEPT, REJECT, None, ("pass", "wrong-reject")),
        (MUST_ACCEPT, ACCEPT, replace(ACCEPT, tensors=[]), None, ("pass", "wrong-content")),
        (MUST_ACCEPT, ACCEPT, replace(ACCEPT, metadata={}), None, ("pass", "wrong-content")),
        (MUST_ACCEPT, ACCEPT, replace(ACCEPT, metadata=None, has_metadata=False), None, ("pass", "pass")),
        (MUST_ACCEPT, ACCEPT, replace(ACCEPT, tensors=[UNSUPPORTED]), None, ("pass", "unsupported")),
        (MAY_ACCEPT, ACCEPT, replace(ACCEPT, tensors=[]), None, ("pass", "wrong-content")),
        (MUST_REJECT, REJECT, REJECT, None, ("pass", "pass")),
        (MUST_REJECT, ACCEPT, ACCEPT, None, ("wrong-accept", "wrong-accept")),
        (MUST_REJECT, ACCEPT, REJECT, None, ("late-reject", "pass")),
        (MUST_REJECT, REJECT, StepResult("crash"), None, ("pass", "unsafe")),
        (MUST_ACCEPT, StepResult("hang"), StepResult("exhausted"), None, ("unsafe", "unsafe")),
        (MUST_REJECT, StepResult("harness-error"), REJECT, None, ("harness-error", "pass")),
        (MUST_ACCEPT, StepResult("unsupported"), ACCEPT, None, ("unsupported", "pass")),
        (replace(MUST_REJECT, level="should"), ACCEPT, ACCEPT, None, ("not-strict", "not-strict")),
        (replace(MUST_REJECT, level="may"), ACCEPT, ACCEPT, None, ("not-strict", "not-strict")),
        (replace(MUST_ACCEPT, level="should"), REJECT, REJECT, None, ("not-strict", "not-strict")),
        (MAY_ACCEPT, REJECT, REJECT, None, ("unsupported", "unsupported")),
        (replace(MUST_ACCEPT, features=LACKS), StepResult("crash"), REJECT, None, ("unsafe", "unsupported")),
        (replace(MUST_REJECT, features=LACKS), ACCEPT, ACCEPT, None, ("wrong-accept", "wrong-accept")),
        (CHOICE, ACCEPT, ACCEPT, None, ("choice:accept", "choice:accept")),
        (CHOICE, REJECT, REJECT, None, ("choice:reject", "choice:reject")),
        (CHOICE, ACCEPT, replace(ACCEPT, tensors=[]), None, ("choice:accept", "wrong-content")),
        (CHOICE, replace(ACCEPT, tensors=[]), REJECT, None, ("late-reject", "choice:reject")),
        (CHOICE, REJECT, REJECT, "text", ("pass", "pass")),
        (CHOICE, ACCEPT, ACCEPT, "text", ("wrong-accept", "wrong-accept")),
        (CHOICE, REJECT, REJECT, "official", ("deviation:reject", "deviation:reject")),
        (CHOICE, StepResult("crash"), REJECT, None, ("unsafe", "choice:reject")),
        (REQUIRED, REJECT, REJECT, None, ("pass", "pass")),
        (REQUIRED, ACCEPT, ACCEPT, None, ("wrong-accept", "wrong-accept")),
        (REQUIRED, ACCEPT, ACCEPT, "official", ("pass", "pass")),
        (REQUIRED, REJECT, REJECT, "official", ("deviation:reject", "deviation:reject")),
        (REQUIRED, ACCEPT, replace(ACCEPT, tensors=[]), "official", ("pass", "wrong-content")),
    ],
)
def test_verdicts(
    case: Case, open_: StepResult, read: StepResult, profile: str | None, expected: tuple[str, str]
) -> None:
    assert verdict(case, open_, read, profile) == expected


def test_the_first_difference_is_named() -> None:
    for change, words in (
        ({"tensors": [{"name": "w", "nbytes": 4}]}, "nbytes 4 instead of 8"),
        ({"metadata": {"k": "v", "l": ""}}, 'metadata key "l" is reported'),
    ):
        assert words in str(first_difference(CONTENT, replace(ACCEPT, **change)))


def test_refusing_a_file_of_many_parts_is_as_grave_as_refusing_the_weakest() -> None:
    def refused(*rules: str) -> tuple[str, str | None]:
        case = a_case(Expectation("accept", CONTENT, ()), rules=("FRM-11", *rules))
        judged = judge(case, {"read": REJECT}, WHO, None).steps["read"]
        return judged.verdict, judged.failures[0].basis if judged.failures else None

    assert refused("SHP-11", "HDR-17") == ("wrong-reject", "text")
    assert refused("SHP-11", "DTY-01") == ("deviation:reject", "official")
    # Nobody has to have what a rule only permits.
    assert refused("SHP-11", "ENT-10") == ("unsupported", None)


def test_answers_of_one_choice_must_fit_one_option_unless_they_refuse_another_rule() -> None:
    def other(answer: StepResult, *rules: str) -> CaseVerdict:
        case = replace(CHOICE, id="header/other", rules=(*CHOICE.rules, *rules))
        return judge(case, {"read": answer}, WHO, None)

    takes, refuses = judge(CHOICE, {"read": ACCEPT}, WHO, None), other(REJECT, "FRM-09")
    found, detail = judge_choice("leading-whitespace", [takes, other(REJECT)])
    assert (found, "header/other reject" in detail) == ("choice-inconsistent", True)
    valid = a_case(rules=("FRM-09",), expect=Expectation("accept", None, ()))
    refused = wrongly_refused([takes, refuses, judge(valid, {"read": REJECT}, WHO, None)])
    assert refused == {"FRM-09"}
    assert judge_choice("leading-whitespace", [takes, refuses], refused) == ("choice:accept", "")
    # Accepting such a file is an answer, and so is refusing one that needs no such rule.
    assert judge_choice("leading-whitespace", [other(ACCEPT, "FRM-09")], refused)[0] == "choice:accept"
    assert judge_choice("leading-whitespace", [takes, other(REJECT)], refused)[0] == "choice-inconsistent"


def test_a_limit_may_lie_anywhere() -> None:
    options = {"accept": Expectation("accept", None, ()), "reject": Expectation("reject", None, ("X",))}
    low = judge(replace(CHOICE, choice="high-rank", options=options), {"read": ACCEPT}, WHO, None)
    high = judge(replace(low.case, id="shape/high"), {"read": REJECT}, WHO, None)
    assert judge_choice("high-rank", [low, high])[0] == "choice:limited"


# Every case, with many outcomes, reports the same in the terminal, in records and in reports


READER = replace(WHO, steps=("open", "read", "slice", "write", "index", "lifecycle"), lacks=frozenset())


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


SORTS = one_of_each(committed().cases)[::2]
PARTS = [pytest.param(committed().cases[part::8], marks=pytest.mark.nightly) for part in range(8)]


@pytest.mark.parametrize("cases", [SORTS, *PARTS], ids=range(9))
def test_every_case_says_one_thing_in_all_forms(cases: Sequence[Case]) -> None:
    """Judge right and wrong answers to each case, and compare all texts about them."""
    assert len(cases) > 100
    for case in cases:
        step, told = case.steps[-1], set()
        for answer in answers(case):
            verdict = judge(case, {step: answer}, READER, None)
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
    text = explain_failure(READER, case, row, None, stderr="last\x1b[31m words")
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
