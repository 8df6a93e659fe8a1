"""``safe_open``: opens files lazily for any framework, with the same arguments as the official function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

from ..rules.book import ProfileName
from ..rules.errors import AccessError
from ..source import SourceLike
from ..text import shown
from .buffers import Mode
from .lazy import RawFramework, TensorFile

if TYPE_CHECKING:
    from .numpy import LoadedArray
    from .torch import Device, LoadedTensor


class _How(TypedDict, total=False):
    mode: Mode
    profile: ProfileName


@overload
def safe_open(
    what: SourceLike, framework: Literal["np", "numpy"] = "np", device: Device = "cpu", **how: Unpack[_How]
) -> TensorFile[LoadedArray]: ...
@overload
def safe_open(
    what: SourceLike,
    framework: Literal["pt", "torch", "pytorch"],
    device: Device = "cpu",
    **how: Unpack[_How],
) -> TensorFile[LoadedTensor]: ...
@overload
def safe_open(
    what: SourceLike, framework: Literal["raw"], device: Device = "cpu", **how: Unpack[_How]
) -> TensorFile[memoryview]: ...
@overload
def safe_open(
    what: SourceLike, framework: str, device: Device = "cpu", **how: Unpack[_How]
) -> TensorFile[Any]: ...
def safe_open(
    what: SourceLike,
    framework: str = "np",
    device: Device = "cpu",
    *,
    mode: Mode = "copy",
    profile: ProfileName = "hardened",
) -> TensorFile[Any]:
    """Open a file lazily.

    Args:
        what: a path, an object with the buffer protocol or a seekable binary file object.
        framework: ``"np"`` (NumPy), ``"pt"`` (torch) or ``"raw"`` (memoryviews).
        device: device for torch tensors; the other frameworks accept only ``"cpu"``. Each tensor is read into
            memory and then copied. ``safetensors_reference.device`` loads whole files faster.
        mode: ``copy`` reads into new memory, ``mmap`` returns views of the mapped file.
        profile: profile to use where readers may differ.

    Raises:
        InvalidFileError: the file breaks one or more rules.
        UnreadableError: the file cannot be read.
        AccessError: the framework, device, mode or profile is unknown or not available.
    """
    if isinstance(framework, str):
        if framework in ("pt", "torch", "pytorch"):
            from .torch import TorchFramework

            return TensorFile(what, TorchFramework(device), mode, profile)
        if framework in ("np", "numpy", "raw"):
            kind = getattr(device, "type", device)  # also accepts a torch.device
            if not isinstance(kind, str) or kind != "cpu":
                text = "other devices need framework 'pt'"
                raise AccessError(f"device must be 'cpu' for {shown(framework)}, not {shown(device)}: {text}")
            if framework == "raw":
                return TensorFile(what, RawFramework(), mode, profile)
            from .numpy import NumpyFramework

            return TensorFile(what, NumpyFramework(), mode, profile)
    raise AccessError(f"framework must be 'np', 'pt' or 'raw', not {shown(framework)}")
