"""Broken loaders with one mistake each, in paths of shards, in reading the index or in selecting tensors."""

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
    """Resolves the path and rejects it only if it leads out of the folder."""

    def path(self, folder: Path, name: str) -> Path:
        path = (folder / name).resolve()
        self.demand("outside", path.is_relative_to(folder.resolve()))
        return path


class WindowsPaths(SmallLoader, without=("shard-bare",)):
    """Interprets backslashes as separators on every system, and ignores drives and hosts."""

    def path(self, folder: Path, name: str) -> Path:
        rest = name.removeprefix("\\\\localhost").removeprefix("C:").replace("\\", "/")
        return folder.parent / rest.lstrip("/") if rest.startswith("/") else folder / rest


class FollowsAddresses(SmallLoader, without=("shard-bare",)):
    """Interprets names with separators as addresses, and reads from a mirror, which is the parent folder."""

    def path(self, folder: Path, name: str) -> Path:
        if name.startswith("file:"):
            return Path(urlsplit(name).path)
        where = name.removeprefix("https://localhost/").replace("../", "").replace("/resolve/main/", "/")
        where = where.replace("owner:", "owner/repository/")
        return folder.parent / where if where.startswith("owner/") else folder / name


class SliceOfIndex(SmallLoader):
    """Reads the first twenty million bytes of an index as if they were the whole index."""

    only_heavy = True

    def decode(self, raw: bytes) -> str:
        return super().decode(raw[:20_000_000])


class SmallIndexes(SmallLoader):
    """Rejects an index of more than ten mebibytes."""

    only_heavy = True

    def decode(self, raw: bytes) -> str:
        self.demand("index-size", len(raw) <= 10 << 20)
        return super().decode(raw)


class PlainPickle(pickle.Unpickler):
    """Loads lists, maps, strings and numbers, but runs no code, because the corpus may come from anyone."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise Refused(f"pickle of {module}.{name}")


class LoadsPickles(SmallLoader, without=("shard-suffix",)):
    """Loads a pickle file if it finds one."""

    def shard(self, folder: Path, name: str) -> dict[str, Row]:
        path = self.path(folder, name)
        data = path.read_bytes()
        if data[:2] != b"\x80\x02":
            return super().shard(folder, name)
        loaded = PlainPickle(io.BytesIO(data)).load()
        return {tensor: {"name": tensor, "dtype": "F32", "shape": [2]} for tensor in loaded}


class SkipsStrangers(SmallLoader, without=("shard-bare", "shard-suffix", "tensor-missing")):
    """Skips values that are not strings and shards that it cannot open."""

    def weight_map(self, members: Mapping[str, object]) -> list[tuple[str, str]]:
        pairs = self.pairs_of("weight-map-object", members["weight_map"])
        return super().weight_map({"weight_map": Pairs(pair for pair in pairs if type(pair[1]) is str)})

    def shard(self, folder: Path, name: str) -> dict[str, Row]:
        path = self.path(folder, name)
        return super().shard(folder, name) if path.is_file() and path.suffix != ".json" else {}


GUARD = 1 << 24
"""Largest allocation in bytes that a broken loader actually makes."""


class DetectsEncoding(SmallLoader):
    """Detects the encoding, as Python's json module does for bytes."""

    def decode(self, raw: bytes) -> str:
        try:
            return raw.decode(json.detect_encoding(raw))
        except UnicodeDecodeError as err:
            raise Refused("encoding") from err


class MergesMaps(SmallLoader, without=("member-twice",)):
    """Merges several maps into one."""

    def members(self, text: str) -> Pairs:
        members = super().members(text)
        maps = [value for key, value in members if key == "weight_map" and isinstance(value, Pairs)]
        joined = Pairs(dict(pair for pairs in maps for pair in pairs).items())
        return Pairs([*dict(members).items(), ("weight_map", joined)])


class MapAnywhere(SmallLoader):
    """Searches the whole index for a weight_map in any case, and uses the first one."""

    def weight_map(self, members: Mapping[str, object]) -> list[tuple[str, str]]:
        for key, value in members.items():
            if key.lower() == "weight_map":
                return super().weight_map({"weight_map": value})
            if isinstance(value, Pairs) and "weight_map" in dict(value):
                return self.weight_map(dict(value))
        raise Refused("weight-map")


