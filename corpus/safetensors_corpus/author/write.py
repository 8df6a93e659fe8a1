"""Builders for a save: tensors as views of memory, metadata, the target and the expected files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from safetensors_reference.rules.dtypes import DTYPE_BITS

from .. import recipe
from ..actions import starts
from ..judging.content import dtype_features, tensor_row
from .file import Builder, FileBuilder, pattern, size_of, stored_file
from .index import IndexBuilder, numbered

SPELLED = 4096
"""Maximum length of a string that the manifest contains literally. Longer strings are given in parts."""


@dataclass(frozen=True)
class Text:
    """A string that is too long for the manifest, as the parts of a recipe."""

    parts: tuple[dict[str, Any], ...]


@dataclass
class TensorView:
    """A tensor in the memory of the program that saves it."""

    name: Any
    dtype: str
    shape: list[int]
    storage: str
    offset: int
    strides: list[int] | None
    byteorder: str
    nbytes: int | None


@dataclass
class WriteBuilder(Builder):
    """Collects the arguments of a save.

    Attributes:
        target: destination of the file, as defined in the manifest schema.
        properties: properties that the file must have in addition to its content, as defined in the schema.
        file_size_limit: maximum file size in bytes that the system allows, or None.
        before: the file at the target, for targets that exist before the save.
        count_only: True to check only the number of tensors; a list would make the manifest too large.
    """

    target: str = "new"
    properties: list[str] = field(default_factory=list)
    file_size_limit: int | None = None
    before: FileBuilder = field(default_factory=FileBuilder)
    count_only: bool = False
    _storages: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    _given: list[TensorView] = field(default_factory=list)
    _metadata: Any = None
    _contents: dict[str | None, tuple[list[str], dict[str, str] | None]] = field(default_factory=dict)

    def storage(self, name: str, data: bytes | list[dict[str, Any]]) -> None:
        """Add memory for tensors, given as bytes or as the parts of a recipe."""
        self._storages[name] = recipe.from_bytes(data) if isinstance(data, bytes) else data

    def tensor(
        self,
        name: Any,
        dtype: str = "F32",
        shape: list[int] | None = None,
        data: bytes | None = None,
        *,
        storage: str | None = None,
        offset: int = 0,
        strides: list[int] | None = None,
        byteorder: str = "little",
        nbytes: int | None = None,
    ) -> None:
        """Pass a tensor to the writer.

        Args:
            name: its name, or an object that the writer must reject.
            dtype: dtype code of the format, or an element type that the format does not have.
            shape: dimensions in elements.
            data: bytes of new memory; by default, ``storage`` or a pattern of the right size.
            storage: name of existing memory.
            offset: position of the first element in the storage, in bytes.
            strides: distance in bytes between neighbours along each dimension; None for contiguous row-major
                order.
            byteorder: byte order of the elements in memory.
            nbytes: number of bytes to pass, if it differs from the number that dtype and shape imply. Only
                writers that accept buffers support this argument.
        """
        shape = [2] if shape is None else shape
        if storage is None:
            storage = (
                name if isinstance(name, str) and len(name) < SPELLED and name.isprintable() else "memory"
            )
            while storage in self._storages:
                storage += "'"
            if data is None:
                data = pattern(storage, size_of(dtype, shape) if dtype in DTYPE_BITS else 16)
            self.storage(storage, data)
        self._given.append(TensorView(name, dtype, shape, storage, offset, strides, byteorder, nbytes))

    def metadata(self, metadata: Any) -> None:
        """Pass metadata to the writer, which must reject everything except a map of strings."""
        self._metadata = metadata

    def expect(self, *names: str, metadata: dict[str, str] | None = None, option: str | None = None) -> None:
        self._contents[option] = (list(names), metadata)

    def content(self, option: str | None = None) -> dict[str, Any]:
        if self.target == "input":
            return self.before.content()
        if self.count_only:
            return {"tensor_count": len(self._given)}
        names, metadata = self._contents.get(option) or self._contents.get(None) or (None, self._metadata)
        rows = [
            tensor_row(g.name, g.dtype, g.shape, self._gather(g))
            for g in self._given
            if names is None or g.name in names
        ]
        return {"tensors": rows, "metadata": metadata}

    def _gather(self, given: TensorView) -> bytes:
        """Collect the bytes of a tensor in row-major order with little-endian elements."""
        memory = recipe.expand(self._storages[given.storage])
        if given.strides is None and given.byteorder == "little":
            data = memory[given.offset : given.offset + size_of(given.dtype, given.shape)]
            if len(data) != size_of(given.dtype, given.shape):
                raise ValueError(f"{given.name!r} is not completely inside its storage")
            return data
        width = DTYPE_BITS[given.dtype] // 8
        out = bytearray()
        for start in starts(vars(given), width):
            element = memory[start : start + width]
            if start < 0 or len(element) != width:
                raise ValueError(f"{given.name!r} is not completely inside its storage")
            if given.byteorder == "big":  # reverse the element, or both parts of a complex number
                element = element[3::-1] + element[:3:-1] if given.dtype == "C64" else element[::-1]
            out += element
        return bytes(out)

    def features(self) -> list[str]:
        if self.target == "input":
            return self.before.features()
        return dtype_features(g.dtype for g in self._given if g.dtype in DTYPE_BITS)

    def stored(self, case_id: str) -> tuple[dict[str, Any] | None, dict[str, bytes]]:
        if self.target in ("new", "missing-folder"):
            return None, {}
        return stored_file(f"files/{case_id}.safetensors", self.before.render())

    def action(self) -> dict[str, Any]:
        tensors = [{**vars(given), "name": _spelled(given.name)} for given in self._given]
        for row in tensors:
            if row["nbytes"] is None:
                del row["nbytes"]
        metadata = self._metadata
        out: dict[str, Any] = {
            "do": "write",
            "storages": self._storages,
            "tensors": tensors,
            "metadata": recipe.spelled_map(metadata, _spelled) if isinstance(metadata, Mapping) else metadata,
            "target": self.target,
        }
        if self.file_size_limit is not None:
            out["file_size_limit"] = self.file_size_limit
        return out

    def demanded(self, option: str | None = None) -> list[str]:  # noqa: ARG002 - the same for every option
        return self.properties


def _spelled(value: Any) -> Any:
    if isinstance(value, Text):
        return {"parts": list(value.parts)}
    if not isinstance(value, str):
        return value
    if len(value) > SPELLED:
        return {"parts": recipe.from_bytes(value.encode("utf-8", "surrogatepass"))}
    return recipe.spelled(value)


@dataclass
class ShardedBuilder(WriteBuilder):
    """Collects the arguments of a sharded save, and the files that already exist.

    ``under`` maps options to additional properties.
    """

    max_shard_size: int = 32
    folder: IndexBuilder = field(default_factory=IndexBuilder)
    under: dict[str, list[str]] = field(default_factory=dict)

    def tensors(self, names: Sequence[str]) -> None:
        for name in names:
            self.tensor(name, "F32", [4])

    def earlier(self, *shards: Sequence[str]) -> None:
        """Put an earlier model into the folder; each of ``shards`` lists the tensor names of one shard."""
        names = [numbered(number, len(shards)) for number in range(1, len(shards) + 1)]
        for name, tensors in zip(names, shards, strict=True):
            self.folder.shard(name, *tensors)
        placed = zip(names, shards, strict=True)
        self.folder.index({tensor: name for name, tensors in placed for tensor in tensors})

    def content(self, option: str | None = None) -> dict[str, Any]:
        return {**super().content(option), "metadata": None}

    def stored(self, case_id: str) -> tuple[dict[str, Any] | None, dict[str, bytes]]:
        return self.folder.stored(case_id) if self.folder.named_files() else (None, {})

    def action(self) -> dict[str, Any]:
        given = {key: value for key, value in super().action().items() if key != "target"}
        return {**given, "do": "sharded", "max_shard_size": self.max_shard_size}

    def demanded(self, option: str | None = None) -> list[str]:
        return [*self.properties, *self.under.get(option or "", ())]


@dataclass
class ContendedBuilder(WriteBuilder):
    """Collects the saves of several processes to one target."""

    _savers: list[list[str]] = field(default_factory=list)

    def saver(self, *names: str) -> None:
        """Save these tensors in a separate process."""
        self._savers.append(list(names))

    def content(self, option: str | None = None) -> dict[str, Any]:  # noqa: ARG002 - the same for every option
        # It is a matter of chance which process saves last, so "one-save" compares the tensors.
        return {"tensor_count": len(self._savers[0])}

    def action(self) -> dict[str, Any]:
        return {**super().action(), "do": "contended", "savers": self._savers}

    def demanded(self, option: str | None = None) -> list[str]:  # noqa: ARG002 - the same for every option
        return ["one-save", "one-file"]
