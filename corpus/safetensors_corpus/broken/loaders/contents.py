"""Broken loaders: what is taken out of the shards, one mistake each."""

from __future__ import annotations

import fnmatch
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..correct.json import Refused
from ..correct.loader import LOADER, SUFFIX, Row, SmallLoader
from ..correct.reader import READER
from ..variant import Variant


class SkipsMissing(SmallLoader):
    """Goes on without the shards that are not there."""

    def shard(self, folder: Path, name: str) -> dict[str, Row]:
        try:
            return super().shard(folder, name)
        except OSError:
            return {}


class GoesByFiles(SmallLoader):
    """Goes through the files of the folder and loads those that the index names, spelled as they are."""

    def shards(self, folder: Path, names: Sequence[str]) -> dict[str, dict[str, Row]]:
        found = {path.name for path in folder.iterdir()}
        return {name: self.shard(folder, name) if name in found else {} for name in names}


class SkipsBroken(SmallLoader):
    """Goes on without the shards that are broken."""

    def shard(self, folder: Path, name: str) -> dict[str, Row]:
        try:
            return super().shard(folder, name)
        except Refused:
            return {}


class Unset(SmallLoader):
    """Reserves memory for tensors that it does not find and leaves it as it is."""

    def chosen(self, pairs: Sequence[tuple[str, str]], shards: Mapping[str, Mapping[str, Row]]) -> list[Row]:
        blank = {"dtype": "F32", "shape": [2], "nbytes": 8, "sha256": "0" * 64}
        return [shards[shard].get(tensor, {"name": tensor, **blank}) for tensor, shard in pairs]


class LooksEverywhere(SmallLoader):
    """Takes a tensor that is not in its shard from another one."""

    def chosen(self, pairs: Sequence[tuple[str, str]], shards: Mapping[str, Mapping[str, Row]]) -> list[Row]:
        found = {tensor: row for rows in shards.values() for tensor, row in rows.items()}
        self.demand("tensor-missing", all(tensor in found for tensor, _ in pairs))
        return [shards[shard].get(tensor, found[tensor]) for tensor, shard in pairs]


class SkipsAndLooks(LooksEverywhere):
    """Looks for the tensors of a missing shard in the others."""

    def shard(self, folder: Path, name: str) -> dict[str, Row]:
        return super().shard(folder, name) if self.path(folder, name).exists() else {}


class LastShardWins(SmallLoader):
    """Loads everything that the shards hold, one after the other."""

    def chosen(self, pairs: Sequence[tuple[str, str]], shards: Mapping[str, Mapping[str, Row]]) -> list[Row]:
        super().chosen(pairs, shards)
        return list({tensor: row for rows in shards.values() for tensor, row in rows.items()}.values())


class FirstShardWins(SmallLoader):
    """Loads everything that the shards hold and keeps the first copy."""

    def chosen(self, pairs: Sequence[tuple[str, str]], shards: Mapping[str, Mapping[str, Row]]) -> list[Row]:
        super().chosen(pairs, shards)
        backwards = reversed(list(shards.values()))
        return list({tensor: row for rows in backwards for tensor, row in rows.items()}.values())


class AllFiles(LastShardWins):
    """Loads every file of the folder that has the suffix."""

    def shards(self, folder: Path, names: Sequence[str]) -> dict[str, dict[str, Row]]:
        found = sorted(path.name for path in folder.glob(f"*{SUFFIX}"))
        return super().shards(folder, [*names, *(name for name in found if name not in names)])


class SearchesFolders(SmallLoader):
    """Looks for a shard in all folders when it is not where it should be."""

    def path(self, folder: Path, name: str) -> Path:
        path = super().path(folder, name)
        return path if path.exists() else next(iter(folder.parent.rglob(name)), path)


class Patterns(SmallLoader):
    """Takes the name of a shard for a pattern."""

    def path(self, folder: Path, name: str) -> Path:
        found = [path for path in sorted(folder.iterdir()) if fnmatch.fnmatch(path.name, name)]
        return found[0] if found else super().path(folder, name)


class OpensFolders(SmallLoader):
    """Takes a folder for the shards in it."""

    def shard(self, folder: Path, name: str) -> dict[str, Row]:
        path = self.path(folder, name)
        if not path.is_dir():
            return super().shard(folder, name)
        inside: dict[str, Row] = {}
        for file in sorted(path.iterdir()):
            inside |= super().shard(path, file.name)
        return inside


