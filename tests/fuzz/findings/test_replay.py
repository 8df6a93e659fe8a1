"""Asking again for a finding: as expected now, still wrong, or not to be had."""

from __future__ import annotations

import re
import unittest
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from safetensors_conformance.case_verdict import StepVerdict
from safetensors_conformance.outcome import StepResult
from safetensors_conformance.worker.worker import Limits
from safetensors_fuzz.cli import replay as command
from safetensors_fuzz.finding import ENTRY, Finding, write
from safetensors_fuzz.findings.replay import Answer, ReplayError, exit_status, failure, replay

from ...conformance.support import QUICK
from ..samples import ACCEPTS_ALL, OTHER_METADATA, READING, hole, invoke, of_builder, two_tensors

LIMITS = Limits(20.0)


def states(finding: Finding, *selectors: str, times: int = 1) -> list[str]:
    return [a.state for a in replay(finding, selectors, times=times, limits=LIMITS)]


def test_without_selectors_those_of_the_finding_are_asked() -> None:
    (answer,) = replay(replace(hole(), got={"reference": "accept"}), times=1, limits=LIMITS)
    assert (answer.selector, answer.state) == ("reference", "as expected")
    assert answer.version


def test_wrong_content_is_found_by_what_the_expectation_holds() -> None:
    finding = of_builder(two_tensors(), ("MET-01",))
    wrong, right = replay(finding, [OTHER_METADATA, QUICK], times=1, limits=LIMITS)
    assert (wrong.state, right.state) == ("still wrong", "as expected")
    assert "metadata" in wrong.got


def test_a_crash_is_wrong_also_where_the_format_leaves_the_answer_open() -> None:
    data = two_tensors().render()
    data += bytes((9 - len(data)) % 16)
    finding = replace(hole(), files={ENTRY: data}, expectation={"outcome": "open", "choices": ["x"]})
    dies = f"py:{READING}:DiesOnSomeSizes"
    assert states(finding, dies, QUICK, ACCEPTS_ALL) == ["still wrong", "as expected", "as expected"]


def _judged(verdict: str) -> StepVerdict:
    return StepVerdict(verdict, "", (), StepResult("accept" if verdict == "wrong-accept" else "reject"))


@pytest.mark.parametrize(
    ("verdicts", "status", "got"),
    [
        (("pass",), 0, "reject"),
        (("choice:accept",), 0, "reject"),
        (("unsafe",), 1, "reject"),
        (("not-strict",), 1, "reject"),
        (("late-reject",), 1, "reject"),
        (("pass", "wrong-accept", "pass"), 1, "accept (1 of 3 times)"),
    ],
)
def test_wrong_once_is_wrong_and_outweighs_what_cannot_be_run(
    verdicts: tuple[str, ...], status: int, got: str
) -> None:
    answer, missing = Answer("lib", "1", tuple(map(_judged, verdicts))), Answer("c", problem="not there")
    assert (answer.state == "still wrong") == (status == 1)
    assert answer.got == got
    assert (exit_status([answer]), exit_status([missing, answer])) == (status, status or 2)
    assert exit_status([]) == 2


