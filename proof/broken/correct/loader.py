"""A small and correct loader of sharded checkpoints, from which broken loaders are derived.

The index decides which tensors are loaded. The loader also checks the other tensors in the shards, but does
not load them. Checks have names and can be left out (``left_out``), and the steps are methods.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors_corpus.judging.answer import Refused

from .json import Checked, Grammar, Pairs
from .reader import READER, SmallReader

Row = dict[str, Any]
PLAIN_NAME = re.compile(r"[^/\\:\x00-\x1f\x7f]+")
SUFFIX = ".safetensors"


@dataclass(frozen=True)
class SmallLoader(Checked):
    """A loader of sharded checkpoints."""

    grammar: Grammar = field(default_factory=Grammar)
    reader: SmallReader = READER

    def index(self, path: Path) -> dict[str, Any]:
        """Return the tensors of a checkpoint in the form of the manifest. Raises Refused and OSError."""
        pairs = self.mapping(path.read_bytes())
        shards = self.shards(path.parent, list(dict.fromkeys(shard for _, shard in pairs)))
        return {"tensors": self.chosen(pairs, shards)}

    def mapping(self, raw: bytes) -> list[tuple[str, str]]:
        """Return the map from tensor names to shards (IDX-01, IDX-12)."""
        members = self.members(self.decode(raw))
        self.demand("member-twice", len(dict(members)) == len(members))
        pairs = self.weight_map(dict(members))
        self.demand("tensor-twice", len(dict(pairs)) == len(pairs))
        self.check_metadata(dict(members), pairs)
        return self.unique(pairs)

    def decode(self, raw: bytes) -> str:
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as err:
            raise Refused("utf-8") from err

    def members(self, text: str) -> Pairs:
        value, end = self.grammar.value(text, self.grammar.skip(text, 0))
        self.demand("text-behind", self.grammar.skip(text, end) == len(text))
        return self.pairs_of("index-object", value)

    def pairs_of(self, check: str, value: object) -> Pairs:
        if not isinstance(value, Pairs):
            self.demand(check, False)
            return Pairs()
        return value

    def weight_map(self, members: Mapping[str, object]) -> list[tuple[str, str]]:
        self.demand("weight-map", "weight_map" in members)
        return [
            (tensor, self.shard_name(shard))
            for tensor, shard in self.pairs_of("weight-map-object", members.get("weight_map"))
        ]

    def check_metadata(self, members: Mapping[str, object], pairs: Sequence[tuple[str, str]]) -> None:
        """Check the metadata, which this loader does not need (IDX-02, IDX-03)."""

    def unique(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return the pairs as a map. Only broken loaders accept a repeated name, whose last value wins."""
        return list(dict(pairs).items())

    def shard_name(self, name: object) -> str:
        if type(name) is not str:
            raise Refused("shard-string")
        self.demand("shard-bare", PLAIN_NAME.fullmatch(name) is not None and name not in (".", ".."))
        self.demand("shard-suffix", name.endswith(SUFFIX))
        return name

    def shards(self, folder: Path, names: Sequence[str]) -> dict[str, dict[str, Row]]:
        return {name: self.shard(folder, name) for name in names}

    def shard(self, folder: Path, name: str) -> dict[str, Row]:
        return {row["name"]: row for row in self.reader.read(self.path(folder, name))["tensors"]}

    def path(self, folder: Path, name: str) -> Path:
        return folder / name

    def chosen(self, pairs: Sequence[tuple[str, str]], shards: Mapping[str, Mapping[str, Row]]) -> list[Row]:
        """Return the tensors that the index names, each from its own shard (IDX-09 to IDX-11, IDX-14)."""
        self.demand("tensor-missing", all(tensor in shards[shard] for tensor, shard in pairs))
        return [shards[shard][tensor] for tensor, shard in pairs if tensor in shards[shard]]


LOADER = SmallLoader()
"""The correct loader."""
