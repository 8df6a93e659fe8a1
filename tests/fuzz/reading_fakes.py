"""Readers that the loop must find out: each does one thing that the reference does not.

A finding starts its reader several times, so nothing is imported that it can do without.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from safetensors_reference import InvalidFileError, UnreadableError, read_header
from safetensors_reference.rules.book import ProfileName


class Plain:
    """Reads what the reference reads."""

    rejects = (InvalidFileError, UnreadableError)
    _profile: ProfileName = "hardened"

    def read(self, path: str) -> dict[str, Any]:
        header = read_header(path, self._profile)
        data = Path(path).read_bytes()[header.data_start :]
        rows = [(t.name, t.dtype, t.shape, data[t.begin : t.end]) for t in header.tensors.values()]
        return {"tensors": rows, "metadata": header.metadata}


class OtherMetadata(Plain):
    """Accepts what the reference accepts, and reports metadata that is not there."""

    def profile(self, name: ProfileName) -> None:
        self._profile = name

    def read(self, path: str) -> dict[str, Any]:
        return {**super().read(path), "metadata": {"not": "there"}}


class Official(Plain):
    """Takes the options of the official library, whatever it is asked for."""

    _profile = "official"


class DiesOnSomeSizes(Plain):
    """Ends its process on one file in sixteen or so."""

    def read(self, path: str) -> dict[str, Any]:
        if Path(path).stat().st_size % 16 == 9:
            os._exit(42)
        return super().read(path)
