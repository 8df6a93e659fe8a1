"""Prepare the folder of an export, and check what the export did inside and outside that folder."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from safetensors_reference.source import read_whole
from safetensors_reference.text import quote, shorten

from ..manifest import ROOT_MARK, Case
from .answer import Flaw

TARGET = "one/two/three/export"
"""Folder of the export. Names with up to three ``..`` remain inside the directory of the case."""
KEPT = "outside/kept"
OUTSIDE, COMPLETE, PORTABLE = "outside", "complete", "portable"
EXPORT_PROPERTIES = {
    OUTSIDE: ("EXP-01", "nothing outside the folder of an export changes"),
    COMPLETE: ("EXP-02", "an export writes every tensor"),
    PORTABLE: ("EXP-03", "every system can store the names of exported files"),
}
"""Maps each property of an export to the rule that requires it and to its description."""
MAX_ENTRIES, MAX_BYTES = 20_000, 64 << 20
"""Maximum number of files and folders that are examined, and of bytes. Programs may write endlessly."""
_UNPORTABLE = re.compile(r'[\x00-\x1f<>:"|?*\\]|[. ]\Z')
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]) *(\..*)?", re.IGNORECASE | re.DOTALL)

Entries = Mapping[str, bytes]
"""Relative path of everything below a directory -> its kind and its bytes or target."""


def set_up_export(case: Case, folder: Path) -> tuple[Path, Path]:
    """Create the input, the target folder and the other files of the case.

    Returns the paths of the input and the target.
    """
    source, target = case.set_up(folder), folder / TARGET
    data = source.read_bytes()
    if ROOT_MARK in data:
        size = int.from_bytes(data[:8], "little")
        root = json.dumps(str(folder.resolve()))[1:-1].encode()
        header = data[8 : 8 + size].rstrip(b" ").replace(ROOT_MARK, root)
        header += b" " * (-len(header) % 8)
        source.write_bytes(len(header).to_bytes(8, "little") + header + data[8 + size :])
    target.mkdir(parents=True)
    (folder / KEPT).parent.mkdir()
    (folder / KEPT).write_bytes(b"This file belongs to another program.\n")
    for link, to in (case.action or {})["links"].items():
        (target / link).symlink_to(folder.resolve() / to)
    return source, target


def entries(root: Path) -> Entries:
    """Return everything below a directory, including the folder of the export. Raises OSError."""
    return {**_below(root, root), **_below(root, root / TARGET)}


def _below(root: Path, top: Path) -> Entries:
    """Return everything below ``top``, but skip the contents of an export folder that is inside ``top``."""
    if not stat.S_ISDIR(top.lstat().st_mode):  # a program may have replaced it by a link to any folder
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(top))
    out: dict[str, bytes] = {}
    waiting, left = [top], MAX_BYTES
    while waiting:  # a program may nest folders too deeply for recursion
        with os.scandir(waiting.pop()) as found:
            for entry in found:
                path = Path(entry.path)
                if entry.is_symlink():
                    value = b"link " + os.fsencode(path.readlink())
                elif entry.is_dir():
                    value = b"folder"
                    if path != root / TARGET:
                        waiting.append(path)
                elif entry.is_file():
                    left -= entry.stat(follow_symlinks=False).st_size
                    if left < 0:
                        raise OSError(f"the files contain more than {MAX_BYTES:,} bytes")
                    value = b"file " + read_whole(path, MAX_BYTES)
                else:
                    value = b"neither a file nor a folder"
                out[path.relative_to(root).as_posix()] = value
                if len(out) > MAX_ENTRIES:
                    raise OSError(f"there are more than {MAX_ENTRIES:,} files and folders")
    return out


def flaws_of_export(root: Path, before: Entries, action: Mapping[str, Any], *, refused: bool) -> list[Flaw]:
    """Return at most one flaw for each rule on exports."""
    try:
        around = _below(root, root)
    except OSError as err:  # before the export, everything around its folder could be read
        return [_flaw(OUTSIDE, f"it changes something outside the folder of the export: {_why(err, root)}")]
    if outside := _outside(before, around):
        return [outside]  # tensors that are missing from the folder may be a consequence
    if refused:
        return []  # threads of the program may still create and remove files in the folder
    try:
        now = _below(root, root / TARGET) if TARGET in around else {}
    except OSError as err:
        return [_flaw(COMPLETE, f"what it writes cannot be read: {_why(err, root)}")]
    files = {
        path.removeprefix(f"{TARGET}/"): value
        for path, value in now.items()
        if before.get(path) != value and value.startswith(b"file ")
    }
    flaws = (_complete(files, action["contents"]), next(_unportable(files), None))
    return [flaw for flaw in flaws if flaw is not None]


def _why(err: OSError, root: Path) -> str:
    return shorten(str(err).replace(str(root), "@ROOT@"), 200)


def _flaw(of: str, text: str) -> Flaw:
    return Flaw(of, EXPORT_PROPERTIES[of][0], text)


def _outside(before: Entries, now: Entries) -> Flaw | None:
    for path in sorted({*before, *now}):
        removed = path not in now
        # A program may replace or remove the folder itself, but not by a link.
        if path.startswith(f"{TARGET}/") or (path == TARGET and removed) or before.get(path) == now.get(path):
            continue
        verb = "removes" if removed else "changes" if path in before else "creates"
        return _flaw(OUTSIDE, f"it {verb} {quote(path)} outside the folder of the export")
    return None


def _complete(files: Entries, contents: list[str]) -> Flaw | None:
    if not files:
        return _flaw(COMPLETE, "it reports success but writes no file")
    found = sum(any(bytes.fromhex(data) in value for value in files.values()) for data in contents)
    # If the files contain no tensor as it is, their format converts or compresses the bytes.
    if 0 < found < len(contents):
        return _flaw(COMPLETE, f"the files contain the bytes of only {found} of {len(contents)} tensors")
    return None


def _unportable(files: Entries) -> Iterator[Flaw]:
    seen: dict[str, str] = {}
    for path in sorted(files):
        for part in path.split("/"):
            if _UNPORTABLE.search(part) or _RESERVED.fullmatch(part):
                yield _flaw(PORTABLE, f"some systems cannot store the file name {quote(part)}")
        plain = unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())
        if plain in seen:
            names = f"{quote(seen[plain])} and {quote(path)}"
            yield _flaw(PORTABLE, f"some file systems do not distinguish {names}")
        seen[plain] = path
