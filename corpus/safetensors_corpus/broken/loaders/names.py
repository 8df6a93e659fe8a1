"""Broken loaders: where the name of a shard leads them, one mistake each."""

from __future__ import annotations

import io
import pickle
import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn
from urllib.parse import unquote, urlsplit

from ..correct.json import Pairs, Refused
from ..correct.loader import LOADER, Row, SmallLoader
from ..variant import Variant


class JoinsBelow(SmallLoader):
    """Refuses names that leave the folder as plain text and allows those below it."""

    def shard_name(self, name: object) -> str:
        if not isinstance(name, str) or ".." in name:
            raise Refused("two-dots")
        return super().shard_name(name)


class ResolvesInside(SmallLoader):
    """Resolves the path and refuses what lies outside, so that a long way round is allowed."""

    def path(self, folder: Path, name: str) -> Path:
        path = (folder / name).resolve()
        self.demand("outside", path.is_relative_to(folder.resolve()))
        return path


class LastPart(SmallLoader):
    """Takes the last part of a path for the name of the shard."""

    def path(self, folder: Path, name: str) -> Path:
        return folder / name.replace("\\", "/").rstrip("/").rpartition("/")[2]


class DropsParents(SmallLoader):
    """Removes the dots that lead upwards and goes on with what is left."""

    def path(self, folder: Path, name: str) -> Path:
        return folder / name.replace("../", "").lstrip("/")


class WindowsPaths(SmallLoader):
    """Takes backslashes for separators on every system and forgets drives and hosts."""

    def path(self, folder: Path, name: str) -> Path:
        rest = name.removeprefix("\\\\localhost").removeprefix("C:").replace("\\", "/")
        return folder.parent / rest.lstrip("/") if rest.startswith("/") else folder / rest


class Unquotes(SmallLoader):
    """Decodes percent escapes of names that it has checked."""

    def path(self, folder: Path, name: str) -> Path:
        return folder / unquote(unquote(name))


class Folds(SmallLoader):
    """Folds wide letters of names that it has checked."""

    def path(self, folder: Path, name: str) -> Path:
        return folder / unicodedata.normalize("NFKC", name)


class CStrings(SmallLoader):
    """Ends names at the first NUL and drops the line feed at the end."""

    def shard_name(self, name: object) -> str:
        if not isinstance(name, str):
            raise Refused("shard-string")
        return super().shard_name(name.partition("\0")[0].rstrip("\n"))


class Home(SmallLoader):
    """Opens the folder for the home directory, which it takes the one of the checkpoint for."""

    def path(self, folder: Path, name: str) -> Path:
        return folder / name.removeprefix("~/")


class Addresses(SmallLoader):
    """Takes names with separators for addresses and asks a mirror, which is the folder above."""

    def path(self, folder: Path, name: str) -> Path:
        if name.startswith("file:"):
            return Path(urlsplit(name).path)
        where = name.removeprefix("https://localhost/").replace("../", "").replace("/resolve/main/", "/")
        where = where.replace("owner:", "owner/repository/")
        return folder.parent / where if where.startswith("owner/") else folder / name


class TidiesNames(SmallLoader):
    """Drops dots, spaces, queries and fragments at the end of a name."""

    def shard_name(self, name: object) -> str:
        if not isinstance(name, str):
            raise Refused("shard-string")
        return super().shard_name(name.partition("?")[0].partition("#")[0].rstrip(". "))


class PlainPickle(pickle.Unpickler):
    """Loads lists, maps, texts and numbers, and nothing that runs code: the corpus may be anybody's."""

    def find_class(self, module: str, name: str) -> NoReturn:
        """Refuse whatever is not built into the format itself."""
        raise Refused(f"pickle of {module}.{name}")


class Pickles(SmallLoader):
    """Loads a pickle where it finds one."""

    def shard(self, folder: Path, name: str) -> dict[str, Row]:
        path = self.path(folder, name)
        data = path.read_bytes()
        if data[:2] != b"\x80\x02":
            return super().shard(folder, name)
        loaded = PlainPickle(io.BytesIO(data)).load()
        return {tensor: {"name": tensor, "dtype": "F32", "shape": [2]} for tensor in loaded}


class ByConvention(SmallLoader):
    """Refuses every name that does not follow the convention."""

    def shard_name(self, name: object) -> str:
        name = super().shard_name(name)
        self.demand("convention", re.fullmatch(r"model-\d{5}-of-\d{5}\.safetensors", name) is not None)
        return name


class SkipsStrangers(SmallLoader):
    """Skips what is no string, and goes on without what it cannot open."""

    def weight_map(self, members: Mapping[str, object]) -> list[tuple[str, str]]:
        pairs = self.pairs_of("weight-map-object", members["weight_map"])
        return super().weight_map({"weight_map": Pairs(pair for pair in pairs if type(pair[1]) is str)})

    def shard(self, folder: Path, name: str) -> dict[str, Row]:
        path = self.path(folder, name)
        return super().shard(folder, name) if path.is_file() and path.suffix != ".json" else {}


def _variant(name: str, loader: SmallLoader, about: str = "") -> Variant:
    about = about or (type(loader).__doc__ or "").partition("\n")[0]
    return Variant(f"loader/{name}", about, "index", lambda: loader)


VARIANTS: tuple[Variant, ...] = (
    _variant(
        "joins-paths", LOADER.without("shard-bare"), "Joins folder and name without a look at the name."
    ),
    _variant(
        "joins-anything", LOADER.without("shard-bare", "shard-suffix"), "Opens every file that is named."
    ),
    _variant("any-suffix", LOADER.without("shard-suffix"), "Opens shards of every suffix."),
    _variant("no-two-dots", JoinsBelow().without("shard-bare")),
    _variant("resolves-inside", ResolvesInside().without("shard-bare")),
    _variant("last-part-of-path", LastPart().without("shard-bare", "shard-suffix")),
    _variant("drops-parents", DropsParents().without("shard-bare")),
    _variant("windows-paths", WindowsPaths().without("shard-bare")),
    _variant("decodes-percent", Unquotes()),
    _variant("decodes-percent-in-paths", Unquotes().without("shard-bare")),
    _variant("folds-letters", Folds()),
    _variant("ends-at-nul", CStrings()),
    _variant("expands-home", Home().without("shard-bare")),
    _variant("follows-addresses", Addresses().without("shard-bare")),
    _variant("tidies-names", TidiesNames()),
    _variant("loads-pickles", Pickles().without("shard-suffix")),
    _variant("names-by-convention", ByConvention()),
    _variant("skips-strangers", SkipsStrangers().without("shard-bare", "shard-suffix", "tensor-missing")),
)
