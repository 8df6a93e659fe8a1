"""The comment on a pull request, against the three calls of the service's API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .api import Api, served
from .job import STEPS, TOKEN, Job, pull_request

MARKER = "<!-- safetensors-conformance: {} -->\n"
NAME = "safetensors-conformance"


@pytest.fixture
def api() -> Iterator[Api]:
    with served(TOKEN) as api:
        yield api


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """A job with a report, whose comment step is run again by each test."""
    job = Job(tmp_path_factory.mktemp("done"), "pull_request", pull_request())
    return job.run(implementation="reference", fuzz_executions="0", comment="true")


def comment(job: Job, api: Api) -> Job:
    """Run the comment step of a job that is done."""
    job.log = ""
    job.env = {"GITHUB_API_URL": api.url}
    step = next(s for s in STEPS if s["name"] == "Comment on the pull request")
    job.execute(step, "comment")
    return job


def test_without_a_service_the_comment_is_a_warning(done: Job) -> None:
    assert done.ok
    assert done.outcome["Comment on the pull request"] == "success"
    (warning,) = done.annotations("warning")
    assert warning.startswith("no comment: ")


def test_the_first_run_writes_a_comment_and_the_next_rewrites_it(done: Job, api: Api) -> None:
    api.add("looks good to me", "User")
    comment(done, api)
    assert [call.partition(" ")[0] for call in api.calls] == ["GET", "POST"]
    (_, made) = api.comments
    report = (done.report / "report.md").read_text()
    assert made["body"].startswith(MARKER.format(NAME) + report)
    assert "https://forge.example/me/mylib/actions/runs/42" in made["body"]

    made["body"] = MARKER.format(NAME) + "of the commit before"
    comment(done, api)
    assert api.calls[-1] == f"PATCH /repos/me/mylib/issues/comments/{made['id']}"
    assert len(api.comments) == 2
    assert report in made["body"]
    assert done.annotations("warning") == []


def test_comments_of_people_and_of_other_jobs_are_left_alone(done: Job, api: Api) -> None:
    theirs = [
        api.add(MARKER.format(NAME) + "written by somebody", "User"),
        api.add(MARKER.format("another-job")),
        api.add("text before " + MARKER.format(NAME)),
    ]
    before = [dict(c) for c in theirs]
    comment(done, api)
    assert theirs == before
    assert len(api.comments) == 4


def test_our_comment_is_found_behind_many_others(done: Job, api: Api) -> None:
    for _ in range(230):
        api.add("words", "User")
    ours = api.add(MARKER.format(NAME))
    comment(done, api)
    assert len(api.comments) == 231
    assert len(ours["body"]) > len(MARKER)
    assert len([call for call in api.calls if call.startswith("GET")]) == 3


def test_a_long_report_is_cut(done: Job, api: Api) -> None:
    path = done.report / "report.md"
    before = path.read_text()
    path.write_text("x" * 80_000)
    try:
        comment(done, api)
    finally:
        path.write_text(before)
    body = api.comments[0]["body"]
    assert 60_000 < len(body) <= 65_536
    assert "(cut here)" in body
    assert "actions/runs/42" in body


@pytest.mark.parametrize(("status", "hint"), [(403, True), (404, True), (500, False)])
def test_a_refusal_is_a_warning_that_says_what_to_do(done: Job, api: Api, status: int, hint: bool) -> None:
    api.refuse = status
    comment(done, api)
    (warning,) = done.annotations("warning")
    assert f"answered {status}" in warning
    assert ("pull-requests: write" in warning) == hint
    assert TOKEN not in done.log


def test_only_a_pull_request_is_commented_on(tmp_path: Path) -> None:
    job = Job(tmp_path).run(implementation="py:adapter/none.py:Adapter", comment="true")
    assert job.outcome["Comment on the pull request"] == "skipped"
    assert "not started by a pull request" in "\n".join(job.annotations("notice"))
