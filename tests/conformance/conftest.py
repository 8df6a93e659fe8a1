"""What tests of the harness share."""

from __future__ import annotations

from pathlib import Path

import pytest

from safetensors_conformance.cli import common, report
from safetensors_corpus import Manifest, load_manifest

from .support import committed


@pytest.fixture
def loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that are called in this process take the committed corpus as it was loaded before."""

    def load(path: Path | None) -> Manifest:
        return committed() if path is None else load_manifest(path)

    monkeypatch.setattr(common, "load_manifest", load)
    monkeypatch.setattr(report, "load_manifest", load)
