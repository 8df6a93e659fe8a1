"""Fixtures that tests of the harness share."""

from __future__ import annotations

from pathlib import Path

import pytest

from safetensors_conformance.verdict import judge as judging

from .suite_runs import corpus_of, load_once


@pytest.fixture(autouse=True)
def no_heap_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong contents are not looked into, which takes three starts; a fixture of this name lets them."""
    monkeypatch.setattr(judging, "HEAP_CHECKS", 0)


@pytest.fixture
def loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that are called in this process take the committed corpus as it was loaded before."""
    load_once(monkeypatch)


@pytest.fixture(scope="session")
def few_cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a corpus for processes of their own: the cases that runs begin with, and about framing."""
    return corpus_of(tmp_path_factory.mktemp("few") / "corpus", "framing/")
