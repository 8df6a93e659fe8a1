"""Check properties of a written file, other than its content, and of its folder."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from safetensors_reference import explain
from safetensors_reference.rules.dtypes import DTYPE_BITS
from safetensors_reference.source import read_whole
from safetensors_reference.text import quote

from .. import recipe
from ..actions import covered
from ..manifest import LARGEST_IN_MEMORY
from .answer import Flaw

MODE = 0o640
"""Permissions of an existing file at the target."""
FOREIGN = 8
"""Minimum length of a run of foreign bytes to search for, because shorter runs occur by chance."""

Save = Callable[[Any, Mapping[str, Any], Path], None]


class Property(NamedTuple):
    """A property that a case can require of a written file or folder after a save with these ``outcomes``.

    ``find_flaw`` receives the SavedFile or SavedFolder. It returns a description, or None if the property
    holds or cannot be checked because too much is broken.
    """

    meaning: str
    rules: tuple[str, ...]
    find_flaw: Callable[[Any], str | None]
    outcomes: tuple[str, ...] = ("accept",)


@dataclass(frozen=True)
class SavedFile:
    """A file after a save; ``before`` maps the files that existed before the save to their bytes."""

    outcome: str
    implementation: Any
    action: Mapping[str, Any]
    target: Path
    before: Mapping[str, bytes]
    save: Save

    @cached_property
    def data(self) -> bytes:
        return read_whole(self.target, LARGEST_IN_MEMORY)


def flaws_of_file(wanted: Sequence[str], saved: SavedFile) -> tuple[Flaw, ...]:
    """Return the flaws in the ``wanted`` properties after a save.

    Raises NotImplementedError for a property that cannot be checked with the implementation.
    """
    readable = saved.outcome == "accept"
    if readable:
        try:
            _ = saved.data
        except OSError:
            readable = False  # reported as a missing file
    # The checks that save again come last, because they change the folder.
    order = sorted(wanted, key=lambda name: name in ("deterministic", "idempotent"))
    return flaws_in({name: PROPERTIES[name] for name in order}, "accept" if readable else "reject", saved)


def flaws_in(properties: Mapping[str, Property], outcome: str, saved: Any) -> tuple[Flaw, ...]:
    checks = ((name, p.find_flaw(saved)) for name, p in properties.items() if outcome in p.outcomes)
    return tuple(Flaw(name, "", text) for name, text in checks if text is not None)


def snapshot(folder: Path) -> dict[str, bytes]:
    if not folder.exists():
        return {}
    return {path.name: data for path, data in read_files(p for p in sorted(folder.iterdir()) if p.is_file())}


def read_files(paths: Iterable[Path]) -> Iterator[tuple[Path, bytes]]:
    """Yield files with their bytes.

    The total is limited to ``LARGEST_IN_MEMORY``, because programs may write many files.
    """
    left = LARGEST_IN_MEMORY
    for path in paths:
        try:
            data = read_whole(path, left)
        # The file is too large or no longer regular. Yield the message in place of its bytes, so that the
        # file differs from every earlier one.
        except OSError as err:
            data = str(err).encode()
        left = max(left - len(data), 0)
        yield path, data


def _target_unchanged(saved: SavedFile) -> str | None:
    if saved.outcome == "accept":
        return None
    now = snapshot(saved.target.parent)
    for name in sorted({saved.target.name, *saved.before}):
        if now.get(name) != saved.before.get(name):
            if name not in saved.before:
                return "a rejected save leaves a file at the target"
            return "a rejected save " + ("changes" if name in now else "removes") + " the existing file"
    return None


def _one_file(saved: SavedFile) -> str | None:
    folder = saved.target.parent
    left = {p.name for p in folder.iterdir()} if folder.exists() else set()
    extra = sorted(left - {*saved.before, saved.target.name})
    return f"the save leaves another file in the folder: {quote(extra[0])}" if extra else None


def _one_save(saved: SavedFile) -> str | None:
    header = explain(saved.data, "official").header
    if header is None:
        return None
    start, storages = header.data_start, saved.action["storages"]
    found = {t.name: saved.data[start + t.begin : start + t.end] for t in header.tensors.values()}
    given = {t["name"]: recipe.expand(storages[t["storage"]]) for t in saved.action["tensors"]}
    if any(found == {name: given[name] for name in names} for names in saved.action["savers"]):
        return None
    return "the file differs from what each of the processes saved"


def _no_foreign_bytes(saved: SavedFile) -> str | None:
    windows = foreign_windows(saved.action)
    new = {n: d for n, d in snapshot(saved.target.parent).items() if d != saved.before.get(n)}
    leaks = any(window in data for data in new.values() for window in windows)
    return "the file contains bytes from memory that belongs to no tensor" if leaks else None


def foreign_windows(action: Mapping[str, Any]) -> set[bytes]:
    """Return all runs of ``FOREIGN`` bytes outside the tensors in the memory of a write action."""
    out: set[bytes] = set()
    for name, parts in action["storages"].items():
        memory = recipe.expand(parts)
        inside = bytearray(len(memory))
        for tensor in action["tensors"]:
            if tensor["storage"] == name:
                for place in covered(tensor, len(memory)):
                    inside[place] = 1
        for run in re.finditer(rb"\0{%d,}" % FOREIGN, bytes(inside)):
            out.update(memory[i : i + FOREIGN] for i in range(run.start(), run.end() - FOREIGN + 1))
    return out


def _deterministic(saved: SavedFile) -> str | None:
    # Repeat the save, because a map in random order can produce the same bytes by chance.
    for count in range(8):
        again = saved.target.with_name(f"again-{count}.safetensors")
        try:
            saved.save(saved.implementation, saved.action, again)
            data = read_whole(again, LARGEST_IN_MEMORY)
        except (NotImplementedError, MemoryError):
            raise
        except Exception as err:
            return f"saving the same input again fails: {type(err).__name__}"
        if data != saved.data:
            return "saving the same input again produces different bytes"
    return None


def _idempotent(saved: SavedFile) -> str | None:
    resave = getattr(saved.implementation, "resave", None)
    if resave is None:
        raise NotImplementedError("has no resave")
    data = saved.data
    try:
        resave(saved.target)
        same = read_whole(saved.target, LARGEST_IN_MEMORY) == data
    except (NotImplementedError, MemoryError):
        raise
    except Exception as err:
        return f"loading and saving the file again fails: {type(err).__name__}"
    return None if same else "loading and saving the file again changes it"


def _keeps_mode(saved: SavedFile) -> str | None:
    expected = MODE
    if not saved.before:
        umask = os.umask(0o022)
        os.umask(umask)
        expected = 0o666 & ~umask
    mode = stat.S_IMODE(saved.target.stat().st_mode)
    return None if mode == expected else f"the file has permissions {mode:04o} instead of {expected:04o}"


def _header_text(data: bytes) -> bytes:
    return data[8 : 8 + int.from_bytes(data[:8], "little")]


def _padded(saved: SavedFile) -> str | None:
    length = len(_header_text(saved.data))
    return None if length % 8 == 0 else f"the header has {length:,} bytes, which is not a multiple of 8"


def _aligned(saved: SavedFile) -> str | None:
    header = explain(saved.data, "official").header
    if header is None:
        return None
    for t in header.tensors.values():
        width = max(DTYPE_BITS[t.dtype] // 8, 1)
        if t.nbytes and (header.data_start + t.begin) % width:
            place = header.data_start + t.begin
            return (
                f"{quote(t.name)} begins at byte {place:,}, which is not a multiple of its element size "
                f"{width}"
            )
    return None


def _compact(saved: SavedFile) -> str | None:
    text = _header_text(saved.data).decode("utf-8", "replace").rstrip(" ")
    try:
        value = json.loads(text)
    except ValueError:
        return None
    compact = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    same = _one_spelling(compact) == _one_spelling(text)
    return None if same else "the header has spaces between tokens, or unnecessary escapes"


def _one_spelling(text: str) -> str:
    """Normalize escaped control characters, which have two JSON spellings. Escaping DEL is optional."""
    short = {"b": "0008", "t": "0009", "n": "000a", "f": "000c", "r": "000d"}

    def spelled(found: re.Match[str]) -> str:
        code = short.get(found[1], found[1][1:].lower())
        return (
            "\x7f" if code == "007f" else f"\\u{code}" if len(found[1]) > 1 or found[1] in short else found[0]
        )

    return re.sub(r"\\(u[0-9A-Fa-f]{4}|.)", spelled, text)


PROPERTIES: dict[str, Property] = {
    "header-padded": Property("the header is padded to a multiple of 8 bytes", ("WRT-02",), _padded),
    "aligned": Property("every tensor begins at a multiple of its element size", ("WRT-04",), _aligned),
    "compact-json": Property("the header has no spaces between its tokens", ("WRT-18",), _compact),
    "deterministic": Property(
        "saving the same input again produces the same bytes", ("WRT-12",), _deterministic
    ),
    "idempotent": Property("loading and saving the file again changes nothing", ("WRT-13",), _idempotent),
    "keeps-link": Property(
        "a symbolic link at the target remains a symbolic link",
        ("WRT-15",),
        lambda saved: (
            None if saved.target.is_symlink() else "a file replaced the symbolic link at the target"
        ),
    ),
    "keeps-mode": Property("the file has the usual permissions", ("WRT-15",), _keeps_mode),
    "no-foreign-bytes": Property(
        "the file contains only bytes of the given tensors and metadata",
        ("WRT-07", "WRT-08"),
        _no_foreign_bytes,
        outcomes=("accept", "reject"),
    ),
    "one-file": Property(
        "the save leaves no other files in the folder",
        ("WRT-19", "WRT-14", "WRT-21"),
        _one_file,
        outcomes=("accept", "reject"),
    ),
    "one-save": Property(
        "the file is complete and comes from one of the processes that save to it", ("WRT-21",), _one_save
    ),
    "target-unchanged": Property(
        "the existing file is unchanged", ("WRT-19",), _target_unchanged, outcomes=("accept", "reject")
    ),
}
"""Maps names to properties of a written file or its folder."""
