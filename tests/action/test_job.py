"""The action's steps, executed in a scratch repository: what its user sees."""

from __future__ import annotations

import datetime as dt
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from safetensors_corpus import load_manifest
from safetensors_corpus.judging.verdicts import SECURITY, fails
from safetensors_reports.record.file import read_record

from ..conformance.suite_runs import corpus_of
from .job import LENIENT, STEPS, TOKEN, Job, commands_in, pull_request

SARIF = "github/codeql-action/upload-sarif"
ARTIFACT = "actions/upload-artifact"
STRICT = """
import os

from safetensors_conformance.implementations.reference.adapter import Reference


class Strict(Reference):
    def read(self, path):
        if os.path.getsize(path) > 1000:
            raise ValueError("not today")
        return super().read(path)
"""


def rows(job: Job) -> Iterator[dict[str, Any]]:
    (path,) = job.report.glob("runs/*.jsonl")
    yield from read_record(path).results


def baseline(job: Job, path: Path, review_by: dt.date, leave_out: int = 0) -> None:
    """Write a baseline that lists every failure of a job, apart from the first few."""
    failing = [row for row in rows(job) if fails(row["verdict"])]
    by_case: dict[str, dict[str, str]] = {}
    for row in failing[leave_out:]:
        by_case.setdefault(row["case"], {})[row["step"]] = row["verdict"]
    lines = ['implementation = "mylib"']
    for case, steps in by_case.items():
        lines += ["[[expected]]", f'case = "{case}"', 'issue = "unreported"', 'why = "known"']
        lines += [f"review_by = {review_by.isoformat()}", *(f'{s} = "{v}"' for s, v in steps.items())]
    path.write_text("\n".join(lines) + "\n")


def test_a_reader_with_failures_fails_the_job_and_is_reported(lenient: Job) -> None:
    steps = [step.get("id", step["name"]) for step in STEPS]
    assert len(steps) == 11
    assert lenient.outcome == dict.fromkeys(steps, "success") | {"files": "skipped", "outcome": "failure"}
    (warning,) = lenient.annotations("warning")  # there is no service
    assert warning.startswith("no comment: ")
    assert any(row["case"] == "layout/hole-between-two" for row in rows(lenient))
    made = {path.name for path in lenient.report.iterdir()}
    assert {"report.json", "report.md", "report.sarif", "runs", "findings"} <= made
    assert len([name for name in made if name.startswith("badge-")]) == 1
    found = json.loads((lenient.report / "report.json").read_text())["findings"]
    assert lenient.outputs["outcome"] == {"result": "failed", "findings": str(len(found))}
    assert list(lenient.report.glob("findings/*/finding.json"))
    text = (lenient.report / "report.md").read_text()
    assert text in lenient.summary
    (made_run,) = json.loads((lenient.report / "report.sarif").read_text())["runs"]
    assert {"OFF-07", "HDR-09"} <= {result["ruleId"] for result in made_run["results"]}
    errors = lenient.annotations("error")
    assert any("failures that no baseline expects" in line for line in errors)
    assert any("fuzzing has" in line for line in errors)
    sarif = f"{lenient.report}/report.sarif"
    assert lenient.used[SARIF] == {"sarif_file": sarif, "category": "safetensors-conformance"}
    assert lenient.used[ARTIFACT]["path"] == str(lenient.report)
    assert lenient.used["actions/setup-python"] == {"python-version": "3.11"}


@pytest.mark.nightly
def test_the_whole_corpus_is_run_and_a_fork_uploads_nothing(tmp_path: Path) -> None:
    fine = Job(tmp_path / "fine", "pull_request", pull_request("stranger/mylib"))
    fine.run(implementation="reference", fuzz_executions="50", upload_sarif="true", comment="true")
    assert fine.outputs["outcome"] == {"result": "passed", "findings": "0"}
    assert (fine.ok, fine.annotations("error")) == (True, [])
    assert "reference" in fine.summary
    assert fine.outputs["report"] == {"sarif": "true"}
    assert SARIF not in fine.used
    assert fine.outcome["Comment on the pull request"] == "skipped"
    assert ARTIFACT in fine.used
    careless = Job(tmp_path / "careless").run(implementation=LENIENT, fuzz_executions="60")
    assert careless.outputs["outcome"]["result"] == "failed"
    for job in (fine, careless):
        assert {row["case"] for row in rows(job)} >= {case.id for case in load_manifest().reading}


def test_a_complete_baseline_lets_the_job_pass_until_its_review_is_due(
    lenient: Job, tmp_path: Path, few_cases: Path
) -> None:
    job = Job(tmp_path, outcomes={"upload": "failure"}, corpus=few_cases)
    path, today = job.repository / "known.toml", dt.datetime.now(dt.UTC).date()
    baseline(lenient, path, today + dt.timedelta(days=30))
    job.run(implementation=LENIENT, baseline="known.toml", fuzz_executions="0", upload_sarif="true")
    assert (job.ok, job.outcome["Fuzz"]) == (True, "skipped")
    assert job.outputs["outcome"]["result"] == "passed"
    assert job.annotations("error") == []
    assert "0 new" in job.summary  # the report knows the baseline too
    assert "security-events: write" in "\n".join(job.annotations("warning"))  # the SARIF was not accepted
    assert job.decide("security") == "passed"
    baseline(lenient, path, today - dt.timedelta(days=1))
    assert job.decide("security") == "failed"
    assert "review is overdue for" in "\n".join(job.annotations("error"))


