"""The corpus, built once per test session into memory and into a folder of its own."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from safetensors_corpus import Manifest, load_manifest
from safetensors_corpus.document import parsed
from safetensors_corpus.packed import corpus_root
from safetensors_corpus.publish.build import BuiltCorpus, build, write

from .small import small_corpus


@pytest.fixture(scope="session")
def built() -> BuiltCorpus:
    """The corpus as the case functions of this tree give it.

    The schema is held against it in ``test_build.py`` only, as that takes twice as long as the rest.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonschema.Draft202012Validator, "iter_errors", lambda *_: iter(()))
        return build()


@pytest.fixture(scope="session")
def raw(built: BuiltCorpus) -> dict[str, Any]:
    """``corpus.json`` as plain JSON. Not to be changed."""
    loaded: dict[str, Any] = parsed(Path("corpus.json"), built.files["corpus.json"])
    return loaded


@pytest.fixture(scope="session")
def written(built: BuiltCorpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the built corpus and its schema. Not to be changed."""
    folder = tmp_path_factory.mktemp("corpus")
    shutil.copytree(corpus_root() / "schema", folder / "schema")
    write(built, folder)
    return folder


@pytest.fixture(scope="session")
def manifest(written: Path) -> Manifest:
    """The built corpus as consumers load it."""
    return load_manifest(written)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The small corpus in a folder that a test may change."""
    folder = tmp_path / "root" / "corpus"
    folder.mkdir(parents=True)
    small_corpus(folder)
    return folder
