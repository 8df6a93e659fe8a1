"""The reference as an adapter that starts fast: what needs NumPy is loaded only by the steps that use it.

The fakes import this by its bare name: they are programs of their own, with this folder on their path.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from safetensors_reference import read_header
from safetensors_reference.rules.errors import SafetensorsError

Profile = Literal["text", "official", "hardened"]


class Reading:
    """Opens and reads as the adapter of the reference does."""

    name = "reference"
    version = "2026.11.0"
    language = "Python"
    rejects = (SafetensorsError,)

    def __init__(self) -> None:
        self._profile: Profile = "hardened"

    def profile(self, name: Profile) -> None:
        self._profile = name

    def open(self, path: str) -> Any:
        content = Reading.read(self, path)
        return {**content, "tensors": [row[:3] for row in content["tensors"]]}

    def read(self, path: str) -> Any:
        header = read_header(path, self._profile)
        raw = Path(path).read_bytes()
        data = raw[8 + int.from_bytes(raw[:8], "little") :]
        rows = [(t.name, t.dtype, t.shape, data[t.begin : t.end]) for t in header.tensors.values()]
        return {"tensors": rows, "metadata": header.metadata}


def by_the_whole(method: str) -> Any:
    """Make a method that loads the adapter of the reference and calls the same method of it."""

    def call(self: Reading, *args: Any) -> Any:
        from safetensors_conformance.implementations.reference.adapter import Reference as Whole

        whole = Whole()
        whole.profile(self._profile)
        return getattr(whole, method)(*args)

    return call


class Reference(Reading):
    """Has all steps of the reference, which it loads for those that are not opening or reading."""

    slice, index, write, resave, hold = map(by_the_whole, ("slice", "index", "write", "resave", "hold"))

    def profile(self, name: Profile) -> None:
        super().profile(name)
        if name == "official":
            for method in ("slice", "write", "index", "hold"):
                setattr(self, method, None)