def run_and_decide(job: Job, **inputs: str) -> str:
    """Run the corpus and decide, as if it had been reported, which takes longer; return the result."""
    job.run(until="run", fuzz_executions="0", **inputs)
    Path(job.outputs["check"]["work"], "report.status").write_text("0")
    return job.decide(inputs["fail_on"])


@pytest.mark.parametrize(
    ("days", "leave_out", "decisions"),
    [
        pytest.param(30, 1, [
            ("failures", "failed", "no baseline expects"),
            ("security", "failed", "1 results are security failures"),
            ("never", "passed", ""),
        ], id="incomplete"),
        pytest.param(-1, 0, [
            ("security", "failed", "review is overdue for"),
            ("failures", "failed", "its baseline is outdated"),
        ], id="overdue", marks=pytest.mark.nightly),
    ],
)  # fmt: skip
def test_what_the_baseline_does_not_excuse(
    lenient: Job, tmp_path: Path, few_cases: Path, days: int, leave_out: int, decisions: list[tuple[str, ...]]
) -> None:
    job = Job(tmp_path, corpus=few_cases)
    day = dt.datetime.now(dt.UTC).date() + dt.timedelta(days=days)
    # Found without being named, by the name of the record.
    (record,) = lenient.report.glob("runs/*.jsonl")
    baseline(lenient, job.repository / f"{record.stem}.baseline.toml", day, leave_out)
    run_and_decide(job, implementation=LENIENT, fail_on=decisions[0][0])
    for fail_on, result, says in decisions:
        assert job.decide(fail_on) == result
        assert says in "\n".join(job.annotations("error"))


def test_security_leaves_wrong_refusals_alone(tmp_path: Path, few_cases: Path) -> None:
    job = Job(tmp_path, corpus=few_cases)
    (job.repository / "adapter" / "strict.py").write_text(STRICT)
    assert run_and_decide(job, implementation="py:adapter/strict.py:Strict", fail_on="security") == "passed"
    assert {row["verdict"] for row in rows(job)} & {"wrong-reject", *SECURITY} == {"wrong-reject"}
    assert job.decide("failures") == "failed"


def test_what_cannot_be_run_fails_the_job_always(tmp_path: Path, few_cases: Path) -> None:
    job = Job(tmp_path, corpus=few_cases)
    job.run(implementation="py:adapter/none.py:Adapter", fail_on="never", upload_sarif="true")
    assert job.outputs["outcome"] == {"result": "not-run", "findings": ""}
    assert not job.ok
    assert SARIF not in job.used
    assert "not fuzzed" in "\n".join(job.annotations("notice"))
    assert "no results" in job.summary
    assert "the file adapter/none.py does not exist" in job.summary


