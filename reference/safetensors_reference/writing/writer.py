"""Lays out files from named bytes (rules WRT-01 to WRT-20), without using an array library.

Before any data is read, ``plan`` checks everything and determines the header. The data is then read one
tensor at a time.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import TypeVar

from ..header.entries import U64_MAX
from ..header.explain import RESERVED
from ..header.model import show_shape
from ..header.read import framing_fault
from ..rules.book import HEADER_CAP
from ..rules.dtypes import DTYPE_BITS
from ..rules.errors import SafetensorsError, WriteError, reason
from ..text import plural, quote, shown
from .atomic import Bytes

T = TypeVar("T")
ALIGNMENT = 8

FILE_ORDER = tuple(DTYPE_BITS)[::-1]
"""Order of dtypes in the file (WRT-03). This order aligns every tensor (WRT-04)."""
_RANK = {code: rank for rank, code in enumerate(FILE_ORDER)}


@dataclass(frozen=True, slots=True)
class DeferredBytes:
    """Bytes that ``load`` creates on demand, so only one copy exists at a time."""

    nbytes: int
    load: Callable[[], Bytes]


@dataclass(frozen=True, slots=True)
class TensorData:
    """A tensor to write: its logical shape (DTY-10), and row-major, little-endian data (DAT-01)."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: Bytes | DeferredBytes


@dataclass(frozen=True, slots=True)
class FilePlan:
    """The checked plan of a file: the length prefix with the header, and the tensors in byte order."""

    head: bytes
    tensors: tuple[TensorData, ...]

    def chunks(self) -> Iterator[Bytes]:
        """Yield the file as buffers, without copying tensors. Raises WriteError if a size is wrong."""
        yield self.head
        for tensor in self.tensors:
            with tensor_errors(tensor.name):
                data = tensor.data if isinstance(tensor.data, Bytes) else tensor.data.load()
            view = _view(tensor.name, data)
            if view.nbytes != _size(tensor.data):
                raise _size_mismatch(tensor, view.nbytes)
            yield view

    def to_bytes(self) -> bytes:
        # Joining the chunks would keep all deferred copies in memory at the same time.
        out = io.BytesIO()
        for chunk in self.chunks():
            out.write(chunk)
        return out.getvalue()


def tensor_data(
    tensors: Mapping[str, T], describe_tensor: Callable[[str, T], TensorData]
) -> Iterator[TensorData]:
    try:
        pairs = [(name, tensor) for name, tensor in tensors.items()]
    except (AttributeError, TypeError, ValueError) as err:
        text = f"tensors must be a mapping of names to tensors, not {type(tensors).__name__}"
        raise WriteError(text, "WRT_BAD_NAME", "WRT-10") from err
    for name, tensor in pairs:
        with tensor_errors(name):
            data = describe_tensor(name, tensor)
        yield data


@contextmanager
def tensor_errors(name: object) -> Iterator[None]:
    """Convert any exception that an array library raises for a tensor to a WriteError (API-14)."""
    try:
        yield
    except (SafetensorsError, MemoryError):
        raise
    except Exception as err:
        text = f"its elements cannot be read ({reason(err)})"
        raise tensor_error(name, text, "WRT_NOT_CONTIGUOUS", "WRT-07") from err


def plan(tensors: Iterable[TensorData], metadata: Mapping[str, str] | None = None) -> FilePlan:
    """Lay out a file, independently of the order of the arguments (WRT-12). Raises WriteError."""
    rows: list[tuple[int, bytes, TensorData]] = []
    names: set[str] = set()
    for tensor in tensors:
        raw = check_name(tensor.name)
        if tensor.name in names:
            text = f"there are two tensors with the name {quote(tensor.name)}"
            raise WriteError(text, "WRT_BAD_NAME", "HDR-09")
        names.add(tensor.name)
        if not isinstance(tensor.dtype, str) or tensor.dtype not in _RANK:
            raise unsupported_dtype(tensor.name, f"the format has no dtype {shown(tensor.dtype, 40)}")
        with tensor_errors(tensor.name):
            _check_size(tensor)
        rows.append((_RANK[tensor.dtype], raw, tensor))
    rows.sort(key=lambda row: row[:2])
    ordered = tuple(row[2] for row in rows)
    return FilePlan(_head(ordered, metadata), ordered)


