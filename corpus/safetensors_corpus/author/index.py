"""Builder for a directory with shards, an index and decoys, and for faults in shards."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import recipe
from ..actions import INDEX_NAME as INDEX_NAME  # noqa: PLC0414 - case functions use these names, too
from ..actions import MODEL as MODEL  # noqa: PLC0414 - as above
from ..actions import numbered as numbered  # noqa: PLC0414 - as above
from .file import MAX_FILE, Builder, FileBuilder, json_text, pattern, size_of


@dataclass
class ShardBuilder(FileBuilder):
    """A shard of the checkpoint or a decoy. The bytes of its tensors also depend on its name."""

    name: str = ""

    def default_data(self, name: str, dtype: str, shape: Sequence[int]) -> bytes:
        return pattern(f"{self.name}: {name}", size_of(dtype, shape))


@dataclass
class IndexBuilder(Builder):
    """Collects the files of a directory and the tensors that a loader must find through the index."""

    index_name: str = INDEX_NAME
    _files: dict[str, bytes] = field(default_factory=dict)
    _made: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    _shards: dict[str, ShardBuilder] = field(default_factory=dict)
    _mapped: list[tuple[str, str]] = field(default_factory=list)
    _seen: dict[str | None, list[tuple[str, str]]] = field(default_factory=dict)
    _templates: set[str] = field(default_factory=set)

    def shard(self, name: str, *tensors: str, **typed: tuple[str, list[int]]) -> ShardBuilder:
        """Add a shard and return its builder.

        Args:
            name: path relative to the folder of the checkpoint; ``../outside/x.safetensors`` is outside that
                folder.
            tensors: names of tensors with the default dtype and shape.
            typed: maps the names of additional tensors to their dtype and shape.
        """
        builder = ShardBuilder(name=name)
        for tensor in tensors:
            builder.tensor(tensor)
        for tensor, (dtype, shape) in typed.items():
            builder.tensor(tensor, dtype, shape)
        self._shards[name] = builder
        return builder

    def file(self, name: str, data: bytes) -> None:
        self._files[name] = data

    def index(
        self,
        weight_map: dict[str, str] | None = None,
        *,
        metadata: dict[str, Any] | None = None,
        raw: str | bytes | None = None,
        template: bool = False,
    ) -> None:
        """Write the index, and expect a loader to find the tensors that its map lists.

        Args:
            weight_map: maps tensor names to shards.
            metadata: metadata of the index; by default, the correct ``total_size`` of the shards added so
                far.
            raw: text of the whole index. ``weight_map`` still defines the expected tensors.
            template: True to replace ``@ROOT@`` in the text with the absolute path of the directory.
        """
        self._mapped = list((weight_map or {}).items())
        if raw is None:
            if metadata is None:
                metadata = {"total_size": self.total_size()}
            raw = json_text({"metadata": metadata, "weight_map": weight_map or {}})
        self._files[self.index_name] = raw if isinstance(raw, bytes) else raw.encode()
        if template:
            self._templates.add(self.index_name)

    def padded_index(self, weight_map: dict[str, str], size: int) -> None:
        """Write the index as a recipe, and pad it to ``size`` bytes with spaces before the map."""
        self._mapped = list(weight_map.items())
        before = f'{{"metadata":{json_text({"total_size": self.total_size()})},'
        behind = f'"weight_map":{json_text(weight_map)}}}'
        spaces = {"repeat": {"text": " "}, "count": size - len((before + behind).encode())}
        self._made[self.index_name] = [{"text": before}, spaces, {"text": behind}]

    def total_size(self) -> int:
        """Return the size of all tensors that are in the shards added so far and in the map."""
        sizes = {
            shard: {row["name"]: row["nbytes"] for row in builder.content()["tensors"]}
            for shard, builder in self._shards.items()
        }
        return sum(sizes.get(shard, {}).get(tensor, 0) for tensor, shard in self._mapped)

    def expect(self, *tensors: tuple[str, str], option: str | None = None) -> None:
        """Set the tensors, as pairs (name, shard), that a loader must find instead of those in the map."""
        self._seen[option] = list(tensors)

    def content(self, option: str | None = None) -> dict[str, Any]:
        pairs = self._seen.get(option, self._seen.get(None, self._mapped))
        rows = []
        for tensor, shard in pairs:
            by_name = {row["name"]: row for row in self._shards[shard].content()["tensors"]}
            rows.append(by_name[tensor])
        return {"tensors": rows, "metadata": None}

    def features(self) -> list[str]:
        return sorted({feature for shard in self._shards.values() for feature in shard.features()})

    def stored(self, case_id: str) -> tuple[dict[str, Any], dict[str, bytes]]:
        contents = {name: shard.render() for name, shard in self._shards.items()} | self._files
        rows, files = [], {}
        for name, data in sorted((_below(name), data) for name, data in contents.items()):
            if len(data) > MAX_FILE:
                raise ValueError(f"{name}: a file of {len(data):,} bytes is too large to store")
            row = {"path": name, "sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
            if name.removeprefix(MODEL) in self._templates:
                row["template"] = True
            rows.append(row)
            files[f"files/{case_id}/{name}"] = data
        for name, parts in self._made.items():
            row = {"path": _below(name), "sha256": recipe.digest(parts), "size": recipe.size(parts)}
            rows.append({**row, "recipe": parts})
        opened = self.index_name if self.index_name in self.named_files() else self.named_files()[0]
        return {"directory": f"files/{case_id}", "files": rows, "open": _below(opened)}, files

    def named_files(self) -> list[str]:
        return sorted([*self._shards, *self._files, *self._made])


def _below(name: str) -> str:
    return name.removeprefix("../") if name.startswith("../") else MODEL + name


SHARD_FAULTS = {
    "length-past-end": ("FRM-04", "FRM_HEADER_PAST_EOF"),
    "no-json": ("HDR-07", "HDR_NOT_JSON"),
    "no-utf-8": ("HDR-01", "HDR_NOT_UTF8"),
    "name-twice": ("HDR-09", "HDR_DUP_KEY"),
    "dtype-unknown": ("DTY-01", "DTY_UNKNOWN"),
    "shape-negative": ("SHP-01", "ENT_BAD_INTEGER"),
    "range-of-other-size": ("OFF-05", "OFF_SIZE_MISMATCH"),
    "cut-off": ("OFF-04", "OFF_OUT_OF_BOUNDS"),
    "overlap": ("OFF-06", "OFF_OVERLAP"),
    "hole": ("OFF-07", "OFF_HOLE"),
    "bytes-behind": ("OFF-08", "OFF_TRAILING"),
    "metadata-number": ("MET-01", "MET_VALUE_NOT_STRING"),
}
"""Maps each fault to the rule that it breaks and its fault code."""
_FIELDS: dict[str, dict[str, str | None]] = {
    "dtype-unknown": {"dtype": '"F31"'},
    "shape-negative": {"shape": "[-2]"},
    "range-of-other-size": {"shape": "[1]"},
}


def break_shard(shard: ShardBuilder, fault: str, *, first: str, last: str, length: int = 1000) -> None:
    """Add the tensor ``last`` and a fault from ``SHARD_FAULTS`` to a shard with at least 4 bytes of data.

    ``name-twice`` repeats the tensor ``first``, and ``length-past-end`` declares ``length`` bytes of header.
    """
    if fault == "hole":
        shard.gap(8)
    if fault == "overlap":
        shard.tensor(last, "F32", [2], b"\1\2\3\4", begin=shard.position - 4)
    else:
        shard.tensor(first if fault == "name-twice" else last, fields=_FIELDS.get(fault))
    if fault == "no-utf-8":
        shard.member(b'"\xff"', b"0")
    if fault == "metadata-number":
        shard.metadata(None, raw='{"n":1}')
    shard.length = length if fault == "length-past-end" else None
    shard.before = b"{," if fault == "no-json" else b""
    shard.cut = 4 if fault == "cut-off" else 0
    shard.trailer = b"\0" * 8 if fault == "bytes-behind" else b""
