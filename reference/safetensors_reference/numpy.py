"""Reading and writing with NumPy, with the names of the official ``safetensors.numpy``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .arrays.lazy import TensorFile, load_all
from .arrays.numpy import LoadedArray, NumpyFramework
from .buffers import Mode
from .rules.book import ProfileName
from .source import SourceLike
from .writing.numpy import save, save_file

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["NumpyFramework", "load", "load_file", "save", "save_file"]


def load(data: Buffer, profile: ProfileName = "hardened") -> dict[str, LoadedArray]:
    """Load every tensor of a file in memory; errors as in ``load_file``."""
    return load_file(data, profile=profile)


def load_file(
    what: SourceLike, mode: Mode = "copy", profile: ProfileName = "hardened"
) -> dict[str, LoadedArray]:
    """Load every tensor of a file.

    Args:
        what: path, object with the buffer protocol or seekable binary file object.
        mode: ``copy`` into new memory, or ``mmap`` for views of the mapped file.
        profile: profile that decides where readers may differ.

    Returns:
        name -> array of the logical shape, in header order; ``PackedTensor`` for F4 and F6.

    Raises:
        InvalidFileError: the file breaks rules.
        UnreadableError: it cannot be read, or became shorter during the load.
        UnsupportedDtypeError: a tensor needs ml_dtypes, which is missing; ``safe_open`` reads the others.
    """
    with TensorFile(what, NumpyFramework(), mode, profile) as file:
        return load_all(file)