HOSTILE = {
    "shell": (
        "'; touch pwned1; '\"; touch pwned2; \" $(touch pwned3) `touch pwned4` "
        "| touch pwned5 & touch pwned6 #"
    ),
    "option": "--help $PATH ${{ github.token }} ::error::pwned; touch pwned7; $(touch pwned8)",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize(
    "names",
    [
        *(pytest.param((name,), id=name) for name in ("baseline", "name", "profile")),
        pytest.param(("implementation", "report"), id="both", marks=pytest.mark.nightly),
    ],
)
def test_hostile_inputs_execute_nothing(
    tmp_path: Path, few_cases: Path, names: tuple[str, ...], text: str
) -> None:
    job = Job(tmp_path, corpus=few_cases)
    given = {"implementation": "py:adapter/none.py:Adapter", "fuzz_executions": "1"}
    job.run(**given | dict.fromkeys(names, text))
    assert not list(tmp_path.rglob("pwned*"))
    assert not job.ok
    assert TOKEN not in job.log


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_steps_of_fuzzing_execute_nothing(tmp_path: Path, text: str) -> None:
    job = Job(tmp_path).run(until="install", implementation="reference", fuzz_steps=text)
    Path(job.outputs["check"]["work"], "run.status").write_text("0")  # as if the corpus had been run
    job.step("Fuzz")
    assert f"unknown step {text!r}"[:30] in job.log  # the rest may be escaped
    assert "fuzzing was not completed" in "\n".join(job.annotations("error"))
    assert not list(tmp_path.rglob("pwned*"))
    assert TOKEN not in job.log


def test_hostile_texts_reach_the_programs_whole(tmp_path: Path, few_cases: Path) -> None:
    job = Job(tmp_path, corpus=few_cases)
    script = job.repository / "check it.py"
    script.write_text("import sys\nopen(sys.argv[0] + '.args', 'w').write(repr(sys.argv[1:-1]))\n")
    words = ["$(touch pwned)", "'", '"', "a;b"]
    line = shlex.join(["python3", str(script), *words])
    job.run(until="run", implementation=f"exit:{line} {{path}}", fuzz_executions="0")
    assert (job.repository / "check it.py.args").read_text() == repr(words)
    assert not list(tmp_path.rglob("pwned"))


@pytest.mark.parametrize(
    ("given", "error"),
    [
        *(
            ({name.replace("-", "_"): "x\nwork=/elsewhere\n::error::y"}, f"input {name}: must be one line")
            for name in ("implementation", "baseline", "report", "name", "profile", "fail-on")
        ),
        ({"implementation": ""}, "input implementation: missing"),
        ({"check": "models"}, "inputs implementation and check: give only one of them"),
        ({"profile": "strict"}, "input profile: must be one of text, official, hardened, got 'strict'"),
        ({"fail_on": "error"}, "input fail-on: must be one of failures, should, security, never"),
        ({"comment": "yes"}, "input comment: must be one of true, false, got 'yes'"),
        ({"fuzz_executions": "1.5"}, "input fuzz-executions: must be a whole number"),
        ({"fuzz_seconds": "nan"}, "input fuzz-seconds: must be a number from 0.1 to 21600"),
        ({"baseline": "none.toml"}, "input baseline: there is no file 'none.toml'"),
        ({"name": "a/b"}, "input name: must consist of at most 64 letters"),
        ({"install": "'"}, "input install: No closing quotation"),
        ({"report": "adapter"}, "exists and is not an empty folder"),
        ({"report": "x" * 5000}, "input report: File name too long"),
        ({"baseline": "x" * 5000}, "input baseline: File name too long"),
    ],
)
def test_wrong_inputs_are_named_before_anything_runs(
    tmp_path: Path, given: dict[str, str], error: str
) -> None:
    job = Job(tmp_path).run(**({"implementation": "reference"} | given))
    (said,) = job.annotations("error")
    assert error in said
    assert "Traceback" not in job.log
    assert "\n::error::y" not in job.log
    assert job.outputs["check"] == {}
    assert {job.outcome[key] for key in ("install", "run", "report", "outcome")} == {"skipped"}


def test_what_a_reader_prints_is_no_command_to_the_runner(tmp_path: Path, few_cases: Path) -> None:
    job = Job(tmp_path, corpus=few_cases)
    text = (
        "import sys\nsys.stderr.write('\\n::error::from the reader\\n')\nraise SystemExit('::error::too')\n"
    )
    (job.repository / "adapter" / "mylib_adapter.py").write_text(text)
    job.run(implementation=LENIENT)
    assert "\\u003a:error::" in job.log
    assert job.annotations("error")
    assert all("title=" in line for line in commands_in(job.log))


@pytest.mark.parametrize(
    ("name", "event", "env", "why", "sarif"),
    [
        ("pull_request", pull_request("stranger/mylib"), {}, "a pull request from a fork", "false"),
        ("pull_request", pull_request(), {"GITHUB_ACTOR": "dependabot[bot]"}, "from Dependabot", "false"),
        ("push", {}, {}, "this job was not started by a pull request", "true"),
    ],
    ids=["fork", "dependabot", "push"],
)
def test_without_the_right_to_write_or_a_pull_request_uploads_are_left_out(
    tmp_path: Path, name: str, event: dict[str, Any], env: dict[str, str], why: str, sarif: str
) -> None:
    job = Job(tmp_path, name, event, env)
    job.run(until="check", implementation="reference", upload_sarif="true", comment="true")
    assert (job.outputs["check"]["sarif"], job.outputs["check"]["comment"]) == (sarif, "false")
    notices = job.annotations("notice")
    assert len([line for line in notices if why in line]) == 1 + (sarif == "false")
    # As if all else had been done: what was made is kept, and nothing is uploaded.
    job.outcome |= {"install": "success", "report": "success"}
    job.outputs["report"] = {"sarif": "true"}
    wanted = {step["name"]: job.wanted(step) for step in STEPS}
    assert wanted["Keep the report"]
    assert wanted["Show the findings under code scanning"] == (sarif == "true")
    assert not wanted["Comment on the pull request"]


def test_an_interrupted_run_is_reported(tmp_path: Path) -> None:
    some_hundreds = corpus_of(tmp_path / "corpus", "layout/")
    job = Job(tmp_path, interrupt="run", corpus=some_hundreds)
    reader = job.repository / "adapter" / "mylib.py"
    text = reader.read_text()
    reader.write_text(text.replace("    length", "    __import__('time').sleep(0.05)\n    length"))
    job.run(implementation=LENIENT, fail_on="never")
    assert (job.outcome["run"], job.outcome["Fuzz"]) == ("cancelled", "skipped")
    (record,) = job.report.glob("runs/*.jsonl")
    read = read_record(record)
    assert (read.footer or {}).get("complete") is False
    assert 0 < len(read.results) < read.header["corpus"]["cases"]
    assert job.outcome["report"] == "success"
    assert "mylib_adapter.py:Adapter 1.0" in job.summary
    assert job.outputs["outcome"]["result"] == "not-run"
    assert ARTIFACT in job.used
