"""The comment on a pull request, against the three calls of the service's API."""

from __future__ import annotations

import copy
import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import yaml  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from .api import Api, served
from .job import JSON, ROOT, STEPS, TOKEN, Job, load

OK = b"HTTP/1.1 200 OK\r\n\r\n"
MARKER = "<!-- safetensors-conformance: {} -->\n"
NAME = "safetensors-conformance"
COMMENT = next(step for step in STEPS if step["name"] == "Comment on the pull request")


@pytest.fixture
def api() -> Iterator[Api]:
    with served(TOKEN) as api:
        yield api


@pytest.fixture
def done(lenient: Job) -> Iterator[Job]:
    """A job with a report, whose comment step is run again by each test, which may change some files."""
    job = copy.copy(lenient)
    job.env, job.outcome, job.outputs = {}, {**lenient.outcome}, {**lenient.outputs}
    kept = {path: path.read_bytes() for path in (job.report / "report.md", environment(job))}
    yield job
    for path, content in kept.items():
        temporary = path.with_name("kept")
        temporary.write_bytes(content)
        temporary.chmod(0o755)
        temporary.replace(path)


def environment(job: Job) -> Path:
    """Return the Python of the environment that the tested package is in."""
    return Path(job.outputs["check"]["work"]) / "venv" / "bin" / "python"


