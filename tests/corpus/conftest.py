"""The corpus, built once per test session into memory and into a folder of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from safetensors_corpus import Manifest, load_manifest
from safetensors_corpus.document import parsed
from safetensors_corpus.publish.build import Built, build, write


@pytest.fixture(scope="session")
def built() -> Built:
    """The corpus as the case functions of this tree give it."""
    return build()


@pytest.fixture(scope="session")
def raw(built: Built) -> dict[str, Any]:
    """``corpus.json`` as plain JSON. Not to be changed."""
    loaded: dict[str, Any] = parsed(Path("corpus.json"), built.files["corpus.json"])
    return loaded


@pytest.fixture(scope="session")
def written(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the built corpus. Not to be changed."""
    folder = tmp_path_factory.mktemp("corpus")
    write(built, folder)
    return folder


@pytest.fixture(scope="session")
def manifest(written: Path) -> Manifest:
    """The built corpus as consumers load it."""
    return load_manifest(written)
