"""Every kind of case through a real worker: correct implementations pass, faulty ones fail."""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from safetensors_conformance.cli.run import run as run_command
from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.programs.sandbox import Sandbox
from safetensors_conformance.run import cases as runner
from safetensors_conformance.run.cases import SHOWN_URL, CaseRunner
from safetensors_conformance.run.session import Session, smoke
from safetensors_conformance.verdict import CaseVerdict
from safetensors_conformance.worker.confinement import Confinement
from safetensors_conformance.worker.worker import Limits, Request, make_worker
from safetensors_corpus import Case

from ..suite_runs import load_once, one_of_each
from ..support import HERE, QUICK, TRIGGER, committed, fake

ADAPTERS = HERE / "small_adapter.py"
LIMITS = Limits(5.0, 1 << 30)


def small(name: str) -> str:
    return f"py:{ADAPTERS}:{name}"


def judged(selector: str, cases: Sequence[Case]) -> Iterator[CaseVerdict]:
    with Session(CaseRunner(resolve(selector), LIMITS)) as session:
        session.start()
        session.runner.plan(cases)
        for case in cases:
            yield session.judge(case)


def of_kind(kind: str, every: int = 1) -> list[Case]:
    return [c for c in committed().cases if c.kind == kind and not c.heavy][::every]


@pytest.mark.parametrize("kind", ["slice", "write", "lifecycle", "index", "remote", "concurrent"])
@pytest.mark.nightly
def test_a_right_implementation_passes_every_must_of_a_kind(kind: str) -> None:
    cases = of_kind(kind)
    assert len(cases) > 30
    passes(small("FollowsIndex" if kind == "index" else "Small"), cases)


def test_a_right_implementation_passes_a_must_of_every_sort() -> None:
    kinds = ("slice", "write", "sharded", "export", "lifecycle", "remote", "concurrent")
    cases = one_of_each(case for kind in kinds for case in of_kind(kind))
    assert len(cases) > 60
    passes(small("Small"), cases)
    cases = one_of_each(of_kind("index"))
    assert len(cases) > 30
    passes(small("FollowsIndex"), cases)


def passes(selector: str, cases: Sequence[Case]) -> None:
    """Assert that an implementation passes each case for which it has the step."""
    lacking = () if cases[0].kind == "index" else ("unsupported",)
    wrong = {
        v.case.id: (v.verdict, v.final.detail)
        for v in judged(selector, cases)
        if v.verdict.partition(":")[0] not in ("pass", "choice", *lacking)
    }
    assert wrong == {}


def test_what_a_server_sent_is_told_and_its_address_is_not() -> None:
    cases = [committed().by_id[f"remote/{name}"] for name in ("one-tensor", "server-not-found")]
    accepted, refused = judged(small("TellsTheAddress"), cases)
    size = cases[0].size
    assert accepted.final.result.message == f"3 requests; the server sent {size} of {size} bytes"
    assert refused.verdict == "pass"
    assert refused.final.result.message == f"RuntimeError: status 404 of {SHOWN_URL}"


def test_a_sandbox_without_network_is_not_asked_for_files_behind_a_server() -> None:
    steps = ("read", "remote")
    assert Confinement().reachable(steps) == steps
    assert Confinement(sandbox=Sandbox(HERE)).reachable(steps) == ("read",)
    assert Confinement(sandbox=Sandbox(HERE, net=True)).reachable(steps) == steps


def test_what_is_left_behind_in_the_folder_is_seen() -> None:
    cases = [c for c in of_kind("write") if c.expect is not None and "one-file" in c.expect.properties]
    accepting = [c for c in cases if c.expect is not None and c.expect.outcome == "accept"]
    verdicts = {v.case.id: v for v in judged(small("LeavesRubbish"), accepting)}
    assert verdicts
    for case_id, verdict in verdicts.items():
        assert verdict.verdict in ("wrong-content", "not-strict"), case_id
        assert "one-file" in verdict.final.detail


