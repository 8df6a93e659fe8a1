"""The write cases: each can fail, and what real writers do with them is what is known of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proof.broken.correct.writer import SmallWriter
from proof.broken.variant import all_variants
from safetensors_corpus import Case, Manifest
from safetensors_corpus.in_process import mismatch
from safetensors_reference.rules.errors import SafetensorsError

from . import write_adapters as adapters
from .kinds import done, failures, of_kind, uncaught

pytestmark = pytest.mark.filterwarnings("ignore:The given buffer is not writable")

VARIANTS = [v for v in all_variants() if v.kind == "write"]
RESERVED = {
    "writer/reserved-name-alone",
    "writer/reserved-name-last-of-three",
    "writer/reserved-name-with-empty-metadata",
    "writer/reserved-name-with-metadata",
    "writer/reserved-name-without-elements",
}
OFFICIAL = {
    "WRT-05": {
        "writer/no-tensors-empty-metadata",
        "writer/no-tensors-empty-metadata-over-link",
        "writer/no-tensors-empty-metadata-over-old-file",
    },
    "WRT-06": RESERVED,
    "WRT-12": {"writer/same-bytes-with-many-metadata-keys"},
    "WRT-15": {"writer/permissions-existing", "writer/permissions-new", "writer/symbolic-link"},
}
"""Rule -> the cases of it that every entry point of the official library 0.8.0 fails."""
TURNED = {"writer/big-endian-and-transposed"}
"""Official 0.8.0 turns the elements around and keeps the order of the memory (WRT-07)."""


@pytest.fixture(scope="session")
def cases(manifest: Manifest) -> list[Case]:
    """The write cases, without the heavy ones."""
    return [case for case in of_kind(manifest, "write") if not case.heavy]


@pytest.fixture(scope="session")
def heavy(manifest: Manifest) -> list[Case]:
    """The heavy write cases."""
    return [case for case in of_kind(manifest, "write") if case.heavy]


def official(cases: list[Case]) -> set[str]:
    return set().union(*OFFICIAL.values())


def test_a_correct_writer_passes_everything(cases: list[Case]) -> None:
    assert failures(cases, SmallWriter) == {}
    assert {case.id for case in cases if done(case, SmallWriter())[0].outcome == "unsupported"} == set()


def test_there_are_enough_variants_and_each_says_what_it_does() -> None:
    assert len(VARIANTS) >= 30
    assert all(v.about.endswith(".") and v.name.startswith("writer/") for v in VARIANTS)


def test_every_variant_is_caught_and_every_case_can_fail(cases: list[Case]) -> None:
    light = [v for v in VARIANTS if v.name not in ("writer/no-cap", "writer/small-cap")]
    assert uncaught(cases, light) == (set(), set())


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


def test_the_official_numpy_functions_fail_what_is_known_and_disclose_memory(cases: list[Case]) -> None:
    views = {case.id for case in cases if case.choice == "non-contiguous"}
    found = failures(cases, adapters.OfficialNumpy)
    assert set(found) == official(cases) | views | TURNED
    disclosed = {case for case, why in found.items() if "no-foreign-bytes" in why}
    assert disclosed >= {"writer/view-reversed", "writer/view-row-repeated", "writer/view-column"}


def test_the_official_torch_functions_fail_what_is_known(cases: list[Case]) -> None:
    assert set(failures(cases, adapters.OfficialTorch)) == official(cases)


def test_the_official_functions_on_addresses_fail_what_is_known(cases: list[Case]) -> None:
    assert set(failures(cases, adapters.OfficialRaw)) == official(cases)


@pytest.mark.parametrize(
    ("make", "taken"),
    [
        (adapters.OfficialNumpy, {"big-endian": "swap", "shared-memory": "copy", "missing-folder": "refuse"}),
        (adapters.OfficialTorch, {"non-contiguous": "refuse", "shared-memory": "refuse"}),
        (adapters.ReferenceNumpy, {"non-contiguous": "copy", "big-endian": "swap", "shared-memory": "copy"}),
        (adapters.ReferenceTorch, {"non-contiguous": "copy", "shared-memory": "refuse"}),
    ],
)
def test_one_option_explains_all_answers(cases: list[Case], make: Any, taken: dict[str, str]) -> None:
    for case in cases:
        if case.choice in taken and case.id not in TURNED:
            one = replace(case, choice=None, expect=case.options[taken[case.choice]], options={})
            assert mismatch(one, done(case, make())[0]) is None, case.id
