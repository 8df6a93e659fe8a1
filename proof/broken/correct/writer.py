"""A small and correct writer. Every step is a method, so that a variant can replace it.

It shares neither code nor tables with the reference writer. It accepts buffers as well as views, copies
elements that are not contiguous, swaps the bytes of big-endian elements, and stores a copy of each tensor
that shares memory.
"""

from __future__ import annotations

import itertools
import json
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from safetensors_corpus.in_process import GivenTensor

from .reader import WIDTHS

CAP = 100_000_000
RESERVED = "__metadata__"


class RefusedError(Exception):
    """The tensors or the metadata cannot be written."""


@dataclass
class Row:
    """A tensor that is ready to be written."""

    name: str
    dtype: str
    shape: Sequence[int]
    data: bytes


class SmallWriter:
    """Writes files with ``write``, and loads and saves them again with ``resave``.

    ``only_heavy`` is true for a variant whose fault shows only in files as large as the header cap.
    """

    only_heavy = False

    def write(self, path: Path, tensors: Sequence[GivenTensor], metadata: Any) -> None:
        """Save ``tensors`` and ``metadata`` at ``path``. Raises RefusedError and OSError."""
        self.store(path, self.file(self.rows(tensors), self.checked_metadata(metadata)))

    def resave(self, path: Path) -> None:
        """Load the file and save its content to the same path, without its metadata."""
        rows = self.loaded(path.read_bytes())
        self.store(path, self.file(rows, None))

    def loaded(self, data: bytes) -> list[Row]:
        start = 8 + int.from_bytes(data[:8], "little")
        out = []
        for name, entry in json.loads(data[8:start]).items():
            if name != RESERVED:
                begin, end = entry["data_offsets"]
                out.append(Row(name, entry["dtype"], entry["shape"], data[start + begin : start + end]))
        return out

    # The input

    def rows(self, tensors: Sequence[GivenTensor]) -> list[Row]:
        """Check every tensor and collect its bytes."""
        out = [Row(self.name(t.name), self.dtype(t), t.shape, self.data(t)) for t in tensors]
        self.distinct([row.name for row in out])
        return out

    def distinct(self, names: Sequence[str]) -> None:
        if len(set(names)) != len(names):
            raise RefusedError("a name appears twice")

    def text(self, value: Any) -> str:
        if not isinstance(value, str):
            raise RefusedError(f"not a string: {value!r}")
        value.encode()
        return value

    def name(self, value: Any) -> str:
        self.reserved(value)
        return self.text(value)

    def reserved(self, value: Any) -> None:
        if value == RESERVED:
            raise RefusedError("the name is reserved")

    def checked_metadata(self, metadata: Any) -> dict[str, str] | None:
        if metadata is None:
            return None
        if not isinstance(metadata, Mapping):
            raise RefusedError("the metadata is not a map")
        return {self.metadata_key(key): self.metadata_value(value) for key, value in metadata.items()}

    def metadata_key(self, value: Any) -> str:
        return self.text(value)

    def metadata_value(self, value: Any) -> str:
        return self.text(value)

    def dtype(self, tensor: GivenTensor) -> str:
        if tensor.dtype not in WIDTHS:
            raise RefusedError(f"no dtype for {tensor.dtype}")
        return tensor.dtype

    def data(self, tensor: GivenTensor) -> bytes:
        """Return the elements of a tensor, little-endian and row-major."""
        size = self.size(tensor)
        if tensor.strides is None and tensor.byteorder == "little":
            return self.contiguous(tensor, size if tensor.nbytes is None else tensor.nbytes)
        width = WIDTHS[tensor.dtype] // 8
        elements = [self.element(tensor, start, width) for start in self.places(tensor, width)]
        if tensor.byteorder == "big":
            elements = [self.swapped(element, tensor.dtype) for element in elements]
        return b"".join(elements)

    def size(self, tensor: GivenTensor) -> int:
        """Return the size of a tensor in bytes. Raises RefusedError for a buffer of the wrong size."""
        bits = self.bits(tensor)
        if bits % 8 or tensor.nbytes not in (None, bits // 8):
            raise RefusedError("the size of the buffer does not match the shape")
        return bits // 8

    def bits(self, tensor: GivenTensor) -> int:
        return prod(tensor.shape) * WIDTHS[tensor.dtype]

    def contiguous(self, tensor: GivenTensor, size: int) -> bytes:
        return bytes(tensor.storage[tensor.offset : tensor.offset + size])

    def places(self, tensor: GivenTensor, width: int) -> list[int]:
        """Return the position of each element in row-major order."""
        strides = self.strides(tensor, width)
        grid = itertools.product(*(range(n) for n in tensor.shape))
        return [tensor.offset + sum(i * s for i, s in zip(at, strides, strict=True)) for at in grid]

    def strides(self, tensor: GivenTensor, width: int) -> Sequence[int]:
        """Return the distance in bytes between neighbours along each dimension."""
        if tensor.strides is not None:
            return tensor.strides
        return [width * prod(tensor.shape[i + 1 :]) for i in range(len(tensor.shape))]

    def element(self, tensor: GivenTensor, start: int, width: int) -> bytes:
        return bytes(tensor.storage[start : start + width])

    def swapped(self, element: bytes, dtype: str) -> bytes:
        """Swap the bytes of an element; a complex number consists of two numbers."""
        if dtype == "C64":
            return element[3::-1] + element[:3:-1]
        return element[::-1]

    # The file

    def file(self, rows: list[Row], metadata: dict[str, str] | None) -> bytes:
        ordered = self.order(rows)
        header = self.padded(self.header(ordered, metadata))
        self.within_cap(header)
        return self.length(header) + header + b"".join(row.data for row in ordered)

    def order(self, rows: list[Row]) -> list[Row]:
        """Sort the tensors: wide elements first, packed elements last, then by name."""
        return sorted(rows, key=lambda row: (-WIDTHS.get(row.dtype, 8), row.name))

    def header(self, rows: list[Row], metadata: dict[str, str] | None) -> bytes:
        members: dict[str, Any] = {}
        if metadata is not None:
            members[RESERVED] = self.metadata_order(metadata)
        end = self.first_offset(rows)
        for row in rows:
            begin, end = end, end + len(row.data)
            entry = {"dtype": row.dtype, "shape": self.shape(row), "data_offsets": [begin, end]}
            members[self.written_name(row.name)] = entry
        return self.json(members)

    def first_offset(self, rows: list[Row]) -> int:  # noqa: ARG002 - for variants
        return 0

    def shape(self, row: Row) -> list[int]:
        return list(row.shape)

    def written_name(self, name: str) -> str:
        return name

    def metadata_order(self, metadata: dict[str, str]) -> dict[str, str]:
        return dict(sorted(metadata.items()))

    def json(self, members: Mapping[str, Any]) -> bytes:
        return json.dumps(members, ensure_ascii=False, separators=(",", ":")).encode()

    def padded(self, header: bytes) -> bytes:
        return header + b" " * (-len(header) % 8)

    def within_cap(self, header: bytes) -> None:
        if len(header) > CAP:
            raise RefusedError("the header is too long")

    def length(self, header: bytes) -> bytes:
        return len(header).to_bytes(8, "little")

    def store(self, path: Path, data: bytes) -> None:
        """Write a new file beside the target and rename it, so that the target is replaced atomically."""
        target = path.resolve()
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
        temporary = target.with_name(self.temporary_name(target))
        try:
            self.put(temporary, data)
            if mode is not None:
                temporary.chmod(mode)
            temporary.replace(target)
        except BaseException:
            self.clean(temporary)
            raise

    def temporary_name(self, target: Path) -> str:
        """Return a name that no other process uses at the same time."""
        return f"{target.name}.{os.getpid()}.part"

    def put(self, path: Path, data: bytes) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        with os.fdopen(fd, "wb") as file:
            file.write(data)

    def clean(self, temporary: Path) -> None:
        temporary.unlink(missing_ok=True)
