"""Find the corpus: plain files in a checkout, or an archive in a wheel that is unpacked on first use."""

from __future__ import annotations

import atexit
import errno
import functools
import gzip
import hashlib
import io
import os
import shutil
import sys
import tarfile
import tempfile
import zlib
from pathlib import Path

from .document import ManifestError

ARCHIVE = "corpus.tar.gz"
"""Name of the archive in the package folder of a wheel, which ``hatch_build.py`` creates."""


@functools.cache
def corpus_root() -> Path:
    """Return the folder of ``corpus.json``. Raises ManifestError if the archive cannot be unpacked."""
    package = Path(__file__).resolve().parent
    archive = package / ARCHIVE
    return unpacked(archive) if archive.exists() else package.parent


def unpacked(archive: Path) -> Path:
    """Unpack an archive into the user's cache, unless it is there already, and return its folder.

    If the cache is unusable, unpacks the archive into a temporary folder. Raises ManifestError.
    """
    from filelock import FileLock

    cache = Path("~/.cache")
    try:
        cache = cache_root()
        with archive.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        folder = cache / "corpus" / digest
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        owner = folder.parent.stat()
        if owner.st_uid != os.getuid() or owner.st_mode & 0o022:
            raise PermissionError(0, "other users can change its folder 'corpus'")
        # Other processes see the folder only when it is complete.
        with FileLock(f"{folder}.lock"):
            if not (folder / "corpus.json").is_file():
                partial = folder.with_suffix(".part")
                shutil.rmtree(partial, ignore_errors=True)
                try:
                    _unpack(archive, partial)
                    if folder.is_dir():  # somebody removed a part of it
                        shutil.rmtree(folder)
                    partial.rename(folder)
                except BaseException:
                    shutil.rmtree(partial, ignore_errors=True)
                    raise
    except OSError as err:
        print(
            f"{cache}: {err.strerror or err}; the corpus is unpacked into a temporary folder, and STC_CACHE "
            "selects another cache folder",
            file=sys.stderr,
        )
        try:
            folder = temporary_folder() / "corpus"
            _unpack(archive, folder)
        except OSError as second:
            raise ManifestError(f"{archive} cannot be unpacked: {second}") from second
    return folder


def cache_root() -> Path:
    """Return the cache folder of the user, or the folder that STC_CACHE names.

    Raises OSError if the user has no home folder.
    """
    from platformdirs import user_cache_path

    given = os.environ.get("STC_CACHE")
    try:
        return Path(given).absolute() if given else user_cache_path("safetensors-conformance")
    except RuntimeError as err:
        raise FileNotFoundError(errno.ENOENT, "the user has no home folder") from err


@functools.cache
def temporary_folder() -> Path:
    """Create a folder that this process removes when it exits."""
    folder = Path(tempfile.mkdtemp(prefix="safetensors-corpus-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _unpack(archive: Path, folder: Path) -> None:
    try:
        # Decompress everything first, because only that compares the checksum. tarfile stops at a bad header.
        data = gzip.decompress(archive.read_bytes())
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as packed:
            packed.extractall(folder, filter="data")
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError) as err:
        raise ManifestError(f"{archive}: not a usable archive ({err}); install the package again") from err
