"""Failures that repeat a cause take one line, in ``stc run`` and pytest alike, unless all are requested."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from safetensors_conformance.case_verdict import judge
from safetensors_conformance.cli.run import run as run_command
from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.outcome import StepResult
from safetensors_conformance.run.driver import MAX_SHOWN, Assessment, ImplementationRun, RunOptions
from safetensors_reports.known_failures import Baseline, ExpectedFailure

from ..suite_runs import corpus_of, suite_here
from ..support import TRIGGER, cases, committed, fake

FULL = re.compile(r"^\S.* · (\S+) · \S+  +WRONG-ACCEPT$", re.MULTILINE)
LINE = re.compile(r" · (\S+) · \S+: WRONG-ACCEPT, as (\S+) \(same cause: (.+)\)")
HOLES = "layout/hole-*"


pytestmark = pytest.mark.usefixtures("loaded_once")


def told(*arguments: str) -> str:
    result = CliRunner().invoke(
        run_command, ["--impl", fake("AlwaysAccepts"), "--no-smoke", *arguments], catch_exceptions=False
    )
    assert result.exit_code == 1
    return result.output


def test_the_first_cases_of_each_cause_are_told_in_full_and_all_when_asked_for() -> None:
    text = told("--case", HOLES)
    full, lines = FULL.findall(text), LINE.findall(text)
    shortened = {case for case, _, _ in lines}
    assert len(set(full)) == MAX_SHOWN < len(shortened)
    assert not shortened & set(full)
    assert {first for _, first, _ in lines} == {full[0]}
    why = "accepts although bytes before or between the tensors belong to none of them"
    assert {why for _, _, why in lines} == {why}
    both = told("--case", HOLES, "--case", "layout/trailing-*")
    assert len({why for _, _, why in LINE.findall(both)}) == 2
    assert len(set(FULL.findall(both))) == 2 * MAX_SHOWN
    whole = told("--case", HOLES, "--full-failures")
    assert "same cause" not in whole
    assert len(set(FULL.findall(whole))) > 2 * MAX_SHOWN


def test_a_run_ends_with_likely_causes(tmp_path: Path) -> None:
    text = told("--case", "layout/*", "-q", "--report", str(tmp_path))
    assert not FULL.findall(text)
    head = re.search(r"^LIKELY CAUSES of (\d+) failing cases: (\d+), worst first$", text, re.MULTILINE)
    some = r"unsafe 0   wrong-content (\d+)   wrong-accept (\d+)   wrong-reject 0   deviation (\d+)   "
    counts = re.search(some, text)
    assert head is not None
    assert counts is not None
    assert int(head[1]) == sum(map(int, counts.groups()))
    assert 5 < int(head[2]) < 20 < int(head[1])
    summary = (tmp_path / "summary.md").read_text("utf-8")
    assert "**Likely causes, worst first**" in summary
    assert len(summary.splitlines()) <= 60
    command = re.search(r"^ +stc run (--impl \S+ --case layout/\S+)$", text, re.MULTILINE)
    assert command is not None
    again = CliRunner().invoke(run_command, [*command[1].split(), "--no-smoke"])
    assert again.exit_code == 1
    assert "  WRONG-ACCEPT\n" in again.output or "  WRONG-CONTENT\n" in again.output


def test_pytest_does_the_same(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, HOLES.rstrip("*"))
    options = (f"--corpus={corpus}", f"--impl={fake('AlwaysAccepts')}", "--no-smoke")
    run = suite_here(*options, "-k", "test_read and layout/hole")
    assert run.returncode == 1
    failures = run.stdout.partition("short test summary info")[0]
    assert len(set(FULL.findall(failures))) == MAX_SHOWN
    assert not LINE.search(failures)  # pytest only counts the others
    assert len(re.findall(r"^_+ test_read", failures, re.MULTILINE)) == MAX_SHOWN
    assert int(re.findall(r"(\d+) failed", run.stdout)[-1]) > MAX_SHOWN
    assert "LIKELY CAUSES of " in run.stdout


@pytest.mark.parametrize("full", [False, True])
def test_what_disagrees_with_the_baseline_is_told_as_it_is(full: bool) -> None:
    manifest = committed()
    options = RunOptions(manifest, smoke=False, full_failures=full)
    row = {"step": "read", "outcome": "accept", "verdict": "wrong-accept", "rules": ["OFF-07"]}
    cases = [c.id for c in manifest.cases if c.id.startswith("layout/hole-")][: 2 * MAX_SHOWN]
    with closing(ImplementationRun(resolve(fake("AlwaysAccepts")), options)) as subject:
        texts = [
            subject.failure_text(Assessment("failed", {**row, "case": case}, "whole", case == cases[-1]))
            for case in cases
        ]
    whole = len(cases) if full else MAX_SHOWN
    assert [text == "whole" for text in texts[:-1]] == [at < whole for at in range(len(cases) - 1)]
    assert texts[-1] == "whole"


@pytest.mark.parametrize(
    ("result", "status", "expected", "says"),
    [
        (StepResult("reject", "no"), "expected", True, "known failure, wrong-reject: slow, unreported"),
        (StepResult("accept"), "failed", False, "the baseline lists wrong-reject, but it passes now\n"),
        (StepResult("crash", "gone"), "failed", False, "lists wrong-reject, but it is unsafe now\n"),
    ],
)
def test_a_verdict_is_held_to_the_baseline(
    result: StepResult, status: str, expected: bool, says: str
) -> None:
    with closing(ImplementationRun(resolve("reference"), RunOptions(committed(), smoke=False))) as subject:
        assert subject.implementation is not None
        entry = ExpectedFailure(TRIGGER, {"read": "wrong-reject"}, why="slow", issue="unreported")
        subject.baseline = Baseline(Path("b.toml"), (entry,))
        found = subject.assess(
            judge(cases(TRIGGER)[0], {"read": result}, subject.implementation, None), "read"
        )
    assert (found.status, found.row["expected_failure"]) == (status, expected)
    assert found.contradicts_baseline is (status == "failed")
    assert says in found.text
