"""Verdicts for every outcome and every kind of expectation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from safetensors_conformance.case_verdict import judge, judge_choice, wrongly_refused
from safetensors_conformance.outcome import Implementation, StepResult
from safetensors_corpus import Case
from safetensors_corpus.judging.content import first_difference
from safetensors_corpus.judging.verdicts import badness
from safetensors_corpus.manifest import Expectation

from ..support import cases

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


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tensors": []}, 'tensor "w" is missing'),
        ({"tensors": [*CONTENT["tensors"], {"name": "x"}]}, '"x" is reported'),
        ({"tensors": CONTENT["tensors"] * 2}, "reported twice"),
        ({"tensors": [{"name": "w", "dtype": "I32"}]}, "dtype I32 instead of F32"),
        ({"tensors": [{"name": "w", "shape": [2, 1]}]}, "shape [2, 1] instead of [2]"),
        ({"tensors": [{"name": "w", "nbytes": 4}]}, "nbytes 4 instead of 8"),
        ({"tensors": [{"name": "w", "sha256": "b" * 64}]}, "other bytes"),
        ({"metadata": {"k": "x"}}, "'x' instead of \"v\""),
        ({"metadata": {}}, 'metadata key "k" is missing'),
        ({"metadata": {"k": "v", "l": ""}}, 'metadata key "l" is reported'),
    ],
)
def test_the_first_difference_is_named(change: dict[str, Any], words: str) -> None:
    found = first_difference(CONTENT, replace(ACCEPT, **change))
    assert found is not None
    assert words in found.text


def test_refusing_a_file_of_many_parts_is_as_grave_as_refusing_the_weakest() -> None:
    def refused(*rules: str) -> tuple[str, str | None]:
        case = a_case(Expectation("accept", CONTENT, ()), rules=("FRM-11", *rules))
        judged = judge(case, {"read": REJECT}, WHO, None).steps["read"]
        return judged.verdict, judged.failures[0].basis if judged.failures else None

    assert refused("SHP-11", "HDR-17") == ("wrong-reject", "text")
    assert refused("SHP-11", "DTY-01") == ("deviation:reject", "official")
    # Nobody has to have what a rule only permits.
    assert refused("SHP-11", "ENT-10") == ("unsupported", None)


def test_answers_of_one_choice_must_fit_one_option() -> None:
    takes = judge(CHOICE, {"read": ACCEPT}, WHO, None)
    refuses = judge(replace(CHOICE, id="header/other"), {"read": REJECT}, WHO, None)
    assert judge_choice("leading-whitespace", [takes, takes]) == ("choice:accept", "")
    found, detail = judge_choice("leading-whitespace", [takes, refuses])
    assert found == "choice-inconsistent"
    assert "header/other reject" in detail


def test_refusing_another_rule_of_a_file_is_no_answer_to_its_choice() -> None:
    takes = judge(CHOICE, {"read": ACCEPT}, WHO, None)
    case = replace(CHOICE, id="header/other", rules=(*CHOICE.rules, "FRM-09"))
    refuses = judge(case, {"read": REJECT}, WHO, None)
    valid = a_case(rules=("FRM-09",), expect=Expectation("accept", None, ()))
    refused = wrongly_refused([takes, refuses, judge(valid, {"read": REJECT}, WHO, None)])
    assert refused == {"FRM-09"}
    assert judge_choice("leading-whitespace", [takes, refuses], refused) == ("choice:accept", "")
    # Accepting such a file is an answer, and so is refusing one that needs no such rule.
    assert (
        judge_choice("leading-whitespace", [judge(case, {"read": ACCEPT}, WHO, None)], refused)[0]
        == "choice:accept"
    )
    plain = judge(replace(CHOICE, id="header/other"), {"read": REJECT}, WHO, None)
    assert judge_choice("leading-whitespace", [takes, plain], refused)[0] == "choice-inconsistent"


def test_a_limit_may_lie_anywhere() -> None:
    options = {"accept": Expectation("accept", None, ()), "reject": Expectation("reject", None, ("X",))}
    low = judge(replace(CHOICE, choice="high-rank", options=options), {"read": ACCEPT}, WHO, None)
    high = judge(replace(low.case, id="shape/high"), {"read": REJECT}, WHO, None)
    assert judge_choice("high-rank", [low, high])[0] == "choice:limited"
