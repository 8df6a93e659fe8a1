"""Reads and writes files with NumPy, using the function names of the official ``safetensors.numpy``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .arrays.buffers import Mode
from .arrays.numpy import LoadedArray, NumpyFramework
from .arrays.open import TensorFile
from .rules.book import ProfileName
from .rules.errors import memory_for
from .source import SourceLike
from .writing.numpy import save, save_file

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["NumpyFramework", "load", "load_file", "save", "save_file"]


def load(data: Buffer, profile: ProfileName = "hardened") -> dict[str, LoadedArray]:
    """Load every tensor from the bytes of a file. Raises the same errors as ``load_file``."""
    return load_file(data, profile=profile)


def load_file(
    what: SourceLike, mode: Mode = "copy", profile: ProfileName = "hardened"
) -> dict[str, LoadedArray]:
    """Load every tensor of a file.

    Args:
        what: a path, an object with the buffer protocol or a seekable binary file object.
        mode: ``copy`` reads into new memory; ``mmap`` returns views of the mapped file.
        profile: profile to use where readers may differ.

    Returns:
        A mapping of names to arrays of the logical shape, in header order. F4 and F6 tensors are returned as
        ``PackedTensor`` objects.

    Raises:
        InvalidFileError: the file breaks one or more rules.
        UnreadableError: the file cannot be read, or became shorter during the load.
        UnsupportedDtypeError: a tensor needs ml_dtypes, which is not installed; ``safe_open`` can read the
            other tensors.
    """
    with TensorFile(what, NumpyFramework(), mode, profile) as file:
        raw = file.data()
        # Tensors do not overlap (OFF-06), so writing to one does not change any other (DAT-07).
        with memory_for(f"{len(file):,} tensors"):
            return {
                info.name: file.framework.make(info, raw[info.begin : info.end])
                for info in file.header.tensors.values()
            }
