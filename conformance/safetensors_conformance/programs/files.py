"""Files for tested programs: copies of corpus files with neutral names, and scratch folders.

An implementation must derive its answer from the bytes, and it must not change the corpus or the next input.
Every folder is removed, regardless of what a program left in it.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import secrets
import stat
import tempfile
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from safetensors_corpus import Case, ManifestError

from .launcher import folder_in_memory

SHOWN_NAME = "file.safetensors"
"""Replaces the name of a copy in an implementation's messages, so that they are reproducible."""
_PAST_BLOCKS = (64 << 20) // 512
"""Maximum space for copies of past cases, in blocks. It is faster to remove all of them at the end."""
_NUMBERS = 10**6
_CHANGED = (0,)
_SINGLE_FILE_KINDS = frozenset({"read", "slice", "resource"})
"""Kinds of case whose input is a single file. The other kinds set up their own folder."""
_KIND_NAMES = {
    stat.S_ISLNK: "a symbolic link",
    stat.S_ISFIFO: "a FIFO",
    stat.S_ISDIR: "a folder",
    stat.S_ISSOCK: "a socket",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
}


class _Copy(NamedTuple):
    """The copy of an input. ``blocks`` is its size in blocks of 512 bytes."""

    path: str
    signature: tuple[int, ...]
    blocks: int


class _Folder:
    """A folder for copies, which is removed with this object."""

    def __init__(self, parent: str | None) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="safetensors-input-", dir=parent)).resolve()
        self._place = _place(self.path)
        self.remove = weakref.finalize(self, _remove_same, self.path, self._place)

    @property
    def intact(self) -> bool:
        return _place(self.path) == self._place


class Copies:
    """The copies for one implementation, which ``close`` removes. Only large ones are on a disk."""

    def __init__(self) -> None:
        self._folders: dict[bool, _Folder] = {}
        self._used_numbers: set[int] = set()
        self._shown: dict[str, _Copy] = {}
        self._past: deque[tuple[str, int]] = deque()
        self._past_blocks = 0

    def path(self, case: Case) -> str:
        """Return the path of a case's copy, or of its own folder in the corpus. Raises ManifestError."""
        if case.kind not in _SINGLE_FILE_KINDS:
            return str(case.path)
        known = self._shown.get(case.id)
        if known is None:
            known = self._shown[case.id] = self._new_copy(case)
        return known.path

    def shown(self, case: Case) -> Case:
        return _with_input(case, self.path(case)) if case.kind in _SINGLE_FILE_KINDS else case

    def _new_copy(self, case: Case) -> _Copy:
        folder = self._folders.get(case.heavy)
        if folder is not None and not folder.intact:
            self.close()
            folder = None
        if folder is None:
            folder = self._folders[case.heavy] = _Folder(None if case.heavy else folder_in_memory())
        # Sequential numbers would reveal the position of the case in the manifest.
        while (number := secrets.randbelow(_NUMBERS)) in self._used_numbers:
            pass
        self._used_numbers.add(number)
        path = f"{folder.path}/input-{number:06}.safetensors"
        try:
            case.copy_to(path)
            made = os.lstat(path)
        except OSError as err:
            raise ManifestError(f"the input of {case.id} cannot be copied: {err}") from err
        return _Copy(path, _signature_of(made), made.st_blocks)

    def change(self, case: Case) -> str:
        """Return how the copy of a case was changed, or an empty string."""
        shown = self._shown.get(case.id)
        if shown is None or (found := _signature(shown.path)) == shown.signature:
            return ""
        self._shown[case.id] = shown._replace(signature=_CHANGED)
        if not found:
            return "its input was removed"
        kind = next((what for is_it, what in _KIND_NAMES.items() if is_it(found[0])), "")
        if kind:
            return f"its input was replaced by {kind}"
        if not any("zeros" in part for part in case.input.recipe):
            with contextlib.suppress(ManifestError):
                _with_input(case, shown.path).read_input()  # only the timestamp changed; the bytes are intact
                self._shown[case.id] = shown._replace(signature=found)
                return ""
        return "its input was modified"

    def release(self, case: Case) -> None:
        """Release a copy. The most recent copies are kept, because requests on them may be replayed."""
        shown = self._shown.pop(case.id, None)
        if shown is None:
            return
        if shown.signature == _CHANGED:
            _unlink(shown.path)
            return
        self._past.append((shown.path, shown.blocks))
        self._past_blocks += shown.blocks
        while self._past_blocks > _PAST_BLOCKS:
            path, blocks = self._past.popleft()
            self._past_blocks -= blocks
            _unlink(path)

    def discard(self, case: Case) -> None:
        shown = self._shown.pop(case.id, None)
        if shown is not None:
            _unlink(shown.path)

    def without_own_path(self, text: str) -> str:
        for folder in self._folders.values():
            text = without(folder.path, text)
        return text

    def close(self) -> None:
        for folder in self._folders.values():
            folder.remove()
        self._folders.clear()
        self._shown.clear()
        self._past.clear()
        self._past_blocks = 0


