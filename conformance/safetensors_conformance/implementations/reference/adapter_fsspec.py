"""Adapter for this project's strict reader with files that fsspec opens over HTTP."""

from __future__ import annotations

from typing import Any, cast

from safetensors_conformance.host.library import call, marked, opened
from safetensors_reference import InvalidFileError, UnreadableError, safe_open
from safetensors_reference.rules.book import ProfileName
from safetensors_reference.rules.errors import SafetensorsError

try:
    import aiohttp  # noqa: F401 - fsspec imports it when it first opens a file, which is too late to say so
    import fsspec
except ImportError as err:
    raise ImportError(f"{err}; pip install 'safetensors-conformance[remote]'") from err


@marked
class OverFsspec:
    """``safe_open`` with a file object from fsspec."""

    version = "2026.11.0"
    rejects = (InvalidFileError, UnreadableError, SafetensorsError)

    def __init__(self) -> None:
        self._profile: ProfileName = "hardened"

    def profile(self, name: str) -> None:
        self._profile = cast(ProfileName, name)

    def remote(self, url: str) -> dict[str, Any]:
        with (
            opened(fsspec.open, url, "rb", cache_type="none", skip_instance_cache=True) as source,
            opened(safe_open, source, "raw", profile=self._profile) as file,
        ):
            tensors = file.header.tensors.values()
            rows = [(t.name, t.dtype, t.shape, call(file.get_tensor, t.name)) for t in tensors]
            return {"tensors": rows, "metadata": call(file.metadata)}
