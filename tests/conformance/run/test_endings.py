"""Ends of runs: signals, implementations that never answer, reports that cannot be kept."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner, Result

from safetensors_conformance.cli.run import run as run_command
from safetensors_conformance.implementations.selectors import MAX_SLUG, Target, resolve
from safetensors_conformance.run import session as runner
from safetensors_conformance.run.driver import ImplementationResults, ReportError, Run, RunOptions
from safetensors_reports.record.file import RecordWriter, read_record

from ..suite_runs import suite_here
from ..support import QUICK, STC, SUITE, TRIGGER, all_end, committed, fake, record_header

pytestmark = pytest.mark.usefixtures("loaded_once")


def reader_that_hangs(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start a run whose reader hangs, and wait until the previous case is in the record."""
    command = [*STC, "run", "--impl", fake("Hangs"), "--no-smoke", "--time-limit", "100"]
    command += ["--case", TRIGGER, "--case", "framing/no-bytes", "--report", str(folder / "report")]
    return started(folder, [*command, *arguments], "report/*.jsonl", b'"result"')


def started(folder: Path, command: list[str], pattern: str, content: bytes) -> subprocess.Popen[str]:
    """Start a command and wait until a file with this content appears in the folder."""
    (folder / "tmp").mkdir(parents=True)
    environment = {**os.environ, "TMPDIR": str(folder / "tmp")}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder, env=environment
    )
    wait_for(folder, pattern, content, process)
    time.sleep(0.3)  # until the next case is asked about
    return process


def wait_for(folder: Path, pattern: str, content: bytes, process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + 100
    while not any(content in path.read_bytes() for path in folder.glob(pattern) if path.is_file()):
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("number", "jobs"),
    [
        (signal.SIGTERM, "1"),
        (signal.SIGINT, "2"),
        pytest.param(signal.SIGHUP, "1", marks=pytest.mark.nightly),
        pytest.param(signal.SIGHUP, "2", marks=pytest.mark.nightly),
    ],
)
def test_a_signal_ends_a_run_in_order_with_what_was_found(
    tmp_path: Path, few_cases: Path, number: signal.Signals, jobs: str
) -> None:
    process = reader_that_hangs(tmp_path, "--jobs", jobs, "--corpus", str(few_cases))
    children = psutil.Process(process.pid).children(recursive=True)
    assert children
    began = time.monotonic()
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert time.monotonic() - began < 30
    assert "PARTIAL RUN" in out
    assert "interrupted" in err
    assert "Traceback" not in err
    (path,) = (tmp_path / "report").glob("*.jsonl")
    record = read_record(path)
    assert record.partial
    assert not record.problems
    assert [row["case"] for row in record.results] == ["framing/no-bytes"] * len(record.results)
    assert not psutil.wait_procs(children, timeout=5)[1]
    assert not list((tmp_path / "tmp").glob("safetensors-*"))


def test_a_killed_run_leaves_whole_records_of_what_was_done(tmp_path: Path, few_cases: Path) -> None:
    process = reader_that_hangs(tmp_path, "--jobs", "2", "--impl", "reference", "--corpus", str(few_cases))
    wait_for(tmp_path, "report/reference.jsonl", b'"footer"', process)
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.communicate(timeout=10)
    for child in children:  # those that did not notice
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    records = {path.stem: read_record(path) for path in (tmp_path / "report").glob("*.jsonl")}
    assert sorted(record.footer is None for record in records.values()) == [False, True]
    assert records["reference"].footer is not None