def _head(tensors: tuple[TensorData, ...], metadata: Mapping[str, str] | None) -> bytes:
    members: list[str] = []
    if metadata is not None:
        members.append(f"{_string(RESERVED)}:{_metadata(metadata)}")
    end = 0
    for tensor in tensors:
        begin, end = end, end + _size(tensor.data)
        shape = ",".join(map(str, tensor.shape))
        fields = f'"dtype":"{tensor.dtype}","shape":[{shape}],"data_offsets":[{begin},{end}]'
        members.append(f"{_string(tensor.name)}:{{{fields}}}")
    header = ("{" + ",".join(members) + "}").encode()
    header += b" " * (-len(header) % ALIGNMENT)
    prefix = len(header).to_bytes(8, "little")
    # a header that is too long is the only possible fault
    if framing_fault(prefix, 8 + len(header)) is not None:
        text = f"the header would have {len(header):,} bytes, but readers accept at most {HEADER_CAP:,} bytes"
        raise WriteError(text, "WRT_HEADER_OVER_LIMIT", "WRT-11")
    return prefix + header


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _metadata(metadata: Mapping[str, str]) -> str:
    if not isinstance(metadata, Mapping):
        text = f"metadata must be a mapping of strings, not {type(metadata).__name__}"
        raise WriteError(text, "WRT_BAD_METADATA", "WRT-10")
    rows: list[tuple[bytes, str]] = []
    for key, value in metadata.items():
        raw = _encode(key, "metadata key", "WRT_BAD_METADATA")
        _encode(value, f"metadata value of {quote(key)}", "WRT_BAD_METADATA")
        rows.append((raw, f"{_string(key)}:{_string(value)}"))
    rows.sort()
    return "{" + ",".join(text for _, text in rows) + "}"


def _encode(text: object, label: str, code: str) -> bytes:
    if not isinstance(text, str):
        raise WriteError(f"{label} must be a string, not {type(text).__name__}", code, "WRT-10")
    try:
        return text.encode()
    except UnicodeEncodeError as err:
        at = f"the lone surrogate U+{ord(text[err.start]):04X} at character {err.start:,}"
        raise WriteError(f"{label} cannot be encoded as UTF-8: {at}", code, "WRT-10") from None


def check_name(name: object) -> bytes:
    """Return a tensor name as UTF-8. Raises WriteError if the name cannot be written (WRT-06, WRT-10)."""
    raw = _encode(name, "a tensor name", "WRT_BAD_NAME")
    if name == RESERVED:
        raise WriteError(f"the name {RESERVED} is reserved for metadata", "WRT_BAD_NAME", "WRT-06")
    return raw


def _check_size(tensor: TensorData) -> None:
    elements = 1
    for dim in tensor.shape:
        if type(dim) is not int or dim < 0:
            text = f"a dimension is {shown(dim, 40)}, but it must be a whole number of at least 0"
            raise tensor_error(tensor.name, text, "WRT_SIZE_MISMATCH", "WRT-17")
        # Even if one dimension is 0, readers may reject the file if the product of the others overflows
        # (SHP-06).
        elements *= dim or 1
        if dim > U64_MAX or elements > U64_MAX:
            text = "the product of the nonzero dimensions does not fit into 64 bits"
            raise tensor_error(tensor.name, text, "SHP_OVERFLOW", "WRT-20")
    bits = 0 if 0 in tensor.shape else elements * DTYPE_BITS[tensor.dtype]
    if bits > U64_MAX:
        text = "the size in bits does not fit into 64 bits"
        raise tensor_error(tensor.name, text, "SHP_OVERFLOW", "WRT-20")
    size = _size(tensor.data)
    if bits != 8 * size:
        raise _size_mismatch(tensor, size)
    if isinstance(tensor.data, Bytes):
        _view(tensor.name, tensor.data)


def _size_mismatch(tensor: TensorData, found: int) -> WriteError:
    bits = prod(tensor.shape) * DTYPE_BITS[tensor.dtype]
    need = f"{bits:,} bits, which is not a whole number of bytes" if bits % 8 else plural(bits // 8, "byte")
    text = f"{tensor.dtype} {show_shape(tensor.shape)} needs {need}, but the data has {plural(found, 'byte')}"
    return tensor_error(tensor.name, text, "WRT_SIZE_MISMATCH", "WRT-17")


def _size(data: Bytes | DeferredBytes) -> int:
    return memoryview(data).nbytes if isinstance(data, Bytes) else data.nbytes


def _view(name: str, data: Bytes) -> memoryview:
    view = memoryview(data)
    if view.nbytes == 0:
        return memoryview(b"")
    try:
        return view.cast("B")
    except TypeError as err:
        text = f"the buffer is not contiguous: {err}"
        raise tensor_error(name, text, "WRT_NOT_CONTIGUOUS", "WRT-07") from None


def tensor_error(name: object, reason: str, code: str, rule: str) -> WriteError:
    return WriteError(f"tensor {shown(name)}: {reason}", code, rule)


def unsupported_dtype(name: object, reason: str) -> WriteError:
    return tensor_error(name, reason, "WRT_UNSUPPORTED_DTYPE", "WRT-09")
