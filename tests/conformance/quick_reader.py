"""The reference as an adapter that starts at once: loading NumPy takes longer than most tests here.

Opening and reading need none; whoever asks for more gets the adapter of the reference itself. The fakes
import this by its bare name: they are programs of their own, with this folder on their path.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from safetensors_conformance.host.library import call, marked
from safetensors_reference import InvalidFileError, UnreadableError, read_header
from safetensors_reference.errors import SafetensorsError
from safetensors_reference.rules import ProfileName


@marked
class Reference:
    """Reads as ``safetensors_conformance.adapters.reference`` does."""

    name = "reference"
    version = "2026.11.0"
    language = "Python"
    rejects = (InvalidFileError, UnreadableError, SafetensorsError)

    def __init__(self) -> None:
        self._profile: ProfileName = "hardened"

    def profile(self, name: ProfileName) -> None:
        self._profile = name
        if name == "official":
            for method in ("slice", "write", "index", "hold"):
                setattr(self, method, None)

    def open(self, path: str) -> dict[str, Any]:
        header = call(read_header, path, self._profile)
        return {
            "tensors": [(t.name, t.dtype, t.shape) for t in header.tensors.values()],
            "metadata": header.metadata,
        }

    def read(self, path: str) -> dict[str, Any]:
        header = call(read_header, path, self._profile)
        raw = Path(path).read_bytes()
        data = memoryview(raw)[8 + int.from_bytes(raw[:8], "little") :]
        rows = [(t.name, t.dtype, t.shape, data[t.begin : t.end]) for t in header.tensors.values()]
        return {"tensors": rows, "metadata": header.metadata}

    def slice(self, path: str, tensor: str, index: tuple[Any, ...]) -> Any:
        return self._whole().slice(path, tensor, index)

    def index(self, path: str) -> Any:
        return self._whole().index(path)

    def write(self, path: str, tensors: list[Any], metadata: Any) -> None:
        self._whole().write(path, tensors, metadata)

    def resave(self, path: str) -> None:
        self._whole().resave(path)

    def hold(self, path: str) -> Any:
        return self._whole().hold(path)

    def _whole(self) -> Any:
        from safetensors_conformance.adapters.reference import Reference as Whole

        whole = Whole()
        whole.profile(self._profile)
        return whole
