"""The remote cases: each can fail, and a plain reader that looks at what it is answered passes them."""

from __future__ import annotations

import pytest

from proof.broken.correct.fetcher import Fetcher
from proof.broken.variant import all_variants
from safetensors_corpus import Case, Manifest
from safetensors_corpus.server import BEHAVIOURS

from .kinds import done, of_kind

VARIANTS = [v for v in all_variants() if v.kind == "remote"]


@pytest.fixture(scope="session")
def cases(manifest: Manifest) -> list[Case]:
    return of_kind(manifest, "remote")


CATCHES = {
    "fetcher/first-request-seven-bytes-short": "header-of-99997",
    "fetcher/one-request-for-the-header": "header-of-100001",
    "fetcher/whole-taken-for-range": "answer-no-ranges-short",
    "fetcher/any-range-taken": "later-answer-shifted-short-after-2",
    "fetcher/zeros-for-missing-bytes": "later-answer-short-unsaid-short-after-2",
    "fetcher/empty-ranges-asked-for": "empty-tensor-between",
    "fetcher/memory-as-claimed": "header-longer-than-the-file-the-most",
    "fetcher/header-remembered": "changed-to-another-order",
    "fetcher/cut-connections-padded": "later-answer-cut-short-after-2",
    "fetcher/compressed-bytes-taken": "later-answer-gzip-short-after-2",
    "fetcher/status-not-looked-at": "failing-later-unavailable-short-after-2",
    "fetcher/empty-for-closed-connections": "server-closed",
    "fetcher/total-believed": "answer-other-total-short",
}


@pytest.mark.parametrize("variant", CATCHES)
def test_a_mistake_is_caught_where_it_shows(manifest: Manifest, variant: str) -> None:
    (found,) = (v for v in VARIANTS if v.name == variant)
    assert done(manifest.by_id[f"remote/{CATCHES[variant]}"], found.make())[1] is not None


def test_every_behaviour_has_a_case(cases: list[Case]) -> None:
    assert {case.action["server"] for case in cases if case.action} == set(BEHAVIOURS)


def test_the_reported_bug_is_shown_at_the_lengths_of_the_report(cases: list[Case]) -> None:
    shown = {case.id for case in cases if any(bug["bug"] == "FB-93" for bug in case.affects)}
    lengths = {int(case.rpartition("-")[2]) for case in shown if case.rpartition("-")[2].isdigit()}
    assert min(lengths) == 99_994
    assert max(lengths) == 100_000
    assert {"remote/header-of-99993", "remote/header-of-100001"} <= {case.id for case in cases} - shown


def test_what_the_server_sent_is_told(manifest: Manifest) -> None:
    result, why = done(manifest.by_id["remote/one-tensor"], Fetcher())
    assert why is None
    size = manifest.by_id["remote/one-tensor"].size
    assert result.message == f"3 requests; the server sent {size} of {size} bytes"
