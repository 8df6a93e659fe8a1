"""The concurrent cases: each can fail, every time; a right implementation passes, every time."""

from __future__ import annotations

import pytest

from proof.broken.correct.holder import SmallHolder
from proof.broken.variant import all_variants
from proof.planted import Planted
from safetensors_corpus import Case, Manifest

from .kinds import done, failures, of_kind

VARIANTS = [v for v in all_variants() if v.kind == "concurrent"]
SLOW = "sharer/closed-under-reading"
"""Waits for the file to be closed in every case in which nobody closes it."""
SAMPLE = (
    "threads-same-tensor-eight",
    "threads-another-tensor-each-two",
    "threads-closed-meanwhile-small",
    "threads-unknown-name-one",
    "forked-another-tensor-each-two",
    "forked-parent-closes-meanwhile-small",
)


@pytest.fixture(scope="session")
def cases(manifest: Manifest) -> list[Case]:
    return of_kind(manifest, "concurrent")


def sample(cases: list[Case]) -> list[Case]:
    return [case for case in cases if case.id.partition("/")[2] in SAMPLE]


def test_there_are_cases_of_threads_and_of_processes(cases: list[Case]) -> None:
    ways = [((case.action or {})["by"], (case.action or {})["opened"]) for case in cases]
    assert len(cases) >= 20
    assert len(VARIANTS) >= 8
    assert set(ways) == {(by, opened) for by in ("threads", "processes") for opened in ("once", "each")}


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_a_correct_handle_passes_fifty_times(cases: list[Case], every: bool) -> None:
    for _ in range(50):
        assert failures(cases if every else sample(cases)[3:4], SmallHolder) == {}


def test_a_file_that_is_closed_under_a_reader_gives_other_bytes(cases: list[Case]) -> None:
    (variant,) = (v for v in VARIANTS if v.name == SLOW)
    (case,) = (c for c in cases if c.id == "concurrent/threads-closed-meanwhile-small")
    _, why = done(case, variant.make())
    assert why is not None
    assert "other bytes than the file contains" in why


@pytest.mark.by_day(3)
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
def test_a_fault_shows_every_time_or_never(variant: Planted, cases: list[Case], every: bool) -> None:
    """Nothing is left to luck: several runs fail the same cases."""
    if every or variant.name != SLOW:
        asked, times = (cases, 10) if every else (sample(cases), 3)
        first, *others = (failures(asked, variant.make).keys() for _ in range(times))
        assert others == [first] * (times - 1)


@pytest.mark.by_day(2)
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
def test_no_other_case_of_an_open_file_notices(variant: Planted, manifest: Manifest) -> None:
    """One reader in one process is told what is right: only the cases of several readers show the fault."""
    assert failures(of_kind(manifest, "lifecycle"), variant.make) == {}
