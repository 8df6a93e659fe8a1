"""What all tests share: profiles of hypothesis and a small corpus.

``HYPOTHESIS_PROFILE=long`` searches longer, and elsewhere on every run.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from safetensors_corpus.manifest import corpus_root

# Shared runners are too uneven for a deadline per example, and a file with many tensors is not small.
settings.register_profile(
    "default",
    max_examples=300,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "long",
    max_examples=10_000,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

SMALL = (
    "framing/no-bytes",
    "framing/one-tensor",
    "framing/length-",
    "header/leading-whitespace",
    "layout/hole-between",
    "layout/two-dtypes",
    "metadata/map-",
    "metadata/null",
    "slice/rank-",
    "index/two-",
    "writer/dtype-f",
    "lifecycle/cut",
)
"""Beginnings of the ids of the cases in the small corpus, beside those with which every run begins."""


@pytest.fixture(scope="session")
def small_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a corpus of some dozens of cases: what a run does costs little time with it.

    For tests of the harness, not of what the cases say.
    """
    root = corpus_root()
    manifest = json.loads((root / "corpus.json").read_bytes())
    manifest["cases"] = [c for c in manifest["cases"] if c.get("smoke") or c["id"].startswith(SMALL)]
    assert 40 < len(manifest["cases"]) < 200
    folder = tmp_path_factory.mktemp("small") / "corpus"
    folder.mkdir()
    (folder / "corpus.json").write_text(json.dumps(manifest), encoding="utf-8")
    names = set(json.dumps(manifest["cases"]).split('"'))
    for name in sorted(n for n in names if n.startswith("files/") and (root / n).exists()):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (root / name).is_dir() else shutil.copy
        copy(root / name, folder / name)
    return folder
