"""What tests of the harness share."""

from __future__ import annotations

from pathlib import Path

import pytest

from safetensors_conformance.cli import common, report
from safetensors_corpus import Manifest, load_manifest

from .suite_runs import corpus_of
from .support import committed


@pytest.fixture
def loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that are called in this process take the committed corpus as it was loaded before."""

    def load(path: Path | None) -> Manifest:
        return committed() if path is None else load_manifest(path)

    monkeypatch.setattr(common, "load_manifest", load)
    monkeypatch.setattr(report, "load_manifest", load)


@pytest.fixture(scope="session")
def few_cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a corpus for processes of their own: the cases that runs begin with, and about framing."""
    return corpus_of(tmp_path_factory.mktemp("few") / "corpus", "framing/")
