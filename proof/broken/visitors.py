"""Readers and loaders with one mistake each, in what they make of a path or of the files around it."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from safetensors_corpus.judging.answer import Refused

from .correct.loader import LOADER, SUFFIX, Row, SmallLoader
from .correct.reader import READER
from .variant import named


class Visitor:
    """A correct reader of files and models."""

    loader: SmallLoader = LOADER

    def open(self, path: Path) -> dict[str, Any]:
        return self.read(path)

    def read(self, path: Path) -> dict[str, Any]:
        return READER.read(self.found(path))

    def index(self, path: Path) -> dict[str, Any]:
        return self.loader.index(self.found(path))

    def found(self, path: Path) -> Path:
        """Return the path that is opened, which is the given one."""
        return path


def demand(holds: object, why: str) -> None:
    if not holds:
        raise Refused(why)


class AsciiPath(Visitor):
    """Rejects paths with characters outside ASCII."""

    def found(self, path: Path) -> Path:
        demand(str(path).isascii(), "encoding")
        return path


class Latin1Path(Visitor):
    """Converts paths to Latin-1."""

    def found(self, path: Path) -> Path:
        return Path(os.fsdecode(str(path).encode("latin-1")))


class BasicPlanePath(Visitor):
    """Cuts the code points of a path to 16 bits."""

    def found(self, path: Path) -> Path:
        return Path("".join(chr(ord(character) & 0xFFFF) for character in str(path)))


class NoSpacePath(Visitor):
    """Opens the part of the path before the first blank."""

    def found(self, path: Path) -> Path:
        return Path(str(path).split(" ")[0])


class StrippedPath(Visitor):
    """Removes blanks around the names in a path."""

    def found(self, path: Path) -> Path:
        return Path(*(part.strip() for part in path.parts))


class FirstLine(Visitor):
    """Opens the first line of the path."""

    def found(self, path: Path) -> Path:
        return Path(str(path).splitlines()[0])


class SlashesOnly(Visitor):
    """Interprets backslashes in a path as separators."""

    def found(self, path: Path) -> Path:
        return Path(str(path).replace("\\", "/"))


class UrlPath(Visitor):
    """Decodes the path like a URL."""

    def found(self, path: Path) -> Path:
        return Path(unquote(urlsplit(f"file://{path}").path))


class GlobPath(Visitor):
    """Expands wildcards in the path."""

    def found(self, path: Path) -> Path:
        matches = glob.glob(str(path))  # noqa: PTH207 - the whole path, as a careless reader has it
        demand(matches, "no file matches")
        return Path(matches[0])


class ShellPath(Visitor):
    """Expands variables in the path."""

    def found(self, path: Path) -> Path:
        return Path(os.path.expandvars(path))


class ShortPaths(Visitor):
    """Copies the path into a buffer of 260 bytes."""

    def found(self, path: Path) -> Path:
        return Path(os.fsdecode(bytes(path)[:260]))


class ShortNames(Visitor):
    """Copies each name in a path into a buffer of 128 bytes."""

    def found(self, path: Path) -> Path:
        return Path(*(os.fsdecode(os.fsencode(part)[:128]) for part in path.parts))


class OneDot(Visitor):
    """Takes everything after the first dot in a name for its suffix."""

    def found(self, path: Path) -> Path:
        demand(all(part.count(".") <= 1 for part in (path.parent.name, path.stem)), "suffix")
        return path


class NoHiddenFolder(Visitor):
    """Skips hidden folders."""

    def found(self, path: Path) -> Path:
        demand(not any(part.startswith(".") and part != ".." for part in path.parts[:-1]), "hidden")
        return path


class NoParentFolder(Visitor):
    """Rejects paths that lead through a parent folder."""

    def found(self, path: Path) -> Path:
        demand(".." not in path.parts, "parent folder")
        return path


class NoSymlink(Visitor):
    """Rejects paths behind symbolic links."""

    def found(self, path: Path) -> Path:
        folder, real = path.parent, os.path.realpath(path)
        demand(real == os.path.normpath(path), "a link")
        demand(not any(entry.is_symlink() for entry in folder.iterdir()), "links in the folder")
        return path


class NoLinkedFile(Visitor):
    """Accepts links to folders, but no links to files."""

    def found(self, path: Path) -> Path:
        demand(not path.is_symlink(), "a link")
        return path


class SuffixOfTheTarget(Visitor):
    """Follows a link, and requires the suffix from its target."""

    def found(self, path: Path) -> Path:
        demand(path.resolve().suffix in (SUFFIX, ".json") or not path.is_symlink(), "suffix")
        return path


class SuffixNeeded(Visitor):
    """Requires the usual suffix from a file."""

    def read(self, path: Path) -> dict[str, Any]:
        demand(path.suffix == SUFFIX, "suffix")
        return super().read(path)


class SuffixChoosesTheFormat(Visitor):
    """Reads files with the suffixes of other formats as such files."""

    def read(self, path: Path) -> dict[str, Any]:
        if path.suffix == ".json":
            json.loads(path.read_bytes())
        demand(path.suffix not in (".pt", ".bin"), "no pickle file")
        return super().read(path)


class WritableFolder(Visitor):
    """Needs to write into the folder of the file."""

    def found(self, path: Path) -> Path:
        demand(path.parent.stat().st_mode & 0o200, "the folder cannot be written to")
        return path


class WritableFile(Visitor):
    """Opens files for reading and writing."""

    def found(self, path: Path) -> Path:
        demand(path.stat().st_mode & 0o200, "permission denied")
        return path


class _Elsewhere(SmallLoader):
    """Loads shards of the same names from other folders over those of the model."""

    def folders(self, folder: Path) -> Sequence[Path]:
        raise NotImplementedError

    def shard(self, folder: Path, name: str) -> dict[str, Row]:
        others = [other / name for other in self.folders(folder) if (other / name).is_file()]
        return super().shard(others[0].parent if others else folder, name)


class _Below(_Elsewhere):
    def folders(self, folder: Path) -> Sequence[Path]:
        return [entry for entry in folder.iterdir() if entry.is_dir()]


class _FirstFound(_Elsewhere):
    def folders(self, folder: Path) -> Sequence[Path]:
        return [path.parent for path in sorted(folder.rglob(f"*{SUFFIX}"))][:1]


class _Above(_Elsewhere):
    def folders(self, folder: Path) -> Sequence[Path]:
        return [folder.parent]


class _Beside(_Elsewhere):
    def folders(self, folder: Path) -> Sequence[Path]:
        return sorted(entry for entry in folder.parent.iterdir() if entry.is_dir())


class SubfolderToo(Visitor):
    """Loads the shards in folders below the model over those of the model."""

    loader = _Below()


class FirstFound(Visitor):
    """Searches the folder of the model and the folders below it, and loads the first shards that it finds."""

    loader = _FirstFound()


class ParentFirst(Visitor):
    """Searches the parent of the folder first."""

    loader = _Above()


class FirstSibling(Visitor):
    """Searches all folders beside that of the model, in the order of their names."""

    loader = _Beside()


VARIANTS = named(globals(), "placed", Visitor)
