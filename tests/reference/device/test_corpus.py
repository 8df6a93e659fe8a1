"""The device loader over the corpus: the answers of the plain reader, and no memory for bad files."""

from __future__ import annotations

from typing import Any

import pytest

from safetensors_corpus import load_manifest
from safetensors_corpus.manifest import Case
from safetensors_reference.device import load_file
from safetensors_reference.device.engine import CpuLane
from safetensors_reference.rules.errors import SafetensorsError
from safetensors_reference.torch import load_file as plain_load_file

from ...simulated_device import DEVICES, SimulatedDevice
from .support import CountingEngine, install, said

CASES = load_manifest().reading
AREAS = sorted({case.area for case in CASES})


def outcome(load: Any, case: Case, **options: Any) -> Any:
    try:
        return [(name, said(tensor)) for name, tensor in load(case.path, **options).items()]
    except SafetensorsError as err:
        return type(err), err.code, err.rule


@pytest.mark.parametrize(
    ("area", "step", "delay"),
    # The surroundings of faults are most of the cases.
    [
        *((area, 12 if area == "surroundings" else 1, 100) for area in AREAS),
        *(pytest.param(area, 1, 0, marks=pytest.mark.nightly) for area in AREAS),
        pytest.param("surroundings", 1, 100, marks=pytest.mark.nightly),
    ],
)
def test_the_corpus_loads_as_by_the_plain_reader_and_a_bad_file_allocates_nothing(
    area: str, step: int, delay: int, simulated: SimulatedDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = CountingEngine(CpuLane)
    cases = [case for case in CASES if case.area == area]
    for number, case in enumerate(cases[::step]):
        expected = outcome(plain_load_file, case)
        engine.sizes.clear()
        with monkeypatch.context() as patch:
            install(patch, engine)
            got = outcome(load_file, case, device="cpu", threads=2, chunk=1000, align=64)
        assert (got, engine.slots) == (expected, 0), case.id
        before = simulated.live
        simulated.peak()
        with simulated.settings(delay=delay):
            got = outcome(load_file, case, device=DEVICES[number % 2], threads=2, chunk=1000)
        assert got == expected, case.id
        if isinstance(expected, tuple):
            assert (engine.sizes, simulated.peak()) == ([], before), case.id
