"""Opens files lazily: reads the header first, and then only the requested tensors (API-01 to API-19).

``safe_open`` opens them for any framework, with the same arguments as the official function.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypedDict, TypeVar, Unpack, overload

from ..header.model import Header, TensorInfo, show_shape
from ..header.read import header_of
from ..rules.book import ProfileName
from ..rules.errors import AccessError, NoSuchTensorError, memory_for
from ..source import Opened, SourceLike, Uncopied, open_source
from ..text import quote, quote_some, shown, shown_name
from .buffers import Mode, check_unchanged, map_file, read_range

if TYPE_CHECKING:
    from .numpy import LoadedArray
    from .torch import Device, LoadedTensor

T = TypeVar("T")
Made_co = TypeVar("Made_co", covariant=True)


class Framework(Protocol[Made_co]):
    """Creates tensors of an array library from bytes."""

    def make(self, info: TensorInfo, raw: memoryview) -> Made_co:
        """Return a tensor with the dtype and shape of ``info``, backed by the bytes of ``raw``."""
        ...


class RawFramework:
    """Returns the bytes of a tensor exactly as they are in the file."""

    def make(self, info: TensorInfo, raw: memoryview) -> memoryview:  # noqa: ARG002 - bytes have no dtype
        return raw


class TensorFile(Opened, Generic[T]):
    """An open safetensors file, usable as a context manager. Tensors stay valid after the file is closed.

    Opening the file validates the whole header (OFF-15). In ``copy`` mode, every returned tensor owns its
    memory, and AccessError is raised if the file was truncated or rewritten. In ``mmap`` mode, tensors whose
    alignment permits it are private, writable views of the mapped file. In this mode, the file must not be
    truncated while any of these tensors exists.
    """

    def __init__(
        self,
        what: SourceLike,
        framework: Framework[T],
        mode: Mode = "copy",
        profile: ProfileName = "hardened",
    ) -> None:
        """Open and validate a file. Raises InvalidFileError, UnreadableError or AccessError."""
        if not isinstance(mode, str) or mode not in ("copy", "mmap"):
            raise AccessError(f"mode must be 'copy' or 'mmap', not {shown(mode)}")
        self.framework = framework
        self._map: memoryview | None = None
        self._closed = False
        self._source = open_source(what)
        try:
            self._header = header_of(self._source, profile)
            if mode == "mmap":
                self._map = map_file(self._source)
        except BaseException:
            self._source.close()
            raise

    @property
    def header(self) -> Header:
        return self._header

    def metadata(self) -> dict[str, str] | None:
        return None if self._header.metadata is None else dict(self._header.metadata)

    def keys(self) -> list[str]:
        return list(self._header.tensors)

    def offset_keys(self) -> list[str]:
        return [info.name for info in self._header.in_offset_order()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._header.tensors)

    def __len__(self) -> int:
        return len(self._header.tensors)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._header.tensors

    def info(self, name: str) -> TensorInfo:
        """Return the header entry of a tensor without reading its data (API-19). Raises NoSuchTensorError."""
        try:
            return self._header.tensors[name]
        except (KeyError, TypeError):
            raise NoSuchTensorError(f"{self._source.name}: no tensor {shown(name)}") from None

    def get_tensor(self, name: str) -> T:
        """Read one tensor. Raises NoSuchTensorError, UnsupportedDtypeError, AccessError, UnreadableError."""
        info = self.info(name)
        with memory_for(f"{self._source.name}: tensor {quote(name)}"):
            return self.framework.make(info, self._bytes(info, 0, info.nbytes))

    def get_slice(self, name: str) -> TensorSlice[T]:
        """Return an object that is indexed like a NumPy array and reads only the requested part (API-05)."""
        return TensorSlice(self, self.info(name))

    def take(self, info: TensorInfo, index: object) -> T:
        with memory_for(f"{self._source.name}: tensor {quote(info.name)}"):
            from .slicing import take  # imports NumPy, which other operations do not need

            shape, data = take(info, index, lambda start, count: self._bytes(info, start, count))
            part = TensorInfo(info.name, info.dtype, shape, 0, data.nbytes)
            return self.framework.make(part, data.data)

    def data(self) -> memoryview:
        """Return the whole data buffer, either copied or mapped."""
        whole = TensorInfo("", "U8", (self._header.data_size,), 0, self._header.data_size)
        with memory_for(f"{self._source.name}: {self._header.data_size:,} bytes of data"):
            return self._bytes(whole, 0, self._header.data_size)

    def _bytes(self, info: TensorInfo, start: int, count: int) -> memoryview:
        if self._closed:
            raise AccessError(f"{self._source.name}: the file is closed", "API_CLOSED", "API-10")
        at = self._header.data_start + info.begin + start
        if self._map is None:
            return read_range(self._source, at, count)
        check_unchanged(self._source)
        return self._map[at : at + count]

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open"
        tensors = quote_some(self._header.tensors)
        return f"<TensorFile {shown_name(self._source.name)}: {state}, tensors: {tensors}>"

    def close(self) -> None:
        self._closed = True
        self._map = None
        self._source.close()


class TensorSlice(Uncopied, Generic[T]):
    """A tensor of an open file that can be read in parts."""

    def __init__(self, file: TensorFile[T], info: TensorInfo) -> None:
        self._file = file
        self._info = info

    def __repr__(self) -> str:
        info = self._info
        return f"<TensorSlice {quote(info.name)}: {info.dtype} {show_shape(info.shape)}>"

    def get_shape(self) -> list[int]:
        return list(self._info.shape)

    def get_dtype(self) -> str:
        return self._info.dtype

    def __getitem__(self, index: Any) -> T:
        return self._file.take(self._info, index)


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
