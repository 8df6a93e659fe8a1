"""Files, and an engine that counts, for the tests of loads."""

from __future__ import annotations

from pathlib import Path

import pytest

from .support import WORDS, CountingEngine, file_of, install, write


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> CountingEngine:
    """The engine of all loads of a test."""
    engine = CountingEngine()
    install(monkeypatch, engine)
    return engine


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """The small file."""
    return write(tmp_path, file_of(WORDS))
