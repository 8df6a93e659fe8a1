"""Tests that take the parameter ``device`` get the simulated devices ready when they need them."""

from __future__ import annotations

from pathlib import Path

import pytest

from .. import simulated_device
from ..simulated_device import NoCompilerError, SimulatedDevice


@pytest.fixture(scope="session")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> SimulatedDevice:
    folder = tmp_path_factory.getbasetemp()
    shared = folder if folder.name.startswith("pytest-") else folder.parent  # of all workers
    try:
        return simulated_device.register(simulated_device.build(Path(shared)))
    except NoCompilerError as err:
        pytest.skip(f"no simulated device: {err}")


@pytest.fixture(autouse=True)
def simulated_if_needed(request: pytest.FixtureRequest) -> None:
    if hasattr(request.node, "callspec"):
        device = request.node.callspec.params.get("device")
        if isinstance(device, str) and device.startswith(simulated_device.TYPE):
            request.getfixturevalue("simulated")