@pytest.mark.parametrize(
    ("name", "case", "verdict", "words"),
    [
        ("HeadersFromServers", "remote/three-tensors-short", "pass", ""),
        ("HeadersFromServers", "remote/later-answer-no-ranges-short-after-2", "choice:content", ""),
        ("AnyRange", "remote/later-answer-shifted-short-after-2", "deviation:content", "NET-01"),
        ("WritesNothing", "writer/two-tensors-and-metadata", "deviation:content", "no file was written"),
        ("WholeTensor", "slice/integer-first", "deviation:content", ""),
        ("ExportsByName", "export/leads-out-parent", "unsafe", "EXP-01"),
        ("ExportsByName", "export/similar-two-slashes", "deviation:content", "EXP-02"),
        ("ExportsByName", "export/odd-name-colon", "not-strict", "EXP-03"),
        ("ExportsBeforeItGivesUp", "export/leads-out-parent", "unsafe", "EXP-01"),
        ("ExportsBeforeItGivesUp", "export/ordinary-names-one", "unsupported", "such a name"),
        ("Zeros", "lifecycle/cut-the-tensor-small", "not-strict", ""),
        (
            "OnePosition",
            "concurrent/threads-another-tensor-each-two",
            "deviation:content",
            "other bytes than",
        ),
        ("OnePosition", "concurrent/threads-large-tensors", "deviation:content", "API-16"),
        ("NotForThreads", "concurrent/threads-same-tensor-two", "unsupported", "it lacks "),
        ("NotForThreads", "concurrent/forked-same-tensor-two", "unsupported", "it lacks "),
        ("NotForThreads", "concurrent/threads-opening-each-two", "pass", ""),
        ("RequiresTheSuffix", "placed/file-with-no-suffix", "not-strict", "FRM-10"),
        ("DocumentsTheSuffix", "placed/file-with-no-suffix", "unsupported", "lacks other-suffix"),
        ("Small", "placed/file-behind-cache", "pass", ""),
        ("Validator", "placed/file-behind-cache", "pass", ""),
        ("LeavesFilesOpen", "repeated/read", "not-strict", "1.0 descriptors for each request"),
        ("KeepsHandles", "repeated/dropped", "not-strict", "1.0 descriptors for each request"),
        ("DocumentsClosing", "repeated/dropped", "unsupported", "lacks drop"),
        ("KeepsHandles", "repeated/closed", "pass", ""),
        ("OneTemporaryName", "contended/new-file-4", "not-strict", "WRT-21"),
        ("Small", "contended/new-file-4", "pass", ""),
    ],
)
def test_one_fault_is_judged_by_what_it_does(name: str, case: str, verdict: str, words: str) -> None:
    """``words`` are part of the detail, or the only rule that is broken."""
    (found,) = judged(small(name), [committed().by_id[case]])
    assert found.verdict == verdict, found.final.detail
    if re.fullmatch(r"[A-Z]{3}-[0-9]{2}", words):
        assert [failure.rule for failure in found.final.failures] == [words]
    else:
        assert words in found.final.detail


COPIES = """
import pathlib, sys
path, folder, name = sys.argv[1:]
data = pathlib.Path(path).read_bytes()
if b".." in data and name == "checked":
    sys.exit("no")
pathlib.Path(folder, name).write_bytes(data)
"""


@pytest.mark.parametrize(
    ("name", "case", "verdict"),
    [
        ("copy", "ordinary-names-one", "pass"),
        ("copy", "leads-out-parent", "choice:export"),
        ("checked", "leads-out-parent", "choice:refuse"),
        ("../copy", "ordinary-names-one", "unsafe"),
        ("missing/copy", "ordinary-names-one", "deviation:reject"),
    ],
)
def test_a_command_with_a_folder_exports(name: str, case: str, verdict: str, tmp_path: Path) -> None:
    script = tmp_path / "copies.py"
    script.write_text(COPIES, encoding="utf-8")
    selector = shlex.join([f"exit:{sys.executable}", "-IS", str(script), "{path}", "{folder}", name])
    cases = [committed().by_id[f"export/{case}"], committed().by_id["framing/one-tensor"]]
    found, skipped = judged(selector, cases)
    assert (found.verdict, list(skipped.steps)) == (verdict, [])


def test_a_forked_process_that_dies_is_unsafe_and_the_next_case_runs() -> None:
    cases = [committed().by_id[i] for i in ("concurrent/forked-same-tensor-two", "framing/one-tensor")]
    first, second = judged(small("DiesInAChild"), cases)
    assert (first.verdict, first.final.failures[0].rule) == ("unsafe", "API-20")
    assert "a process was killed by SIGKILL" in first.final.detail
    assert second.verdict == "pass"


