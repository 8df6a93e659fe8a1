"""Adapter of ``modelvet.verify_path``."""

from __future__ import annotations

import modelvet
from stc_host.library import attribute, call, marked


@marked
class Verify:
    """A validator of the structure."""

    rejects = (modelvet.ModelvetError,)  # for anything but a verdict, says its documentation
    lacks = ("escape-in-key",)  # against its policy, MVET_V_ST_KEY_ESCAPE

    def check(self, path: str) -> bool:
        report = call(modelvet.verify_path, path, format="safetensors")
        return attribute(report, "accepted")