class AllocatesTotalSize(SmallLoader):
    """Allocates as much memory as total_size says."""

    def check_metadata(self, members: Mapping[str, object], pairs: Sequence[tuple[str, str]]) -> None:  # noqa: ARG002
        """Allocate the memory. Raises MemoryError."""
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
    """Returns as many bytes as total_size says, by cutting or padding the last tensor."""

    def check_metadata(self, members: Mapping[str, object], pairs: Sequence[tuple[str, str]]) -> None:
        """Raise TimeoutError for a size at which the loader would wait for ever."""
        size = self._size(members)
        if size < 8 * len(pairs) and size:
            raise TimeoutError(f"waits for {size} bytes")


def loading(name: str, about: str, loader: SmallLoader) -> Planted:
    return Planted(f"loader/{name}", about, "index", lambda: loader)


def _grammar(name: str, about: str, *checks: str, **parts: Any) -> Planted:
    return loading(name, about, replace(LOADER, grammar=Grammar(left_out=frozenset(checks), **parts)))


NOT_NUMBERS = {**WORDS, "NaN": 0.0, "Infinity": 0.0}


class GoesByFiles(SmallLoader, without=("tensor-missing", "shard-bare")):
    """Iterates over the files in the folder, and loads those whose exact names the index contains."""

    def shards(self, folder: Path, names: Sequence[str]) -> dict[str, dict[str, Row]]:
        found = {path.name for path in folder.iterdir()}
        return {name: self.shard(folder, name) if name in found else {} for name in names}


class LeavesTensorsUnset(SmallLoader, without=("tensor-missing",)):
    """Reserves memory for tensors that it does not find, and leaves the memory as it is."""

    def chosen(self, pairs: Sequence[tuple[str, str]], shards: Mapping[str, Mapping[str, Row]]) -> list[Row]:
        blank = {"dtype": "F32", "shape": [2], "nbytes": 8, "sha256": "0" * 64}
        return [shards[shard].get(tensor, {"name": tensor, **blank}) for tensor, shard in pairs]


class LooksInOtherShards(SmallLoader):
    """Loads a tensor that is missing from its shard from another shard."""

    def chosen(self, pairs: Sequence[tuple[str, str]], shards: Mapping[str, Mapping[str, Row]]) -> list[Row]:
        found = {tensor: row for rows in shards.values() for tensor, row in rows.items()}
        self.demand("tensor-missing", all(tensor in found for tensor, _ in pairs))
        return [shards[shard].get(tensor, found[tensor]) for tensor, shard in pairs]


class LooksInOtherShardsForMissing(LooksInOtherShards):
    """Searches the other shards for the tensors of a missing shard."""

    def shard(self, folder: Path, name: str) -> dict[str, Row]:
        return super().shard(folder, name) if self.path(folder, name).exists() else {}


class LastShardWins(SmallLoader):
    """Loads all tensors of all shards, and keeps the last copy of each."""

    def chosen(self, pairs: Sequence[tuple[str, str]], shards: Mapping[str, Mapping[str, Row]]) -> list[Row]:
        super().chosen(pairs, shards)
        return list({tensor: row for rows in shards.values() for tensor, row in rows.items()}.values())


class FirstShardWins(SmallLoader):
    """Loads all tensors of all shards, and keeps the first copy of each."""

    def chosen(self, pairs: Sequence[tuple[str, str]], shards: Mapping[str, Mapping[str, Row]]) -> list[Row]:
        super().chosen(pairs, shards)
        backwards = reversed(list(shards.values()))
        return list({tensor: row for rows in backwards for tensor, row in rows.items()}.values())


class LoadsAllFiles(LastShardWins):
    """Loads every file in the folder that has the suffix."""

    def shards(self, folder: Path, names: Sequence[str]) -> dict[str, dict[str, Row]]:
        found = sorted(path.name for path in folder.glob(f"*{SUFFIX}"))
        return super().shards(folder, [*names, *(name for name in found if name not in names)])


class SearchesFolders(SmallLoader):
    """Searches all folders for a shard that is not where the index says."""

    def path(self, folder: Path, name: str) -> Path:
        path = super().path(folder, name)
        return path if path.exists() else next(iter(folder.parent.rglob(name)), path)


class NamesArePatterns(SmallLoader):
    """Interprets the name of a shard as a pattern."""

    def path(self, folder: Path, name: str) -> Path:
        found = [path for path in sorted(folder.iterdir()) if fnmatch.fnmatch(path.name, name)]
        return found[0] if found else super().path(folder, name)


