"""Builder for a sharded save into a folder that may contain an earlier model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .index import IndexBuilder, numbered
from .write import WriteBuilder


@dataclass
class ShardedBuilder(WriteBuilder):
    """Collects a sharded save and earlier files; ``under`` maps options to additional properties."""

    max_shard_size: int = 32
    folder: IndexBuilder = field(default_factory=IndexBuilder)
    under: dict[str, list[str]] = field(default_factory=dict)

    def tensors(self, names: Sequence[str]) -> None:
        for name in names:
            self.tensor(name, "F32", [4])

    def earlier(self, *shards: Sequence[str]) -> None:
        """Put an earlier model into the folder; each of ``shards`` lists the tensor names of one shard."""
        names = [numbered(number, len(shards)) for number in range(1, len(shards) + 1)]
        for name, tensors in zip(names, shards, strict=True):
            self.folder.shard(name, *tensors)
        placed = zip(names, shards, strict=True)
        self.folder.index({tensor: name for name, tensors in placed for tensor in tensors})

    def content(self, option: str | None = None) -> dict[str, Any]:
        return {**super().content(option), "metadata": None}

    def stored(self, case_id: str) -> tuple[dict[str, Any] | None, dict[str, bytes]]:
        return self.folder.stored(case_id) if self.folder.named_files() else (None, {})

    def action(self) -> dict[str, Any]:
        given = {key: value for key, value in super().action().items() if key != "target"}
        return {**given, "do": "sharded", "max_shard_size": self.max_shard_size}

    def demanded(self, option: str | None = None) -> list[str]:
        return [*self.properties, *self.under.get(option or "", ())]
