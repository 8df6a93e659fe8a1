"""The action's scripts with what others wrote: events, findings, and programs that print or do not start."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from .job import JSON, Job, commands_in, load, pull_request


@pytest.fixture(scope="module")
def patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def common(patch: pytest.MonkeyPatch) -> Any:
    return load("common", patch)


@pytest.fixture(scope="module")
def settings(common: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Settings as the first step saves them, and the folder that later steps take them from."""
    work = tmp_path_factory.mktemp("work")
    given = dict.fromkeys(common.Settings.__dataclass_fields__, "")
    made = common.Settings(**{**given, "work": str(work), "report": str(work / "report")})
    made.save()
    return made


KEYS = ("full_name", "repo", "head", "pull_request")


@given(depth=st.integers(1, 4), value=JSON)
def test_an_event_of_any_form_gives_no_right_to_write(
    common: Any, patch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, depth: int, value: Any
) -> None:
    path = tmp_path_factory.getbasetemp() / "event.json"
    path.write_text(json.dumps(reduce(lambda inner, key: {key: inner}, KEYS[-depth:], value)))
    with patch.context() as env:
        env.setenv("GITHUB_EVENT_NAME", "pull_request")
        env.setenv("GITHUB_EVENT_PATH", str(path))
        env.setenv("GITHUB_REPOSITORY", "me/mylib")
        assert load("check", patch).read_only() == "a pull request from a fork"


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "[]", None], ids=["cut", "nested", "list", "none"])
def test_an_event_that_is_no_json_is_named(tmp_path: Path, text: str | None) -> None:
    job = Job(tmp_path, "pull_request", pull_request())
    path = tmp_path / "event.json"
    path.unlink() if text is None else path.write_text(text)
    job.run(until="check", implementation="reference")
    assert job.outcome["check"] == "failure"
    assert "Traceback" not in job.log
    (error,) = job.annotations("error")
    assert str(path) in error


@given(value=JSON)
def test_a_finding_of_any_form_is_named(settings: Any, patch: pytest.MonkeyPatch, value: Any) -> None:
    path = settings.findings / "x" / "finding.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
    outcome, told = load("outcome", patch), []
    patch.setattr(outcome, "annotate", lambda level, text: told.append((level, text)))
    assert outcome.fuzz_verdicts(settings) == []
    ((level, text),) = told
    assert level == "error"
    assert str(path) in text


def test_what_pip_prints_is_no_command_to_the_runner(
    settings: Any, patch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    install = load("install", patch)
    line = [sys.executable, "-c", "print('\\n::error::of pip'); raise SystemExit(3)", "\n::error::input"]
    patch.setattr(install, "commands", lambda _: [line])
    patch.setenv("STC_WORK", settings.work)
    with pytest.raises(SystemExit):
        install.main()
    log = capfd.readouterr().out
    assert log.count("\n::error::") == 2
    (command,) = commands_in(log)
    assert "the installation failed with exit status 3" in command


def test_a_program_that_cannot_be_started_is_named(
    common: Any, settings: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    assert common.run(settings, "run", ["/nowhere/stc", "run"]) == 127
    said = "/nowhere/stc: cannot be started: No such file or directory"
    assert said in capfd.readouterr().out
    assert said in Path(settings.work, "run.log").read_text()
    assert common.kept_status(settings, "run") == 127
