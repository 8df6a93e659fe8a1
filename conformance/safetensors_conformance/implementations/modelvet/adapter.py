"""Adapter for ``modelvet.verify_path``, which validates the structure of a file."""

import modelvet
from stc_host.library import attribute, call, marked


@marked
class Verify:
    rejects = (modelvet.ModelvetError,)  # raised whenever there is no verdict, according to its documentation
    lacks = ("escape-in-key",)  # violates its policy, MVET_V_ST_KEY_ESCAPE

    def check(self, path: str) -> bool:
        report = call(modelvet.verify_path, path, format="safetensors")
        return attribute(report, "accepted")
