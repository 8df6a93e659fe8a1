"""Replacing a file as a whole: others see the old content or the new one, never a part (WRT-14, WRT-19).

The new content is built in a temporary file in the folder of the target and takes its place once it is on
the disk. So the target may be the very file, mapped or not, that the data come from. On Linux the temporary
file has no name while it is written (O_TMPFILE), so that nothing is left of a writer that is killed.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from ..rules.errors import SafetensorsError
from ..rules.faults import shown

Bytes = bytes | bytearray | memoryview

MAX_WRITE = 16 << 20
"""Largest write in bytes: an interrupt is answered after at most one of these."""
JOINED_BELOW = 64 << 10
"""Chunks below this size in bytes are joined: a system call for each small tensor would cost most of all."""
FLUSH_FROM = 1 << 20
"""Size in bytes at which joined chunks are written."""


_NAMELESS = getattr(os, "O_TMPFILE", 0)
FDS = Path("/proc/self/fd")
"""Folder in which the open files of this process have a path."""


class NotSavedError(SafetensorsError, OSError):
    """The operating system refused a step of saving; the target is as it was before (code IO_ERROR).

    ``errno`` says which error it was.
    """

    code = "IO_ERROR"
    rule = "WRT-19"


def write_file(path: str | os.PathLike[str], chunks: Iterable[Bytes]) -> None:
    """Write ``chunks``, one after the other, as the whole content of the file ``path``.

    A new file gets mode 0666 less the umask. An existing one keeps its mode, and its owner and group where
    the system permits; other hard links to it keep the old content. Symbolic links are followed and stay
    (WRT-15). The new content is on the disk when this returns.

    Whatever goes wrong, an exception from ``chunks`` or an interrupt included, the target stays untouched and
    no temporary file remains. After SIGKILL or a power loss a file ``.safetensors-*.tmp`` may remain beside
    the target: where the file system has no files without a name, and else between the two system calls that
    replace an old file. It is not used any more and may be deleted.

    Raises:
        NotSavedError: the target is not a regular file, is read-only, or cannot be written.
    """
    if not isinstance(path, str | os.PathLike):
        raise NotSavedError(f"not saved: not a path: {shown(path)}")
    try:
        target, old = _target(Path(path))
        # The name cannot be guessed, and O_EXCL ("x") follows no link that may have been put there.
        temporary = target.with_name(f".safetensors-{secrets.token_hex(16)}.tmp")
        try:
            with _create(target.parent, temporary, old) as file:
                for piece in _pieces(chunks):
                    _write(file, piece)
                if old is not None:
                    _take_over(file.fileno(), old)
                # Without this a power loss after the rename could leave an empty target.
                os.fsync(file.fileno())
                named = _enter(file, target, temporary, old)
            if named != target:
                temporary.replace(target)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
    except SafetensorsError:
        raise
    except OSError as err:
        raise not_saved(path, err) from err
    _sync_directory(target.parent)


def not_saved(path: str | os.PathLike[str], err: OSError) -> NotSavedError:
    """Return the error for what the operating system refused while ``path`` was saved."""
    error = NotSavedError(f"{os.fspath(path)}: not saved: {err.strerror or err}")
    error.errno = err.errno
    return error


def _target(path: Path) -> tuple[Path, os.stat_result | None]:
    try:
        old = path.stat()
    except FileNotFoundError:
        return path.resolve(), None
    except ValueError as err:  # a zero byte in the path
        raise NotSavedError(f"{path}: not saved: {err}") from err
    # Renaming over a device or a FIFO would put a regular file in its place.
    if not stat.S_ISREG(old.st_mode):
        raise NotSavedError(f"{path}: not saved: not a regular file")
    # Replacing needs no write permission on the file, but overwriting a read-only file would surprise.
    if not os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        raise PermissionError(errno.EACCES, "the existing file is read-only")
    return path.resolve(), old


def _create(folder: Path, path: Path, old: os.stat_result | None) -> BinaryIO:
    """Create a file without a name in ``folder``, or else ``path``, which must not exist yet.

    The kernel applies the umask.
    """
    # What replaces a private file must not be readable to others even while it is written.
    mode = 0o666 if old is None else 0o600
    if _NAMELESS and FDS.exists():
        # Where the kernel or the file system does not know the flag, each has another error for it.
        with suppress(OSError):
            return os.fdopen(os.open(folder, os.O_RDWR | os.O_CLOEXEC | _NAMELESS, mode), "wb", buffering=0)
    return open(path, "xb", buffering=0, opener=lambda name, flags: os.open(name, flags, mode))


def _enter(file: BinaryIO, target: Path, temporary: Path, old: os.stat_result | None) -> Path:
    """Give a file without a name one, and return the name that it has now.

    That is ``target`` if nothing is there yet: a name that is taken cannot be given, only renamed over.
    """
    if os.fstat(file.fileno()).st_nlink:
        return temporary
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for path in (target, temporary) if old is None else (temporary,):
            with suppress(FileExistsError):
                # Only with a folder's descriptor does Python follow the link that stands for the file.
                os.link(FDS / str(file.fileno()), path.name, dst_dir_fd=folder, follow_symlinks=True)
                return path
    finally:
        os.close(folder)
    raise FileExistsError(errno.EEXIST, "no free name for the temporary file")


def _take_over(fd: int, old: os.stat_result) -> None:
    """Give the new file the owner, group and mode of the old one; set-id bits are left out."""
    now = os.fstat(fd)
    if (now.st_uid, now.st_gid) != (old.st_uid, old.st_gid):
        # Only root may give a file away, but a member of a group may hand it to the group.
        for owner in (old.st_uid, -1):
            with suppress(PermissionError):
                os.fchown(fd, owner, old.st_gid)
                break
    os.fchmod(fd, stat.S_IMODE(old.st_mode) & 0o777)


def _pieces(chunks: Iterable[Bytes]) -> Iterator[Bytes]:
    joined = bytearray()
    for chunk in chunks:
        view = memoryview(chunk)
        small = len(view) < JOINED_BELOW
        if small:
            joined += view
        if joined and (not small or len(joined) >= FLUSH_FROM):
            yield joined
            joined = bytearray()
        if not small:
            for start in range(0, len(view), MAX_WRITE):
                yield view[start : start + MAX_WRITE]
    if joined:
        yield joined


def _write(file: BinaryIO, data: Bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def _sync_directory(path: Path) -> None:
    # The new file stands complete under its name; an error now would claim a failure that did not happen.
    with suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
