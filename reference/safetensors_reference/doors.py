"""``safe_open``: the lazy door for every framework, under the official library's name."""

from __future__ import annotations

from typing import Any

from .arrays.lazy import RawFramework, TensorFile
from .buffers import Mode
from .rules.book import ProfileName
from .rules.errors import AccessError
from .rules.faults import shown
from .source import SourceLike


def safe_open(
    what: SourceLike, framework: str = "np", mode: Mode = "copy", profile: ProfileName = "hardened"
) -> TensorFile[Any]:
    """Open a file lazily for ``framework`` ``"np"`` (NumPy), ``"pt"`` (torch) or ``"raw"`` (memoryviews).

    Raises InvalidFileError, UnreadableError, or AccessError for an unknown framework or mode.
    """
    if not isinstance(framework, str):
        raise AccessError(f"framework must be 'np', 'pt' or 'raw', not {shown(framework)}")
    if framework in ("np", "numpy"):
        from .arrays.numpy import NumpyFramework

        return TensorFile(what, NumpyFramework(), mode, profile)
    if framework in ("pt", "torch", "pytorch"):
        from .arrays.torch import TorchFramework

        return TensorFile(what, TorchFramework(), mode, profile)
    if framework == "raw":
        return TensorFile(what, RawFramework(), mode, profile)
    raise AccessError(f"framework must be 'np', 'pt' or 'raw', not {shown(framework)}")
