"""The write cases: each can fail, and what real writers do with them is what is known of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proof.broken.correct.writer import SmallWriter
from proof.broken.variant import all_variants
from safetensors_corpus import Case, Manifest
from safetensors_reference.rules.errors import SafetensorsError

from . import write_adapters as adapters
from .kinds import done, failures, of_kind

pytestmark = pytest.mark.filterwarnings("ignore:The given buffer is not writable")

VARIANTS = [v for v in all_variants() if v.kind == "write"]


@pytest.fixture(scope="session")
def cases(manifest: Manifest) -> list[Case]:
    """The write cases, without the heavy ones."""
    return [case for case in of_kind(manifest, "write") if not case.heavy]


@pytest.fixture(scope="session")
def heavy(manifest: Manifest) -> list[Case]:
    """The heavy write cases."""
    return [case for case in of_kind(manifest, "write") if case.heavy]


CAPS = {
    "writer/header-of-24-million-bytes": "writer/small-cap",
    "writer/header-over-the-cap": "writer/no-cap",
}
"""Heavy case -> the variant that it catches."""


def test_each_of_the_heavy_cases_has_its_variant(heavy: list[Case]) -> None:
    assert {case.id for case in heavy} == set(CAPS)


@pytest.mark.parametrize(
    "case_id",
    [
        "writer/header-of-24-million-bytes",
        pytest.param("writer/header-over-the-cap", marks=pytest.mark.nightly),
    ],
)
def test_the_header_cap_is_caught_by_the_heavy_cases(heavy: list[Case], case_id: str) -> None:
    (case,) = (case for case in heavy if case.id == case_id)
    (variant,) = (v for v in VARIANTS if v.name == CAPS[case_id])
    assert failures([case], SmallWriter) == {}
    assert set(failures([case], variant.make)) == {case_id}


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    "make",
    [
        adapters.ReferenceNumpy,
        adapters.ReferenceNumpyMapped,
        adapters.ReferenceTorch,
        adapters.ReferenceRaw,
    ],
)
def test_the_reference_passes_everything(cases: list[Case], make: Any) -> None:
    assert failures(cases, make) == {}


def test_the_reference_refuses_for_the_reasons_declared(cases: list[Case]) -> None:
    refusable = [case for case in cases if any(e.outcome == "reject" for e in _expectations(case))]
    assert len(refusable) > 20
    for case in refusable:
        for make in (adapters.ReferenceNumpy, adapters.ReferenceRaw):
            writer = _Recording(make())
            if done(case, writer)[0].outcome == "reject":
                codes = [code for e in _expectations(case) for code in e.codes]
                assert writer.code in codes, f"{case.id}: {writer.code} {writer.error!r}"


class _Recording:
    """Notes the code of the error that a writer raises."""

    def __init__(self, writer: Any) -> None:
        self.writer = writer
        self.code = ""
        self.error: Exception | None = None

    def write(self, path: Path, tensors: Any, metadata: Any) -> None:
        try:
            self.writer.write(path, tensors, metadata)
        except SafetensorsError as err:
            self.code, self.error = err.code, err
            raise
        except NotImplementedError:
            raise
        except Exception as err:
            self.error = err
            raise


def _expectations(case: Case) -> Iterator[Any]:
    yield from case.options.values()
    if case.expect is not None:
        yield case.expect
