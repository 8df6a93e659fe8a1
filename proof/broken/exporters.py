"""Broken exporters, each with one mistake in the way from the name of a tensor to a file."""

from __future__ import annotations

import contextlib
import os
import re
import unicodedata
from pathlib import Path
from urllib.parse import unquote

from safetensors_corpus.judging.answer import Refused

from .correct.exporter import SmallExporter
from .variant import named

Tensors = list[tuple[str, bytes]]


class JoinsNames(SmallExporter):
    """Joins the folder, the name and a suffix."""

    def place(self, name: str, number: int) -> str:  # noqa: ARG002
        return f"{name}.bin"


class JoinsNamesWithoutSuffix(SmallExporter):
    """Joins the folder and the name."""

    def place(self, name: str, number: int) -> str:  # noqa: ARG002
        return name


class FolderForEachName(SmallExporter):
    """Creates a folder for each name and writes a file into it."""

    def place(self, name: str, number: int) -> str:  # noqa: ARG002
        return f"{name}/data"


class _Checked(JoinsNames):
    """Refuses names that lead out of the folder by themselves, and joins all others."""

    def put_all(self, tensors: Tensors, folder: Path) -> None:
        super().put_all([(self.checked(name), data) for name, data in tensors], folder)

    def checked(self, name: str) -> str:
        if name.startswith("/") or ".." in name.split("/"):
            raise Refused("name")
        return name


class FollowsLinks(_Checked):
    """Refuses absolute names and parent folders, but follows links in the folder."""


class ComparesBeginnings(JoinsNames):
    """Checks that the path begins with the text of the folder, but not that a slash follows."""

    def put_all(self, tensors: Tensors, folder: Path) -> None:
        for name, _ in tensors:
            if not os.path.realpath(folder / name).startswith(os.path.realpath(folder)):
                raise Refused("outside")
        super().put_all(tensors, folder)


class RemovesParentsOnce(JoinsNames):
    """Removes every parent folder from a name, but not what remains after that."""

    def place(self, name: str, number: int) -> str:
        return super().place(name.replace("../", "").lstrip("/"), number)


class RefusesParentsAtTheBeginning(JoinsNames):
    """Looks for parent folders only at the beginning of a name."""

    def place(self, name: str, number: int) -> str:
        if name.startswith(("..", "/")):
            raise Refused("name")
        return super().place(name, number)


class DecodesAfterTheCheck(_Checked):
    """Decodes percent signs after the check."""

    def place(self, name: str, number: int) -> str:
        return super().place(unquote(name), number)


class NormalisesAfterTheCheck(_Checked):
    """Replaces characters by compatible ones after the check."""

    def place(self, name: str, number: int) -> str:
        return super().place(unicodedata.normalize("NFKC", name), number)


class BackslashesAfterTheCheck(_Checked):
    """Replaces backslashes by slashes after the check."""

    def place(self, name: str, number: int) -> str:
        return super().place(name.replace("\\", "/"), number)


class ReadsAddresses(_Checked):
    """Writes to the path of a name that is a file address."""

    def place(self, name: str, number: int) -> str:
        return super().place(name.removeprefix("file://"), number)


class CutsAtNul(JoinsNames):
    """Ends a name at its first NUL, as a C string does."""

    def place(self, name: str, number: int) -> str:
        return super().place(name.partition("\0")[0], number)


class ReplacesSlashes(SmallExporter):
    """Replaces each slash by an underscore."""

    def place(self, name: str, number: int) -> str:  # noqa: ARG002
        return f"{name.replace('/', '_')}.bin"


class ReplacesSlashesByDots(SmallExporter):
    """Replaces each slash by a dot."""

    def place(self, name: str, number: int) -> str:  # noqa: ARG002
        return f"{name.replace('/', '.')}.bin"


class ReplacesDots(SmallExporter):
    """Replaces each dot by an underscore, and refuses slashes."""

    def place(self, name: str, number: int) -> str:  # noqa: ARG002
        if "/" in name:
            raise Refused("name")
        return f"{name.replace('.', '_')}.bin"


