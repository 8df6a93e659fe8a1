"""The step ``device`` on a simulated accelerator, in the process of the reader as on a real one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.programs.launcher import Confinement
from safetensors_conformance.run.session import CaseRunner, Session
from safetensors_conformance.worker.worker import Limits

from ..support import HERE, committed
from .test_device import OneProcess, one_process

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


ENV = ("SIMULATED_TYPE", "SIMULATED_DELAY")


def session_of(selector: str, device: str) -> Session:
    limits = Limits(30.0, confinement=Confinement(env=ENV))
    return Session(CaseRunner(resolve(selector), limits, device=device))


def fake(name: str) -> str:
    return f"py:{HERE / 'accelerator_fakes.py'}:{name}"


@pytest.fixture(scope="module")
def accelerator(simulated_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    from ...simulated_device import install

    folder = tmp_path_factory.mktemp("backend")
    install(simulated_library, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))
        patch.setenv("SIMULATED_TYPE", "npu")  # a name that the official library accepts
        patch.setenv("SIMULATED_DELAY", "10000")
        yield "npu:1"


@pytest.fixture(scope="module")
def fakes(accelerator: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneProcess]:
    with one_process(fake("Chosen"), tmp_path_factory.mktemp("chosen"), accelerator, 30.0, ENV) as process:
        yield process


@pytest.mark.parametrize(
    "selector", ["reference", pytest.param("safetensors:torch", marks=pytest.mark.nightly)]
)
def test_readers_pass_every_check(selector: str, accelerator: str) -> None:
    with session_of(selector, accelerator) as session:
        for case, expected in CASES.items():
            verdict = session.judge(committed().by_id[case]).steps["device"]
            checks = {check.name: check.status for check in verdict.result.checks}
            assert (case, verdict.verdict, checks) == (case, "pass", expected), verdict


CHANGED = "contains different bytes after the "


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        (
            "ReusedBuffer",
            {
                "lifetime": f"{CHANGED}rest of its file was dropped",
                "kept": f"{CHANGED}loader continued",
            },
        ),
        ("ThreeCopies", {"peak": "the load needed"}),
        ("Interrupted", {"stopped": "bytes of device memory remain in use after an early stop"}),
        ("KeepsMemory", {"returned": "bytes of device memory remain in use after everything was dropped"}),
    ],
)
def test_a_broken_promise_is_noticed(name: str, broken: dict[str, str], fakes: OneProcess) -> None:
    verdict = fakes.judged(name, CASE)
    failed = {item.name: item.message for item in verdict.result.checks if item.status == "fail"}
    for check, words in broken.items():
        assert words in failed[check], verdict


def test_copies_that_nothing_waits_for_are_wrong_content(fakes: OneProcess) -> None:
    assert fakes.judged("LateCopies", CASE).verdict == "wrong-content"
