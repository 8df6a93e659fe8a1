"""Fixtures that tests of the harness share."""

from __future__ import annotations

from pathlib import Path

import pytest

from safetensors_conformance.verdict import judge as judging
from safetensors_conformance.worker import pipe, process, worker

from .suite_runs import corpus_of, load_once


@pytest.fixture(autouse=True)
def no_heap_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong contents are not looked into, which takes three starts; a fixture of this name lets them."""
    monkeypatch.setattr(judging, "MAX_HEAP_CHECKS", 0)


@pytest.fixture(autouse=True)
def short_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has answered is soon taken to live on; a fixture of this name lets it die late.

    Nearly every process does live on, and half a second is waited for whatever was asked of it alone.
    """
    monkeypatch.setattr(pipe, "LAST_WORDS_SECONDS", 0.1)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What hangs gets no more time alone than before, where only that it hangs is of interest."""
    monkeypatch.setattr(worker, "HANG_RETRY_FACTOR", 1)


@pytest.fixture
def stubborn_is_soon_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that does not stop when it is told to is not waited for as long as elsewhere."""
    wait_closed = process.Child.wait_closed
    monkeypatch.setattr(
        process.Child, "wait_closed", lambda self, seconds: wait_closed(self, min(seconds, 0.3))
    )


@pytest.fixture
def loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that are called in this process take the committed corpus as it was loaded before."""
    load_once(monkeypatch)


@pytest.fixture(scope="session")
def few_cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a corpus for processes of their own: the cases that runs begin with, and about framing."""
    return corpus_of(tmp_path_factory.mktemp("few") / "corpus", "framing/")