@pytest.fixture(scope="module")
def script() -> Iterator[Any]:
    """The script, imported."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        load("common", monkeypatch)
        yield load("comment", monkeypatch)


def comment(job: Job, api: Api, step: dict[str, Any] | None = None) -> Job:
    """Run the comment step of a job that is done, or another step, with the variables of the job."""
    job.log = ""
    job.env = {**job.env, "GITHUB_API_URL": api.url}
    job.execute(step or COMMENT, "comment")
    return job


def test_the_first_run_writes_a_comment_among_many_and_the_next_rewrites_it(done: Job, api: Api) -> None:
    mark, report = MARKER.format(NAME), (done.report / "report.md").read_text()
    api.add(MARKER.format("another-job"))
    api.add("text before " + mark)
    for text in (mark + "written by somebody", *["words"] * 230):
        api.add(text, "User")
    bot = {"type": "Bot"}
    api.comments += [{"id": 1, "body": None, "user": bot}, {"id": 2, "body": mark, "user": None}]
    api.comments += [{"id": 3, "body": mark}]
    before = copy.deepcopy(api.comments)
    comment(done, api)
    *theirs, ours = api.comments
    assert (theirs, ours["body"].startswith(mark + report)) == (before, True)
    assert "https://forge.example/me/mylib/actions/runs/42" in ours["body"]
    assert [call.partition(" ")[0] for call in api.calls] == ["GET", "GET", "GET", "POST"]
    ours["body"] = mark + "of the commit before"
    comment(done, api)
    assert api.calls[-1] == f"PATCH /repos/me/mylib/issues/comments/{ours['id']}"
    assert (api.comments, report in ours["body"]) == ([*before, ours], True)
    assert done.annotations("warning") == []


def test_a_long_report_is_cut(done: Job, api: Api) -> None:
    (done.report / "report.md").write_text("x" * 80_000)
    comment(done, api)
    body = api.comments[0]["body"]
    assert 60_000 < len(body) <= 65_536
    assert "(cut here)" in body
    assert "actions/runs/42" in body


def test_the_token_follows_no_redirect(done: Job, api: Api) -> None:
    with served(TOKEN) as other:
        api.raw = f"HTTP/1.1 302 Found\r\nLocation: {other.url}/\r\n\r\n".encode()
        comment(done, api)
        assert other.calls == []
    assert done.annotations("warning") == ["no comment: GitHub answered 302"]


@pytest.mark.parametrize(
    ("said", "why", "hint"),
    [
        *((OK + broken, "is not JSON", False) for broken in (b"{", b"[" * 100_000)),
        (OK + b'{"message": "x"}', "not a list of comments", False),
        (b"\x1b[31mSSH\r\n", "SSH", False),
        (b"HTTP/1.1 200 OK\r\n" + b"X: x\r\n" * 200, "more than 100 headers", False),
        *((b"HTTP/1.1 %d No\r\n\r\n" % code, f"answered {code}", code != 500) for code in (403, 404, 500)),
    ],
    ids=["no JSON", "nested", "no list", "no HTTP", "headers", "403", "404", "500"],
)
def test_any_other_answer_is_a_warning_that_says_what_to_do(
    done: Job, api: Api, said: bytes, why: str, hint: bool
) -> None:
    api.raw = said
    comment(done, api)
    (warning,) = done.annotations("warning")
    assert why in warning
    assert warning.isprintable()
    assert ("pull-requests: write" in warning) == hint
    assert TOKEN not in done.log


@given(
    rows=st.lists(
        JSON | st.fixed_dictionaries({"id": JSON, "user": JSON | st.just({"type": "Bot"}), "body": JSON}),
        max_size=3,
    )
)
def test_no_row_of_the_service_is_more_than_passed_over(script: Any, rows: list[Any]) -> None:
    with patch.object(script, "call", lambda *_: rows):
        assert script.find(7, "<!-- mark -->") is None


@pytest.mark.parametrize(
    "text", ["@me", "see @me/them.", "&#64;me", "&#x40;me", "<b>&#0064me</b>", "&commat;me", "`@me`", "a@b.c"]
)
def test_nobody_is_mentioned(tmp_path: Path, script: Any, text: str) -> None:
    (tmp_path / "report.md").write_text(f"## {text} & more")
    told = html.unescape(script.report_text(tmp_path / "report.md"))
    assert re.search(r"@(?!\N{ZERO WIDTH SPACE})", told) is None
    assert told.replace("\N{ZERO WIDTH SPACE}", "") == html.unescape(f"## {text} & more")


@pytest.mark.parametrize("target", ["/proc/self/environ", "/dev/zero"])
def test_a_report_that_leads_to_another_file_is_no_comment(done: Job, api: Api, target: str) -> None:
    (done.report / "report.md").unlink()
    (done.report / "report.md").symlink_to(target)
    comment(done, api)
    assert api.comments == []
    assert any(warning.startswith("no comment: ") for warning in done.annotations("warning"))


def test_nothing_that_a_package_put_in_the_way_is_imported(tmp_path: Path, done: Job, api: Api) -> None:
    planted, note = tmp_path / "planted", tmp_path / "note"
    planted.mkdir()
    text = f"import os, pathlib; pathlib.Path({str(note)!r}).write_text(os.environ.get('GITHUB_TOKEN', ''))\n"
    for name in ("sitecustomize", "usercustomize", "common", "json"):
        (planted / f"{name}.py").write_text(text)
    environment(done).write_text(f"#!/bin/sh\necho $GITHUB_TOKEN > {note}\n")
    done.env = {"PYTHONPATH": str(planted), "PYTHONSTARTUP": str(planted / "json.py")}
    comment(done, api)
    assert not note.exists()
    assert len(api.comments) == 1


def test_the_action_of_a_job_of_its_own_puts_the_same_comment(done: Job, api: Api) -> None:
    definition = yaml.safe_load((ROOT / "comment" / "action.yml").read_text(encoding="utf-8"))
    take, step = definition["runs"]["steps"]
    assert take["with"]["path"] == step["env"]["STC_REPORT"]  # what was downloaded is what is read
    told = {"STC_NAME": NAME, "STC_REPORT": str(done.report), "GITHUB_TOKEN": TOKEN}
    assert step["env"].keys() == told.keys()
    done.env = {"GITHUB_ACTION_PATH": str(ROOT / "comment")}
    comment(done, api, {**step, "env": told})
    (made,) = api.comments
    assert made["body"].startswith(MARKER.format(NAME) + (done.report / "report.md").read_text())


def test_a_name_that_would_end_the_mark_is_refused(done: Job, api: Api) -> None:
    comment(done, api, {**COMMENT, "env": {**COMMENT["env"], "STC_NAME": "x --> evil"}})
    assert done.outcome["comment"] == "failure"
    assert api.calls == []
