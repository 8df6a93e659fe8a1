"""Parts of the corpus as corpora of their own, for jobs that would take long over all of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors_corpus.document import read_document
from safetensors_corpus.packed import corpus_root

FEW = (
    "layout/hole-between-two",
    "layout/trailing-32-kib",
    "header/name-twice-adjacent",
    "layout/file-size-4096",
    "metadata/null",
    "slice/rank-1",
    "index/two-shards",
)
"""Cases of a corpus that shows every kind of result, beside those with which every run begins."""


def few(case: dict[str, Any]) -> bool:
    return bool(case["smoke"]) or case["id"] in FEW


def layouts(case: dict[str, Any]) -> bool:
    return str(case["id"]).startswith("layout/")


def corpus_of(folder: Path, wanted: Callable[[dict[str, Any]], bool]) -> Path:
    """Write the cases that are wanted into a new folder as a corpus."""
    root = corpus_root()
    manifest = read_document(root).raw
    manifest["cases"] = [case for case in manifest["cases"] if wanted(case)]
    assert len(manifest["cases"]) > 10
    folder.mkdir()
    (folder / "corpus.json").write_text(json.dumps(manifest), encoding="utf-8")
    names = (set(json.dumps(case["input"]).split('"')) for case in manifest["cases"])
    for name in sorted(name for found in names for name in found if name.startswith("files/")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if (root / name).is_dir():
            shutil.copytree(root / name, folder / name)
        else:
            shutil.copy(root / name, folder / name)
    return folder
