"""Reading and writing with torch. The names are those of the official library's ``safetensors.torch``."""

from __future__ import annotations

import torch

from .arrays.lazy import TensorFile
from .arrays.torch_views import TorchTensor, make, make_views
from .buffers import Mode
from .header.model import TensorInfo, rows
from .rules.book import ProfileName
from .source import SourceLike
from .writing.torch import save, save_file

__all__ = ["TorchFramework", "load", "load_file", "save", "save_file"]


class TorchFramework:
    """Makes torch tensors on the CPU.

    F4 becomes torch's packed type with the last dimension halved where that is even; F6, and F4 otherwise,
    become ``PackedTensor``.
    """

    def make(self, info: TensorInfo, raw: memoryview) -> TorchTensor:
        """Return a tensor over the bytes; they are copied when their address does not suit the dtype."""
        data = torch.frombuffer(raw, dtype=torch.uint8) if len(raw) else torch.empty(0, dtype=torch.uint8)
        return make(info.name, info.dtype, info.shape, data)


def load(data: bytes | bytearray | memoryview, profile: ProfileName = "hardened") -> dict[str, TorchTensor]:
    """Load every tensor of a file in memory. Raises as ``load_file`` does."""
    return load_file(data, profile=profile)


def load_file(
    what: SourceLike, mode: Mode = "copy", profile: ProfileName = "hardened"
) -> dict[str, TorchTensor]:
    """Load every tensor of a file on the CPU.

    Args:
        what: path, bytes-like object or seekable binary file object.
        mode: ``copy`` into memory of its own, or ``mmap`` for views of the mapped file.
        profile: whose options to take where readers legitimately differ.

    Returns:
        name -> tensor, in header order. All share one storage without overlapping.

    Raises:
        InvalidFileError: the file breaks rules.
        UnreadableError: it cannot be read, or became shorter meanwhile.
        UnsupportedDtypeError: a tensor's dtype has no type in this torch; ``safe_open`` reads the others.
    """
    with TensorFile(what, TorchFramework(), mode, profile) as file:
        raw = file.data()
        data = torch.frombuffer(raw, dtype=torch.uint8) if len(raw) else torch.empty(0, dtype=torch.uint8)
        return make_views(rows(file.header.tensors), data)
