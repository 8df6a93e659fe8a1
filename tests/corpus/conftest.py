"""The committed corpus, and a small one that tests may change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from safetensors_corpus import Manifest, load_manifest

from .small import small_corpus


@pytest.fixture(scope="session")
def manifest() -> Manifest:
    """The committed corpus, which ``stc corpus build --check`` compares with the case functions."""
    return load_manifest()


@pytest.fixture(scope="session")
def raw(manifest: Manifest) -> dict[str, Any]:
    """``corpus.json`` as plain JSON. Not to be changed."""
    return manifest.raw


@pytest.fixture(scope="session")
def written(manifest: Manifest) -> Path:
    """The folder of the corpus. Not to be changed."""
    return manifest.root


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The small corpus in a folder that a test may change."""
    folder = tmp_path / "root" / "corpus"
    folder.mkdir(parents=True)
    small_corpus(folder)
    return folder
