"""Fixtures that tests of fuzzing share."""

from __future__ import annotations

import pytest

from safetensors_conformance.worker import pipe


@pytest.fixture(autouse=True)
def short_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has answered is soon taken to live on: none here dies behind its answer."""
    monkeypatch.setattr(pipe, "LAST_WORDS_SECONDS", 0.1)
