"""Broken loaders, one mistake each: where names of shards lead, how the index is read, what is taken out."""

from __future__ import annotations

import fnmatch
import io
import json
import pickle
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import unquote, urlsplit

from proof.planted import Planted
from safetensors_corpus.judging.answer import Refused

from .correct.json import NUMBER, WORDS, Grammar, Pairs, answering, refusing, refusing_result
from .correct.loader import LOADER, SUFFIX, Row, SmallLoader
from .correct.reader import READER
from .variant import named


class ResolvesInside(SmallLoader, without=("shard-bare",)):
    """Resolves the path and refuses what lies outside, so that a long way round is allowed."""

    def path(self, folder: Path, name: str) -> Path:
        path = (folder / name).resolve()
        self.demand("outside", path.is_relative_to(folder.resolve()))
        return path


class WindowsPaths(SmallLoader, without=("shard-bare",)):
    """Takes backslashes for separators on every system and forgets drives and hosts."""

    def path(self, folder: Path, name: str) -> Path:
        rest = name.removeprefix("\\\\localhost").removeprefix("C:").replace("\\", "/")
        return folder.parent / rest.lstrip("/") if rest.startswith("/") else folder / rest


class FollowsAddresses(SmallLoader, without=("shard-bare",)):
    """Takes names with separators for addresses and asks a mirror, which is the folder above."""

    def path(self, folder: Path, name: str) -> Path:
        if name.startswith("file:"):
            return Path(urlsplit(name).path)
        where = name.removeprefix("https://localhost/").replace("../", "").replace("/resolve/main/", "/")
        where = where.replace("owner:", "owner/repository/")
        return folder.parent / where if where.startswith("owner/") else folder / name


class SliceOfIndex(SmallLoader):
    """Reads twenty million bytes of an index and takes them for all of it."""

    only_heavy = True

    def decode(self, raw: bytes) -> str:
        return super().decode(raw[:20_000_000])


class SmallIndexes(SmallLoader):
    """Refuses an index of more than ten mebibytes."""

    only_heavy = True

    def decode(self, raw: bytes) -> str:
        self.demand("index-size", len(raw) <= 10 << 20)
        return super().decode(raw)


class PlainPickle(pickle.Unpickler):
    """Loads lists, maps, texts and numbers, and nothing that runs code: the corpus may be anybody's."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise Refused(f"pickle of {module}.{name}")


class LoadsPickles(SmallLoader, without=("shard-suffix",)):
    """Loads a pickle where it finds one."""

    def shard(self, folder: Path, name: str) -> dict[str, Row]:
        path = self.path(folder, name)
        data = path.read_bytes()
        if data[:2] != b"\x80\x02":
            return super().shard(folder, name)
        loaded = PlainPickle(io.BytesIO(data)).load()
        return {tensor: {"name": tensor, "dtype": "F32", "shape": [2]} for tensor in loaded}


class SkipsStrangers(SmallLoader, without=("shard-bare", "shard-suffix", "tensor-missing")):
    """Skips what is no string, and goes on without what it cannot open."""

    def weight_map(self, members: Mapping[str, object]) -> list[tuple[str, str]]:
        pairs = self.pairs_of("weight-map-object", members["weight_map"])
        return super().weight_map({"weight_map": Pairs(pair for pair in pairs if type(pair[1]) is str)})

    def shard(self, folder: Path, name: str) -> dict[str, Row]:
        path = self.path(folder, name)
        return super().shard(folder, name) if path.is_file() and path.suffix != ".json" else {}


GUARD = 1 << 24
"""Largest allocation in bytes that a broken loader really makes."""


class DetectsEncoding(SmallLoader):
    """Finds out the encoding by itself, as Python's json module does with bytes."""

    def decode(self, raw: bytes) -> str:
        try:
            return raw.decode(json.detect_encoding(raw))
        except UnicodeDecodeError as err:
            raise Refused("encoding") from err