def test_the_second_signal_ends_a_run_at_once(tmp_path: Path) -> None:
    code = """
import subprocess, sys, tempfile, time, weakref, shutil
from safetensors_conformance.programs.launcher import Interruption
class Holder: pass
with Interruption() as interruption:
    holder = Holder()
    weakref.finalize(holder, shutil.rmtree, tempfile.mkdtemp(dir=sys.argv[1]))
    print("ready", flush=True)
    interruption.stop.wait()
    child = subprocess.Popen(["sleep", "600"])
    print(child.pid, flush=True)
    time.sleep(600)
"""
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        child = int(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 128 + signal.SIGINT
    assert all_end(child)
    assert not list(tmp_path.iterdir())


def test_a_signal_that_is_ignored_stays_so() -> None:
    code = """
import os, signal
from safetensors_conformance.programs.launcher import Interruption
signal.signal(signal.SIGHUP, signal.SIG_IGN)
with Interruption() as interruption:
    os.kill(os.getpid(), signal.SIGHUP)
    print(interruption.status)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "None\n"


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(run_command, arguments)


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.nightly)])
def test_a_signal_ends_pytest_as_ctrl_c_does(tmp_path: Path, few_cases: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", str(SUITE)]
    command += [f"--impl={fake('Hangs')}", "--no-smoke", "--time-limit=100", "-k", TRIGGER]
    command += [f"--report={tmp_path / 'report'}", "-o", "filterwarnings=", f"--corpus={few_cases}"]
    process = started(tmp_path, command, "tmp/safetensors-input-*/*", b"")
    process.send_signal(number)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == pytest.ExitCode.INTERRUPTED, out
    assert not list((tmp_path / "tmp").glob("safetensors-*"))


def test_a_disk_that_becomes_full_leaves_whole_lines_and_the_summary(tmp_path: Path, few_cases: Path) -> None:
    command = [*STC, "run", "--impl", "reference", "--no-smoke", "--case", "framing/*"]
    done = subprocess.run(
        [*command, "--corpus", str(few_cases), "--report", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)),
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},  # the limit would truncate the bytecode too
    )
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert "reference.jsonl: File too large" in done.stderr
    assert "PARTIAL RUN" in done.stdout
    lines = (tmp_path / "reference.jsonl").read_text("ascii")
    assert lines.endswith("\n")
    rows = [json.loads(line) for line in lines.splitlines()]
    assert len(rows) > 5
    assert read_record(tmp_path / "reference.jsonl").truncated


@pytest.mark.parametrize(
    "selectors",
    [
        ("exit:a b", "exit:a  b", "exit:a?b", "exit:A b"),
        tuple("exit:" + "a" * MAX_SLUG + end for end in "xyz"),
    ],
)
@pytest.mark.parametrize("together", [True, False])
def test_each_has_a_record_of_its_own(tmp_path: Path, selectors: tuple[str, ...], together: bool) -> None:
    groups = [selectors] if together else [(one,) for one in selectors]
    for group in [*groups, *groups]:  # the second time the same files are written
        targets = [Target(selector, "exit", ("true",)) for selector in group]
        run = Run(targets, RunOptions(committed(), report=tmp_path))
        run.lock_report()
        for selector in group:
            run.results_of(selector).add({"header": record_header(selector)})
        run.finish()
        assert not run.unwritten
    paths = list(tmp_path.glob("*.jsonl"))
    assert sorted(read_record(path).implementation["selector"] for path in paths) == sorted(selectors)
    assert all(len(path.stem) <= MAX_SLUG + 9 for path in paths)


def test_two_runs_do_not_write_into_one_folder(tmp_path: Path) -> None:
    first, second = (Run([], RunOptions(committed(), report=tmp_path)) for _ in range(2))
    first.lock_report()
    result = invoke("--impl", QUICK, "--case", TRIGGER, "--report", str(tmp_path))
    assert result.exit_code == 2
    assert "another run is writing to this folder" in result.output
    with pytest.raises(ReportError, match="another run is writing to this folder"):
        second.lock_report()
    first.close()
    result = invoke("--impl", QUICK, "--case", TRIGGER, "--report", str(tmp_path))
    assert result.exit_code == 0, result.output


def test_one_that_never_answers_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "DEATHS_FOR_A_HANG", 4)
    options = ("--no-smoke", "--case", "framing/*", "--max-hangs", "2", "--report", str(tmp_path), "-q")
    result = invoke("--impl", fake("AlwaysDies"), *options)
    assert result.exit_code == 2, result.output
    (path,) = tmp_path.glob("*.jsonl")
    record = read_record(path)
    assert (len(record.results), record.partial) == (8, True)
    (problem,) = record.problems
    assert problem.startswith("stopped: too many cases in a row hung or died")
    assert "--max-hangs 2" in problem
    assert problem in result.output


# Tested programs that tamper with the report: losses are reported, nothing is written elsewhere


FOLDER = "REPORT_FOLDER"
"""Variable that tells the fakes the folder."""


def arguments(name: str, folder: Path) -> list[str]:
    return ["--impl", fake(name), "--no-smoke", "--report", str(folder), "--env", FOLDER]


def ran(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Result:
    (tmp_path / "victim").write_text("mine", "utf-8")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setenv(FOLDER, str(tmp_path / "report"))
    result = invoke(*arguments(name, tmp_path / "report"), "--case", TRIGGER)
    assert (tmp_path / "victim").read_text("utf-8") == "mine"
    assert not list((tmp_path / "elsewhere").iterdir())
    return result


@pytest.mark.parametrize(
    "name", ["MovesTheReport", "RemovesTheRecord", "ReplacesTheRecord", "ChangesTheRecord"]
)
def test_a_lost_record_is_no_success(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = ran(name, tmp_path, monkeypatch)
    assert result.exit_code == 2
    assert ".jsonl: another program removed, replaced or changed this file" in result.stderr
    assert "records and summary.md were written to" not in result.stdout


def test_a_link_in_place_of_the_summary_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = ran("LinksTheSummary", tmp_path, monkeypatch)
    assert result.exit_code == 0, result.output
    summary = tmp_path / "report" / "summary.md"
    assert not summary.is_symlink()
    assert re.search(r"1 of [\d,]+ cases were run", summary.read_text("utf-8"))


def test_pytest_fails_with_a_lost_record(
    few_cases: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path / "report"))
    args = [*arguments("RemovesTheRecord", tmp_path / "report"), f"--corpus={few_cases}"]
    done = suite_here(*args, "-k", "framing and header-size")
    assert done.returncode == pytest.ExitCode.INTERRUPTED
    assert "removed, replaced or changed" in done.stdout


def test_a_record_is_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("mine", "utf-8")
    (tmp_path / "r.jsonl").symlink_to("victim")
    with RecordWriter(tmp_path / "r.jsonl") as writer:
        writer.write("problem", {"message": "x"})
        assert writer.intact
    assert (tmp_path / "victim").read_text("utf-8") == "mine"


def test_a_report_attributes_failures_by_the_whole_run_but_a_record_does_not() -> None:
    def refused(*rules: str) -> dict[str, object]:
        failure = {"verdict": "wrong-reject", "rule": rules[0], "basis": "text", "property": "outcome"}
        row = {"step": "read", "outcome": "reject", "verdict": "wrong-reject"}
        return {**row, "rules": list(rules), "rule": rules[0], "failures": [failure]}

    accepted = {"step": "read", "outcome": "accept", "verdict": "pass", "rules": ["OFF-09"], "failures": []}
    results = ImplementationResults(resolve("reference"), None)
    for row in [*[refused("HDR-17"), accepted] * 3, refused("OFF-09", "HDR-17")]:
        results.add({"result": row})
    assert results.record().results[-1]["rule"] == "HDR-17"
    assert results.results[-1]["rule"] == "OFF-09"
