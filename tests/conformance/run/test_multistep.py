"""Every kind of case through a real worker: correct implementations pass, faulty ones fail."""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from safetensors_conformance.case_verdict import CaseVerdict
from safetensors_conformance.cli.run import run as run_command
from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.programs.launcher import Confinement
from safetensors_conformance.programs.sandbox import Sandbox
from safetensors_conformance.run.multistep import SHOWN_URL
from safetensors_conformance.run.session import Session, smoke
from safetensors_conformance.worker.worker import Limits, Request, make_worker
from safetensors_corpus import Case

from ..suite_runs import load_once, one_of_each
from ..support import HERE, QUICK, TRIGGER, committed, fake

small = partial(fake, module="small_adapter")


def judged(selector: str, cases: Sequence[Case], seconds: float = 5.0) -> Iterator[CaseVerdict]:
    with Session(resolve(selector), Limits(seconds, 1 << 30)) as session:
        session.start()
        session.plan(cases)
        for case in cases:
            yield session.judge(case)


def of_kind(kind: str, every: int = 1) -> list[Case]:
    return [c for c in committed().cases if c.kind == kind and not c.heavy][::every]


@pytest.mark.parametrize("kind", ["slice", "write", "lifecycle", "index", "remote", "concurrent"])
@pytest.mark.nightly
def test_a_right_implementation_passes_every_must_of_a_kind(kind: str) -> None:
    passes(small("FollowsIndex" if kind == "index" else "Small"), of_kind(kind), 30)


def test_a_right_implementation_passes_a_must_of_every_sort() -> None:
    kinds = ("slice", "write", "sharded", "export", "lifecycle", "remote", "concurrent")
    passes(small("Small"), one_of_each(case for kind in kinds for case in of_kind(kind)), 60)
    passes(small("FollowsIndex"), one_of_each(of_kind("index")), 30)


def passes(selector: str, cases: Sequence[Case], least: int) -> None:
    """Assert that an implementation passes each of at least so many cases for which it has the step."""
    assert len(cases) > least
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
    steps, reachable = ("read", "remote"), resolve("reference").reachable
    assert reachable(steps, Confinement()) == steps
    assert reachable(steps, Confinement(sandbox=Sandbox(HERE))) == ("read",)
    assert reachable(steps, Confinement(sandbox=Sandbox(HERE, net=True))) == steps


FAULTS = """
AnyRange                remote/later-answer-shifted-short-after-2        deviation:content  NET-01
LeavesRubbish           writer/nothing-beside-the-file-new               not-strict         one-file
WritesNothing           writer/two-tensors-and-metadata                  deviation:content  no file was
WholeTensor             slice/integer-first                              deviation:content
ExportsByName           export/leads-out-parent                          unsafe             EXP-01
ExportsByName           export/similar-two-slashes                       deviation:content  EXP-02
ExportsByName           export/odd-name-colon                            not-strict         EXP-03
ExportsBeforeItGivesUp  export/leads-out-parent                          unsafe             EXP-01
ExportsBeforeItGivesUp  export/ordinary-names-one                        unsupported        such a name
Zeros                   lifecycle/cut-the-tensor-small                   not-strict
OnePosition             concurrent/threads-another-tensor-each-two       deviation:content  other bytes than
OnePosition             concurrent/threads-large-tensors                 deviation:content  API-16
NotForThreads           concurrent/threads-same-tensor-two               unsupported        it lacks
NotForThreads           concurrent/forked-same-tensor-two                unsupported        it lacks
NotForThreads           concurrent/threads-opening-each-two              pass
RequiresTheSuffix       placed/file-with-no-suffix                       not-strict         FRM-10
DocumentsTheSuffix      placed/file-with-no-suffix                       unsupported        lacks other-suffix
Small                   placed/file-behind-cache                         pass
Small                   contended/new-file-4                             pass
Validator               placed/file-behind-cache                         pass
LeavesFilesOpen         repeated/read                                    not-strict         1.0 descriptors
KeepsHandles            repeated/closed                                  pass
DocumentsClosing        repeated/dropped                                 unsupported        lacks drop
OneTemporaryName        contended/new-file-4                             not-strict         WRT-21
DiesWhenHeld            lifecycle/one-tensor-first                       unsafe             SIGABRT
DiesWhenHeld            framing/one-tensor                               pass
DiesInAChild            concurrent/forked-same-tensor-two                unsafe             API-20
DiesInAChild            framing/one-tensor                               pass
"""
"""Adapter, case, verdict, and a part of the detail or the only rule that is broken."""
EACH = [re.split(r" {2,}", line) for line in FAULTS.strip().splitlines()]


