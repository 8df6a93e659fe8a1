"""A small and correct writer of sharded models. Every step is a method, so that a variant can break it.

It removes the files of an earlier save before it writes, beginning with the index. A save that fails
therefore leaves no index.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors_corpus.in_process import GivenTensor

from .writer import RefusedError, Row, SmallWriter

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
EARLIER = re.compile(r"model(-\d{5}-of-\d{5})?\.safetensors")

Shards = Mapping[str, Sequence[Row]]


class SmallSharder:
    """Saves models with ``save_sharded``, either as one file or as shards with an index."""

    def __init__(self) -> None:
        self.writer = SmallWriter()

    def save_sharded(
        self, folder: Path, tensors: Sequence[GivenTensor], metadata: Any, max_shard_size: int
    ) -> None:
        """Save into ``folder``. Raises RefusedError and OSError."""
        metadata = self.writer.checked_metadata(metadata)
        shards = self.named(self.divided(self.rows(tensors), max_shard_size))
        self.clean(folder, shards)
        self.save(folder, shards)
        if self.needs_index(shards):
            self.put_index(folder / INDEX, self.index(shards, metadata))

    def save(self, folder: Path, shards: Shards) -> None:
        """Write the shards."""
        for name, rows in shards.items():
            self.writer.store(self.place(folder, name), self.writer.file(list(rows), None))

    def rows(self, tensors: Sequence[GivenTensor]) -> list[Row]:
        """Return the tensors to be written. Raises RefusedError for a string among the tensors."""
        if any(tensor.dtype == "STRING" for tensor in tensors):
            raise RefusedError("a string is not a tensor")
        return self.writer.rows(tensors)

    def size(self, row: Row) -> int:
        return len(row.data)

    def divided(self, rows: Sequence[Row], limit: int) -> list[list[Row]]:
        """Divide the tensors in their order; a tensor above the limit gets a shard of its own."""
        out: list[list[Row]] = []
        room = -1
        for row in rows:
            if self.size(row) > room:
                out.append([])
                room = limit
            out[-1].append(row)
            room -= self.size(row)
        return out

    def named(self, shards: Sequence[Sequence[Row]]) -> dict[str, Sequence[Row]]:
        if len(shards) == 1:
            return {SINGLE: shards[0]}
        return {self.name(number, len(shards)): rows for number, rows in enumerate(shards, 1)}

    def name(self, number: int, count: int) -> str:
        return f"model-{number:05d}-of-{count:05d}.safetensors"

    def needs_index(self, shards: Shards) -> bool:
        return list(shards) != [SINGLE]

    def place(self, folder: Path, name: str) -> Path:
        return folder / name

    def clean(self, folder: Path, shards: Shards) -> None:
        """Remove the files of an earlier save, beginning with the index."""
        (folder / INDEX).unlink(missing_ok=True)
        for path in sorted(folder.iterdir()):
            if self.is_earlier(path.name) and path.name not in shards:
                path.unlink()

    def is_earlier(self, name: str) -> bool:
        return EARLIER.fullmatch(name) is not None

    def weight_map(self, shards: Shards) -> dict[str, str]:
        return {row.name: name for name, rows in shards.items() for row in rows}

    def total_size(self, shards: Shards) -> Any:
        return sum(self.size(row) for rows in shards.values() for row in rows)

    def index(self, shards: Shards, metadata: Mapping[str, str] | None) -> dict[str, Any]:
        return {
            "metadata": {**(metadata or {}), "total_size": self.total_size(shards)},
            "weight_map": self.weight_map(shards),
        }

    def put_index(self, path: Path, index: Mapping[str, Any]) -> None:
        path.write_text(self.text(index), encoding="utf-8")

    def text(self, index: Mapping[str, Any]) -> str:
        return json.dumps(index, indent=2)