class OpensFolders(SmallLoader):
    """Opens a folder as if it were a single shard that contains all shards in the folder."""

    def shard(self, folder: Path, name: str) -> dict[str, Row]:
        path = self.path(folder, name)
        if not path.is_dir():
            return super().shard(folder, name)
        inside: dict[str, Row] = {}
        for file in sorted(path.iterdir()):
            inside |= super().shard(path, file.name)
        return inside


class FirstShardOnly(SmallLoader):
    """Loads only the first shard."""

    def chosen(self, pairs: Sequence[tuple[str, str]], shards: Mapping[str, Mapping[str, Row]]) -> list[Row]:
        first = shards[pairs[0][1]] if pairs else {}
        return [row for row in super().chosen(pairs, shards) if row in first.values()]


class LooseTensorNames(SmallLoader):
    """Ignores case, normal forms, the prefix of the model and suffixes when it compares tensor names."""

    def chosen(self, pairs: Sequence[tuple[str, str]], shards: Mapping[str, Mapping[str, Row]]) -> list[Row]:
        rows = []
        for tensor, shard in pairs:
            plain = _plain(tensor)
            like = {_plain(name): row for name, row in shards[shard].items()}
            if tensor not in shards[shard] and plain not in like:
                raise Refused("tensor-missing")
            rows.append({**(shards[shard].get(tensor) or like[plain]), "name": tensor})
        return rows


def _plain(tensor: str) -> str:
    name = unicodedata.normalize("NFC", tensor).casefold()
    return name.removeprefix("model.").partition(".weight")[0]


UNQUOTING = LOADER.changed(path=lambda _, folder, name: folder / unquote(unquote(name)))


