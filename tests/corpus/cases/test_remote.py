"""The remote cases: every behaviour of the server, and the lengths of a reported bug."""

from __future__ import annotations

import pytest

from proof.broken.correct.fetcher import Fetcher
from safetensors_corpus import Case, Manifest
from safetensors_corpus.server import BEHAVIOURS

from .kinds import done, of_kind


@pytest.fixture(scope="session")
def cases(manifest: Manifest) -> list[Case]:
    return of_kind(manifest, "remote")


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
