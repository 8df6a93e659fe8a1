"""Tests that take the parameter ``device`` get the simulated accelerator ready when they need it."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def simulated_if_needed(request: pytest.FixtureRequest) -> None:
    if hasattr(request.node, "callspec"):
        device = request.node.callspec.params.get("device")
        if isinstance(device, str) and device.startswith("simulated"):
            request.getfixturevalue("simulated")
