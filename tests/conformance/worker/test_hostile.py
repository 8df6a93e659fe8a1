"""Hostile readers through the real worker: the right outcome, and no effect on neighbouring cases.

A run asks for several files with the one that triggers the misbehaviour in the middle, and compares all
verdicts. Files are copies, so that a reader may spoil them.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from safetensors_conformance.case_verdict import result_row
from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.outcome import KEPT_CONTENT, StepResult
from safetensors_conformance.programs import limited_process
from safetensors_conformance.run.session import Session
from safetensors_conformance.worker.worker import Limits
from safetensors_corpus import Case, load_manifest

from ..suite_runs import corpus_of
from ..support import QUICK, TRIGGER, by_exit, committed, fake, stdio

IDS = ("framing/no-bytes", "layout/two-dtypes", TRIGGER, "layout/hole-between-two", "dtype/scalar-of-f64")
"""A broken file, a valid one, the trigger, a broken file, a valid one."""
MUCH = "used more than 256 MiB of memory; killed"


@dataclass
class Ran:
    """Result of a run: the step that was triggered, all verdicts, and how long it took."""

    trigger: StepResult
    verdicts: dict[str, str]
    detail: dict[str, str]
    seconds: float

    @property
    def neighbours(self) -> set[str]:
        return {verdict for case, verdict in self.verdicts.items() if case != TRIGGER}


def run(selector: str, cases: list[Case], *, seconds: float = 0.5, ahead: bool = True) -> Ran:
    began = time.monotonic()
    with Session(resolve(selector), Limits(seconds, 256 << 20)) as session:
        session.start()
        if ahead:
            session.plan(cases)
        judged = [session.judge(case) for case in cases]
    for verdict in judged:
        for step in verdict.steps:  # whatever was answered can be written down
            json.dumps(result_row(verdict, step, expected_failure=False), allow_nan=False)
    (trigger,) = (v.steps["read"].result for v in judged if v.case.id == TRIGGER)
    return Ran(
        trigger,
        {v.case.id: v.verdict for v in judged},
        {v.case.id: " | ".join(s.detail for s in v.steps.values()) for v in judged},
        time.monotonic() - began,
    )


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="signals and limits as on Linux")


def ahead_or_not(*names: str) -> list[Any]:
    """Every fake with requests sent ahead; without that the first one, and the others at night."""
    alone = [pytest.param(name, False, marks=pytest.mark.nightly) for name in names[1:]]
    return [*((name, True) for name in names), (names[0], False), *alone]


@pytest.fixture
def cases() -> list[Case]:
    manifest = committed()
    return [manifest.by_id[i] for i in IDS]


@pytest.mark.usefixtures("impatient")
@pytest.mark.by_day(10)
@pytest.mark.parametrize(
    ("selector", "outcome", "words"),
    [
        (fake("Hangs"), "hang", "no answer within 0.5 s; killed"),
        (fake("HangsIgnoringSignals"), "hang", "no answer within 0.5 s; killed"),
        (fake("StopsItself"), "hang", "no answer within 0.5 s; killed"),
        (fake("FloodsStderr"), "hang", "no answer within 0.5 s; killed"),
        (fake("Crashes"), "crash", "SIGSEGV"),
        (fake("MapsWhatIsCutOff"), "crash", "SIGBUS"),
        (fake("OverflowsTheStack"), "crash", "SIGSEGV"),
        (fake("ForksAndDies"), "crash", "exit status 4"),
        (fake("ClosesEverything"), "crash", "exit status 1"),
        (fake("Exits"), "crash", "exit status 0"),
        (fake("Panics"), "crash", "PanicException"),
        (fake("EatsMemory"), "exhausted", MUCH),
        (fake("ExitsByException"), "reject", "SystemExit"),
        (fake("AllocatesMuch"), "exhausted", MUCH),
        (stdio("fills"), "exhausted", MUCH),
        (stdio("talks-and-fills"), "exhausted", MUCH),  # there is no quiet moment
        (fake("SlipsUp"), "harness-error", "undefined_name"),
        (stdio("wrong-order"), "harness-error", "send one answer per request, in order"),
        (stdio("endless-noise"), "harness-error", "never stops writing to standard output"),
        (stdio("many-values"), "harness-error", "values, which is more than 500,000"),
        (stdio("no-json"), "harness-error", "not valid JSON (JSONDecodeError): "),
        (stdio("no-utf-8"), "reject", "caf\\xe9"),
        (stdio("reserves"), "accept", ""),
        (by_exit("hang"), "hang", "killed"),
        (by_exit("lines"), "hang", "killed"),
        (by_exit("stderr"), "hang", "killed"),
        (stdio("closes-stdout"), "crash", "closed its standard output"),
        (by_exit("abort"), "crash", "SIGABRT"),
        (by_exit("status-3"), "crash", "exit status 3"),
        (by_exit("status-127"), "harness-error", "127"),
    ],
)
def test_misbehaviour_is_of_its_file_alone(
    cases: list[Case], selector: str, outcome: str, words: str
) -> None:
    ran = run(selector, cases, seconds=0.5 if outcome == "hang" else 15)
    assert ran.trigger.outcome == outcome
    assert words in ran.trigger.message
    assert ran.neighbours == {"pass"}, ran.detail
    assert ran.seconds < 14


QUIET: tuple[str, ...] = ("ForksAndBothAnswer", "FloodsStderrFromAThread", "LeavesThreads")
QUIET += ("ChangesTheClock", "ClosesStderr", "ChangesFolder")


@pytest.mark.usefixtures("stubborn_is_soon_ended")
@pytest.mark.parametrize(
    ("selector", "ahead"),
    ahead_or_not(*map(fake, QUIET), *map(stdio, ("ahead", "twice", "forge-next"))),
)
def test_what_leaves_the_answers_right_moves_no_verdict(
    cases: list[Case], selector: str, ahead: bool
) -> None:
    ran = run(selector, cases, seconds=10, ahead=ahead)
    assert ran.verdicts == dict.fromkeys(IDS, "pass"), ran.detail
    assert 0 <= ran.trigger.wall_ms < 10_000
    assert ran.seconds < 10


@pytest.mark.parametrize(
    ("how", "amount", "limit", "verdict"),
    [
        ("long", 900 << 10, 1 << 20, "wrong-reject"),
        ("rows", 20_000, 1 << 20, "wrong-content"),
        pytest.param("long", 60 << 20, limited_process.LINE_LIMIT, "wrong-reject", marks=pytest.mark.nightly),
    ],
)
def test_a_very_long_answer_is_an_answer(
    cases: list[Case], monkeypatch: pytest.MonkeyPatch, how: str, amount: int, limit: int, verdict: str
) -> None:
    monkeypatch.setattr(limited_process, "LINE_LIMIT", limit)
    ran = run(stdio(how, amount), cases, seconds=15)
    assert ran.verdicts[TRIGGER] == verdict
    assert ran.neighbours == {"pass"}, ran.detail
    assert len(ran.trigger.message) <= 2000
    content = ran.trigger.content
    assert content is None or content["tensor_count"] == amount
    assert len(json.dumps(content)) < 2 * KEPT_CONTENT


def test_limits_that_a_reader_sets_do_not_reach_the_next_file(cases: list[Case]) -> None:
    assert run(fake("LowersFileLimit"), cases).neighbours == {"pass"}


# Readers that spoil the corpus


@pytest.fixture
def copied(tmp_path: Path) -> list[Case]:
    """The cases over a corpus that may be spoiled."""
    copy = load_manifest(corpus_of(tmp_path, *IDS))
    return [copy.by_id[i] for i in IDS]


SPOILED = {
    "Deletes": "its input was removed",
    "WritesIntoTheFile": "its input was modified",
    "SpoilsAllInputs": "",  # it is told of the input, or of another one
    "PutsAFifo": "its input was replaced by a FIFO",
    "MovesTheFolder": "its input was removed",
    "LinksToZeros": "its input was replaced by a symbolic link",
    "PutsAFolder": "its input was replaced by a folder",
}
"""Deeds of a reader to its input, and the words for them."""


@pytest.mark.by_day(6)
@pytest.mark.parametrize(("name", "ahead"), ahead_or_not(*SPOILED))
def test_what_a_reader_does_to_its_input_is_its_own_failure(
    copied: list[Case], name: str, ahead: bool
) -> None:
    ran = run(fake(name), copied, ahead=ahead)
    assert ran.verdicts[TRIGGER] == "deviation:content"
    assert SPOILED[name] in ran.detail[TRIGGER]
    assert ran.neighbours == {"pass"}, ran.detail
    assert ran.seconds < 20
    (input_file,) = (case.path for case in copied if case.id == TRIGGER)
    assert input_file.is_file()
    assert not input_file.is_symlink()
    assert input_file.read_bytes() == committed().by_id[TRIGGER].path.read_bytes()


SOME = ("layout/two-dtypes", TRIGGER, "resource/long-name-1mb", "lifecycle/one-tensor-first", *IDS[3:])


def test_whatever_a_reader_leaves_beside_its_input_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    rows = rows_of(fake("DigsDeep"))
    assert {row["verdict"] for row in rows if row["case"] in (TRIGGER, "lifecycle/one-tensor-first")} == {
        "pass"
    }
    assert not list(tmp_path.iterdir())


def rows_of(selector: str) -> list[dict[str, Any]]:
    manifest = committed()
    some = [*(manifest.by_id[i] for i in SOME), next(c for c in manifest.cases if c.kind == "slice")]
    with Session(resolve(selector)) as session:
        session.plan(some)
        return [
            result_row(verdict, step, expected_failure=False)
            for verdict in map(session.judge, some)
            for step in verdict.steps
        ]


def test_names_and_folders_of_inputs_tell_nothing() -> None:
    told = [row["content"].get("metadata") for row in rows_of(fake("TellsWhatIsBeside")) if row["content"]]
    names = {seen["name"] for seen in told if seen}
    assert len(names) == 4  # of the plain files; others list nothing or have a folder of their own
    for name in names:
        assert re.fullmatch(r"input-\d{6}\.safetensors", name)
    beside = {other for seen in told if seen for other in seen["beside"].split()}
    assert all(re.fullmatch(r"input-\d{6}\.safetensors", other) for other in beside)


def test_the_words_of_a_reader_are_the_same_in_every_run() -> None:
    first, second = rows_of(fake("ComplainsOfTheFile")), rows_of(fake("ComplainsOfTheFile"))
    words = [row["message"] for row in first]
    assert words == [row["message"] for row in second]
    assert [row["noise"] for row in first] == [row["noise"] for row in second]
    assert not any("safetensors-input-" in text or "safetensors-case-" in text for text in words)
    read = next(row for row in first if row["case"] == TRIGGER and row["step"] == "read")
    assert read["message"] == "ValueError: cannot read file.safetensors (file in '')"


def test_a_file_that_is_only_touched_is_still_the_right_one(copied: list[Case]) -> None:
    with Session(resolve(QUICK)) as session:
        session.plan(copied)
        for case in copied:
            os.utime(case.path)
            assert session.judge(case).verdict == "pass"
