"""A site of a part of the corpus and three programs, built once for all tests of it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import msgspec
import pytest
from filelock import FileLock

from safetensors_corpus import Manifest, load_manifest
from safetensors_corpus.manifest import COMBINED
from safetensors_reports.site.data import Program, SiteData, load

ROOT = Path(__file__).parents[3]
HOSTILE = '<script>document.title="owned"</script><img src=x onerror="document.title=1"> \u202e\x1b[31m'
RENAMED = "framing/no-bytes"
"""Case of the reduced corpus with a hostile title."""
PROGRAMS = [
    Program(
        "mlx", "MLX", "hands out tensors", "C++", "https://example.org", "https://example.org/issues", HOSTILE
    )
]


@cache
def reduced() -> Manifest:
    """Return a corpus of every sixteenth plain case, those that show bugs, and a few combined ones."""
    whole = load_manifest()
    plain = [case for case in whole.cases if case.area != COMBINED]
    combined = [case for case in whole.cases if case.area == COMBINED]
    kept = [case for number, case in enumerate(plain) if number % 16 == 0 or case.affects]
    kept += [whole.by_id["layout/hole-between-two"], *combined[::300]]
    kept += [replace(whole.by_id[RENAMED], title=HOSTILE)]
    return replace(whole, cases=tuple({case.id: case for case in kept}.values()))


def site_data(manifest: Manifest, only: Sequence[str] = ("mlx", "safetensors", "transformers")) -> SiteData:
    """Return what a site with some programs is made of; without names, with all of them."""
    whole = load(ROOT, manifest, PROGRAMS)
    kept = only or whole.reports.keys()
    compared = [who for who in whole.whole.implementations if who.name in kept]
    return replace(
        whole,
        whole=msgspec.structs.replace(whole.whole, implementations=compared),
        reports={name: entry for name, entry in whole.reports.items() if name in kept},
        trends=[
            trend for trend in whole.trends if not only or trend.implementation.partition(":")[0] in only
        ],
        ledgers={name: ledger for name, ledger in whole.ledgers.items() if not only or name in only},
    )


@pytest.fixture(scope="session")
def data() -> SiteData:
    return site_data(reduced())


@pytest.fixture(scope="session")
def site(data: SiteData, tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The folder of a site. Processes of one run of pytest share it: to make it takes seconds."""
    pytest.importorskip("myst_parser")
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "shared-site"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            made(data, folder)
    return folder


def made(data: SiteData, folder: Path) -> int:
    """Make a site and return the number of its pages."""
    from safetensors_reports.site.generator import build_site

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of the generator are no affair of ours
        return build_site(data, folder)
