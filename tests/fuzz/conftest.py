"""Fixtures that tests of fuzzing share."""

from __future__ import annotations

import pytest

from safetensors_conformance.worker import worker


@pytest.fixture(autouse=True)
def short_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has answered is soon taken to live on: none here dies behind its answer."""
    monkeypatch.setattr(worker, "LAST_WORDS_SECONDS", 0.1)
