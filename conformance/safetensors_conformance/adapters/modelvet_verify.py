"""Adapter of ``modelvet.verify_path``."""

from __future__ import annotations

from importlib.metadata import version

import modelvet


class Verify:
    """A validator of the structure."""

    name = "modelvet"
    version = version("modelvet")
    language = "C"

    def check(self, path: str) -> bool:
        """Verify the whole file."""
        return bool(modelvet.verify_path(path, format="safetensors").accepted)
