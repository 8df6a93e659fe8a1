"""Broken writers of sharded models, each with one mistake."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from safetensors_corpus.in_process import GivenTensor

from .correct.sharder import INDEX, SINGLE, Shards, SmallSharder
from .correct.writer import Row
from .variant import named


class LimitIgnored(SmallSharder):
    """Puts all tensors into one file."""

    def divided(self, rows: Sequence[Row], limit: int) -> list[list[Row]]:  # noqa: ARG002
        return [list(rows)]


class OneTooManyInAShard(SmallSharder):
    """Closes a shard only after it has exceeded the limit."""

    def divided(self, rows: Sequence[Row], limit: int) -> list[list[Row]]:
        out: list[list[Row]] = [[]]
        for row in rows:
            if sum(map(self.size, out[-1])) > limit:
                out.append([])
            out[-1].append(row)
        return out


class EmptyShard(SmallSharder):
    """Writes an empty shard before a tensor above the limit, and does not list the shard in the index."""

    def divided(self, rows: Sequence[Row], limit: int) -> list[list[Row]]:
        out: list[list[Row]] = []
        for shard in super().divided(rows, limit):
            out += [[], shard] if len(shard) == 1 and self.size(shard[0]) > limit else [shard]
        return out


class EmptyTensorsLost(SmallSharder):
    """Loses tensors without bytes."""

    def divided(self, rows: Sequence[Row], limit: int) -> list[list[Row]]:
        return super().divided([row for row in rows if row.data], limit)


class LastShardLost(SmallSharder):
    """Loses the last shard if it is not full."""

    def divided(self, rows: Sequence[Row], limit: int) -> list[list[Row]]:
        shards = super().divided(rows, limit)
        full = [shard for shard in shards if sum(map(self.size, shard)) >= limit]
        return full or shards


class TensorInTwoShards(SmallSharder):
    """Begins each shard with the last tensor of the previous shard."""

    def divided(self, rows: Sequence[Row], limit: int) -> list[list[Row]]:
        shards = super().divided(rows, limit)
        return [shards[0], *([before[-1], *shard] for before, shard in pairwise(shards))]


class SizeOfFiles(SmallSharder):
    """Uses the sum of the file sizes as total_size."""

    def total_size(self, shards: Shards) -> int:
        return sum(len(self.writer.file(list(rows), None)) for rows in shards.values())


class SizeOfElements(SmallSharder):
    """Counts only whole elements of four bytes for total_size."""

    def total_size(self, shards: Shards) -> int:
        return sum(len(row.data) // 4 * 4 for rows in shards.values() for row in rows)


class SizeOfLastShard(SmallSharder):
    """Uses the size of the last shard as total_size."""

    def total_size(self, shards: Shards) -> int:
        return sum(self.size(row) for row in list(shards.values())[-1])


class SizeAsText(SmallSharder):
    """Writes total_size as a string."""

    def total_size(self, shards: Shards) -> str:
        return str(super().total_size(shards))


class MetadataOverTotalSize(SmallSharder):
    """Lets metadata replace total_size."""

    def index(self, shards: Shards, metadata: Mapping[str, str] | None) -> dict[str, Any]:
        index = super().index(shards, metadata)
        return {**index, "metadata": {**index["metadata"], **(metadata or {})}}


class MetadataOverTheMap(SmallSharder):
    """Puts the metadata at the top level of the index and not under its metadata key."""

    def index(self, shards: Shards, metadata: Mapping[str, str] | None) -> dict[str, Any]:
        return {**super().index(shards, None), **(metadata or {})}


class CountsFromZero(SmallSharder):
    """Numbers the shards from zero."""

    def name(self, number: int, count: int) -> str:
        return super().name(number - 1, count)


class CountNotKnownYet(SmallSharder):
    """Writes the number of shards so far as the total number."""

    def name(self, number: int, count: int) -> str:  # noqa: ARG002
        return super().name(number, number)


class TwoDigits(SmallSharder):
    """Uses only the last two digits of the number of a shard."""

    def name(self, number: int, count: int) -> str:
        return super().name(number % 100, count)


class IndexNamesPaths(SmallSharder):
    """Writes the full paths of the shards into the index."""

    def save_sharded(
        self, folder: Path, tensors: Sequence[GivenTensor], metadata: Any, max_shard_size: int
    ) -> None:
        self.folder = folder
        super().save_sharded(folder, tensors, metadata, max_shard_size)

    def weight_map(self, shards: Shards) -> dict[str, str]:
        return {name: str(self.folder / shard) for name, shard in super().weight_map(shards).items()}


class TensorNamesAreFiles(SmallSharder):
    """Writes a tensor whose name is a path to a file at that path."""

    def save(self, folder: Path, shards: Shards) -> None:
        super().save(folder, shards)
        for row in (row for rows in shards.values() for row in rows):
            if row.name.startswith("../"):
                (folder / row.name).parent.mkdir(parents=True, exist_ok=True)
                (folder / row.name).write_bytes(row.data)


class NamesNotEscaped(SmallSharder):
    """Writes names between quotes without escaping them."""

    def text(self, index: Mapping[str, Any]) -> str:
        pairs = ",".join(f'"{name}":"{shard}"' for name, shard in index["weight_map"].items())
        return f'{{"metadata":{json.dumps(index["metadata"])},"weight_map":{{{pairs}}}}}'


class IndexInLatin(SmallSharder):
    """Writes the index in an eight-bit encoding."""

    def put_index(self, path: Path, index: Mapping[str, Any]) -> None:
        path.write_text(json.dumps(index, ensure_ascii=False), encoding="latin-1", errors="replace")


class DottedNamesOnly(SmallSharder):
    """Omits tensors from the index whose names do not end in a letter."""

    def weight_map(self, shards: Shards) -> dict[str, str]:
        return {name: shard for name, shard in super().weight_map(shards).items() if name[-1:].isalpha()}


class ListsTexts(SmallSharder):
    """Omits strings from the shards, but lists them in the index."""

    def rows(self, tensors: Sequence[GivenTensor]) -> list[Row]:
        self.texts = [tensor.name for tensor in tensors if tensor.dtype == "STRING"]
        return self.writer.rows([tensor for tensor in tensors if tensor.dtype != "STRING"])

    def weight_map(self, shards: Shards) -> dict[str, str]:
        found = super().weight_map(shards)
        return found | dict.fromkeys(self.texts, list(shards)[-1])

    def needs_index(self, shards: Shards) -> bool:
        return bool(self.texts) or super().needs_index(shards)


class SingleFileNamedAsAShard(SmallSharder):
    """Names a single file like the first and only shard of a model, and writes no index."""

    def named(self, shards: Sequence[Sequence[Row]]) -> dict[str, Sequence[Row]]:
        return {self.name(number, len(shards)): rows for number, rows in enumerate(shards, 1)}

    def needs_index(self, shards: Shards) -> bool:
        return len(shards) > 1


class IndexFirst(SmallSharder):
    """Writes the index before the shards that it names."""

    def save(self, folder: Path, shards: Shards) -> None:
        if self.needs_index(shards):
            self.put_index(folder / INDEX, self.index(shards, None))
        super().save(folder, shards)


class IndexForgotten(SmallSharder):
    """Writes no index if there is an earlier one."""

    def save_sharded(
        self, folder: Path, tensors: Sequence[GivenTensor], metadata: Any, max_shard_size: int
    ) -> None:
        self.there = (folder / INDEX).exists()
        super().save_sharded(folder, tensors, metadata, max_shard_size)

    def put_index(self, path: Path, index: Mapping[str, Any]) -> None:
        if not self.there:
            super().put_index(path, index)


class IndexMerged(SmallSharder):
    """Adds the new tensors to an existing index."""

    def clean(self, folder: Path, shards: Shards) -> None:
        self.found = _mapped(folder)
        super().clean(folder, shards)

    def weight_map(self, shards: Shards) -> dict[str, str]:
        return self.found | super().weight_map(shards)


class _Keeps(SmallSharder):
    """Removes no files."""

    def clean(self, folder: Path, shards: Shards) -> None:
        pass


class ShardsKept(SmallSharder):
    """Keeps the last shard of the earlier save, and removes the others."""

    def clean(self, folder: Path, shards: Shards) -> None:
        last = max((path.name for path in folder.glob("model-*.safetensors")), default="")
        self.last = last
        super().clean(folder, shards)

    def is_earlier(self, name: str) -> bool:
        return super().is_earlier(name) and name != self.last


class IndexKept(SmallSharder):
    """Removes the shards of the earlier save, but keeps its index and its single file."""

    def clean(self, folder: Path, shards: Shards) -> None:
        for path in sorted(folder.iterdir()):
            if self.is_earlier(path.name) and path.name not in {*shards, SINGLE}:
                path.unlink()


class SingleFileCut(_Keeps):
    """Keeps the single file of an earlier save, but truncates it to zero bytes."""

    def clean(self, folder: Path, shards: Shards) -> None:
        if (folder / SINGLE).exists() and SINGLE not in shards:
            (folder / SINGLE).write_bytes(b"")


class MixtureAfterFailure(_Keeps):
    """Overwrites the shards of the earlier save while its index still exists."""


class OldFilesByAnyName(SmallSharder):
    """Treats every file whose name begins like the name of the model as part of an earlier save."""

    def is_earlier(self, name: str) -> bool:
        return re.match(r"model.*safetensors", name) is not None


class OldFilesByShardName(SmallSharder):
    """Treats shards with any name as part of an earlier save."""

    def is_earlier(self, name: str) -> bool:
        return super().is_earlier(name) or re.search(r"-\d{5}-of-\d{5}\.", name) is not None


class OldFilesByIndex(SmallSharder):
    """Removes the files that an existing index names, wherever they are."""

    def clean(self, folder: Path, shards: Shards) -> None:
        for shard in set(_mapped(folder).values()):
            (folder / shard).unlink(missing_ok=True)
        super().clean(folder, shards)


class PlacesOfOldIndex(_Keeps):
    """Writes each shard to the path that an existing index gives for its first tensor."""

    def save(self, folder: Path, shards: Shards) -> None:
        found = _mapped(folder)
        self.places = {name: found.get(rows[0].name, name) for name, rows in shards.items()}
        for name, rows in shards.items():
            self.writer.store(folder / self.places[name], self.writer.file(list(rows), None))

    def weight_map(self, shards: Shards) -> dict[str, str]:
        return {name: self.places[shard] for name, shard in super().weight_map(shards).items()}


class OldIndexRead(SmallSharder):
    """Reads an existing index, and fails if it is invalid."""

    def clean(self, folder: Path, shards: Shards) -> None:
        if (folder / INDEX).exists():
            json.loads((folder / INDEX).read_bytes())
        super().clean(folder, shards)


def _mapped(folder: Path) -> dict[str, str]:
    try:
        found = json.loads((folder / INDEX).read_bytes())["weight_map"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return {name: shard for name, shard in found.items() if isinstance(shard, str)}


VARIANTS = named(globals(), "sharded", SmallSharder)
