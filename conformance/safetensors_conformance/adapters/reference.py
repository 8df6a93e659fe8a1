"""Adapter of this project's own strict reader."""

from __future__ import annotations

from typing import Any, cast

from safetensors_reference import InvalidFileError, UnreadableError, read_header
from safetensors_reference.opening import safe_open
from safetensors_reference.rules import ProfileName


class Reference:
    """The explaining reader; it takes the options of the profile that the run is graded by."""

    name = "reference"
    version = "2026.11.0"
    language = "Python"
    rejects = (InvalidFileError, UnreadableError)

    def __init__(self) -> None:
        self._profile: ProfileName = "hardened"

    def profile(self, name: str) -> None:
        """Switch to the options of a profile."""
        self._profile = cast(ProfileName, name)

    def open(self, path: str) -> dict[str, Any]:
        """Read and validate the header."""
        header = read_header(path, self._profile)
        rows = [(t.name, t.dtype, t.shape) for t in header.tensors.values()]
        return {"tensors": rows, "metadata": header.metadata}

    def read(self, path: str) -> dict[str, Any]:
        """Read every tensor."""
        with safe_open(path, "raw", profile=self._profile) as file:
            tensors = file.header.tensors.values()
            rows = [(t.name, t.dtype, t.shape, file.get_tensor(t.name)) for t in tensors]
            return {"tensors": rows, "metadata": file.metadata()}
