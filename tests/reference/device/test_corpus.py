"""The device loader over the corpus: what the CPU reader says, also past the ring; nothing for a bad file."""

from __future__ import annotations

from typing import Any

import pytest

from safetensors_corpus import load_manifest
from safetensors_corpus.manifest import Case
from safetensors_reference import InvalidFileError
from safetensors_reference.device import load_file
from safetensors_reference.rules.errors import SafetensorsError
from safetensors_reference.torch import load_file as plain_load_file

from .support import CountingEngine, install, said

CASES = load_manifest().reading
AREAS = sorted({case.area for case in CASES})


def outcome(load: Any, case: Case, **options: Any) -> Any:
    try:
        return [(name, said(tensor)) for name, tensor in load(case.path, **options).items()]
    except SafetensorsError as err:
        return type(err), err.code, err.rule


@pytest.mark.parametrize(
    ("area", "staged"),
    # The surroundings of faults are most of the cases, and headers are not read otherwise without a ring.
    [*((area, True) for area in AREAS), *((area, False) for area in AREAS if area != "surroundings")],
)
def test_the_corpus_loads_as_on_the_cpu_and_a_bad_file_allocates_nothing(
    area: str, staged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = CountingEngine(staged)
    install(monkeypatch, engine)
    options = {} if staged else {"align": 64}  # gaps between tensors stay as they are
    cases = [case for case in CASES if case.area == area]
    for case in cases:
        engine.sizes.clear()
        engine.slots = 0
        expected = outcome(plain_load_file, case)
        assert outcome(load_file, case, device="cpu", threads=2, chunk=1000, **options) == expected, case.id
        assert staged or not engine.slots, case.id
        if isinstance(expected, tuple):
            assert (engine.sizes, engine.slots) == ([], 0), case.id
        if case.expect is not None and case.expect.outcome == "reject":
            assert expected[0] is InvalidFileError or issubclass(expected[0], OSError), case.id
            assert expected[1] in case.expect.codes, case.id


def test_the_corpus_has_cases_of_both_kinds() -> None:
    outcomes = [case.expect.outcome for case in CASES if case.expect is not None]
    assert outcomes.count("accept") > 400
    assert outcomes.count("reject") > 700
