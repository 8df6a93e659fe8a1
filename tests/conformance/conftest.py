"""Fixtures shared by the tests of the harness."""

from __future__ import annotations

from pathlib import Path

import pytest

from safetensors_conformance.programs import limited_process
from safetensors_conformance.run import session as judging
from safetensors_conformance.worker import worker

from .suite_runs import corpus_of, load_once


@pytest.fixture(autouse=True)
def no_heap_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip heap checks of wrong content, which take three starts."""
    monkeypatch.setattr(judging, "MAX_HEAP_CHECKS", 0)


@pytest.fixture(autouse=True)
def short_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait only briefly for the death of a process that has answered; a fixture of this name undoes that.

    Nearly every process lives on, and the harness would wait half a second after each retry.
    """
    monkeypatch.setattr(worker, "LAST_WORDS_SECONDS", 0.1)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry hangs without extra time, for tests that only need the hang."""
    monkeypatch.setattr(worker, "HANG_RETRY_FACTOR", 1)


@pytest.fixture
def stubborn_is_soon_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kill a process that does not stop sooner than usual."""
    wait_closed = limited_process.Child.wait_closed
    monkeypatch.setattr(
        limited_process.Child, "wait_closed", lambda self, seconds: wait_closed(self, min(seconds, 0.3))
    )


@pytest.fixture
def loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Load the committed corpus once for all commands that are called in this process."""
    load_once(monkeypatch)


@pytest.fixture(scope="session")
def few_cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a corpus for subprocesses: the smoke cases, and those about framing."""
    return corpus_of(tmp_path_factory.mktemp("few") / "corpus", "framing/")
