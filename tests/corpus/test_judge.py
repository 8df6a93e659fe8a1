"""The judge by itself: what answers to an input with known demands count."""

from __future__ import annotations

import pytest

from safetensors_corpus.judging.answer import Answer
from safetensors_corpus.judging.judge import Demand, judge_step
from safetensors_corpus.manifest import Expectation

ROW = {"name": "w", "dtype": "U8", "shape": [2], "nbytes": 2, "sha256": "a"}
RIGHT = Expectation("accept", {"tensors": [ROW]}, ())
REFUSED = Expectation("reject", None, ("IO_ERROR",))
OTHER = Answer("accept", tensors=[{**ROW, "sha256": "b"}])


def verdict(demand: Demand, answer: Answer) -> tuple[str, str]:
    judged = judge_step(demand, "s", {"s": answer})
    return judged.verdict, judged.failures[0].rule if judged.failures else ""


@pytest.mark.parametrize(
    ("kind", "rule", "choice", "word"),
    [
        # Neither copy of a tensor, or what fits no option: a fault, though no option is demanded.
        ("index", "IDX-11", "index-tensor-twice", "deviation:content"),
        ("slice", "API-06", "slice-reversed", "deviation:content"),
        # What is read of a file that is cut meanwhile: a recommendation.
        ("lifecycle", "API-11", "truncated-after-open", "not-strict"),
    ],
)
def test_content_that_fits_no_option_is_as_bad_as_its_rule(
    kind: str, rule: str, choice: str, word: str
) -> None:
    demand = Demand((rule,), None, "may", (), kind, choice, {"one": RIGHT, "error": REFUSED})
    assert verdict(demand, OTHER) == (word, rule)


def test_what_a_rule_permits_nobody_must_have() -> None:
    demand = Demand(("ENT-10",), RIGHT, "may")
    assert verdict(demand, Answer("reject", "too long")) == ("unsupported", "")
    assert verdict(demand, OTHER) == ("wrong-content", "DAT-06")
    assert verdict(Demand(("ENT-01",), RIGHT), Answer("reject")) == ("wrong-reject", "ENT-01")


def test_an_input_without_a_rule_is_judged() -> None:
    demand = Demand((), RIGHT, kind="slice")
    assert verdict(demand, Answer("reject")) == ("wrong-reject", "")
    assert verdict(demand, OTHER) == ("wrong-content", "")