HOSTILE: list[tuple[str, dict[str, object]]] = [
    ("write", {"do": "write"}),
    ("write", {"do": "rm", "script": []}),
    ("write", {"do": "write", "storages": {"m": [{"zeros": 10**15}]}, "tensors": [], "metadata": None,
               "target": "new"}),
    ("write", {"do": "write", "storages": {}, "tensors": [], "metadata": None, "target": "../../x"}),
    ("slice", {"do": "slice", "tensor": 7, "index": []}),
    ("slice", {"do": "slice", "tensor": "a"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "selector", "words"),
    [
        ({}, "py:no_such_module:X", "cannot start"),
        ({}, "referense", "did you mean reference"),
        ({"step": "prove"}, "reference", "step 'prove' takes no inputs"),
        ({"step": "slice"}, ACCEPTS_ALL, "does not have the step slice"),
        ({"expectation": {}}, "reference", "expectation"),
        ({"entry": "other"}, "reference", "other"),
        ({"files": {}}, "reference", "does not contain the entry file 'input.safetensors'"),
        ({"files": {"../x": b""}, "entry": "../x"}, "reference", "is outside its folder"),
        ({"step": "index", "files": {}}, "reference", "does not contain the entry file 'input.safetensors'"),
        *(
            ({"step": step, "action": action}, "reference", "the action does not match the format of the")
            for step, action in HOSTILE
        ),
    ],
)
def test_what_cannot_be_run_says_why(changes: dict[str, Any], selector: str, words: str) -> None:
    (answer,) = replay(replace(hole(), **changes), [selector], times=1, limits=LIMITS)
    assert answer.state == "cannot be run"
    assert words in answer.got
    assert exit_status([answer]) == 2


LACKING = """
class Reader:
    lacks = ("dtype-f4",)
    def read(self, path):
        raise ValueError("no")
"""


def test_failure_raises_what_cannot_be_run_and_skips_what_is_not_supported(tmp_path: Path) -> None:
    finding = of_builder(two_tensors(), ("API-19",))
    given: dict[str, Any] = {"step": "read", "files": finding.files}
    with pytest.raises(ReplayError, match="cannot start"):
        failure("py:no_such_module:X", expectation=finding.expectation, **given)
    adapter = tmp_path / "lacking.py"
    adapter.write_text(LACKING)
    needs = {**finding.expectation, "features": ["dtype-f4"]}
    with pytest.raises(unittest.SkipTest, match="lacks dtype-f4"):
        failure(f"py:{adapter}:Reader", expectation=needs, **given)


def test_the_command_prints_expected_and_got_and_exits_by_the_answer(tmp_path: Path) -> None:
    place = write(replace(hole(), cause="it leaves bytes out"), tmp_path)
    result = invoke(command, place, "--times", "2", "--impl", ACCEPTS_ALL, "--impl", QUICK)
    assert result.exit_code == 1
    assert "stc-fuzz-" not in result.stdout  # the name of a temporary folder
    assert "rule      OFF-07 (must): " in result.stdout
    assert "  because   it leaves bytes out\n  expected  reject (OFF_HOLE)" in result.stdout
    assert f"{ACCEPTS_ALL} unknown: STILL WRONG\n    got     accept, 0 tensors" in result.stdout
    assert "before  accept, 0 tensors (1.0)" in result.stdout
    assert re.search(rf"AS EXPECTED\n    got     reject: .*{ENTRY}", result.stdout)
    assert invoke(command, place, "--times", "1", "--impl", QUICK).exit_code == 0
    missing = invoke(command, place, "--impl", "py:no_such_module:X")
    assert (missing.exit_code, "CANNOT BE RUN" in missing.stdout) == (2, True)


def test_the_command_refuses_what_is_no_finding(tmp_path: Path) -> None:
    nobody = write(replace(hole(), got={}, versions={}), tmp_path)
    for place, words in ((tmp_path, "json: No such file or directory"), (nobody, "give --impl SELECTOR")):
        result = invoke(command, place)
        assert result.exit_code == 2
        assert words in result.stderr


TOUCH = "cmd:touch {mark}"


@pytest.mark.parametrize(
    ("program", "split", "impls"),
    [
        (TOUCH, False, ()),
        ("cmd:sh -c 'touch {mark}'", False, ()),
        ("exit:sh -c 'touch {mark}' {{path}}", False, ()),
        ("py:{adapter}:Reader", False, ()),
        ("cmd:sh -c 'touch {mark}; \x1b]0;title\x07\u202e\n::warning::x'", False, ()),
        (TOUCH, True, ()),
        (TOUCH, False, (ACCEPTS_ALL,)),
        ("py:{adapter}:Reader", True, (ACCEPTS_ALL,)),
    ],
)
def test_a_finding_never_says_which_program_is_run(
    tmp_path: Path, program: str, split: bool, impls: tuple[str, ...]
) -> None:
    mark, adapter = tmp_path / "MARK", tmp_path / "adapter.py"
    adapter.write_text(f"open({str(mark)!r}, 'w')\nclass Reader: pass\n")
    program = program.format(mark=mark, adapter=adapter)
    expectation = {"outcome": "open", "agree": True} if split else hole().expectation
    place = write(replace(hole(), got={program: "accept"}, versions={}, expectation=expectation), tmp_path)
    result = invoke(command, place, "--times", "1", *(f"--impl={impl}" for impl in impls))
    assert not mark.exists()
    if split or not impls:
        assert result.exit_code == 2
        assert "CANNOT BE RUN" in result.stdout
        assert "may name only known implementations; to run this program, give --impl" in result.stdout
    assert all(line.isprintable() and not line.startswith("::") for line in result.output.splitlines())


def test_a_version_that_a_finding_names_is_not_installed_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STC_CACHE", str(tmp_path / "cache"))
    place = write(replace(hole(), got={"mlx==0.0.666": "accept"}, versions={}), tmp_path)
    result = invoke(command, place, "--times", "1")
    assert result.exit_code == 2
    assert "must not choose what is installed" in result.stdout
    assert not (tmp_path / "cache").exists()


def test_who_will_be_asked_is_said_before_anything_is_run(tmp_path: Path) -> None:
    place = write(hole(), tmp_path)
    mark = tmp_path / "mark"
    program = f"cmd:sh -c 'echo x > {mark}; \x1b[2J'"
    lines = invoke(
        command, place, "--times", "1", "--impl", "reference", "--impl", program
    ).stdout.splitlines()
    assert mark.exists()
    said = [number for number, line in enumerate(lines) if line.startswith("  runs ")]
    assert [lines[number] for number in said] == [
        "  runs      reference",
        f"  runs      cmd:sh -c 'echo x > {mark}; \\u001b[2J'",
    ]
    assert said[-1] < next(n for n, line in enumerate(lines) if "AS EXPECTED" in line or "CANNOT" in line)
    told: list[str] = []
    replay(replace(hole(), got={f"cmd:touch {mark}2": "accept"}), times=1, limits=LIMITS, say=told.append)
    assert told == []
