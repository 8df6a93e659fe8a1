"""Replaces a file atomically: readers see the old or the new content, never a mixture (WRT-14, WRT-19).

The new content is written to a temporary file in the same folder. The temporary file replaces the target only
when all of its content is on disk. The data may therefore come from the target itself, even if the target is
mapped. On Linux, the temporary file has no name while it is written (O_TMPFILE), so a process that is killed
leaves nothing behind.
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
from ..text import shown

Bytes = bytes | bytearray | memoryview

MAX_WRITE = 16 << 20
JOINED_BELOW = 64 << 10
FLUSH_FROM = 1 << 20


_NAMELESS = getattr(os, "O_TMPFILE", 0)
FDS = Path("/proc/self/fd")
SYSTEM = ("/dev", "/dev/fd", "/proc/self/fd")
"""Folders in which a link leads to a stream of this process."""


class NotSavedError(SafetensorsError, OSError):
    """Raised if the operating system fails to save a file (code IO_ERROR).

    ``errno`` gives the reason. The target is unchanged.
    """

    code = "IO_ERROR"
    rule = "WRT-19"


def write_file(path: str | os.PathLike[str], chunks: Iterable[Bytes]) -> None:
    """Write ``chunks`` as the whole content of the file ``path``.

    A new file gets mode 0666 minus the umask. An existing file keeps its mode and, if the system permits it,
    its owner and group. Other hard links keep the old content. If the path is a symbolic link, the file that
    it refers to is replaced, and the link is kept (WRT-15). When the function returns, the new content is on
    disk.

    After any error, including an interrupt or an exception from ``chunks``, the target is unchanged and no
    temporary file remains. After SIGKILL or a power loss, a file ``.safetensors-*.tmp`` may remain beside the
    target. This happens only if the file system does not support unnamed files, or if the process stopped
    between the two system calls that replace an old file. The remaining file can be deleted.

    Raises:
        NotSavedError: the target is not a regular file, is read-only, or cannot be written.
    """
    if not isinstance(path, str | os.PathLike):
        raise NotSavedError(f"not saved: not a path: {shown(path)}")
    try:
        target, old = _target(Path(path))
        # The name cannot be guessed, and O_EXCL ("x") does not follow a link that somebody planted.
        temporary = target.with_name(f".safetensors-{secrets.token_hex(16)}.tmp")
        try:
            with _create(target.parent, temporary, old) as file:
                for piece in _pieces(chunks):
                    _write(file, piece)
                if old is not None:
                    _copy_owner_and_mode(file.fileno(), old)
                # Without this call, a power loss after the rename could leave an empty target.
                os.fsync(file.fileno())
                named = _link(file, target, temporary, old)
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


def write_report(path: Path, text: str) -> None:
    """Write ``text`` to a file (replaced atomically), or to a pipe or device. Raises NotSavedError."""
    if path.is_symlink() and os.path.dirname(os.path.abspath(path)) not in SYSTEM:  # noqa: PTH100, PTH120 - as spelled
        # In a shared folder, somebody could plant a link that redirects the output.
        raise NotSavedError(f"{path}: not saved because it is a symbolic link; give its target instead")
    if path.is_file() or not path.exists():
        write_file(path, [text.encode()])
        return
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.set_blocking(fd, True)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as err:
        if err.errno == errno.ENXIO:
            raise NotSavedError(f"{path}: not saved because no program is reading from the pipe") from err
        raise not_saved(path, err) from err


def not_saved(path: str | os.PathLike[str], err: OSError) -> NotSavedError:
    error = NotSavedError(f"{os.fspath(path)}: not saved: {err.strerror or err}")
    error.errno = err.errno
    return error


def _target(path: Path) -> tuple[Path, os.stat_result | None]:
    try:
        old = path.stat()
    except FileNotFoundError:
        return path.resolve(), None
    except ValueError as err:  # the path contains a null byte
        raise NotSavedError(f"{path}: not saved: {err}") from err
    # A rename would replace a device or a FIFO with a regular file.
    if not stat.S_ISREG(old.st_mode):
        raise NotSavedError(f"{path}: not saved because it is not a regular file")
    # Replacing a file does not require permission to write to it, but users do not expect a read-only file to
    # change.
    if not os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        raise PermissionError(errno.EACCES, "the existing file is read-only")
    return path.resolve(), old


def _create(folder: Path, path: Path, old: os.stat_result | None) -> BinaryIO:
    """Create an unnamed file in ``folder`` or, if that fails, the new file ``path``."""
    # The kernel applies the umask. The file that will replace a private file must be private too, even while
    # it is being written.
    mode = 0o666 if old is None else 0o600
    if _NAMELESS and FDS.exists():
        # Kernels and file systems that do not support the flag fail with various errors.
        with suppress(OSError):
            return os.fdopen(os.open(folder, os.O_RDWR | os.O_CLOEXEC | _NAMELESS, mode), "wb", buffering=0)
    return open(path, "xb", buffering=0, opener=lambda name, flags: os.open(name, flags, mode))


def _link(file: BinaryIO, target: Path, temporary: Path, old: os.stat_result | None) -> Path:
    """Name an unnamed file ``target`` or, since only a rename can replace an old file, ``temporary``."""
    if os.fstat(file.fileno()).st_nlink:
        return temporary
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for path in (target, temporary) if old is None else (temporary,):
            with suppress(FileExistsError):
                # Python follows the link in /proc only if a folder descriptor is passed as well.
                os.link(FDS / str(file.fileno()), path.name, dst_dir_fd=folder, follow_symlinks=True)
                return path
    finally:
        os.close(folder)
    raise FileExistsError(errno.EEXIST, "the temporary file could not be given a name")


def _copy_owner_and_mode(fd: int, old: os.stat_result) -> None:
    now = os.fstat(fd)
    if (now.st_uid, now.st_gid) != (old.st_uid, old.st_gid):
        # Only root may change the owner, but the owner of a file may set its group to any group that they
        # belong to.
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
    # The file is already complete, so an error at this point must not be reported as a failure.
    with suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
