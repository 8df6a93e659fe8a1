"""The lifecycle cases: each can fail, and what real readers do with them is what is known of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from proof.broken.correct.holder import SmallHolder
from proof.broken.variant import all_variants
from safetensors_corpus import Case, Manifest

from .kinds import failures, of_kind, uncaught

ROOT = Path(__file__).parents[3]
VARIANTS = [v for v in all_variants() if v.kind == "lifecycle"]
Rows = dict[str, tuple[str, str | None, str | None]]


@pytest.fixture(scope="session")
def cases(manifest: Manifest) -> list[Case]:
    return of_kind(manifest, "lifecycle")


@pytest.fixture(scope="session")
def answers(written: Path) -> dict[str, Rows]:
    """What each real reader does: name -> case id -> outcome, failure and option."""
    names = ("official-mmap", "official-pread", "reference-copy", "reference-mmap")
    command = [sys.executable, "-m", "tests.corpus.cases.hold_adapters", str(written), *names]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, timeout=300, check=True)
    rows: dict[str, Rows] = json.loads(done.stdout)
    return rows


def failed(rows: Rows) -> set[str]:
    return {case for case, (_, why, _) in rows.items() if why is not None}


def options(rows: Rows, cases: list[Case]) -> dict[str, set[str | None]]:
    """Choice -> the options that explain all answers; failures are left out."""
    out: dict[str, set[str | None]] = {}
    for case in cases:
        _, why, taken = rows[case.id]
        if case.choice and why is None:
            fitting: set[str | None] = set((taken or "").split("|"))
            out[case.choice] = out.get(case.choice, fitting) & fitting
    return out


def test_a_correct_holder_passes_everything(cases: list[Case]) -> None:
    assert failures(cases, SmallHolder) == {}


def test_every_variant_is_caught_and_every_case_can_fail(cases: list[Case]) -> None:
    assert len(VARIANTS) >= 10
    assert uncaught(cases, VARIANTS) == (set(), set())


def test_no_two_cases_are_the_same(cases: list[Case]) -> None:
    known = [(case.sha256, json.dumps(case.action, sort_keys=True), case.choice) for case in cases]
    assert [case.id for case, what in zip(cases, known, strict=True) if known.count(what) > 1] == []


def test_the_reference_passes_everything_in_copy_mode(answers: dict[str, Rows], cases: list[Case]) -> None:
    assert failed(answers["reference-copy"]) == set()
    assert options(answers["reference-copy"], cases) == {
        "truncated-after-open": {"error"},
        "changed-elsewhere-after-open": {"error"},
        "replaced-after-open": {"old"},
        "data-rewritten-after-open": {"error"},
        "header-rewritten-after-open": {"error"},
        "unlinked-after-open": {"tensor"},
        "rewritten-after-taken": {"old"},
    }


def test_a_mapped_reference_fails_only_what_its_mode_warns_of(
    answers: dict[str, Rows], cases: list[Case]
) -> None:
    """Tensors of the mmap mode are views of the file, which must not be cut while they live."""
    rows = answers["reference-mmap"]
    cut = {case.id for case in cases if case.id.startswith("lifecycle/cut-after-the-tensor-was-taken-")}
    assert failed(rows) == cut
    assert {rows[case][0] for case in failed(rows)} == {"crash", "accept"}
    assert options(rows, cases)["rewritten-after-taken"] == {"new"}


def test_the_official_pread_backend_passes_everything(answers: dict[str, Rows], cases: list[Case]) -> None:
    assert failed(answers["official-pread"]) == set()
    assert options(answers["official-pread"], cases)["truncated-after-open"] == {"error"}


def test_the_official_mmap_backend_fails_every_cut(answers: dict[str, Rows], cases: list[Case]) -> None:
    """Within the last memory page it reads zeros, behind it a signal ends the process."""
    rows = answers["official-mmap"]
    assert failed(rows) == {case.id for case in cases if case.choice == "truncated-after-open"}
    assert list(rows["lifecycle/cut-the-tensor-large"][:2]) == ["crash", "SIGBUS"]
    assert list(rows["lifecycle/cut-everything-small"][:2]) == ["crash", "SIGBUS"]
    assert rows["lifecycle/cut-the-tensor-small"][0] == "accept"


@pytest.mark.parametrize("backend", ["official-mmap", "official-pread"])
def test_the_official_library_takes_the_options_of_its_profile(
    answers: dict[str, Rows], cases: list[Case], backend: str
) -> None:
    taken = options(answers[backend], cases)
    taken.pop("truncated-after-open", None)
    assert taken == {
        "changed-elsewhere-after-open": {"tensor"},
        "replaced-after-open": {"old"},
        "data-rewritten-after-open": {"new"},
        "header-rewritten-after-open": {"old"},
        "unlinked-after-open": {"tensor"},
        "rewritten-after-taken": {"old"},
    }
