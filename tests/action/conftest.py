"""The corpora that jobs run, each made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from .cases import corpus_of, few, layouts


@pytest.fixture(scope="session")
def few_cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some cases of every kind."""
    return corpus_of(tmp_path_factory.mktemp("few") / "corpus", few)


@pytest.fixture(scope="session")
def layout_cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some hundreds of files to read, enough for a run that is interrupted on its way."""
    return corpus_of(tmp_path_factory.mktemp("layouts") / "corpus", layouts)
