"""Two that accept what they may accept, and see different things: found, told once, asked again."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from proof.broken.correct import reader as small_reader
from safetensors_conformance.outcome import StepResult
from safetensors_conformance.worker.worker import Limits
from safetensors_corpus.judging.answer import Refused
from safetensors_corpus.judging.content import Difference
from safetensors_fuzz.cli import replay as command
from safetensors_fuzz.finding import AGREEMENT, DOCUMENT, ENTRY, Cause, Finding, load, name_of_test, write
from safetensors_fuzz.findings.replay import ReplayError, exit_status, failure, replay
from safetensors_fuzz.grammar.grammar import Grammar
from safetensors_fuzz.loop.cross_check import PairQuestion, content_disagreements, differences, valid_twin
from safetensors_fuzz.loop.question import Examiner, opinion
from safetensors_fuzz.loop.subjects import CallSubject
from safetensors_reference import explain, rule_book
from safetensors_reports.audit.inputs import load_fuzz_finding

from ..samples import (
    ACCEPTS_ALL,
    FAKES,
    OTHER_METADATA,
    READING,
    built,
    finding,
    fuzzed,
    hole,
    invoke,
    of_builder,
    of_case,
    raw,
    two_tensors,
)

Content = dict[str, Any]
LIMITS = Limits(20.0)
ROW = {"name": "w", "dtype": "F32", "shape": [2], "nbytes": 8, "sha256": "ab" * 32}


SOUND = small_reader.IGNORING.content
"""A reader that ignores unknown fields."""
LIES: dict[str, tuple[str, Callable[[Content], Content]]] = {
    "metadata": ("MET-04", lambda _: {"metadata": None}),
    "shape": (
        "SHP-11 DTY-10",
        lambda c: {"tensors": [{**r, "shape": r["shape"][::-1]} for r in c["tensors"]]},
    ),
    "missing": ("ENT-01", lambda c: {"tensors": c["tensors"][:1]}),
    "dtype": ("DTY-14", lambda c: {"tensors": [{**r, "dtype": r["dtype"][::-1]} for r in c["tensors"]]}),
}
"""What a reader reports wrongly, with the rules that it may break."""


def strided(data: bytes) -> Content:
    """Return no tensors if an entry has strides."""
    return SOUND(data) | ({"tensors": []} if b'"strides"' in data else {})


@pytest.mark.by_day(1)
@pytest.mark.parametrize("seed", range(1, 11))
def test_no_choice_is_charged_with_what_a_valid_file_shows_whatever_came_before(seed: int) -> None:
    for number, (part, (rules, lie)) in enumerate(LIES.items()):
        lax = CallSubject("lax", lambda data, lie=lie: SOUND(data) | lie(SOUND(data)))  # type: ignore[misc]
        pair = [lax, CallSubject("sound", SOUND)]
        _, kept = fuzzed(*(pair[::-1] if (seed + number) % 2 else pair), max_execs=400, seed=seed)
        (found,) = kept
        assert (found.split, found.signature) == (False, f"valid: accept:A lax; accept:B reference [{part}]")
        (rule,) = found.rules
        assert rule in rules
        text = rule_book().rules[rule].basis == "text"
        assert found.verdict == ("wrong-content" if text else "deviation:content")
        assert part in found.got["lax"]


FRAMED = raw('{"w":{"dtype":"U8","strides":[1],"shape":[1],"data_offsets":[0,1]}}', b"x")


def cause_of(one: CallSubject, other: CallSubject, data: bytes = FRAMED) -> Cause | None:
    """Return what a split over a file is charged with, None for no split."""
    examiner = Examiner([one, other], "read", None)
    question = PairQuestion.of(opinion(data))
    mistake = question.examine(examiner)
    cause = None if mistake is None else question.explain(examiner, mistake).cause
    examiner.close()
    return cause


def refusing(data: bytes) -> Mapping[str, Any]:
    if b'"strides"' not in data:
        raise Refused("no strides")
    return strided(data)


def test_a_split_is_charged_to_the_choice_where_the_two_agree_on_the_valid_twin() -> None:
    sound = CallSubject("sound", SOUND)
    cause = cause_of(CallSubject("lax", strided), sound)
    words = "the two readers do not differ in this way on the most similar valid file"
    assert cause == Cause(("ENT-04",), words)
    cause = cause_of(CallSubject("moody", refusing), sound)
    assert cause is not None
    assert cause.rules == ()
    assert cause.words.startswith("not known: there is no similar valid file that both accept")


class AtOpen(CallSubject):
    """Is asked for two steps, and says nothing when it opens."""

    def answer(self, data: bytes, path: str, step: str) -> StepResult:
        told = super().answer(data, path, step)
        return StepResult(told.outcome, told.message) if step == "open" else told


def test_each_step_is_held_against_the_same_step() -> None:
    pair = [AtOpen("lib==1", SOUND), AtOpen("lib==2", strided)]
    for subject in pair:
        subject.steps = ("open", "read")
    _, kept = fuzzed(*pair, start=[FRAMED], max_execs=800)
    splits = [f for f in kept if f.split]
    assert [(f.step, f.signature) for f in splits] == [
        ("read", "ENT_UNKNOWN_FIELD: accept:A lib==1; accept:B lib==2 [missing]")
    ]
    (found,) = splits
    assert (found.verdict, sorted(found.got)) == ("deviation:content", ["lib==1", "lib==2"])
    assert found.expected.startswith("the same content")
    assert b'"strides"' in found.files[ENTRY]
    assert found.replays == 3


ONE, OTHER = (StepResult("accept", tensors=[{**ROW, "dtype": dtype}]) for dtype in ("F32", "I32"))
OF_ONE, OF_OTHER = (
    Difference("dtype", f'tensor "w": dtype {a} instead of {b}', "w")
    for a, b in (("F32", "I32"), ("I32", "F32"))
)
TWICE = Difference("twice", 'tensor "w" is reported twice')
MISSING = tuple(Difference("missing", f'tensor "{name}" is missing') for name in "wv")


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        (ONE, OTHER, (OF_ONE, OF_OTHER)),
        (ONE, StepResult("accept", tensors=[ROW, ROW]), (TWICE, TWICE)),
        (StepResult("accept", tensors=[ROW, ROW]), ONE, (TWICE, TWICE)),
        (ONE, StepResult("reject", "no"), None),
        # What one does not tell is not compared.
        (StepResult("accept", tensors=[{"name": "w", "dtype": None}]), ONE, None),
        (ONE, StepResult("accept", tensors=[{"name": "w"}], metadata={"k": "v"}, has_metadata=True), None),
        (StepResult("accept", tensors=[{"name": "v"}]), ONE, MISSING),
    ],
)
def test_a_difference_is_told_of_either_side(one: StepResult, other: StepResult, told: object) -> None:
    assert differences(one, other) == told


def test_each_is_held_against_the_first_that_differs() -> None:
    assert content_disagreements({"a": ONE, "b": ONE, "c": OTHER}) == {
        "a": ("c", OF_ONE.text), "b": ("c", OF_ONE.text), "c": ("a", OF_OTHER.text)
    }  # fmt: skip


def split(*selectors: str) -> Finding:
    """A file that may be refused, of which two that accept it see different things."""
    pairs = zip(selectors, reversed(selectors), strict=True)
    return finding(
        built(("w", "F32", [2]), before=b" ").render(),
        ("HDR-05",),
        {"outcome": "open", "agree": True, "codes": ["HDR_BAD_START"], "choices": ["leading-whitespace"]},
        selectors[0],
        signature=f"HDR_BAD_START: accept:A {selectors[0]}; accept:B {selectors[1]} [missing]",
        expected=AGREEMENT,
        got={name: f"accept, but it is another content than {other} reads" for name, other in pairs},
        versions=dict.fromkeys(selectors, "1.0"),
    )


LAX = f"py:{READING}:Official"
REFUSES = f"py:{FAKES}:RefusesAll"


def states(finding: Finding, *selectors: str) -> list[tuple[str, str]]:
    return [(a.selector, a.state) for a in replay(finding, selectors, times=1, limits=LIMITS)]


def test_a_split_is_asked_again_of_both() -> None:
    made = split(LAX, ACCEPTS_ALL)
    answers = replay(made, (LAX, ACCEPTS_ALL), times=2, limits=LIMITS)
    assert [(a.selector, a.state) for a in answers] == [(LAX, "still wrong"), (ACCEPTS_ALL, "still wrong")]
    assert exit_status(answers) == 1
    assert [len(answer.verdicts) for answer in answers] == [2, 2]
    assert answers[0].got == (
        f'accept, but tensor "w" is reported, but the file has none of that name (as {ACCEPTS_ALL} reads it)'
    )
    assert answers[1].got == f'accept, but tensor "w" is missing (as {LAX} reads it)'
    # One alone is held against the known implementations of the finding; two are held against each other.
    known = split("reference", ACCEPTS_ALL)
    assert states(known, LAX) == [
        (LAX, "as expected"), ("reference", "as expected"), (ACCEPTS_ALL, "cannot be run")
    ]  # fmt: skip
    assert states(made, OTHER_METADATA, LAX) == [(OTHER_METADATA, "as expected"), (LAX, "as expected")]
    assert states(made, LAX, REFUSES) == [(LAX, "as expected"), (REFUSES, "as expected")]


def test_one_alone_cannot_disagree() -> None:
    made = split(LAX, ACCEPTS_ALL)
    with pytest.raises(ReplayError, match="no other answer to compare with"):
        failure(LAX, step="read", files=made.files, expectation=made.expectation)
    alone = replay(split(LAX, "py:no_such_module:X"), (LAX, "py:no_such_module:X"), times=1, limits=LIMITS)
    assert [a.state for a in alone] == ["cannot be run", "cannot be run"]
    assert "no other answer to compare with" in alone[0].got
    assert exit_status(alone) == 2


def test_its_folder_names_both_and_its_test_fails_until_they_agree(tmp_path: Path) -> None:
    made = split(LAX, ACCEPTS_ALL)
    place = write(made, tmp_path)
    assert load(place) == made
    line = f"stc fuzz replay {place.name} --impl {LAX} --impl {ACCEPTS_ALL}"
    assert json.loads((place / DOCUMENT).read_bytes())["reproduce"] == line
    assert line in (place / "README.md").read_text()
    assert load_fuzz_finding(place).document.expectation["agree"] is True
    again = invoke(command, place, "--times", "1", "--impl", LAX, "--impl", ACCEPTS_ALL)
    assert again.exit_code == 1
    assert again.stdout.count("STILL WRONG") == 2
    test = place / name_of_test(made)
    fixed = tmp_path / "test_fixed.py"
    fixed.write_text(test.read_text().replace(f'AGAINST = "{ACCEPTS_ALL}"', f'AGAINST = "{REFUSES}"'))
    # The tests of other findings run in the same process: an accepted hole, and two right answers.
    others = [hole(), of_case("layout/trailing-32-kib", "reference")]
    others.append(of_builder(two_tensors(), ("MET-01",), selector="reference"))
    tests = [write(other, tmp_path) / name_of_test(other) for other in others]
    without = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *without, "--rootdir", tmp_path, test, fixed, *tests],
        capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "NO_COLOR": "1"}, check=False,
    )  # fmt: skip
    assert "2 failed, 3 passed" in done.stdout, done.stdout + done.stderr
    for words in (
        f"expected  {AGREEMENT}\n",
        f"(as {ACCEPTS_ALL} reads it), from {LAX} ",
        f"(as {LAX} reads it), from {ACCEPTS_ALL} ",
        "rule      OFF-07 (must): ",
        "expected  reject (OFF_HOLE)",
        "got       accept, 0 tensors",
    ):
        assert words in done.stdout


WHOLE_PAIR = r'{"__metadata__":{"k":"\\ud800\ud83d\ude01"}}'


@pytest.mark.parametrize(
    ("header", "data", "twin"),
    [
        (' {"a":1}', b"", None),
        (' \n{"__metadata__":{}}', b"", '{"__metadata__":{}}'),
        ('{"__metadata__":null}', b"", '{"__metadata__":{}}'),
        ('{"__metadata__":{"\\ud800":"\\udc00x"}}', b"", '{"__metadata__":{"\\u0061":"\\u0061x"}}'),
        (WHOLE_PAIR, b"", WHOLE_PAIR),
        ('{"__metadata__":{"dtype":"F32"}}', b"", '{"__metadata__":{"dtyp_":"F32"}}'),
        ('{"a":{"x":[1],"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"x",
         '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'),
        ('{"a":{"dtype":"U8","shape":[4294967296,0,8589934592],"data_offsets":[0,0]}}', b"",
         '{"a":{"dtype":"U8","shape":[7,0,8],"data_offsets":[0,0]}}'),
        ('{"a":{"dtype":"U16","shape":[0,4294967296,4294967296],"data_offsets":[0,4]}}', b"xxxx",
         '{"a":{"dtype":"U16","shape":[2],"data_offsets":[0,4]}}'),
        ('{"a":{"dtype":"U8","shape":[2,3,1,1,1,1,1,1,1],"data_offsets":[0,6]}}', b"xxxxxx",
         '{"a":{"dtype":"U8","shape":[6,1,1,1,1,1,1,1],"data_offsets":[0,6]}}'),
        ('{"a":{"dtype":{"U8":null},"shape":[1],"data_offsets":[0,1]}}', b"x", None),
    ],
    ids=["broken", "blanks", "null", "half a pair", "a whole pair", "a field", "unknown field", "overflow",
         "overflow over bytes", "rank", "dtype"],
)  # fmt: skip
def test_only_what_the_choice_is_about_changes(header: str, data: bytes, twin: str | None) -> None:
    """The header keeps its length in bytes, so the data stays where it was."""
    made = valid_twin(raw(header, data))
    assert made == (None if twin is None else raw(twin.ljust(len(header)), data))


def test_bytes_of_a_boolean_become_0_and_1_and_others_stay() -> None:
    data = built(("a", "BOOL", [3], b"\x00\x02\x03"), ("b", "U8", [2], b"\x02\x03")).render()
    assert valid_twin(data) == data[:-5] + b"\x00\x00\x01\x02\x03"
    valid = two_tensors().render()
    assert valid_twin(valid) == valid


def test_nearly_every_input_that_is_open_has_one_that_everybody_must_accept() -> None:
    grammar = Grammar(random.Random(3))
    found: Counter[bool] = Counter()
    for _ in range(1250):
        data = grammar.input().render()
        what = opinion(data)
        if what.required == "open" and "deep-nesting" not in what.choices:
            twin = valid_twin(data)
            if twin is not None:
                assert explain(twin).valid
            found[twin is not None and opinion(twin).required == "accept"] += 1
    assert found[True] > 50
    assert found[False] <= found[True] / 20
