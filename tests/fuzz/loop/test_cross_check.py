"""Two that accept what they may accept, and see different things: found, told once, asked again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from proof.broken.correct import reader as small_reader
from safetensors_conformance.outcome import StepResult
from safetensors_conformance.worker.worker import Limits
from safetensors_corpus.author.file import FileBuilder
from safetensors_corpus.judging.answer import Refused
from safetensors_corpus.judging.content import Difference
from safetensors_fuzz.cli import replay as command
from safetensors_fuzz.engines.campaign import Campaign
from safetensors_fuzz.finding import AGREEMENT, DOCUMENT, ENTRY, Finding, load, name_of_test, write
from safetensors_fuzz.findings.replay import ReplayError, exit_status, failure, replay
from safetensors_fuzz.loop.cross_check import PairQuestion, content_disagreements, differences
from safetensors_fuzz.loop.expectation import opinion
from safetensors_fuzz.loop.recorder import Cause, Examiner, Settings
from safetensors_fuzz.loop.subjects import CallSubject
from safetensors_reports.audit.inputs import AuditError, load_fuzz_finding

from ..samples import ACCEPTS_ALL, FAKES, OTHER_METADATA, READING, hole, of_builder, of_case, two_tensors

Content = dict[str, Any]
LIMITS = Limits(20.0)
ROW = {"name": "w", "dtype": "F32", "shape": [2], "nbytes": 8, "sha256": "ab" * 32}


def reading(change: Callable[[Content], None]) -> Callable[[bytes], Mapping[str, Any]]:
    """Return a reader that ignores unknown fields and changes what it reads."""

    def read(data: bytes) -> Mapping[str, Any]:
        content = small_reader.IGNORING.content(data)
        change(content)
        return content

    return read


def strided(content: Content, data: bytes) -> None:
    if b'"strides"' in data:
        content["tensors"] = []


def splits_of(
    *subjects: CallSubject, execs: int = 800, seed: int = 1, start: Sequence[bytes] = ()
) -> tuple[list[Finding], list[Finding]]:
    """Fuzz subjects together, with ``start`` first; return the findings of splits and the others."""
    kept: list[Finding] = []
    chosen = Settings(max_execs=execs, shrink_seconds=0.5, seed=seed)
    Campaign(subjects, chosen, keep=kept.append).run(start)
    return [f for f in kept if f.split], [f for f in kept if not f.split]


def without_metadata(content: Content) -> None:
    content["metadata"] = None


def first_alone(content: Content) -> None:
    content["tensors"] = content["tensors"][:1]


def turned(content: Content) -> None:
    for row in content["tensors"]:
        row["shape"] = row["shape"][::-1]


def signed(content: Content) -> None:
    for row in content["tensors"]:
        row["dtype"] = row["dtype"].replace("U8", "I8")


LIES = {"metadata": without_metadata, "shape": turned, "missing": first_alone, "dtype": signed}


@pytest.mark.by_day(1)
@pytest.mark.parametrize("seed", range(1, 11))
def test_no_choice_is_charged_with_what_a_valid_file_shows_whatever_came_before(seed: int) -> None:
    sound = CallSubject("sound", small_reader.IGNORING.content)
    for number, (part, lie) in enumerate(LIES.items()):
        pair = [CallSubject("lax", reading(lie)), sound]
        splits, others = splits_of(*(pair[::-1] if (seed + number) % 2 else pair), execs=400, seed=seed)
        assert splits == []
        assert [f.signature for f in others] == [f"valid: accept:A lax; accept:B reference [{part}]"]


UNKNOWN = b'{"w":{"dtype":"U8","strides":[1],"shape":[1],"data_offsets":[0,1]}}'
FRAMED = len(UNKNOWN).to_bytes(8, "little") + UNKNOWN + b"x"


def cause_of(one: CallSubject, other: CallSubject, data: bytes = FRAMED) -> Cause | None:
    """Return what a split over a file is charged with, None for no split."""
    examiner = Examiner([one, other], "read", None)
    question = PairQuestion.of(opinion(data), one, other)
    mistake = question.examine(examiner)
    cause = None if mistake is None else question.explain(examiner, mistake).cause
    examiner.close()
    return cause


def test_a_split_is_charged_to_the_choice_where_the_two_agree_on_the_valid_twin() -> None:
    sound = CallSubject("sound", small_reader.IGNORING.content)

    def other(data: bytes) -> Mapping[str, Any]:
        content = small_reader.IGNORING.content(data)
        strided(content, data)
        return content

    cause = cause_of(CallSubject("lax", other), sound)
    assert cause == Cause(
        ("ENT-04",), "the two readers do not differ in this way on the most similar valid file"
    )

    def refusing(data: bytes) -> Mapping[str, Any]:
        if b'"strides"' not in data:
            raise Refused("no strides")
        return other(data)

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
    def other(data: bytes) -> Mapping[str, Any]:
        content = small_reader.IGNORING.content(data)
        strided(content, data)
        return content

    pair = [AtOpen("lib==1", small_reader.IGNORING.content), AtOpen("lib==2", other)]
    for subject in pair:
        subject.steps = ("open", "read")
    splits, _ = splits_of(*pair, start=[FRAMED])
    assert [(f.step, f.signature) for f in splits] == [
        ("read", "ENT_UNKNOWN_FIELD: accept:A lib==1; accept:B lib==2 [missing]")
    ]
    (found,) = splits
    assert (found.verdict, sorted(found.got)) == ("deviation:content", ["lib==1", "lib==2"])
    assert found.expected.startswith("the same content")
    assert b'"strides"' in found.files[ENTRY]
    assert found.replays == 3


@pytest.mark.parametrize("untold", [{}, {"dtype": None, "shape": None, "nbytes": None, "sha256": None}])
def test_what_one_does_not_tell_is_not_compared(untold: dict[str, Any]) -> None:
    short = StepResult("accept", tensors=[{"name": "w", **untold}])
    whole = StepResult("accept", tensors=[ROW], metadata={"k": "v"}, has_metadata=True)
    assert differences(short, whole) is None
    assert differences(whole, short) is None
    other = StepResult("accept", tensors=[{"name": "v", **untold}])
    assert differences(other, whole) == (
        Difference("missing", 'tensor "w" is missing'),
        Difference("missing", 'tensor "v" is missing'),
    )


def test_a_difference_is_told_of_either_side() -> None:
    one = StepResult("accept", tensors=[ROW])
    other = StepResult("accept", tensors=[{**ROW, "dtype": "I32"}])
    twice = StepResult("accept", tensors=[ROW, ROW])
    assert differences(one, other) == (
        Difference("dtype", 'tensor "w": dtype F32 instead of I32', "w"),
        Difference("dtype", 'tensor "w": dtype I32 instead of F32', "w"),
    )
    again = Difference("twice", 'tensor "w" is reported twice')
    assert differences(one, twice) == differences(twice, one) == (again, again)
    assert differences(one, StepResult("reject", "no")) is None
    assert content_disagreements({"a": one, "b": one, "c": other}) == {
        "a": ("c", 'tensor "w": dtype F32 instead of I32'),
        "b": ("c", 'tensor "w": dtype F32 instead of I32'),
        "c": ("a", 'tensor "w": dtype I32 instead of F32'),
    }


def split(*selectors: str) -> Finding:
    """A file that may be refused, of which two that accept it see different things."""
    builder = FileBuilder(before=b" ")
    builder.tensor("w", "F32", [2])
    return Finding(
        step="read",
        verdict="wrong-content",
        signature=f"HDR_BAD_START: accept:A {selectors[0]}; accept:B {selectors[1]} [missing]",
        rules=("HDR-05",),
        codes=("HDR_BAD_START",),
        expected=AGREEMENT,
        got={name: f"accept, but it is another content than {other} reads" for name, other in
             zip(selectors, reversed(selectors), strict=True)},
        versions=dict.fromkeys(selectors, "1.0"),
        files={ENTRY: builder.render()},
        expectation={
            "outcome": "open", "agree": True, "codes": ["HDR_BAD_START"], "choices": ["leading-whitespace"]
        },
        replays=3,
    )  # fmt: skip


LAX = f"py:{READING}:Official"
REFUSES = f"py:{FAKES}:RefusesAll"


def states(finding: Finding, *selectors: str) -> list[tuple[str, str]]:
    return [(a.selector, a.state) for a in replay(finding, selectors, times=1, limits=LIMITS)]


def test_a_split_is_asked_again_of_both() -> None:
    finding = split(LAX, ACCEPTS_ALL)
    answers = replay(finding, (LAX, ACCEPTS_ALL), times=2, limits=LIMITS)
    assert [(a.selector, a.state) for a in answers] == [(LAX, "still wrong"), (ACCEPTS_ALL, "still wrong")]
    assert exit_status(answers) == 1
    assert answers[0].got == (
        f'accept, but tensor "w" is reported, but the file has none of that name (as {ACCEPTS_ALL} reads it)'
    )
    assert answers[1].got == f'accept, but tensor "w" is missing (as {LAX} reads it)'
    # One alone is held against the known implementations of the finding; two are held against each other.
    known = split("reference", ACCEPTS_ALL)
    assert states(known, LAX) == [
        (LAX, "as expected"), ("reference", "as expected"), (ACCEPTS_ALL, "cannot be run")
    ]  # fmt: skip
    assert states(finding, OTHER_METADATA, LAX) == [(OTHER_METADATA, "as expected"), (LAX, "as expected")]
    assert states(finding, LAX, REFUSES) == [(LAX, "as expected"), (REFUSES, "as expected")]


def test_failure_asks_both_and_names_both() -> None:
    finding = split(LAX, ACCEPTS_ALL)
    given: dict[str, Any] = {"files": finding.files, "expectation": finding.expectation, "rules": ["HDR-05"]}
    text = failure(LAX, step="read", against=ACCEPTS_ALL, **given)
    assert text is not None
    assert f"expected  {AGREEMENT}\n" in text
    assert f"(as {ACCEPTS_ALL} reads it), from {LAX} " in text
    assert f"(as {LAX} reads it), from {ACCEPTS_ALL} " in text
    assert failure(LAX, step="read", against=REFUSES, **given) is None
    with pytest.raises(ReplayError, match="no other answer to compare with"):
        failure(LAX, step="read", **given)
    alone = replay(split(LAX, "py:no_such_module:X"), (LAX, "py:no_such_module:X"), times=1, limits=LIMITS)
    assert [a.state for a in alone] == ["cannot be run", "cannot be run"]
    assert "no other answer to compare with" in alone[0].got
    assert exit_status(alone) == 2


def run(*args: str | Path) -> Result:
    result = CliRunner().invoke(command, [str(a) for a in args], env={"NO_COLOR": "1"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_its_folder_names_both_and_its_test_fails_until_they_agree(tmp_path: Path) -> None:
    finding = split(LAX, ACCEPTS_ALL)
    place = write(finding, tmp_path)
    assert load(place) == finding
    command = f"stc fuzz replay {place.name} --impl {LAX} --impl {ACCEPTS_ALL}"
    assert json.loads((place / DOCUMENT).read_bytes())["reproduce"] == command
    assert command in (place / "README.md").read_text()
    assert load_fuzz_finding(place).document.expectation["agree"] is True
    again = run(place, "--times", "1", "--impl", LAX, "--impl", ACCEPTS_ALL)
    assert again.exit_code == 1
    assert again.stdout.count("STILL WRONG") == 2
    test = place / name_of_test(finding)
    fixed = tmp_path / "test_fixed.py"
    fixed.write_text(test.read_text().replace(f'AGAINST = "{ACCEPTS_ALL}"', f'AGAINST = "{REFUSES}"'))
    # The tests of other findings run in the same process: an accepted hole, and two right answers.
    others = [hole(), of_case("layout/trailing-32-kib", "reference")]
    others.append(of_builder(two_tensors(), ("MET-01",), selector="reference"))
    tests = [write(other, tmp_path) / name_of_test(other) for other in others]
    without = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *without, "--rootdir", tmp_path, test, fixed, *tests],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "NO_COLOR": "1"},
        check=False,
    )
    assert "2 failed, 3 passed" in done.stdout, done.stdout + done.stderr
    assert AGREEMENT in done.stdout
    assert "rule      OFF-07 (must): " in done.stdout


def test_a_description_that_says_something_else_than_true_is_refused(tmp_path: Path) -> None:
    place = write(split(LAX, ACCEPTS_ALL), tmp_path)
    raw = json.loads((place / DOCUMENT).read_bytes())
    raw["expectation"]["agree"] = "yes"
    (place / DOCUMENT).write_text(json.dumps(raw))
    assert "if expectation.agree is present, it must be true" in run(place).stderr
    with pytest.raises(AuditError, match=r"expectation\.agree"):
        load_fuzz_finding(place)
