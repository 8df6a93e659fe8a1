"""The index cases: large indexes, names of files, and loaders of pickles."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from proof.broken.correct.loader import LOADER
from proof.broken.loaders import VARIANTS
from safetensors_conformance.implementations.reference.adapter import Reference
from safetensors_corpus import Manifest
from safetensors_corpus.in_process import mismatch, run_case
from safetensors_corpus.judging.answer import Refused

from .kinds import of_kind

HEAVY = {
    "index/as-large-as-real-ones-13-5-mb": {"loader/small-indexes"},
    "index/as-large-as-real-ones-20-1-mb": {"loader/small-indexes", "loader/slice-of-index"},
    "index/as-large-as-real-ones-23-5-mb": {"loader/small-indexes", "loader/slice-of-index"},
}
"""Heavy case -> the variants that it catches."""


def test_each_of_the_heavy_cases_has_its_variants(manifest: Manifest) -> None:
    assert {case.id for case in of_kind(manifest, "index") if case.heavy} == set(HEAVY)
    assert {v.name for v in VARIANTS if v.heavy} == set().union(*HEAVY.values())


@pytest.mark.parametrize(
    "case_id",
    [pytest.param(c, marks=() if "20-1" in c else pytest.mark.nightly) for c in HEAVY],
)
def test_a_large_index_is_read_whole(manifest: Manifest, case_id: str, tmp_path: Path) -> None:
    case = manifest.by_id[case_id]
    loaders = {"right": LOADER, "reference": Reference()} | {v.name: v.make() for v in VARIANTS if v.heavy}
    failing = set()
    for number, (name, loader) in enumerate(loaders.items()):
        (tmp_path / str(number)).mkdir()
        if mismatch(case, run_case(case, loader, tmp_path / str(number))) is not None:
            failing.add(name)
    assert failing == HEAVY[case_id]


class _Run:
    """Unpickled carelessly it makes a folder, as a hostile one would start a program."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.mark),)


def test_the_loader_of_pickles_runs_nothing_that_a_corpus_of_others_holds(tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").write_bytes(pickle.dumps(_Run(tmp_path / "MARK"), protocol=2))
    index = tmp_path / "model.safetensors.index.json"
    index.write_text('{"weight_map": {"b": "x.safetensors"}}')
    loader: Any = next(v for v in VARIANTS if v.name == "loader/loads-pickles").make()
    with pytest.raises(Refused, match="mkdir"):
        loader.index(index)
    assert not (tmp_path / "MARK").exists()
    (tmp_path / "x.safetensors").write_bytes(pickle.dumps({"b": [1.0, 2.0]}, protocol=2))
    assert loader.index(index)["tensors"]