class FirstOnly(SmallLoader):
    """Loads the first shard and forgets the others."""

    def chosen(self, pairs: Sequence[tuple[str, str]], shards: Mapping[str, Mapping[str, Row]]) -> list[Row]:
        first = shards[pairs[0][1]] if pairs else {}
        return [row for row in super().chosen(pairs, shards) if row in first.values()]


class NamesArePaths(SmallLoader):
    """Refuses tensors whose names look like paths."""

    def chosen(self, pairs: Sequence[tuple[str, str]], shards: Mapping[str, Mapping[str, Row]]) -> list[Row]:
        self.demand("tensor-name", all(t and t.isascii() and "/" not in t for t, _ in pairs))
        return super().chosen(pairs, shards)


class NamesAreShards(SmallLoader):
    """Takes a tensor called like a file or a member of the index for that."""

    def chosen(self, pairs: Sequence[tuple[str, str]], shards: Mapping[str, Mapping[str, Row]]) -> list[Row]:
        skipped = (*shards, "weight_map", "metadata")
        return [row for row in super().chosen(pairs, shards) if row["name"] not in skipped]


class LooseTensors(SmallLoader):
    """Compares names of tensors without case, accents and what follows a dot."""

    def chosen(self, pairs: Sequence[tuple[str, str]], shards: Mapping[str, Mapping[str, Row]]) -> list[Row]:
        rows = []
        for tensor, shard in pairs:
            plain = unicodedata.normalize("NFC", tensor).casefold().partition(".weight")[0]
            like = {name.casefold(): row for name, row in shards[shard].items()}
            if tensor not in shards[shard] and plain not in like:
                raise Refused("tensor-missing")
            rows.append({**(shards[shard].get(tensor) or like[plain]), "name": tensor})
        return rows


class SingleFile(SmallLoader):
    """Takes an index with one shard for a mistake."""

    def shards(self, folder: Path, names: Sequence[str]) -> dict[str, dict[str, Row]]:
        self.demand("several", len(names) != 1)
        return super().shards(folder, names)


class FirstIndex(SmallLoader):
    """Reads the first index of the folder, whichever is given."""

    def index(self, path: Path) -> dict[str, Any]:
        found = sorted(path.parent.glob("*.index.json"), key=lambda other: (other == path, other.name))
        return super().index(found[0])


def _variant(name: str, loader: SmallLoader, about: str = "") -> Variant:
    about = about or (type(loader).__doc__ or "").partition("\n")[0]
    return Variant(f"loader/{name}", about, "index", lambda: loader)


COVER = replace(LOADER, reader=READER.without("hole", "overlap", "past-end", "trailing"))

VARIANTS: tuple[Variant, ...] = (
    _variant("skips-missing-shards", SkipsMissing().without("tensor-missing")),
    _variant("goes-by-files", GoesByFiles().without("tensor-missing", "shard-bare")),
    _variant("skips-broken-shards", SkipsBroken().without("tensor-missing")),
    _variant("leaves-tensors-unset", Unset().without("tensor-missing")),
    _variant(
        "skips-missing-tensors", LOADER.without("tensor-missing"), "Goes on without tensors it does not find."
    ),
    _variant("looks-in-other-shards", LooksEverywhere()),
    _variant("looks-in-other-shards-for-missing", SkipsAndLooks()),
    _variant("last-shard-wins", LastShardWins()),
    _variant("first-shard-wins", FirstShardWins()),
    _variant("loads-all-files", AllFiles()),
    _variant("searches-folders", SearchesFolders()),
    _variant("names-are-patterns", Patterns()),
    _variant("opens-folders", OpensFolders()),
    _variant("first-shard-only", FirstOnly()),
    _variant("path-like-tensors", NamesArePaths()),
    _variant("tensors-called-like-files", NamesAreShards()),
    _variant("loose-tensor-names", LooseTensors()),
    _variant("needs-two-shards", SingleFile()),
    _variant("first-index", FirstIndex()),
    _variant("shard-layout-unchecked", COVER, "Does not check the layout of a shard."),
)
