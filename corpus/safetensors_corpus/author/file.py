"""Builders for files that are valid except for chosen faults, and for expensive inputs.

Each builder records the calls made on it. It derives the expected content from this record, and never by
reading the file.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from safetensors_reference.rules.dtypes import DTYPE_BITS

from .. import recipe
from ..judging.content import dtype_features, tensor_row

MAX_FILE = 64 * 1024
"""Maximum size of a stored file in bytes. Larger inputs become recipes."""
USUAL_FILE = 2 * 1024
"""Inputs above this size become recipes if the recipe has at most ``LONG_RECIPE`` characters."""
LONG_RECIPE = 1024
HEAVY = 1 << 20
"""Input size in bytes above which a case is heavy."""


@dataclass
class Builder(ABC):
    """Base class of builders. The fields of ``budget`` are ``seconds``, ``peak_bytes`` and ``read_bytes``."""

    budget: dict[str, float] = field(default_factory=dict, kw_only=True)

    @abstractmethod
    def features(self) -> list[str]:
        """Return the features that an implementation needs to run the case, such as ``dtype-f4``."""

    @abstractmethod
    def stored(self, case_id: str) -> tuple[dict[str, Any] | None, dict[str, bytes]]:
        """Return the value of ``input`` for the manifest, and the files to store by relative path."""

    @abstractmethod
    def content(self, option: str | None = None) -> dict[str, Any]:
        """Return the expected content, which depends on ``option`` if the case has a choice."""

    def action(self) -> dict[str, Any] | None:
        return None

    def demanded(self, option: str | None = None) -> list[str]:  # noqa: ARG002 - few kinds have options
        return []


def stored_file(path: str, data: bytes, *, numbered: bool = False) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the value of ``input`` for a single file, and the file if it is small enough to store."""
    if len(data) <= USUAL_FILE:
        return {"file": path, **digest(data)}, {path: data}
    described = stored_recipe(data, numbered=numbered)
    spelled = len(json.dumps(described["recipe"]))
    if spelled > LONG_RECIPE and len(data) <= MAX_FILE:
        return {"file": path, **digest(data)}, {path: data}
    if spelled > MAX_FILE:
        raise ValueError(
            f"{len(data):,} bytes have no runs that are long enough for a recipe; use repeated data"
        )
    return described, {}


def stored_recipe(data: bytes, *, numbered: bool = False) -> dict[str, Any]:
    """Return the value of ``input`` for a file that the manifest describes and that is not stored."""
    return {"recipe": recipe.from_bytes(data, numbered=numbered), **digest(data)}


def digest(data: bytes) -> dict[str, Any]:
    return {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}


