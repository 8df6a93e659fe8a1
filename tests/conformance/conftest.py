"""What tests of the harness share."""

from __future__ import annotations

import json
import shutil
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


@pytest.fixture(scope="session")
def few_cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a corpus for processes of their own: the cases that runs begin with, and about framing."""
    folder = tmp_path_factory.mktemp("few") / "corpus"
    cases = [case for case in committed().cases if case.smoke or case.area == "framing"]
    ids, names = {case.id for case in cases}, set()
    raw = {**committed().raw, "cases": [row for row in committed().raw["cases"] if row["id"] in ids]}
    for text in json.dumps(raw["cases"]).split('"'):
        if text.startswith("files/") and (committed().root / text).is_file():
            names.add(text)
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(committed().root / name, folder / name)
    (folder / "corpus.json").write_text(json.dumps(raw), encoding="utf-8")
    return folder
