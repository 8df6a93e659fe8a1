"""Sorts, signatures and counts of disagreements, from records made by hand."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import to_builtins

from safetensors_reports.differences.report import (
    DiffDocument,
    DiffImplementation,
    diff_markdown,
    diff_text,
    document,
    in_words,
)
from safetensors_reports.differences.signatures import Differences, InputInfo, evaluate, signature_of

from ...published_schemas import schema, schema_error
from ..samples import Make

HOLE = InputInfo("OFF_HOLE", "", "a hole")
SPACE = InputInfo("HDR_LEADING", "leading-whitespace", "a space")
W, V = Make.content("w"), Make.content("v")


def found_in(about: Mapping[str, InputInfo], **answers: Mapping[str, Any]) -> Differences:
    """Evaluate name -> case -> content or outcome."""
    records = [Make.answers(name, **rows) for name, rows in answers.items()]
    return evaluate(records, list(answers), lambda case: about.get(case, InputInfo("unknown")))


def report_of(found: Differences, **more: Any) -> DiffDocument:
    who = tuple(DiffImplementation(x, x.split()[0], x.split()[0], "1", "C", ()) for x in found.labels)
    facts: dict[str, Any] = {"suite": "2026.11.0", "source": "files", "given": found.shared}
    return document(found, implementations=who, **facts | more)


def test_signature() -> None:
    for vector, text in (
        ({"a": "reject", "b": "accept:A"}, "S: accept b; reject a"),
        ({"a": "accept:A", "b": "accept:A", "c": "crash"}, "S: accept a, b; crash c"),
        ({"a": "accept:A", "b": "accept:B", "c": "accept:?"}, "S: accept:A a; accept:B b; accept:? c"),
        ({"a": "accept:A", "b": "unsupported", "c": "hang"}, "S: accept a; hang c"),
    ):
        assert signature_of("S", vector, {x: x for x in vector}) == text


@given(st.permutations(["accept:A", "accept:B", "accept:C", "reject", "crash"]), st.randoms())
def test_a_signature_is_one_for_all_orders_and_letters(tokens: list[str], random: Any) -> None:
    names = list("vwxyz")
    vector = dict(zip(names, tokens, strict=True))
    letters = list("ABC")
    random.shuffle(letters)
    renamed = {"accept:A": letters[0], "accept:B": letters[1], "accept:C": letters[2]}
    items = [(n, f"accept:{renamed[t]}" if t in renamed else t) for n, t in vector.items()]
    random.shuffle(items)
    same = {n: n for n in names}
    assert signature_of("S", dict(items), same) == signature_of("S", vector, same)


def test_sorts() -> None:
    rows = {
        "content": (HOLE, W, V, "content"),
        "verdict": (HOLE, W, "reject", "verdict"),
        "choice": (SPACE, W, "reject", "choice"),
        "choice-content": (SPACE, W, V, "content"),
        "choice-crash": (SPACE, W, "crash", "verdict"),
        "unsafe": (None, "hang", "reject", "unsafe"),
    }
    about = {name: row[0] for name, row in rows.items() if row[0] is not None}
    first, second = ({name: row[i] for name, row in rows.items()} for i in (1, 2))
    found = found_in(about, x=first, y=second)
    assert {d.input: d.sort for d in found.found} == {name: row[3] for name, row in rows.items()}
    assert [d.sort for d in found.found] == ["content"] * 2 + ["verdict"] * 2 + ["unsafe", "choice"]
    assert dict(found.pairs()["x 1", "y 1"]) == {"content": 2, "verdict": 2, "choice": 1}
    unsafe = {d.input: d.unsafe for d in found.found if d.unsafe}
    assert unsafe == {"choice-crash": ("y 1",), "unsafe": ("x 1",)}
    assert found.compared == 6


def test_who_was_not_asked_has_no_vote() -> None:
    found = found_in({"c": HOLE}, x={"c": W}, y={"c": "not-asked"}, z={"c": "reject"})
    (one,) = found.found
    assert one.vector == {"x 1": "accept:A", "z 1": "reject"}
    assert one.signature == "OFF_HOLE: accept x; reject z"
    assert found.left_out == 0


def test_clusters_hold_no_choices_and_content_comes_first() -> None:
    about = {"a": HOLE, "b": HOLE, "c": HOLE, "d": SPACE}
    found = found_in(about, x=dict.fromkeys(about, W), y=dict.fromkeys("abd", "reject") | {"c": V})
    assert [(c.kind, c.cases) for c in found.clusters()] == [("content", ("c",)), ("verdict", ("a", "b"))]


def test_the_skeleton_of_an_entry_holds_the_signature_as_it_will_be_matched() -> None:
    found = found_in({"c": HOLE}, x={"c": W}, y={"c": "reject"})
    (signature,) = found.signatures()
    block = diff_markdown(report_of(found)).split("```toml\n")[1].split("```")[0]
    (entry,) = tomllib.loads(block.replace("review_by = ", "review_by = 2027-01-01"))["known"]
    assert entry["signature"] == signature.text
    silent = report_of(found_in({}, x={"c": "unsupported"}, y={"c": W}))
    assert "nothing was compared" in "\n".join(diff_text(silent))


def test_the_document_obeys_its_schema_even_for_hostile_names() -> None:
    bad = "\ud800|`</script>\u202e\x1b[31m"
    about = {bad: InputInfo("OFF_HOLE", "", bad)}
    found = found_in(about, x={bad: Make.content(bad)}, y={bad: V})
    answers = {bad: {"x 1": {"outcome": "accept", "digest": "0", "count": 0, "tensors": []}}}
    report = report_of(found, answers=answers, listed=(bad,), notes=(bad,), problems=(bad,), unmatched=(bad,))
    assert schema_error("diff", json.loads(json.dumps(to_builtins(report)))) is None
    for text in ("\n".join(diff_text(report)), diff_markdown(report)):
        text.encode()
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert "`</script>" not in diff_markdown(report).replace("\\u0060", "")
    assert schema("diff")["properties"]["diff"]["enum"] == [1]


def test_in_words() -> None:
    assert in_words({"outcome": "reject", "message": "no\n"}) == "reject: no\\n"
    assert [in_words({"outcome": outcome}) for outcome in ("hang", "accept")] == ["hang", "accept"]
    answer = {"outcome": "accept", "count": 1, "metadata": {"a": "b"}}
    assert in_words(answer) == "accept, 1 tensor, 1 metadata key"


def test_new_signatures_end_the_text_as_causes_with_an_example_and_its_command() -> None:
    found = found_in(
        {"a": HOLE, "bb": HOLE, "c": InputInfo("DAT-01"), "d": InputInfo("OFF_HOLE+OFF_TRAILING")},
        x=dict.fromkeys(("a", "bb", "c"), W) | {"d": "reject"},
        y={"a": "reject", "bb": "reject", "c": Make.content("w", dtype="F16"), "d": W},
    )
    report = report_of(found)
    lines = diff_text(report)
    start = lines.index("LIKELY CAUSES, new signatures: 3, worst first")
    assert lines[start + 1 : start + 7] == [
        "     1  content  DAT-01: accept:A x; accept:B y",
        (
            "        about DAT-01 (data is little-endian); e.g. c: "
            'y 1: tensor "w": dtype F16 instead of F32 (as x 1 reads it)'
        ),
        "        stc diff --impl x --impl y c",
        "     2  verdict  OFF_HOLE: accept x; reject y",
        "        bytes before or between the tensors belong to none of them; e.g. a",
        "        stc diff --impl x --impl y a",
    ]
    assert lines[start + 8].startswith(
        "        bytes before or between the tensors belong to none of them, bytes f"
    )
    page = diff_markdown(report)
    assert page.index("#### Likely causes") < page.index("#### Triage")
    assert "| `stc diff --impl x --impl y a` |" in page


@pytest.mark.parametrize(
    ("name", "source", "command"),
    [
        ("area/case", "corpus 2026.11", "stc diff --impl x --impl z --case area/case"),
        # No file name becomes an option.
        ("-x;id", "files", "stc diff --impl x --impl z './-x;id'"),
    ],
)
def test_the_command_to_copy_names_two_that_disagree_and_have_a_vote(
    name: str, source: str, command: str
) -> None:
    answers = {"w": "unsupported", "x": W, "y": W, "z": "reject"}
    found = found_in({name: HOLE}, **{reader: {name: answer} for reader, answer in answers.items()})
    assert f"        {command}" in diff_text(report_of(found, source=source))