@pytest.mark.parametrize(
    "case",
    [pytest.param("threads-same-tensor-two", marks=pytest.mark.nightly), "forked-same-tensor-two"],
)
def test_a_reader_that_waits_for_ever_is_unsafe(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("safetensors_conformance.worker.worker.HANG_RETRY_FACTOR", 1)
    limits = Limits(0.5, 1 << 30)
    with Session(CaseRunner(resolve(small("WaitsInAChild")), limits)) as session:
        session.start()
        verdict = session.judge(committed().by_id[f"concurrent/{case}"])
    assert (verdict.verdict, verdict.final.result.outcome) == ("unsafe", "hang")


def test_an_abort_in_the_middle_of_a_script_is_unsafe_and_the_next_case_runs() -> None:
    cases = [committed().by_id[i] for i in ("lifecycle/one-tensor-first", "framing/one-tensor")]
    first, second = judged(small("DiesWhenHeld"), cases)
    assert first.verdict == "unsafe"
    assert "SIGABRT" in first.final.detail
    assert second.verdict == "pass"


def test_a_validator_is_held_to_its_verdict_only() -> None:
    cases = of_kind("read", 29)
    with Session(CaseRunner(resolve(small("Validator")), LIMITS)) as session:
        who = session.start()
        assert (who.steps, who.verdict_only) == (("open",), True)
        verdicts = [session.judge(c) for c in cases]
    assert {v.verdict.partition(":")[0] for v in verdicts} == {"pass", "choice"}


def test_a_budget_that_is_exceeded_is_named() -> None:
    case = next(
        c for c in of_kind("resource") if c.budget and c.budget.get("peak_bytes", 1 << 40) < 100 << 20
    )
    (verdict,) = judged(small("Slow"), [case])
    if verdict.final.result.peak_bytes is None:
        pytest.skip("this system does not tell a process's peak memory")
    assert "over budget: " in verdict.final.detail
    assert "bytes of memory of " in verdict.final.detail
    (excess,) = (e for e in verdict.final.result.over_budget if e.name == "peak_bytes")
    assert excess.allowed == (case.budget or {})["peak_bytes"]
    assert excess.used == verdict.final.result.peak_bytes
    assert excess.ratio > 2
    assert verdict.verdict == ("unsafe" if case.level == "must" else "not-strict")


# Requests sent ahead


@pytest.fixture
def few_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few requests are on their way at once, so that some dozens of cases are more than that."""
    monkeypatch.setattr(runner, "MAX_IN_FLIGHT", 16)


@pytest.mark.usefixtures("few_ahead")
def test_sending_ahead_changes_no_verdict() -> None:
    cases = of_kind("read", 80)
    assert len(cases) > 3 * runner.MAX_IN_FLIGHT
    selector = QUICK

    def verdicts(plan: list[Case]) -> dict[str, str]:
        with Session(CaseRunner(resolve(selector), LIMITS)) as session:
            session.start()
            session.runner.plan(plan)
            return {c.id: session.judge(c).verdict for c in cases}

    assert verdicts(cases) == verdicts([]) == verdicts(cases[::-1]) == verdicts(cases[::2])


@pytest.mark.usefixtures("few_ahead")
def test_a_crash_loses_no_request_that_was_sent_ahead() -> None:
    framing = [c for c in of_kind("read") if c.id.startswith("framing/")]
    cases = [c for place, c in enumerate(framing) if place % 4 == 0 or c.id.startswith(TRIGGER)]
    assert cases[0].id != TRIGGER != cases[-1].id
    assert any(c.id == TRIGGER for c in cases)
    crashing = {v.case.id: v.verdict for v in judged(fake("Crashes"), cases)}
    right = {v.case.id: v.verdict for v in judged(QUICK, cases)}
    assert {i for i in right if crashing[i] != right[i]} == {
        c.id for c in cases if "one-tensor" in str(c.path)
    }
    assert "unsafe" in crashing.values()
    assert "harness-error" not in crashing.values()


def test_an_answer_nobody_asks_for_is_passed_over() -> None:
    worker = make_worker(resolve(QUICK), LIMITS)
    worker.start()
    paths = [str(c.path) for c in of_kind("read")[:4]]
    worker.send_ahead([Request("read", path) for path in paths])
    assert worker.in_flight == 4
    last = worker.ask("read", paths[3])
    assert worker.in_flight == 0
    alone = worker.ask("read", paths[3])
    assert (last.outcome, last.tensors) == (alone.outcome, alone.tensors)
    worker.close()


def test_a_crash_that_depends_on_the_cases_before_is_flagged() -> None:
    cases = [committed().by_id[i] for i in ("framing/no-bytes", TRIGGER)]
    verdicts = {v.case.id: v for v in judged(fake("CrashesTheSecondTime"), cases)}
    flagged = [v for v in verdicts.values() if v.verdict == "unsafe"]
    assert flagged
    assert all(
        "order-dependent: " in v.steps[s].detail
        for v in flagged
        for s in v.steps
        if (v.steps[s].verdict == "unsafe")
    )


@pytest.mark.by_day(1)
@pytest.mark.parametrize(("name", "outcome"), [("Slow", "accept"), ("StuckAtFirst", "hang")])
def test_what_is_ended_early_is_told_as_without_that(
    monkeypatch: pytest.MonkeyPatch, name: str, outcome: str
) -> None:
    monkeypatch.setattr(runner, "PROBE_LIMITS", Limits(0.4, 1 << 30))
    before, asked = (committed().by_id[i] for i in ("layout/two-dtypes", TRIGGER))
    with Session(CaseRunner(resolve(fake(name)), Limits(1.0 if name == "StuckAtFirst" else 10.0))) as session:
        session.judge(before)
        result = session.judge(replace(asked, steps=("open",))).steps["open"].result
    assert result.outcome == outcome
    if name == "Slow":
        assert not result.message
    else:
        assert result.message.startswith("no answer within 3 s; killed")
        assert "order-dependent" in result.message


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("name", "limit", "verdict"),
    [("Slow", 0.5, "pass"), ("StuckAtFirst", 0.5, "unsafe"), ("Hangs", 0.5, "unsafe")],
)
def test_what_is_slow_and_comes_to_an_end_is_no_hang(name: str, limit: float, verdict: str) -> None:
    before, asked = (committed().by_id[i] for i in ("layout/two-dtypes", TRIGGER))
    with Session(CaseRunner(resolve(fake(name)), Limits(limit))) as session:
        session.judge(before)
        judged = session.judge(replace(asked, steps=("open",))).steps["open"]
    assert judged.verdict == verdict, judged.detail
    said = judged.result.message
    if name == "Slow":
        assert "asked twice: no answer within 0.5 s" in said
    else:
        assert ("order-dependent" in said) == (name == "StuckAtFirst")


def test_a_file_larger_than_the_address_space_allowed_is_opened_all_the_same() -> None:
    pytest.importorskip("safetensors")
    case = committed().by_id["resource/opened-only-2p40"]
    (verdict,) = judged("safetensors:safe-open", [case])
    assert verdict.verdict == "pass", verdict.final.detail


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--time-limit", "nan"], "nan"),
        (["--time-limit", "inf"], "--time-limit"),
        (["--report", "/dev/null/x"], "/dev/null/x: Not a directory"),
        (["--report", "/dev/null"], "/dev/null"),
    ],
)
def test_an_option_that_cannot_work_is_refused_before_anything_runs(
    arguments: list[str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_once(monkeypatch)
    result = CliRunner().invoke(
        run_command, ["--impl", "reference", "--case", "framing/one-tensor", *arguments]
    )
    assert (result.exit_code, words in result.output) == (2, True), result.output


@pytest.mark.parametrize(("name", "complains"), [("DiesOfNoBytes", False), ("AlwaysDies", True)])
def test_a_reader_that_dies_of_a_broken_file_has_no_wrong_adapter(name: str, complains: bool) -> None:
    session = Session(CaseRunner(resolve(fake(name)), Limits(seconds=20)))
    try:
        session.start()
        assert (smoke(session, committed().cases) is not None) is complains
    finally:
        session.close()


CASES = {
    "three-tensors-long": "pass",
    "header-longer-than-the-file-a-tebibyte": "pass",
    "answer-short-long": "choice:content",
    "later-answer-cut-short-after-2": "choice:error",
    "later-answer-shifted-short-after-2": "deviation:content",  # fsspec takes any range for the one asked for
}


@pytest.mark.skipif(importlib.util.find_spec("aiohttp") is None, reason="needs the extra remote")
def test_the_strict_reader_over_fsspec() -> None:
    cases = [committed().by_id[f"remote/{name}"] for name in CASES]
    with Session(CaseRunner(resolve("reference:fsspec"), Limits(10.0, 1 << 30))) as session:
        assert session.start().steps == ("remote",)
        assert {case.id.partition("/")[2]: session.judge(case).verdict for case in cases} == CASES
