"""A loader whose torch cannot be imported."""

from __future__ import annotations

import sys
from typing import Any

from safetensors_conformance.implementations.reference.adapter import Reference

sys.modules["torch"] = None  # type: ignore[assignment]


class NoTorch(Reference):
    """Has the step, and nothing to carry it out with."""

    def device_ready(self, _device: str) -> None:
        raise AssertionError

    def device(self, path: str, device: str) -> Any:
        raise AssertionError