@pytest.mark.parametrize("name", dict.fromkeys(row[0] for row in EACH))
def test_one_fault_is_judged_by_what_it_does(name: str) -> None:
    rows = {case: (verdict, *words) for adapter, case, verdict, *words in EACH if adapter == name}
    for found in judged(small(name), [committed().by_id[case] for case in rows]):
        verdict, *words = rows[found.case.id]
        assert found.verdict == verdict, (found.case.id, found.final.detail)
        if words and re.fullmatch(r"[A-Z]{3}-[0-9]{2}", words[0]):
            assert [failure.rule for failure in found.final.failures] == words
        else:
            assert "".join(words) in found.final.detail


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


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    "case", [pytest.param("threads-same-tensor-two", marks=pytest.mark.nightly), "forked-same-tensor-two"]
)
def test_a_reader_that_waits_for_ever_is_unsafe(case: str) -> None:
    (verdict,) = judged(small("WaitsInAChild"), [committed().by_id[f"concurrent/{case}"]], seconds=0.3)
    assert (verdict.verdict, verdict.final.result.outcome) == ("unsafe", "hang")


def test_a_validator_is_held_to_its_verdict_only() -> None:
    verdicts = list(judged(small("Validator"), of_kind("read", 29)))
    assert {step for v in verdicts for step in v.steps} == {"open"}
    assert {v.verdict.partition(":")[0] for v in verdicts} == {"pass", "choice"}


def test_an_answer_nobody_asks_for_is_passed_over() -> None:
    worker = make_worker(resolve(QUICK), Limits())
    worker.start()
    paths = [str(c.path) for c in of_kind("read")[:4]]
    worker.send_ahead([Request("read", path) for path in paths])
    assert worker.in_flight == 4
    last = worker.ask("read", paths[3])
    assert worker.in_flight == 0
    alone = worker.ask("read", paths[3])
    assert (last.outcome, last.tensors) == (alone.outcome, alone.tensors)
    worker.close()


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("name", "verdict"), [("Slow", "pass"), ("StuckAtFirst", "unsafe"), ("Hangs", "unsafe")]
)
def test_what_is_slow_and_comes_to_an_end_is_no_hang(name: str, verdict: str) -> None:
    before, asked = (committed().by_id[i] for i in ("layout/two-dtypes", TRIGGER))
    with Session(resolve(fake(name)), Limits(0.5)) as session:
        session.judge(before)
        judged = session.judge(replace(asked, steps=("open",))).steps["open"]
    assert judged.verdict == verdict, judged.detail
    assert ("asked twice: no answer within 0.5 s" in judged.result.message) == (name == "Slow")
    assert ("order-dependent" in judged.result.message) == (name == "StuckAtFirst")


def test_a_file_larger_than_the_address_space_allowed_is_opened_all_the_same() -> None:
    pytest.importorskip("safetensors")
    case = committed().by_id["resource/opened-only-2p40"]
    (verdict,) = judged("safetensors:safe-open", [case])
    assert verdict.verdict == "pass", verdict.final.detail


def test_an_option_that_cannot_work_is_refused_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    load_once(monkeypatch)
    for option, value, why in (
        ("--time-limit", "nan", "nan"),
        ("--time-limit", "inf", ""),
        ("--report", "/dev/null/x", "/dev/null/x: Not a directory"),
    ):
        result = CliRunner().invoke(run_command, ["--impl", QUICK, "--case", TRIGGER, option, value])
        says = f"Invalid value for '{option}': {why}"
        assert (result.exit_code, says in result.output) == (2, True), result.output


@pytest.mark.parametrize(("name", "complains"), [("DiesOfNoBytes", False), ("AlwaysDies", True)])
def test_a_reader_that_dies_of_a_broken_file_has_no_wrong_adapter(name: str, complains: bool) -> None:
    with Session(resolve(fake(name)), Limits(seconds=20)) as session:
        session.start()
        assert (smoke(session, committed().cases) is not None) is complains


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
    with Session(resolve("reference:fsspec"), Limits(10.0, 1 << 30)) as session:
        assert session.start().steps == ("remote",)
        assert {case.id.partition("/")[2]: session.judge(case).verdict for case in cases} == CASES
