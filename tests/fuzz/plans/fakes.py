"""Slicers, writers and loaders that a campaign must find out: each does one thing wrong.

``py:tests/fuzz/plans/fakes.py:InclusiveStop`` and so on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from proof.broken.correct.loader import LOADER
from proof.broken.correct.writer import SmallWriter
from proof.broken.slicers import InclusiveStop as Inclusive
from proof.broken.variant import changed
from safetensors_conformance.implementations.reference.adapter import Reference

ReservedNameWritten = changed(SmallWriter, reserved=lambda _, _name: None)


class InclusiveStop(Reference):
    """Gives the element at the stop as well."""

    def slice(self, path: str, tensor: str, index: tuple[Any, ...]) -> Any:
        return Inclusive().slice(Path(path), tensor, index)


class ReservedName:
    """Writes a tensor under the reserved name."""

    def write(self, path: str, tensors: Any, metadata: Any) -> None:
        ReservedNameWritten().write(Path(path), tensors, metadata)

    def resave(self, path: str) -> None:
        SmallWriter().resave(Path(path))


class LastWins:
    """Loads all tensors of all shards; the last of one name stays."""

    def index(self, path: str) -> Any:
        found: dict[str, Any] = {}
        for shard in dict.fromkeys(shard for _, shard in LOADER.mapping(Path(path).read_bytes())):
            rows = Reference().read(str(Path(path).with_name(shard)))["tensors"]
            found |= {row[0]: row for row in rows}
        return list(found.values())


class RefusesEmpty(Reference):
    """Slices no tensor without elements."""

    def slice(self, path: str, tensor: str, index: tuple[Any, ...]) -> Any:
        _, shape, _ = super().slice(path, tensor, (...,))
        if 0 in shape:
            raise ValueError("nothing here")
        return super().slice(path, tensor, index)


class RefusesSlices(Reference):
    """Slices nothing."""

    def slice(self, path: str, tensor: str, index: tuple[Any, ...]) -> Any:
        raise ValueError("no slices here")