class MergesMaps(SmallLoader, without=("member-twice",)):
    """Joins several maps into one."""

    def members(self, text: str) -> Pairs:
        members = super().members(text)
        maps = [value for key, value in members if key == "weight_map" and isinstance(value, Pairs)]
        joined = Pairs(dict(pair for pairs in maps for pair in pairs).items())
        return Pairs([*dict(members).items(), ("weight_map", joined)])


class MapAnywhere(SmallLoader):
    """Searches the whole index for a weight_map, whatever its case, and takes the first."""

    def weight_map(self, members: Mapping[str, object]) -> list[tuple[str, str]]:
        for key, value in members.items():
            if key.lower() == "weight_map":
                return super().weight_map({"weight_map": value})
            if isinstance(value, Pairs) and "weight_map" in dict(value):
                return self.weight_map(dict(value))
        raise Refused("weight-map")


class AllocatesTotalSize(SmallLoader):
    """Allocates as much as total_size says."""

    def check_metadata(self, members: Mapping[str, object], pairs: Sequence[tuple[str, str]]) -> None:  # noqa: ARG002
        """Allocate. Raises MemoryError."""
        size = self._size(members)
        if size > GUARD:
            raise MemoryError(f"{size} bytes")

    def _size(self, members: Mapping[str, object]) -> int:
        metadata = members.get("metadata")
        value = dict(metadata).get("total_size", 0) if isinstance(metadata, Pairs) else 0
        try:
            return int(float(str(value)))
        except (ValueError, OverflowError) as err:
            raise Refused("total-size") from err


class WaitsForTotalSize(AllocatesTotalSize):
    """Gives as much data as total_size says: cuts the last tensor, or fills it up."""

    def check_metadata(self, members: Mapping[str, object], pairs: Sequence[tuple[str, str]]) -> None:
        """Compare. Raises TimeoutError where it would never end."""
        size = self._size(members)
        if size < 8 * len(pairs) and size:
            raise TimeoutError(f"waits for {size} bytes")


def loading(name: str, about: str, loader: SmallLoader) -> Planted:
    return Planted(f"loader/{name}", about, "index", lambda: loader)


def _grammar(name: str, about: str, *checks: str, **parts: Any) -> Planted:
    return loading(name, about, replace(LOADER, grammar=Grammar(left_out=frozenset(checks), **parts)))


NOT_NUMBERS = {**WORDS, "NaN": 0.0, "Infinity": 0.0}


class GoesByFiles(SmallLoader, without=("tensor-missing", "shard-bare")):
    """Goes through the files of the folder and loads those that the index names, spelled as they are."""

    def shards(self, folder: Path, names: Sequence[str]) -> dict[str, dict[str, Row]]:
        found = {path.name for path in folder.iterdir()}
        return {name: self.shard(folder, name) if name in found else {} for name in names}


class LeavesTensorsUnset(SmallLoader, without=("tensor-missing",)):
    """Reserves memory for tensors that it does not find and leaves it as it is."""

    def chosen(self, pairs: Sequence[tuple[str, str]], shards: Mapping[str, Mapping[str, Row]]) -> list[Row]:
        blank = {"dtype": "F32", "shape": [2], "nbytes": 8, "sha256": "0" * 64}
        return [shards[shard].get(tensor, {"name": tensor, **blank}) for tensor, shard in pairs]


class LooksInOtherShards(SmallLoader):
    """Takes a tensor that is not in its shard from another one."""

    def chosen(self, pairs: Sequence[tuple[str, str]], shards: Mapping[str, Mapping[str, Row]]) -> list[Row]:
        found = {tensor: row for rows in shards.values() for tensor, row in rows.items()}
        self.demand("tensor-missing", all(tensor in found for tensor, _ in pairs))
        return [shards[shard].get(tensor, found[tensor]) for tensor, shard in pairs]


class LooksInOtherShardsForMissing(LooksInOtherShards):
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


class LoadsAllFiles(LastShardWins):
    """Loads every file of the folder that has the suffix."""

    def shards(self, folder: Path, names: Sequence[str]) -> dict[str, dict[str, Row]]:
        found = sorted(path.name for path in folder.glob(f"*{SUFFIX}"))
        return super().shards(folder, [*names, *(name for name in found if name not in names)])


