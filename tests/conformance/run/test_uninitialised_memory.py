"""Uninitialised memory in a reader's content is distinguished from merely wrong content."""

from __future__ import annotations

import platform
import sys

import pytest

from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.run import session as judging
from safetensors_conformance.run.cases import CaseRunner
from safetensors_conformance.run.session import Session
from safetensors_conformance.run.uninitialised_memory import content_depends_on_heap
from safetensors_conformance.worker.worker import Limits

from ..support import TRIGGER, by_exit, cases, fake

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.libc_ver()[0] != "glibc", reason="fills memory as glibc does"
)
LIMITS = Limits(5.0, 512 << 20)


@pytest.fixture(autouse=True)
def no_heap_checks() -> None:
    """Check wrong content as in every run."""


def note(name: str, case_id: str = "layout/two-dtypes") -> str | None:
    selector = name if ":" in name or name == "reference" else fake(name)
    return content_depends_on_heap(resolve(selector), cases(case_id)[0], LIMITS)


def test_memory_that_was_never_written_is_told() -> None:
    said = note("HandsOutFreshMemory")
    assert said is not None
    assert said.startswith("uninitialised memory: bytes of tensor ")
    assert said.endswith("change when fresh memory holds other bytes")


def test_content_that_differs_on_every_run_is_told_from_that() -> None:
    said = note("HandsOutRandomBytes")
    assert said is not None
    assert said.startswith("content differs from run to run: bytes of tensor ")


@pytest.mark.parametrize("name", ["reference", "HandsOutZeros", "py:no_such_module:Reader", by_exit("good")])
def test_content_that_is_always_the_same_is_not_noted(name: str) -> None:
    assert note(name) is None


def test_the_official_library_reads_what_it_hands_out() -> None:
    pytest.importorskip("safetensors")
    assert content_depends_on_heap(resolve("safetensors"), cases("layout/two-dtypes")[0], LIMITS) is None


def test_the_note_stands_in_the_detail_of_the_wrong_content() -> None:
    with Session(CaseRunner(resolve(fake("HandsOutFreshMemory")), LIMITS)) as session:
        verdict = session.judge(cases(TRIGGER)[0])
    assert verdict.verdict == "wrong-content"
    assert "other bytes than the file contains" in verdict.steps["read"].detail
    assert "; uninitialised memory: bytes of tensor 'w' change" in verdict.steps["read"].detail.replace(
        '"', "'"
    )
    assert verdict.steps["open"].verdict == "pass"


def test_a_right_verdict_costs_no_further_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "content_depends_on_heap", None)
    with Session(CaseRunner(resolve("reference"), LIMITS)) as session:
        assert session.judge(cases(TRIGGER)[0]).verdict == "pass"
