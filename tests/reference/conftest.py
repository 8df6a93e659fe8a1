"""Tests that take the parameter ``device`` get the simulated devices ready when they need them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ..simulated_device import SimulatedDevice


@pytest.fixture(scope="session")
def simulated(simulated_library: Path) -> SimulatedDevice:
    from .. import simulated_device

    return simulated_device.register(simulated_library)


@pytest.fixture(autouse=True)
def simulated_if_needed(request: pytest.FixtureRequest) -> None:
    if hasattr(request.node, "callspec"):
        device = request.node.callspec.params.get("device")
        if isinstance(device, str) and device.startswith("simulated"):
            request.getfixturevalue("simulated")