def without(folder: Path, text: str) -> str:
    """Return a text of a program without the path of the harness's own folder."""
    if folder.name in text:  # the folder as given, or as the reader spells it
        pattern = rf"[^\s'\"()<>,;=]*{re.escape(folder.name)}/?"
        text = re.sub(pattern, "", text.replace(f"{folder}/", ""))
    return _NAMES.sub(SHOWN_NAME.partition(".")[0], text)


_NAMES = re.compile(r"\binput-\d{6}\b")


def _with_input(case: Case, path: str) -> Case:
    return replace(case, input=replace(case.input, file=Path(path)))


def _signature(path: str) -> tuple[int, ...]:
    try:
        return _signature_of(os.lstat(path))
    except OSError:
        return ()


def _signature_of(found: os.stat_result) -> tuple[int, ...]:
    return found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _unlink(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)  # noqa: PTH108 - thousands of them


def _place(folder: Path) -> tuple[int, int] | None:
    try:
        found = folder.lstat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISDIR(found.st_mode) else None


def _remove_same(folder: Path, place: tuple[int, int] | None) -> None:
    if _place(folder) in (place, None):
        remove(folder)


@contextmanager
def scratch_folder(purpose: str) -> Iterator[Path]:
    """Create an empty folder with ``purpose`` in its name for the duration of the block."""
    folder = Path(tempfile.mkdtemp(prefix=f"safetensors-{purpose}-"))
    removal = partial(remove, folder)
    atexit.register(removal)
    try:
        yield folder
    finally:
        atexit.unregister(removal)
        removal()


_HEADER = b'{"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}   '
VALID = len(_HEADER).to_bytes(8, "little") + _HEADER + b"*"
BROKEN = b""


@contextmanager
def small_files() -> Iterator[tuple[str, str]]:
    """Create a valid and a broken file for the duration of the block, and yield their paths."""
    with scratch_folder("small") as folder:
        paths = [folder / f"{name}.safetensors" for name in ("valid", "broken")]
        for path, content in zip(paths, (VALID, BROKEN), strict=True):
            path.write_bytes(content)
        yield str(paths[0]), str(paths[1])


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def remove(folder: Path) -> None:
    """Remove a folder and its contents as far as possible, without following links. Never raises.

    A program may still be running and may replace any folder by a link, so only open folders are used.
    """
    with contextlib.suppress(OSError):
        folder.unlink()
    try:
        top = os.open(folder, _FOLDER)
    except OSError:
        return
    try:
        waiting = _sweep(top, top)
        while waiting:
            name = waiting.pop()
            with contextlib.suppress(OSError):
                current = os.open(name, _FOLDER, dir_fd=top)
                try:
                    waiting += _sweep(current, top)
                finally:
                    os.close(current)
            for removal in (os.rmdir, os.unlink):  # a program may have put a link there
                with contextlib.suppress(OSError):
                    removal(name, dir_fd=top)
    finally:
        os.close(top)
    with contextlib.suppress(OSError):
        folder.rmdir()


def _sweep(folder: int, top: int) -> list[str]:
    """Remove the files of a folder, move its subfolders to ``top``, and return the names that these have."""
    moved = []
    for name in os.listdir(folder):
        try:
            os.unlink(name, dir_fd=folder)
        except OSError:  # a folder, which may be nested too deeply for recursion
            new = name if folder == top else secrets.token_hex(16)
            with contextlib.suppress(OSError):
                _make_removable(name, folder)
                if folder != top:
                    os.rename(name, new, src_dir_fd=folder, dst_dir_fd=top)
                moved.append(new)
    return moved


def _make_removable(name: str, folder: int) -> None:
    """Let the owner change a subfolder whose permissions a program removed, where this needs no path."""
    if not hasattr(os, "O_PATH"):
        return
    descriptor = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
    try:
        Path(f"/proc/self/fd/{descriptor}").chmod(0o700)
    finally:
        os.close(descriptor)