VARIANTS: tuple[Planted, ...] = (
    *named(globals(), "index", SmallLoader),
    loading("no-two-dots", "Rejects names whose text leads out of the folder, but accepts paths below it.",
            LOADER.without("shard-bare").changed(
                shard_name=refusing(lambda name: not isinstance(name, str) or ".." in name))),
    loading("last-part-of-path", "Uses only the last part of a path as the name of the shard.",
            LOADER.without("shard-bare", "shard-suffix").changed(path=lambda _, folder, name: (
                folder / name.replace("\\", "/").rstrip("/").rpartition("/")[2]))),
    loading("folds-letters", "Converts full-width letters to ASCII in names that it has already checked.",
            LOADER.changed(path=lambda _, folder, name: folder / unicodedata.normalize("NFKC", name))),
    loading("ends-at-nul", "Ends names at the first NUL, and removes a line feed at the end.",
            LOADER.changed(shard_name=lambda right, name: right(
                name.partition("\0")[0].rstrip("\n") if isinstance(name, str) else name))),
    loading("expands-home",
            "Expands a tilde, and uses the folder of the checkpoint as the home directory.",
            LOADER.without("shard-bare").changed(
                path=lambda _, folder, name: folder / name.removeprefix("~/"))),
    loading("tidies-names", "Removes dots, spaces, queries and fragments from the end of a name.",
            LOADER.changed(shard_name=lambda right, name: right(
                re.split("[?#]", name)[0].rstrip(". ") if isinstance(name, str) else name))),
    loading("names-by-convention", "Rejects every name that does not follow the naming convention.",
            LOADER.changed(shard_name=refusing_result(
                lambda name: not re.fullmatch(r"model-\d{5}-of-\d{5}\.safetensors", name)))),
    loading("latin-1", "Decodes the index with the encoding of the system, which is Latin-1.",
            LOADER.changed(decode=lambda _, raw: raw.decode("latin-1"))),
    loading("empty-for-unreadable", "Treats an index that it cannot parse as an index without tensors.",
            LOADER.without("weight-map", "weight-map-object").changed(members=answering(Refused, Pairs))),
    loading("map-is-last", "Uses the last member of the index as the map.",
            LOADER.changed(
                weight_map=lambda right, members: right({"weight_map": list(members.values())[-1]})
            ).changed(weight_map=refusing(lambda members: "weight_map" not in members))),
    loading("only-total-size", "Rejects metadata that contains anything except total_size.",
            LOADER.changed(check_metadata=refusing(lambda members, _pairs: (
                isinstance(metadata := members.get("metadata"), Pairs)
                and not set(dict(metadata)) <= {"total_size"})))),
    loading("skips-missing-shards", "Ignores missing shards.",
            LOADER.without("tensor-missing").changed(shard=answering(OSError, dict))),
    loading("skips-broken-shards", "Ignores broken shards.",
            LOADER.without("tensor-missing").changed(shard=answering(Refused, dict))),
    loading("path-like-tensors", "Rejects tensors whose names look like paths.",
            LOADER.changed(chosen=refusing(lambda pairs, _shards: not all(
                tensor and tensor.isascii() and "/" not in tensor for tensor, _ in pairs)))),
    loading("tensors-called-like-files",
            "Loses a tensor that has the name of a file or a member of the index.",
            LOADER.changed(chosen=lambda right, pairs, shards: [
                row for row in right(pairs, shards)
                if row["name"] not in (*shards, "weight_map", "metadata")])),
    loading("needs-two-shards", "Rejects an index that names only one shard.",
            LOADER.changed(shards=refusing(lambda _folder, names: len(names) == 1))),
    loading("first-index", "Reads the first index in the folder, regardless of which one is requested.",
            LOADER.changed(index=lambda right, path: right(min(
                path.parent.glob("*.index*.json"), key=lambda other: (other == path, other.name))))),
    loading("joins-paths", "Joins the folder and the name without checking the name.",
            LOADER.without("shard-bare")),
    loading("joins-anything", "Opens every file that the index names.",
            LOADER.without("shard-bare", "shard-suffix")),
    loading("any-suffix", "Opens shards with any suffix.", LOADER.without("shard-suffix")),
    loading("drops-parents", "Removes the dots that lead to a parent folder, and uses the rest of the name.",
            LOADER.without("shard-bare").changed(
                path=lambda _, folder, name: folder / name.replace("../", "").lstrip("/"))),
    loading("decodes-percent", "Decodes percent escapes in names that it has already checked.", UNQUOTING),
    loading("decodes-percent-in-paths", "Decodes percent escapes in names that it has already checked.",
            UNQUOTING.without("shard-bare")),
    loading("ignores-bad-bytes", "Drops bytes that are not UTF-8.",
            LOADER.changed(decode=lambda _, raw: raw.decode("utf-8", "ignore"))),
    loading("text-ends-at-nul", "Ends the index at the first NUL.",
            LOADER.changed(decode=lambda right, raw: right(raw.partition(b"\0")[0]))),
    loading("text-behind", "Ignores everything after the object.", LOADER.without("text-behind")),
    loading("empty-for-other-type", "Treats other types as an empty object.",
            LOADER.without("index-object", "weight-map", "weight-map-object")),
    loading("no-map-no-tensors", "Loads no tensors if there is no map.",
            LOADER.without("weight-map", "weight-map-object")),
    loading("last-entry-wins", "Keeps the last of two entries with the same name.",
            LOADER.without("tensor-twice")),
    loading("first-entry-wins", "Keeps the first of two entries with the same name.",
            LOADER.without("tensor-twice").changed(
                unique=lambda _, pairs: list(dict(reversed(pairs)).items()))),
    loading("last-map-wins", "Keeps the last of two maps.", LOADER.without("member-twice")),
    _grammar("text-cut-off", "Closes open brackets at the end of the index.", "cut-off"),
    _grammar("trailing-commas", "Accepts a comma before a closing bracket.", "trailing-comma}",
             "trailing-comma]"),
    _grammar("comments", "Skips comments.", space=r"(?:[ \t\n\r]|/\*.*?\*/)*"),
    _grammar("single-quotes", "Accepts single quotes.", quotes="\"'"),
    _grammar("not-numbers", "Accepts NaN and Infinity.", words=NOT_NUMBERS),
    _grammar(
        "leading-zeros",
        "Accepts leading zeros in numbers.",
        number=NUMBER.replace("0|[1-9][0-9]*", "[0-9]+"),
    ),
    _grammar("raw-control-characters", "Accepts control characters in strings.", raw="\\x00"),
    _grammar("one-line", "Rejects line feeds between tokens.", space="[ ]*"),
    _grammar("no-unicode-escapes", "Rejects Unicode escapes.", hex4="(?!)"),
    loading("skips-missing-tensors", "Ignores tensors that it does not find.",
            LOADER.without("tensor-missing")),
    loading("shard-layout-unchecked", "Does not check the layout of a shard.",
            replace(LOADER, reader=READER.without("hole", "overlap", "past-end", "trailing"))),
)  # fmt: skip
