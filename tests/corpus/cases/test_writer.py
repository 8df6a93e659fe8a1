"""The heavy cases of writers catch their variants, and the reference passes the cases of its steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from proof.broken.correct.writer import SmallWriter
from proof.broken.variant import all_variants
from safetensors_conformance.implementations.reference.adapter import Reference
from safetensors_corpus import Manifest
from safetensors_reference.rules.errors import SafetensorsError

from .kinds import done, failures, of_kind

CAPS = {
    "writer/header-of-24-million-bytes": "writer/small-cap",
    "writer/header-over-the-cap": "writer/no-cap",
}
"""Heavy case -> the variant that it catches."""


def test_each_of_the_heavy_cases_has_its_variant(manifest: Manifest) -> None:
    assert {case.id for case in of_kind(manifest, "write") if case.heavy} == set(CAPS)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("case_id", CAPS)
def test_the_header_cap_is_caught_by_the_heavy_cases(manifest: Manifest, case_id: str) -> None:
    case = manifest.by_id[case_id]
    (variant,) = (v for v in all_variants() if v.name == CAPS[case_id])
    assert failures([case], SmallWriter) == {}
    assert set(failures([case], variant.make)) == {case_id}


class Recording(Reference):
    """Notes the code of what the reference raises."""

    def __init__(self) -> None:
        super().__init__()
        self.code = ""

    def write(self, path: str | Path, tensors: list[Any], metadata: Any) -> None:
        try:
            super().write(str(path), tensors, metadata)
        except SafetensorsError as err:
            self.code = err.code
            raise

    def save_sharded(self, folder: str | Path, *given: Any) -> None:
        try:
            super().save_sharded(str(folder), *given)
        except SafetensorsError as err:
            self.code = err.code
            raise


@pytest.mark.parametrize("kind", ["slice", "index", "write", "sharded"])
def test_the_reference_passes_and_refuses_for_the_reasons_declared(manifest: Manifest, kind: str) -> None:
    refused = 0
    for case in of_kind(manifest, kind):
        if not case.heavy:
            writer = Recording()
            answer, why = done(case, writer)
            assert why is None, (case.id, why)
            if answer.outcome == "reject" and kind in ("write", "sharded"):
                codes = [code for demand in case.demands for code in demand.codes]
                assert writer.code in codes, (case.id, writer.code)
                refused += 1
    assert (refused > 10) == (kind in ("write", "sharded"))