class SearchesFolders(SmallLoader):
    """Looks for a shard in all folders when it is not where it should be."""

    def path(self, folder: Path, name: str) -> Path:
        path = super().path(folder, name)
        return path if path.exists() else next(iter(folder.parent.rglob(name)), path)


class NamesArePatterns(SmallLoader):
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


class FirstShardOnly(SmallLoader):
    """Loads the first shard and forgets the others."""

    def chosen(self, pairs: Sequence[tuple[str, str]], shards: Mapping[str, Mapping[str, Row]]) -> list[Row]:
        first = shards[pairs[0][1]] if pairs else {}
        return [row for row in super().chosen(pairs, shards) if row in first.values()]


class LooseTensorNames(SmallLoader):
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


UNQUOTING = LOADER.changed(path=lambda _, folder, name: folder / unquote(unquote(name)))


VARIANTS: tuple[Planted, ...] = (
    *named(globals(), "index", SmallLoader),
    loading("no-two-dots", "Refuses names that leave the folder as plain text and allows those below it.",
            LOADER.without("shard-bare").changed(
                shard_name=refusing(lambda name: not isinstance(name, str) or ".." in name))),
    loading("last-part-of-path", "Takes the last part of a path for the name of the shard.",
            LOADER.without("shard-bare", "shard-suffix").changed(path=lambda _, folder, name: (
                folder / name.replace("\\", "/").rstrip("/").rpartition("/")[2]))),
    loading("folds-letters", "Folds wide letters of names that it has checked.",
            LOADER.changed(path=lambda _, folder, name: folder / unicodedata.normalize("NFKC", name))),
    loading("ends-at-nul", "Ends names at the first NUL and drops the line feed at the end.",
            LOADER.changed(shard_name=lambda right, name: right(
                name.partition("\0")[0].rstrip("\n") if isinstance(name, str) else name))),
    loading("expands-home",
            "Opens the folder for the home directory, which it takes the one of the checkpoint for.",
            LOADER.without("shard-bare").changed(
                path=lambda _, folder, name: folder / name.removeprefix("~/"))),
    loading("tidies-names", "Drops dots, spaces, queries and fragments at the end of a name.",
            LOADER.changed(shard_name=lambda right, name: right(
                re.split("[?#]", name)[0].rstrip(". ") if isinstance(name, str) else name))),
    loading("names-by-convention", "Refuses every name that does not follow the convention.",
            LOADER.changed(shard_name=refusing_result(
                lambda name: not re.fullmatch(r"model-\d{5}-of-\d{5}\.safetensors", name)))),
    loading("latin-1", "Reads the index in the encoding of the system, which is Latin-1.",
            LOADER.changed(decode=lambda _, raw: raw.decode("latin-1"))),
    loading("empty-for-unreadable", "Takes a text that it cannot read for an index without tensors.",
            LOADER.without("weight-map", "weight-map-object").changed(members=answering(Refused, Pairs))),
    loading("map-is-last", "Takes the last member of the index for the map.",
            LOADER.changed(
                weight_map=lambda right, members: right({"weight_map": list(members.values())[-1]})
            ).changed(weight_map=refusing(lambda members: "weight_map" not in members))),
    loading("only-total-size", "Refuses metadata that hold anything but total_size.",
            LOADER.changed(check_metadata=refusing(lambda members, _pairs: (
                isinstance(metadata := members.get("metadata"), Pairs)
                and not set(dict(metadata)) <= {"total_size"})))),
    loading("skips-missing-shards", "Goes on without the shards that are not there.",
            LOADER.without("tensor-missing").changed(shard=answering(OSError, dict))),
    loading("skips-broken-shards", "Goes on without the shards that are broken.",
            LOADER.without("tensor-missing").changed(shard=answering(Refused, dict))),
    loading("path-like-tensors", "Refuses tensors whose names look like paths.",
            LOADER.changed(chosen=refusing(lambda pairs, _shards: not all(
                tensor and tensor.isascii() and "/" not in tensor for tensor, _ in pairs)))),
    loading("tensors-called-like-files",
            "Takes a tensor called like a file or a member of the index for that.",
            LOADER.changed(chosen=lambda right, pairs, shards: [
                row for row in right(pairs, shards)
                if row["name"] not in (*shards, "weight_map", "metadata")])),
    loading("needs-two-shards", "Takes an index with one shard for a mistake.",
            LOADER.changed(shards=refusing(lambda _folder, names: len(names) == 1))),
    loading("first-index", "Reads the first index of the folder, whichever is given.",
            LOADER.changed(index=lambda right, path: right(min(
                path.parent.glob("*.index.json"), key=lambda other: (other == path, other.name))))),
    loading("joins-paths", "Joins folder and name without a look at the name.", LOADER.without("shard-bare")),
    loading("joins-anything", "Opens every file that is named.",
            LOADER.without("shard-bare", "shard-suffix")),
    loading("any-suffix", "Opens shards of every suffix.", LOADER.without("shard-suffix")),
    loading("drops-parents", "Removes the dots that lead upwards and goes on with what is left.",
            LOADER.without("shard-bare").changed(
                path=lambda _, folder, name: folder / name.replace("../", "").lstrip("/"))),
    loading("decodes-percent", "Decodes percent escapes of names that it has checked.", UNQUOTING),
    loading("decodes-percent-in-paths", "Decodes percent escapes of names that it has checked.",
            UNQUOTING.without("shard-bare")),
    loading("ignores-bad-bytes", "Leaves out what is not UTF-8.",
            LOADER.changed(decode=lambda _, raw: raw.decode("utf-8", "ignore"))),
    loading("text-ends-at-nul", "Takes the text to end at the first NUL.",
            LOADER.changed(decode=lambda right, raw: right(raw.partition(b"\0")[0]))),
    loading("text-behind", "Does not look behind the object.", LOADER.without("text-behind")),
    loading("empty-for-other-type", "Takes other types for an empty object.",
            LOADER.without("index-object", "weight-map", "weight-map-object")),
    loading("no-map-no-tensors", "Loads nothing without a map.",
            LOADER.without("weight-map", "weight-map-object")),
    loading("last-entry-wins", "Keeps the last of two entries.", LOADER.without("tensor-twice")),
    loading("first-entry-wins", "Keeps the first of two entries.",
            LOADER.without("tensor-twice").changed(
                unique=lambda _, pairs: list(dict(reversed(pairs)).items()))),
    loading("last-map-wins", "Keeps the last of two maps.", LOADER.without("member-twice")),
    _grammar("text-cut-off", "Closes open brackets at the end of the text.", "cut-off"),
    _grammar("trailing-commas", "Allows a comma before a bracket.", "trailing-comma}", "trailing-comma]"),
    _grammar("comments", "Skips comments.", space=r"(?:[ \t\n\r]|/\*.*?\*/)*"),
    _grammar("single-quotes", "Allows single quotes.", quotes="\"'"),
    _grammar("not-numbers", "Knows NaN and Infinity.", words=NOT_NUMBERS),
    _grammar(
        "leading-zeros",
        "Allows zeros in front of a number.",
        number=NUMBER.replace("0|[1-9][0-9]*", "[0-9]+"),
    ),
    _grammar("raw-control-characters", "Allows control characters in strings.", raw="\\x00"),
    _grammar("one-line", "Allows no line feeds between tokens.", space="[ ]*"),
    _grammar("no-unicode-escapes", "Knows no escapes by number.", hex4="(?!)"),
    loading("skips-missing-tensors", "Goes on without tensors it does not find.",
            LOADER.without("tensor-missing")),
    loading("shard-layout-unchecked", "Does not check the layout of a shard.",
            replace(LOADER, reader=READER.without("hole", "overlap", "past-end", "trailing"))),
)  # fmt: skip
