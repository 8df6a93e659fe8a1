"""Readers that the loop must find out: each does one thing that the reference does not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from safetensors_conformance.adapters.reference import Reference


class AcceptsAll:
    """Accepts every file and says that it is empty."""

    def read(self, path: str) -> Any:
        return {"tensors": [], "metadata": None}


class OtherMetadata(Reference):
    """Accepts what the reference accepts, and reports metadata that is not there."""

    def read(self, path: str) -> dict[str, Any]:
        return {**super().read(path), "metadata": {"not": "there"}}


class RefusesAll:
    """Refuses every file."""

    def read(self, path: str) -> Any:
        raise ValueError("no")


class Official(Reference):
    """Takes the options of the official library, whatever it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.profile("official")


class DiesOnSomeSizes(Reference):
    """Ends its process on one file in sixteen or so."""

    def read(self, path: str) -> dict[str, Any]:
        if Path(path).stat().st_size % 16 == 9:
            os._exit(42)
        return super().read(path)
