"""What must be answered, and what is wrong about an answer."""

from __future__ import annotations

import random

import pytest

from safetensors_conformance.cli.common import corpus
from safetensors_conformance.outcome import StepResult
from safetensors_corpus.author.file import FileBuilder
from safetensors_fuzz.grammar.grammar import Grammar
from safetensors_fuzz.loop.expectation import opinion

NONE: frozenset[str] = frozenset()


def valid() -> bytes:
    builder = FileBuilder()
    builder.tensor("w", "F32", [2])
    builder.metadata({"k": "v"})
    return builder.render()


def test_a_valid_file_must_be_accepted_with_its_content() -> None:
    what = opinion(valid())
    assert (what.required, what.subject) == ("accept", "valid")
    content = what.content()
    assert content["metadata"] == {"k": "v"}
    assert [row["shape"] for row in content["tensors"]] == [[2]]
    right = StepResult("accept", tensors=content["tensors"], metadata={"k": "v"}, has_metadata=True)
    assert what.mistake_in(right, NONE) is None
    other = StepResult("accept", tensors=[], metadata={"k": "v"}, has_metadata=True)
    mistake = what.mistake_in(other, NONE)
    assert mistake is not None
    assert (mistake.verdict, mistake.kind) == ("wrong-content", "missing")
    refused = what.mistake_in(StepResult("reject", "Error: 12 things"), NONE)
    assert refused is not None
    assert (refused.verdict, refused.kind) == ("wrong-reject", "Error: # things")


def test_a_refusal_for_a_declared_lack_is_none() -> None:
    what = opinion(valid())
    assert what.mistake_in(StepResult("reject", "no F32"), frozenset({"dtype-f32"})) is None
    assert what.mistake_in(StepResult("unsupported", "no F32"), NONE) is None


def test_open_choices_leave_the_answer_open_and_profiles_close_them() -> None:
    builder = FileBuilder(before=b" ")
    builder.tensor("w", "F32", [2])
    data = builder.render()
    assert opinion(data).required == "open"
    assert opinion(data).choices == ("leading-whitespace",)
    assert opinion(data, "hardened").required == "reject"
    assert opinion(data, "official").required == "accept"
    assert opinion(data).mistake_in(StepResult("accept", tensors=[]), NONE) is None
    assert opinion(data).mistake_in(StepResult("reject", "no"), NONE) is None


@pytest.mark.parametrize(
    ("dtype", "shape", "content", "choice"),
    [
        ("F32", [0, 2**40], b"", "large-dimension"),
        ("U8", [1] * 9, b"x", "high-rank"),
        ("BOOL", [1], b"\x02", "bool-bytes"),
    ],
)
def test_a_valid_file_may_fall_under_a_choice(
    dtype: str, shape: list[int], content: bytes, choice: str
) -> None:
    builder = FileBuilder()
    builder.tensor("w", dtype, shape, content)
    what = opinion(builder.render())
    assert (what.required, what.choices) == ("open", (choice,))


def test_the_quick_way_gives_the_same_opinion() -> None:
    grammar = Grammar(random.Random(2))
    for _ in range(500):
        data = grammar.input().render()
        slow, fast = opinion(data), opinion(data, likely_valid=True)
        assert (slow.expected, slow.codes, slow.choices) == (fast.expected, fast.codes, fast.choices)
        if slow.header is not None:
            assert slow.content() == fast.content()


def test_it_agrees_with_what_the_cases_of_the_corpus_demand() -> None:
    checked = 0
    for case in corpus(None).reading[::5]:
        if case.heavy or case.size > 60_000 or case.expect is None or case.level != "must":
            continue
        what = opinion(case.read_input())
        if what.required != "open":
            assert what.required == case.expect.outcome, case.id
            checked += 1
    assert checked > 300
