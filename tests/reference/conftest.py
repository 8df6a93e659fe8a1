"""The simulated accelerator for tests with the parameter ``device``, and requests repeated at once."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def simulated_if_needed(request: pytest.FixtureRequest) -> None:
    if hasattr(request.node, "callspec"):
        device = request.node.callspec.params.get("device")
        if isinstance(device, str) and device.startswith("simulated"):
            request.getfixturevalue("simulated")


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for nothing long before a request is repeated."""
    monkeypatch.setattr("safetensors_reference.files.reading.LONGEST_WAIT", 0.01)