def json_text(value: object) -> str:
    """Return compact JSON without escaping non-ASCII characters, as the official writer does."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def size_of(dtype: str, shape: Sequence[int]) -> int:
    """Return the size of a tensor in bytes. Raises ValueError if the size is not a whole number of bytes."""
    bits = prod(shape) * DTYPE_BITS[dtype]
    if bits % 8:
        raise ValueError(
            f"{dtype} {list(shape)} has {bits} bits, which is not a whole number of bytes; pass the data"
        )
    return bits // 8


def pattern(name: str, size: int) -> bytes:
    """Return bytes from 0x01 to 0x3c that depend on the name and form finite numbers in every float dtype."""
    seed = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    return bytes((seed[i % 32] + 7 * i + i // 60) % 60 + 1 for i in range(size))


def filled(name: str, dtype: str, size: int) -> bytes:
    """Return ``pattern``, but only zeros and ones for BOOL.

    The format leaves open how readers handle other bytes in BOOL tensors (DAT-05).
    """
    data = pattern(name, size)
    return bytes(b & 1 for b in data) if dtype == "BOOL" else data


@dataclass
class TensorRecord:
    """A tensor that the builder recorded."""

    name: str
    dtype: str
    shape: list[int]
    data: bytes
    seen_by: frozenset[str] | None
    views: dict[str, bytes]
    names: dict[str, str]


@dataclass
class FileBuilder(Builder):
    """Collects header members and data; ``render`` returns the file.

    Attributes to set directly:
        before: bytes in the header before the opening brace.
        padding: bytes in the header after the closing brace. With None, spaces pad the header to a
            multiple of 8.
        length: wrong length prefix.
        prefix: bytes before the whole file.
        trailer: bytes after the data buffer.
        header: bytes of the whole header, which replace the members and the padding.
        cut: number of bytes removed from the end of the file.
        separator: JSON punctuation between members, including whitespace.
        numbered: whether the recipe of a large file may generate members named t0, t1 and so on with a
            counter.
    """

    before: bytes = b""
    padding: bytes | None = None
    length: int | None = None
    prefix: bytes = b""
    trailer: bytes = b""
    header: bytes | None = None
    cut: int = 0
    separator: str = ","
    numbered: bool = False
    _members: list[bytes] = field(default_factory=list)
    _data: bytearray = field(default_factory=bytearray)
    _tensors: list[TensorRecord] = field(default_factory=list)
    _metadata: dict[str, str] | None = None
    _metadata_views: dict[str, dict[str, str] | None] = field(default_factory=dict)

    @property
    def position(self) -> int:
        return len(self._data)

    @property
    def header_size(self) -> int:
        return len(self._text())

    def tensor(
        self,
        name: str,
        dtype: str = "F32",
        shape: Sequence[int] = (2,),
        data: bytes | None = None,
        *,
        begin: int | None = None,
        end: int | None = None,
        key: str | None = None,
        fields: Mapping[str, str | None] | None = None,
        order: Sequence[str] = ("dtype", "shape", "data_offsets"),
        value: str | None = None,
        at: int | None = None,
        seen_by: Sequence[str] | None = None,
        views: Mapping[str, bytes] | None = None,
        names: Mapping[str, str] | None = None,
    ) -> None:
        """Add a tensor as a header member, and append its bytes to the data buffer.

        Args:
            name: the name that readers must report.
            dtype: dtype code, which is written unchanged.
            shape: logical dimensions, which are written unchanged.
            data: content; by default, ``pattern`` of the right size.
            begin: wrong begin offset to declare. The position of the bytes does not change.
            end: wrong end offset to declare.
            key: JSON text of the key, including the quotes.
            fields: maps field names to the JSON text of their values; None omits the field. Other names add
                unknown fields.
            order: order of the three fields.
            value: JSON text of the whole entry.
            at: position among the header members; by default, the end. The bytes are always appended.
            seen_by: options of the choice under which readers see this tensor; by default, all options.
            views: maps options to the bytes that readers return under them instead of ``data``.
            names: maps options to the name that readers report under them instead of ``name``.
        """
        if data is None:
            data = self.default_data(name, dtype, shape)
        start = self.position
        self._data += data
        begin = start if begin is None else begin
        end = start + len(data) if end is None else end
        texts: dict[str, str | None] = {
            "dtype": json_text(dtype),
            "shape": json_text(list(shape)),
            "data_offsets": json_text([begin, end]),
        }
        texts = {name: texts[name] for name in order}
        texts.update(fields or {})
        if value is None:
            value = "{" + ",".join(f'"{k}":{v}' for k, v in texts.items() if v is not None) + "}"
        member = f"{json_text(name) if key is None else key}:{value}".encode()
        self._members.insert(len(self._members) if at is None else at, member)
        seen = None if seen_by is None else frozenset(seen_by)
        self._tensors.append(
            TensorRecord(name, dtype, list(shape), bytes(data), seen, dict(views or {}), dict(names or {}))
        )

    def tensors(self, names: Iterable[str], dtype: str, shape: Sequence[int]) -> None:
        """Add a tensor of the same dtype and shape under each name."""
        for name in names:
            self.tensor(name, dtype, shape)

    def default_data(self, name: str, dtype: str, shape: Sequence[int]) -> bytes:
        return filled(name, dtype, size_of(dtype, shape))

    def gap(self, count: int, fill: int = 0) -> None:
        """Append ``count`` bytes that belong to no tensor to the data buffer."""
        self._data += bytes([fill]) * count

    def metadata(
        self,
        mapping: Mapping[str, str] | None,
        *,
        raw: str | bytes | None = None,
        key: str = '"__metadata__"',
        at: int | None = None,
        views: Mapping[str, dict[str, str] | None] | None = None,
    ) -> None:
        """Add the metadata member.

        Args:
            mapping: the metadata that readers must report, or None if they must report no metadata.
            raw: JSON text of the value.
            key: JSON text of the key, including the quotes.
            at: position among the header members; by default, the end.
            views: maps options to the metadata that readers report under them.
        """
        self.member(key, json_text(mapping) if raw is None else raw, at=at)
        self._metadata = None if mapping is None else dict(mapping)
        self._metadata_views = dict(views or {})

    def member(self, key: str | bytes, value: str | bytes, at: int | None = None) -> None:
        """Add a header member as JSON text. The expected content does not include it."""
        raw = b":".join(text.encode() if isinstance(text, str) else text for text in (key, value))
        self._members.insert(len(self._members) if at is None else at, raw)

    def render(self) -> bytes:
        header = self.header
        if header is None:
            body = self._text()
            padding = b" " * (-len(body) % 8) if self.padding is None else self.padding
            header = body + padding
        length = len(header) if self.length is None else self.length
        out = self.prefix + length.to_bytes(8, "little") + header + bytes(self._data) + self.trailer
        return out[: len(out) - self.cut] if self.cut else out

    def _text(self) -> bytes:
        return self.before + b"{" + self.separator.encode().join(self._members) + b"}"

    def content(self, option: str | None = None) -> dict[str, Any]:
        tensors = []
        for t in self._tensors:
            if t.seen_by is not None and option is not None and option not in t.seen_by:
                continue
            name, data = t.names.get(option or "", t.name), t.views.get(option or "", t.data)
            tensors.append(tensor_row(name, t.dtype, t.shape, data))
        return {"tensors": tensors, "metadata": self._metadata_views.get(option or "", self._metadata)}

    def tensor_named(self, name: str) -> TensorRecord:
        return {t.name: t for t in reversed(self._tensors)}[name]

    def features(self) -> list[str]:
        return dtype_features(t.dtype for t in self._tensors)

    def stored(self, case_id: str) -> tuple[dict[str, Any] | None, dict[str, bytes]]:
        return stored_file(f"files/{case_id}.safetensors", self.render(), numbered=self.numbered)


@dataclass
class RecipeBuilder(Builder):
    """Collects the parts of the header and the data; ``length`` is a wrong length prefix."""

    length: int | None = None
    _header: list[dict[str, Any]] = field(default_factory=list)
    _data: list[dict[str, Any]] = field(default_factory=list)
    _rows: list[dict[str, Any]] = field(default_factory=list)
    _dtypes: set[str] = field(default_factory=set)
    _count: int | None = None
    _asked: str | None = None

    def header(self, *parts: str | dict[str, Any]) -> None:
        self._header += [{"text": part} if isinstance(part, str) else part for part in parts]

    def data(self, *parts: bytes | dict[str, Any]) -> None:
        for part in parts:
            self._data += recipe.from_bytes(part) if isinstance(part, bytes) else [part]

    @property
    def header_size(self) -> int:
        return recipe.size(self._header)

    def fill_header(self, size: int, unit: str, ending: str, separator: str = "") -> int:
        """Add as many items as fit into a header of ``size`` bytes, then ``ending`` and spaces.

        ``unit`` is the text of an item. Its fields ``{i}`` and ``{next}`` stand for the numbers of this item
        and the next item. Returns the number of items. Raises ValueError if no item fits.
        """
        room = size - self.header_size - len(ending.encode())

        def items(count: int) -> dict[str, Any]:
            if "{i}" in unit or "{next}" in unit:
                return {"each": unit, "count": count, "separator": separator}
            return {"repeat": {"text": unit + separator}, "count": count}

        low, high = 0, room
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if recipe.size([items(middle)]) <= room else (low, middle - 1)
        if not low:
            raise ValueError(f"a header of {size:,} bytes is too small for {unit[:40]!r}")
        self.header(items(low), ending)
        self.pad_header(size)
        return low

    def pad_header(self, size: int) -> None:
        missing = size - self.header_size
        if missing < 0:
            raise ValueError(f"the header is already {-missing:,} bytes longer than {size:,} bytes")
        if missing:
            self._header.append({"repeat": {"text": " "}, "count": missing})

    def align_header(self) -> None:
        self.pad_header(-(-self.header_size // 8) * 8)

    def expect(self, name: str, dtype: str, shape: list[int], data: bytes) -> None:
        self._rows.append(tensor_row(name, dtype, shape, data))
        self._dtypes.add(dtype)

    def expect_count(self, count: int, *dtypes: str) -> None:
        """Expect only the number of tensors, because listing them would cost more than reading the file."""
        self._count = count
        self._dtypes.update(dtypes)

    def ask(self, tensor: str) -> None:
        self._asked = tensor

    def content(self, option: str | None = None) -> dict[str, Any]:  # noqa: ARG002 - the same for every option
        if self._asked is not None:
            return {"tensors": [r for r in self._rows if r["name"] == self._asked], "metadata": None}
        if self._count is not None:
            return {"tensor_count": self._count}
        return {"tensors": self._rows, "metadata": None}

    def features(self) -> list[str]:
        return dtype_features(self._dtypes)

    def stored(self, case_id: str) -> tuple[dict[str, Any] | None, dict[str, bytes]]:  # noqa: ARG002
        length = self.header_size if self.length is None else self.length
        parts = [{"hex": length.to_bytes(8, "little").hex()}, *self._header, *self._data]
        return {"recipe": parts, "sha256": recipe.digest(parts), "size": recipe.size(parts)}, {}

    def action(self) -> dict[str, Any] | None:
        if self._asked is None:
            return None
        return {"do": "slice", "tensor": self._asked, "index": []}
