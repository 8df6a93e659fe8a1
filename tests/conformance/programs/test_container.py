"""Readers in container images: a fake podman runs a reader that sees only what is shown."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

from safetensors_conformance.implementations.selectors import SelectorError, Target, resolve, resolve_named
from safetensors_conformance.programs.launcher import Confinement
from safetensors_conformance.programs.sandbox import RUN_FOLDER_VARIABLE, Sandbox
from safetensors_conformance.run.session import CaseRunner, Session
from safetensors_conformance.worker.worker import Limits, StartError, make_worker

from ..support import HERE, REPOSITORY, TRIGGER, cases, committed

STAND_IN = """#!{python}
import json, os, sys
with open({log!r}, "a") as log:
    log.write(json.dumps(sys.argv[1:]) + chr(10))
if sys.argv[1] != "run":
    raise SystemExit
shown = [w.partition("source=")[2].partition(",")[0] for w in sys.argv if w.startswith("--mount")]
whole = open
def guarded(path, *more):
    if not any(os.path.realpath(path).startswith(folder + "/") for folder in shown):
        os._exit(70)
    return whole(path, *more)
sys.argv = [{reader!r}]
code = compile(whole({reader!r}).read(), {reader!r}, "exec")
exec(code, {{"open": guarded, "__name__": "__main__"}})
"""


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The commands that the fake received, one JSON list per line."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", tempfile.gettempdir())
    monkeypatch.setenv(RUN_FOLDER_VARIABLE, "")
    program = tmp_path / "podman"
    reader = str(REPOSITORY / "docs" / "examples" / "stdio_reader.py")
    found = tmp_path / "log"
    program.write_text(
        STAND_IN.format(python=sys.executable, log=str(found), reader=reader), encoding="utf-8"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    return found


def test_an_image_is_asked_about_files_that_it_is_shown_and_has_no_more(log: Path) -> None:
    with Session(CaseRunner(resolve("oci:example.org/reader --flag"), Limits())) as session:
        assert session.start().steps == ("open", "read")
        result = session.judge(cases(TRIGGER)[0]).steps["read"].result
        assert result.outcome == "accept", result.message
    first, *_, last = log.read_text(encoding="utf-8").splitlines()
    (name,) = {word for word in first.split('"') if word.startswith("--name=")}
    assert last == f'["rm", "--force", "{name.removeprefix("--name=")}"]'
    for option in ("--network=none", "--read-only", "--cap-drop=ALL", "--rm", "--interactive", "--memory="):
        assert option in first
    assert f"source={tempfile.gettempdir()},target={tempfile.gettempdir()},readonly" in first
    assert first.endswith('"example.org/reader", "--flag"]')


def test_files_of_the_corpus_are_shown_where_they_are_asked_about(log: Path) -> None:
    worker = make_worker(resolve("oci:reader"), Limits().with_shown(committed().root / "files"))
    try:
        worker.start()
        assert worker.ask("read", str(cases(TRIGGER)[0].path)).outcome == "accept"
        assert worker.ask("read", str(HERE / "support.py")).outcome == "crash"  # the stand-in's way of no
    finally:
        worker.close()


def test_a_container_is_asked_for_nothing_that_it_would_have_to_write() -> None:
    target = Target("oci:x", "oci", ("x",))
    steps = ("open", "read", "write", "sharded", "remote")
    assert target.reachable(steps, Confinement()) == ("open", "read")


def test_a_sandbox_around_a_container_is_refused(log: Path, tmp_path: Path) -> None:
    worker = make_worker(resolve("oci:reader"), Limits(confinement=Confinement(sandbox=Sandbox(tmp_path))))
    with pytest.raises(StartError, match="leave out --sandbox"):
        worker.start()
    worker.close()


def test_what_is_no_image_or_comes_from_a_document_is_refused(
    log: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for selector in ("oci:", "oci:--privileged x", "oci:'open"):
        with pytest.raises(SelectorError):
            resolve(selector)
    with pytest.raises(SelectorError, match="a document may name"):
        resolve_named("oci:reader")
    assert not log.exists()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(SelectorError, match=r"podman, docker not found.*one of them is sufficient"):
        resolve("oci:reader")
