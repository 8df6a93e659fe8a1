"""Each kind of case: a correct implementation passes. Tests of the matrix show that each case can fail."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from proof.broken.correct.exporter import SmallExporter
from proof.broken.correct.fetcher import Fetcher
from proof.broken.correct.holder import SmallHolder
from proof.broken.correct.loader import LOADER
from proof.broken.correct.sharder import SmallSharder
from proof.broken.correct.slicer import SLICER
from proof.broken.correct.writer import SmallWriter
from proof.broken.keepers import Keeper
from proof.broken.rivals import Rival
from proof.broken.visitors import Visitor
from safetensors_corpus import Case, Manifest

from .kinds import failures, of_kind

CORRECT: dict[str, Callable[[], Any]] = {
    "slice": lambda: SLICER,
    "write": SmallWriter,
    "index": lambda: LOADER,
    "sharded": SmallSharder,
    "export": SmallExporter,
    "lifecycle": SmallHolder,
    "remote": Fetcher,
    "concurrent": SmallHolder,
    "placed": Visitor,
    "repeated": Keeper,
    "contended": Rival,
}
"""Maps each kind, except files to read, to an implementation that shares no code with the reference."""


@pytest.fixture
def cases(manifest: Manifest, kind: str) -> list[Case]:
    return [case for case in of_kind(manifest, kind) if not case.heavy]


@pytest.mark.parametrize("kind", CORRECT)
def test_a_correct_implementation_passes_everything(cases: list[Case], kind: str) -> None:
    assert failures(cases, CORRECT[kind]) == {}


@pytest.mark.parametrize("kind", ["lifecycle", "remote", "concurrent", "placed", "repeated", "contended"])
def test_no_two_cases_are_the_same(cases: list[Case], kind: str) -> None:
    known = [(case.sha256, json.dumps(case.action, sort_keys=True), case.choice) for case in cases]
    assert [case.id for case, what in zip(cases, known, strict=True) if known.count(what) > 1] == []
