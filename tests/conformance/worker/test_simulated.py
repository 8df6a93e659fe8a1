"""The step ``device`` on a simulated accelerator, in the process of the reader as on a real one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.run.cases import CaseRunner
from safetensors_conformance.run.session import Session
from safetensors_conformance.worker.confinement import Confinement
from safetensors_conformance.worker.worker import Limits

from ..support import HERE, committed

CASE = "entry/names-of-fields"
FULL = dict.fromkeys(
    ("alignment", "kept", "lifetime", "stream", "threads", "stopped", "peak", "returned"), "pass"
)
CASES = {
    "framing/one-tensor": FULL | {"kept": "unknown"},
    "layout/two-dtypes": FULL,
    "framing/no-bytes": {"untouched": "pass"},
    "layout/hole-between-two": {"untouched": "pass"},
}


def session_of(selector: str, device: str) -> Session:
    limits = Limits(30.0, confinement=Confinement(env=("SIMULATED_TYPE", "SIMULATED_DELAY")))
    return Session(CaseRunner(resolve(selector), limits, device=device))


def fake(name: str) -> str:
    return f"py:{HERE / 'accelerator_fakes.py'}:{name}"


@pytest.fixture
def accelerator(simulated_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    from ...simulated_device import install

    install(simulated_library, tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("SIMULATED_TYPE", "npu")  # a name that the official library accepts
    monkeypatch.setenv("SIMULATED_DELAY", "10000")
    return "npu:1"


@pytest.mark.parametrize("selector", ["reference", "safetensors:torch"])
def test_readers_pass_every_check(selector: str, accelerator: str) -> None:
    with session_of(selector, accelerator) as session:
        for case, expected in CASES.items():
            verdict = session.judge(committed().by_id[case]).steps["device"]
            checks = {check.name: check.status for check in verdict.result.checks}
            assert (case, verdict.verdict, checks) == (case, "pass", expected), verdict


@pytest.mark.parametrize(
    ("name", "check", "words"),
    [
        ("ReusedBuffer", "lifetime", "contains different bytes after the rest of its file was dropped"),
        ("ReusedBuffer", "kept", "contains different bytes after the loader continued"),
        ("ThreeCopies", "peak", "the load needed"),
        ("Interrupted", "stopped", "bytes of device memory remain in use after an early stop"),
        ("KeepsMemory", "returned", "bytes of device memory remain in use after everything was dropped"),
    ],
)
def test_a_broken_promise_is_noticed(name: str, check: str, words: str, accelerator: str) -> None:
    with session_of(fake(name), accelerator) as session:
        verdict = session.judge(committed().by_id[CASE]).steps["device"]
    failed = {item.name: item.message for item in verdict.result.checks if item.status == "fail"}
    assert words in failed[check], verdict


def test_copies_that_nothing_waits_for_are_wrong_content(accelerator: str) -> None:
    with session_of(fake("LateCopies"), accelerator) as session:
        verdict = session.judge(committed().by_id[CASE]).steps["device"]
    assert verdict.verdict == "wrong-content"


def test_memory_for_a_rejected_file_is_noticed(accelerator: str) -> None:
    with session_of(fake("AllocatesFirst"), accelerator) as session:
        session.judge(committed().by_id["layout/two-dtypes"])
        verdict = session.judge(committed().by_id["layout/hole-between-two"]).steps["device"]
    (check,) = verdict.result.checks
    assert (check.name, check.status) == ("untouched", "fail")