class ReplacesForbiddenCharacters(SmallExporter):
    """Replaces every character other than letters, digits and dots by an underscore."""

    def place(self, name: str, number: int) -> str:  # noqa: ARG002
        return re.sub(r"[^\w.]", "_", name) + ".bin"


class EscapesSlashesOnly(SmallExporter):
    """Escapes slashes by percent signs, but not percent signs."""

    def place(self, name: str, number: int) -> str:  # noqa: ARG002
        return f"{name.replace('/', '%2F')}.bin"


class LastPartOnly(SmallExporter):
    """Uses the part of a name behind the last slash."""

    def place(self, name: str, number: int) -> str:  # noqa: ARG002
        return f"{name.rpartition('/')[2]}.bin"


class LowerCase(ReplacesSlashes):
    """Uses names in lower case."""

    def place(self, name: str, number: int) -> str:
        return super().place(name.casefold(), number)


class ComposesCharacters(ReplacesSlashes):
    """Uses names in a normal form."""

    def place(self, name: str, number: int) -> str:
        return super().place(unicodedata.normalize("NFC", name), number)


class StripsDotsAndSpaces(ReplacesSlashes):
    """Removes the dots and spaces at the end of a name."""

    def place(self, name: str, number: int) -> str:
        return super().place(name.rstrip(". "), number)


class KeepsItsOwnSuffix(ReplacesSlashes):
    """Adds no suffix to a name that has it."""

    def place(self, name: str, number: int) -> str:
        return super().place(name.removesuffix(".bin"), number)


class CutsLongNames(ReplacesSlashes):
    """Uses only the first hundred characters of a name."""

    def place(self, name: str, number: int) -> str:
        return super().place(name[:100], number)


class IgnoresErrors(_Checked):
    """Omits tensors for which the system or its own check rejects the file name."""

    def put_all(self, tensors: Tensors, folder: Path) -> None:
        for name, data in tensors:
            with contextlib.suppress(OSError, ValueError, Refused):
                self.put(folder / self.checked(name), data)


class IgnoresErrorsOfFlatNames(ReplacesSlashes):
    """Replaces slashes, and omits tensors for which the system rejects the file name."""

    def put(self, path: Path, data: bytes) -> None:
        with contextlib.suppress(OSError, ValueError):
            super().put(path, data)


class KeepsTheFirstFile(JoinsNames):
    """Writes no file that exists already."""

    def put(self, path: Path, data: bytes) -> None:
        if not path.exists():
            super().put(path, data)


class LastTensorLost(SmallExporter):
    """Omits the last tensor of several."""

    def put_all(self, tensors: Tensors, folder: Path) -> None:
        super().put_all(tensors[:-1] or tensors, folder)


class WritesNothing(SmallExporter):
    """Reports success without writing."""

    def put(self, path: Path, data: bytes) -> None:
        pass


class RefusesDots(SmallExporter):
    """Refuses every name with a character other than a letter."""

    def place(self, name: str, number: int) -> str:
        if not name.isalpha():
            raise Refused("name")
        return super().place(name, number)


class WorksBesideTheFolder(SmallExporter):
    """Leaves a temporary file beside the folder."""

    def put_all(self, tensors: Tensors, folder: Path) -> None:
        super().put(folder.with_name("export.tmp"), b"")
        super().put_all(tensors, folder)


class RemovesTheSource(SmallExporter):
    """Removes the file after the export."""

    def export(self, path: Path, folder: Path) -> None:
        super().export(path, folder)
        path.unlink()


class EscapesBeforeItRefuses(JoinsNames):
    """Writes the files first, and then refuses names with parent folders."""

    def put_all(self, tensors: Tensors, folder: Path) -> None:
        super().put_all(tensors, folder)
        if any(".." in name for name, _ in tensors):
            raise Refused("name")


VARIANTS = named(globals(), "export", SmallExporter)
